#include "host/weights/folder_in_making.hpp"

#include <unistd.h>

#include <system_error>

#include "host/base/error.hpp"
#include "host/base/text.hpp"

namespace mneme::weights {

namespace fs = std::filesystem;

FolderInMaking::FolderInMaking(const fs::path& target, const std::string& what,
                               const std::string& option)
    : target_(fs::absolute(target)), what_(what) {
  if (!target_.has_filename()) target_ = target_.parent_path();  // "runs/x/"
  std::error_code error;
  const fs::file_status status = fs::symlink_status(target_, error);
  const bool is_free =
      !fs::exists(status) || (fs::is_directory(status) && fs::is_empty(target_, error));
  if (status.type() == fs::file_type::not_found) error.clear();
  if (!is_free || error) {
    throw_usage({.where = target.string(),
                 .failed = what + " is taken",
                 .expected = "a path where nothing is, or an empty folder",
                 .got = error                    ? error.message()
                        : fs::is_symlink(status) ? "a link"  // rename(2) would not follow it
                                                 : "something else",
                 .hint = "name another folder with " + option});
  }
  path_ = target_.parent_path() / str(target_.filename().string(), ".importing.", ::getpid());
}

FolderInMaking::~FolderInMaking() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void FolderInMaking::keep() const {
  std::error_code error;
  fs::rename(path_, target_, error);
  if (!error) return;
  throw_run({.where = target_.string(),
             .failed = what_ + " cannot be put there",
             .got = error.message()});
}

}  // namespace mneme::weights
