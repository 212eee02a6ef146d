// What a file is that is given in place of a text or of weights: packed, a pointer to the real
// file, a table, a container of another program.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace mneme {

// Parts of a message about such a file.
struct FileKind {
  std::string failed;  // "the file is packed"
  std::string got;     // "data packed by gzip"
  std::string hint;    // what to do: "unpack it: gunzip -k a.txt.gz"
};

// Recognises the file by its first and last bytes. Nothing for a text, for a safetensors file and
// for bytes of no known kind.
[[nodiscard]] std::optional<FileKind> find_file_kind(const std::filesystem::path& path,
                                                     std::string_view bytes);

// The same for pointers alone, which stand for a file of any kind: those of Git LFS and git-annex.
[[nodiscard]] std::optional<FileKind> find_pointer_kind(const std::filesystem::path& path,
                                                        std::string_view bytes);

// A packed file beside a path where nothing is, "a.txt.gz" for "a.txt": how it is unpacked.
[[nodiscard]] std::optional<FileKind> find_packed_beside(const std::filesystem::path& path);

// Error (kUsage), "where: failed: expected E, got G; hint", for bytes of a known kind.
void check_is_text(const std::filesystem::path& path, std::string_view bytes,
                   const std::string& where, const std::string& expected);

// The same for a safetensors file, which the functions above take for bytes of no known kind.
void check_is_no_tensors(std::string_view bytes, const std::string& where,
                         const std::string& expected, const std::string& hint);

}  // namespace mneme
