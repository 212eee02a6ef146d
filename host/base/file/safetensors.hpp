// Reader and writer of safetensors files: 8 bytes little-endian header length, a JSON header,
// then the tensors' bytes, row-major, little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/words.hpp"

namespace mneme {

// The dtypes of the format. Elements of F4 and F6 lie side by side, without regard to bytes.
enum class DType {
  F64,
  F32,
  F16,
  BF16,
  F8_E5M2,
  F8_E4M3,
  F8_E8M0,
  F8_E5M2FNUZ,
  F8_E4M3FNUZ,
  F6_E3M2,
  F6_E2M3,
  F4,
  C64,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  BOOL
};
constexpr auto words_of(DType) {
  return std::array{"F64",     "F32",         "F16",         "BF16",    "F8_E5M2", "F8_E4M3",
                    "F8_E8M0", "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F6_E3M2", "F6_E2M3", "F4",
                    "C64",     "I64",         "I32",         "I16",     "I8",      "U64",
                    "U32",     "U16",         "U8",          "BOOL"};
}

// The name in a safetensors header ("F32").
[[nodiscard]] constexpr std::string_view dtype_name(DType dtype) { return to_word(dtype); }
// Bits of one element.
[[nodiscard]] std::size_t dtype_bits(DType dtype);
// The dtype of a header name; false when there is none.
[[nodiscard]] inline bool parse_dtype(std::string_view name, DType& dtype) {
  const std::optional<DType> found = find_word<DType>(name);
  if (found) dtype = *found;
  return found.has_value();
}

// A tensor inside an open file: contiguous, row-major. `data` lives as long as the file object (or
// a copy of it) and need not be aligned to the element size; copy bytes, do not dereference.
struct TensorView {
  std::string name = {};
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape = {};
  const std::byte* data = nullptr;
  std::size_t bytes = 0;

  // Product of the shape (1 for a scalar).
  [[nodiscard]] std::int64_t elements() const;
};

// Gives the memory of a tensor of a SafetensorsFile back to the system, so that bytes which have
// been copied do not count twice. When they are used again the system reads them from the file
// again. Not for other views: the bytes of a view that lies in no file would be lost.
void release(const TensorView& view);

class MappedFile;

// A fully checked, memory-mapped file. Copies share the map. Reading is thread-safe.
class SafetensorsFile {
 public:
  // Maps and checks the whole header. Error (kRun) naming the file and, where there is one, the
  // tensor, for: unreadable, truncated or foreign files, header length out of bounds, bad JSON,
  // duplicate names, unknown dtype, bad shapes, offsets out of range, sizes that disagree with
  // dtype and shape, overlaps and holes.
  [[nodiscard]] static SafetensorsFile open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  // Tensor names, sorted.
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] bool contains(std::string_view name) const { return find(name) != nullptr; }
  // The tensor, or nullptr.
  [[nodiscard]] const TensorView* find(std::string_view name) const;
  // The tensor, or an Error (kRun) naming the file, the missing tensor and the nearest name.
  [[nodiscard]] const TensorView& at(std::string_view name) const;
  // `at`, and an Error (kRun) when dtype or shape differ from what is expected.
  [[nodiscard]] const TensorView& at(std::string_view name, DType dtype,
                                     const std::vector<std::int64_t>& shape) const;
  // The header's `__metadata__`.
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept {
    return metadata_;
  }
  // A metadata value, or an Error (kRun) naming file and key.
  [[nodiscard]] const std::string& metadata_at(const std::string& key) const;
  // The value, or `other` where there is none.
  [[nodiscard]] std::string metadata_or(const std::string& key, const std::string& other) const;

 private:
  SafetensorsFile() = default;

  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> map_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> metadata_;
};

// Collects tensors and writes them atomically. Equal contents give equal bytes, whatever the order
// of the calls: tensors lie by element size (largest first), then by name, so every tensor is
// aligned to its element size; metadata keys are sorted; the header is padded to 8 bytes.
class SafetensorsWriter {
 public:
  // Adds a tensor whose bytes must stay valid until write(). `data` holds product(shape) elements,
  // contiguous, row-major. Error (kRun): a name given twice, the name "__metadata__", a negative
  // or overflowing shape, no data for a tensor that has elements.
  void add(std::string name, DType dtype, std::vector<std::int64_t> shape, const void* data);
  // `add` with a copy of the bytes.
  void add_copy(std::string name, DType dtype, std::vector<std::int64_t> shape, const void* data);
  // Sets a key of `__metadata__`; the last value of a key wins.
  void set_metadata(std::string key, std::string value);
  // Writes the file (see write_file_atomic). May be called more than once.
  void write(const std::filesystem::path& path) const;

 private:
  struct Entry {
    DType dtype;
    std::vector<std::int64_t> shape;
    const std::byte* data;  // borrowed; unused when `copy` holds the bytes
    std::size_t bytes;
    std::vector<std::byte> copy;
  };
  std::map<std::string, Entry> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace mneme

namespace mneme::safetensors {

// --- Shared by the reader and the writer of safetensors files only ---

inline constexpr std::size_t kLengthBytes = 8;
// The largest header that the official implementation accepts.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::string_view kMetadataKey = "__metadata__";

// Sets `bytes` to those of a tensor; false when an extent is negative, when the elements or the
// bytes exceed 2^63 - 1, and when the elements end inside a byte. An extent of 0 makes it 0,
// whatever the others.
[[nodiscard]] bool checked_bytes(const std::vector<std::int64_t>& shape, DType dtype,
                                 std::size_t& bytes);

// The contents of a header. The views point into the bytes that were read.
struct Header {
  std::map<std::string, std::string> metadata;
  std::vector<TensorView> tensors;
};

// Checks a whole file; its errors are those of SafetensorsFile::open.
[[nodiscard]] Header read_header(const std::filesystem::path& path,
                                 std::span<const std::byte> file);

}  // namespace mneme::safetensors
