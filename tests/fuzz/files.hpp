// Inputs of several files in one text, and the folder that they are written to.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

namespace mneme::fuzz {

// The files of an input by name. A line "==> NAME" begins a file, which ends before the next such
// line; what stands before the first one is the file `first`, if there is anything.
//
// A first line "==> repaired" asks for checksums that agree: random changes would never find those,
// and nothing behind their comparison would be reached.
struct Files {
  std::map<std::string, std::string> texts;
  bool is_repaired = false;

  [[nodiscard]] static Files of(std::string_view input, const std::string& first);
  // The input that of() reads so.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool has(const std::string& name) const { return texts.contains(name); }
};

// The folder of this process; files of earlier inputs are removed.
[[nodiscard]] const std::filesystem::path& empty_folder();
// The last call of a process: neither the tests nor libFuzzer end in a way that runs destructors.
void remove_folder();
// Writes those of the files that have one of these names, which may have folders in them.
void write_files(const std::filesystem::path& folder, const Files& files,
                 std::initializer_list<std::string_view> names);
// A file of an empty folder.
[[nodiscard]] std::filesystem::path write_alone(std::string_view name, std::string_view text);

// All bytes of a file; "" when there is none.
[[nodiscard]] std::string bytes_of(const std::filesystem::path& file);

}  // namespace mneme::fuzz
