#include "host/data/text/text_files.hpp"

#include <system_error>

#include "host/base/error.hpp"
#include "host/base/file/file_kind.hpp"
#include "host/base/text.hpp"

namespace mneme::data {
namespace {

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Where a relative path of the key, or of the option "--train", starts.
std::string relative_base(const std::string& key) {
  if (!key.starts_with("--")) return "a relative path starts at the experiment file";
  std::error_code ignored;
  return str("a relative path starts at the current folder, ",
             std::filesystem::current_path(ignored).string());
}

}  // namespace

void check_data_file(const std::filesystem::path& path, const std::string& key,
                     std::string_view what) {
  const auto refuse = [&](const std::string& got, const std::string& hint) {
    throw_usage({.where = str(key, ": ", path.string()),
                 .failed = "the data cannot be read",
                 .expected = std::string(what),
                 .got = got,
                 .hint = hint});
  };
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (path.empty()) refuse("no path", str("set ", key));
  if (!std::filesystem::exists(status)) {
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(path, failure))) {
      const std::string target = std::filesystem::read_symlink(path, failure).string();
      refuse(str("a symbolic link to ", target, ", which is not there"),
             "mount the disk that it leads to, or correct the link");
    }
    if (path.filename() == kNoDataName) {
      throw_usage({.where = key,
                   .failed = "the run was imported without data",
                   .expected = std::string(what),
                   .got = "none",
                   .hint = str("name one: --set ", key, "=FILE")});
    }
    if (const auto packed = find_packed_beside(path)) refuse(packed->got, packed->hint);
    refuse("no such file", str("correct ", key, "; ", relative_base(key)));
  }
  if (std::filesystem::is_directory(status)) {
    const bool is_split = key == "data.train" || key == "data.valid" || key == "data.test";
    refuse("a folder", str("name one file in ", key,
                           is_split ? "; a folder of texts is read by mneme data prepare --train "
                                      "FOLDER --out DIR, and then named in data.prepared"
                                    : ""));
  }
  if (!std::filesystem::is_regular_file(status)) {
    refuse("something that is no regular file", str("copy it into a file and name that in ", key));
  }
}

TextFiles::TextFiles(const std::vector<std::filesystem::path>& paths, const std::string& key) {
  if (paths.empty()) {
    throw_usage({.where = key,
                 .failed = "there is no text to read",
                 .expected = "the path of a text file",
                 .got = "none",
                 .hint = str("set ", key)});
  }
  for (const std::filesystem::path& path : paths) {
    check_data_file(path, key, "a text file");
    maps_.emplace_back(path);
    const std::string where = str(key, ": ", path.string());
    check_is_text(path, text_of(maps_.back()), where, "a text file");
    check_is_no_tensors(text_of(maps_.back()), where, "a text file",
                        "an experiment reads token ids as they are: data.task = \"tokens\"");
    texts_.push_back(text_of_file(path.string(), text_of(maps_.back())));
    if (texts_.back().text.empty()) {
      throw_usage({.where = where,
                   .failed = "the file is empty",
                   .expected = "a text",
                   .got = str(maps_.back().bytes().size(), " bytes"),
                   .hint = str("name another file in ", key)});
    }
  }
}

}  // namespace mneme::data
