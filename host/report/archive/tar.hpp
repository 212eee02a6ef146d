// Archives in the ustar form of tar [POSIX.1-2017, pax, "ustar Interchange Format"]: regular files
// alone, without times, users and modes, so that equal files make equal archives.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::report {

struct TarEntry {
  std::string name;  // relative, parts separated by "/"
  std::span<const std::byte> bytes;
};

// Whether a name leads to a file inside the folder that an archive is unpacked in: relative, without
// empty parts, ".", ".." and control characters.
[[nodiscard]] bool is_inside(std::string_view name);

// Writes the entries in their order. Error (kRun) when the file cannot be written, and for a name
// or a size that the form cannot hold.
void write_tar(const std::filesystem::path& path, const std::vector<TarEntry>& entries);

// The entries of an archive, whose bytes must outlive them. Errors (kRun) with `label` and the place
// in it, of the byte that is wrong or of the entry's header, in bytes from 0: an archive that is cut
// or damaged, bytes behind its end, entries that are no regular files, two of one name, and a name
// that is not is_inside().
[[nodiscard]] std::vector<TarEntry> read_tar(std::span<const std::byte> archive,
                                             const std::string& label);

}  // namespace mneme::report
