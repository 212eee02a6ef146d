// The files of an experiment's data.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/data/text/text.hpp"

namespace mneme::data {

// The name of the file in the experiment of a run that was imported without data: a task needs one,
// and its message says that there is none.
inline constexpr const char* kNoDataName = "no-data";

// Throws Error (kUsage) unless the path is a regular file; `key` is the key of the experiment file
// that names it, or the option "--train", `what` says what it should be ("a text file").
void check_data_file(const std::filesystem::path& path, const std::string& key,
                     std::string_view what);

// Text files, mapped for the object's lifetime. `key` is the key of the experiment file that names
// them, for messages. Error (kUsage) for no path, a missing file, a folder, anything else that is
// no regular file, and an empty file.
class TextFiles {
 public:
  TextFiles(const std::vector<std::filesystem::path>& paths, const std::string& key);

  // The texts, borrowed from this object.
  [[nodiscard]] const std::vector<NamedText>& texts() const { return texts_; }

 private:
  std::vector<MappedFile> maps_;
  std::vector<NamedText> texts_;
};

}  // namespace mneme::data
