// Reader of GGUF files, versions 2 and 3, little endian: named values, an index of tensors, then the
// tensors' bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/words.hpp"
#include "host/weights/gguf/block_types.hpp"

namespace mneme::weights {

// The kinds of values, in the order of the format's numbers.
enum class GgufKind { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };
constexpr auto words_of(GgufKind) {
  return std::array{"U8",   "I8",     "U16",   "I16", "U32", "I32", "F32",
                    "BOOL", "STRING", "ARRAY", "U64", "I64", "F64"};
}

// A checked value of the file; its bytes live as long as the file's object.
struct GgufValue {
  GgufKind kind = GgufKind::U8;  // of an array: that of its elements
  bool is_array = false;
  std::uint64_t count = 1;
  const std::byte* data = nullptr;
};

struct GgufTensor {
  std::string name = {};
  const BlockType* type = nullptr;
  std::vector<std::int64_t> shape = {};  // row-major; the last extent is one of whole blocks
  const std::byte* data = nullptr;

  [[nodiscard]] std::size_t elements() const;
  [[nodiscard]] std::size_t bytes() const { return elements() / type->elements * type->bytes; }
};

// A fully checked, memory-mapped file. Copies share the map.
class GgufFile {
 public:
  // Error (kRun) naming the file and the key or tensor for: no GGUF file, another version, big
  // endian, a file that ends early, text that is no UTF-8, unknown kinds and types, names given
  // twice, arrays of arrays, wrong extents and offsets; Error (kUsage) for one of several files of
  // a model.
  [[nodiscard]] static GgufFile open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return map_->path(); }
  [[nodiscard]] const std::map<std::string, GgufValue>& values() const { return values_; }
  // In the order of their bytes.
  [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return tensors_; }
  // The tensor, or nullptr.
  [[nodiscard]] const GgufTensor* find(std::string_view name) const;

  // The key's value; absent where the file lacks the key. Error (kRun) naming file and key when it
  // is of another kind. An integer has any of the kinds of integers; a real number that is F32 is
  // the shortest decimal that stands for it.
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& key) const;
  [[nodiscard]] std::optional<double> real(const std::string& key) const;
  [[nodiscard]] std::optional<bool> flag(const std::string& key) const;
  [[nodiscard]] std::optional<std::string> text(const std::string& key) const;
  [[nodiscard]] std::optional<std::vector<std::string>> texts(const std::string& key) const;
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(const std::string& key) const;
  [[nodiscard]] std::optional<std::vector<double>> reals(const std::string& key) const;

  // Throws the Error (kRun) of a key.
  [[noreturn]] void refuse(const std::string& key, const std::string& failed,
                           const std::string& expected, const std::string& got,
                           const std::string& hint = "") const;

 private:
  GgufFile() = default;
  [[nodiscard]] const GgufValue* find_value(const std::string& key, bool is_array,
                                            bool (*has_kind)(GgufKind), const char* expected) const;

  std::shared_ptr<const MappedFile> map_;
  std::map<std::string, GgufValue> values_;
  std::vector<GgufTensor> tensors_;
};

// True for a file that begins as a GGUF file does, and for a path that ends in .gguf.
[[nodiscard]] bool is_gguf(const std::filesystem::path& path);

// The value as a message shows it: "7", "\"llama\"", "an array of 30 I32".
[[nodiscard]] std::string shown(const GgufValue& value);

}  // namespace mneme::weights
