#include "host/base/file/file_kind.hpp"

#include <array>
#include <cstdint>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/text.hpp"

namespace mneme {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

// --- Pointers ---

// A pointer is smaller than this, by the definition of Git LFS.
constexpr std::size_t kMostPointerBytes = 1024;

bool is_lfs_pointer(std::string_view bytes) {
  const bool is_version = bytes.starts_with("version https://git-lfs.github.com/spec/") ||
                          bytes.starts_with("version https://hawser.github.com/spec/");
  return bytes.size() < kMostPointerBytes && is_version && bytes.find("\noid ") != bytes.npos;
}

bool is_annex_pointer(std::string_view bytes) {
  return bytes.size() < kMostPointerBytes && bytes.starts_with("/annex/objects/");
}

// --- Packed files ---

// A program that packs one file, or several.
struct Packer {
  std::string_view magic;
  std::size_t offset;
  std::string_view name;
  std::string_view suffix;   // that the program gives, and takes off again
  std::string_view command;  // unpacks a file with this suffix, which it keeps
  std::string_view to_pipe;  // unpacks any file to the standard output; "" = `command` takes any
};

constexpr std::array kPackers = {
    Packer{"\x1F\x8B"sv, 0, "gzip", ".gz", "gunzip -k", "gzip -dc"},
    Packer{"\xFD\x37zXZ\0"sv, 0, "xz", ".xz", "xz -dk", "xz -dc"},
    Packer{"\x28\xB5\x2F\xFD"sv, 0, "zstd", ".zst", "zstd -d", "zstd -dc"},
    // The magic number, the level's digit, and the first bytes of pi: of a block, and of no block.
    Packer{"1AY&SY"sv, 4, "bzip2", ".bz2", "bunzip2 -k", "bzip2 -dc"},
    Packer{"\x17\x72\x45\x38\x50\x90"sv, 4, "bzip2", ".bz2", "bunzip2 -k", "bzip2 -dc"},
    Packer{"\x04\x22\x4D\x18"sv, 0, "lz4", ".lz4", "lz4 -dk", "lz4 -dc"},
    Packer{"\x5D\0\0"sv, 0, "lzma", ".lzma", "xz -dk", "xz -dc"},
    Packer{"LZIP\x01"sv, 0, "lzip", ".lz", "lzip -dk", "lzip -dc"},
    Packer{"\x1F\x9D"sv, 0, "compress", ".Z", "gunzip -k", "gzip -dc"},
    Packer{"\x89LZO\0\r\n\x1A\n"sv, 0, "lzop", ".lzo", "lzop -d", "lzop -dc"},
    Packer{"PK\x03\x04"sv, 0, "zip", ".zip", "unzip", ""},
    Packer{"PK\x05\x06"sv, 0, "zip", ".zip", "unzip", ""},
    Packer{"7z\xBC\xAF\x27\x1C"sv, 0, "7-Zip", ".7z", "7z x", ""},
    Packer{"Rar!\x1A\x07"sv, 0, "RAR", ".rar", "unrar x", ""},
    Packer{"ustar\0"sv, 257, "tar", ".tar", "tar -xf", ""},
    Packer{"ustar  \0"sv, 257, "tar", ".tar", "tar -xf", ""},
    Packer{"!<arch>\n"sv, 0, "ar", ".a", "ar x", ""},
    Packer{"MSCF\0\0\0\0"sv, 0, "cabinet", ".cab", "cabextract", ""}};

bool has_at(std::string_view bytes, std::size_t offset, std::string_view magic) {
  return bytes.size() >= offset + magic.size() && bytes.substr(offset, magic.size()) == magic;
}

std::string unpack_hint(const Packer& packer, const fs::path& path) {
  const std::string name = path.string();
  const std::string word = shell_word(name);
  const std::string stem = fs::path(name).stem().string();
  if (stem.ends_with(".tar") || name.ends_with(".tgz") || name.ends_with(".txz")) {
    return "unpack it: tar -xf " + word;
  }
  if (packer.to_pipe.empty() || name.ends_with(packer.suffix)) {
    return str("unpack it: ", packer.command, ' ', word);
  }
  return str("unpack it: ", packer.to_pipe, ' ', word, " > ", shell_word(name + ".unpacked"));
}

// PyTorch's archives are zip files whose first member is data.pkl.
bool is_torch_archive(std::string_view bytes) {
  constexpr std::size_t kNameAt = 30;
  constexpr std::size_t kLongestName = 256;
  return has_at(bytes, 0, "PK\x03\x04") &&
         bytes.substr(0, kNameAt + kLongestName).find("data.pkl") != bytes.npos;
}

// --- Containers of other programs ---

struct Container {
  std::string_view magic;
  std::string_view end;  // of the file; "" = any
  std::string_view name;
  std::string_view hint;  // the path follows a blank at its end
};

constexpr std::string_view kIdsHint =
    "for token ids write a safetensors file with a tensor \"tokens\" (data.task = \"tokens\")";

constexpr std::array kContainers = {
    Container{"PAR1", "PAR1", "a Parquet table",
              "write its column of texts into a text file, for instance with pandas.read_parquet"},
    Container{"PARE", "PARE", "an encrypted Parquet table",
              "write its column of texts into a text file"},
    Container{"ARROW1\0\0"sv, "", "an Arrow table",
              "write its column of texts into a text file, for instance with pandas.read_feather"},
    Container{"\xFF\xFF\xFF\xFF"sv, "", "an Arrow stream",
              "write its column of texts into a text file, for instance with "
              "pyarrow.ipc.open_stream"},
    Container{"FEA1", "FEA1", "a Feather table",
              "write its column of texts into a text file, for instance with pandas.read_feather"},
    Container{"ORC", "", "an ORC table",
              "write its column of texts into a text file, for instance with pandas.read_orc"},
    Container{"Obj\x01", "", "an Avro table", "write its column of texts into a text file"},
    Container{"SQLite format 3\0"sv, "", "an SQLite database", "write its texts into a text file"},
    Container{"\x89HDF\r\n\x1A\n", "", "an HDF5 file", kIdsHint},
    Container{"\x93NUMPY", "", "an array of NumPy", kIdsHint},
    Container{"%PDF-", "", "a PDF document", "take its text out: pdftotext "},
    Container{"GGUF", "", "a GGUF file", "take the model's safetensors files"}};

// What else must hold of magics that are short or plain.
bool is_whole(const Container& container, std::string_view bytes) {
  if (container.magic == "ORC") {  // its last byte is the length of what stands before the name
    return bytes.size() > 8 && bytes.substr(bytes.size() - 4, 3) == "ORC";
  }
  if (container.name == "an Arrow stream") {  // then the bytes of its schema, a multiple of eight
    return bytes.size() > 8 && bytes[7] == '\0' && (bytes[4] & 7) == 0;
  }
  return bytes.ends_with(container.end);
}

bool is_pickle(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

FileKind torch_kind(const fs::path& path) {
  return {.failed = "the file holds tensors of PyTorch",
          .got = "a pickle, which can run any code",
          .hint = str("scripts/pytorch_to_safetensors.py ", shell_word(path.string()),
                      " OUT.safetensors converts it")};
}

}  // namespace

std::optional<FileKind> find_pointer_kind(const fs::path& path, std::string_view bytes) {
  const bool is_lfs = is_lfs_pointer(bytes);
  if (!is_lfs && !is_annex_pointer(bytes)) return std::nullopt;
  return FileKind{
      .failed = str("the file is a pointer of ", is_lfs ? "Git LFS" : "git-annex",
                    ": its contents were not fetched"),
      .got = str("a text of ", bytes.size(), " bytes that names them"),
      .hint =
          str("fetch them in the repository: git ", is_lfs ? "lfs pull --include " : "annex get ",
              shell_word(path.filename().string()), is_lfs ? "; or download the file itself" : "")};
}

std::optional<FileKind> find_file_kind(const fs::path& path, std::string_view bytes) {
  if (auto pointer = find_pointer_kind(path, bytes)) return pointer;
  if (is_torch_archive(bytes) || is_pickle(bytes)) return torch_kind(path);
  for (const Packer& packer : kPackers) {
    const bool is_bzip2 = packer.offset != 4 || bytes.starts_with("BZh");
    if (!has_at(bytes, packer.offset, packer.magic) || !is_bzip2) continue;
    return FileKind{.failed = "the file is packed",
                    .got = str("data packed by ", packer.name),
                    .hint = unpack_hint(packer, path)};
  }
  for (const Container& container : kContainers) {
    if (!bytes.starts_with(container.magic) || !is_whole(container, bytes)) continue;
    const std::string more = container.hint.ends_with(' ') ? shell_word(path.string()) : "";
    return FileKind{.failed = "the file is no text",
                    .got = std::string(container.name),
                    .hint = std::string(container.hint) + more};
  }
  return std::nullopt;
}

std::optional<FileKind> find_packed_beside(const fs::path& path) {
  if (path.empty() || !path.has_filename()) return std::nullopt;
  for (const Packer& packer : kPackers) {
    fs::path packed = path;
    packed += packer.suffix;
    std::error_code ignored;
    if (packer.suffix == ".a" || !fs::is_regular_file(packed, ignored)) continue;
    return FileKind{.failed = "the file is not there",
                    .got = "a packed file beside it",
                    .hint = unpack_hint(packer, packed)};
  }
  return std::nullopt;
}

void check_is_text(const fs::path& path, std::string_view bytes, const std::string& where,
                   const std::string& expected) {
  const std::optional<FileKind> kind = find_file_kind(path, bytes);
  if (!kind) return;
  throw_usage({.where = where,
               .failed = kind->failed,
               .expected = expected,
               .got = kind->got,
               .hint = kind->hint});
}

void check_is_no_tensors(std::string_view bytes, const std::string& where,
                         const std::string& expected, const std::string& hint) {
  constexpr std::size_t kLengthBytes = 8;
  if (bytes.size() <= kLengthBytes || bytes[kLengthBytes] != '{') return;
  std::uint64_t length = 0;  // of the header; in a text these bytes are a larger number
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  if (length < 2 || length > bytes.size() - kLengthBytes) return;
  throw_usage({.where = where,
               .failed = "the file is no text",
               .expected = expected,
               .got = "a safetensors file",
               .hint = hint});
}

}  // namespace mneme
