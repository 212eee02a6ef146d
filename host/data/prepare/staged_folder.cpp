#include "host/data/prepare/staged_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::error_code& code) {
  throw_run({.where = path.string(),
             .failed = str("the folder cannot be written: ", code.message()),
             .hint = "name a place that exists and may be written"});
}

void sync(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // some file systems cannot; the files themselves are safe by then
  static_cast<void>(::fsync(descriptor));
  ::close(descriptor);
}

}  // namespace

StagedFolder::StagedFolder(fs::path target) : target_(fs::absolute(target).lexically_normal()) {
  if (!target_.has_filename()) target_ = target_.parent_path();  // "folder/"
  std::error_code code;
  const fs::file_status status = fs::symlink_status(target_, code);
  const bool is_empty_folder = fs::is_directory(status) && fs::is_empty(target_, code);
  if (fs::exists(status) && !is_empty_folder) {
    throw_usage({.where = target.string(),
                 .failed = "the place is taken",
                 .expected = "a folder that does not exist yet",
                 .got = fs::is_symlink(status)     ? "a link"  // rename(2) would not follow it
                        : fs::is_directory(status) ? "a folder with files"
                                                   : "a file",
                 .hint = "remove it, or choose another --out"});
  }
  // A process that was killed leaves its folder, and containers give the same process id again.
  for (int i = 0; path_.empty(); ++i) {
    const std::string suffix = i == 0 ? ".tmp" : str('-', i, ".tmp");
    const std::string name = str('.', target_.filename().string(), '.', ::getpid(), suffix);
    const fs::path staged = target_.parent_path() / name;
    if (fs::create_directory(staged, code)) path_ = staged;
    if (code) fail(target, code);
  }
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void StagedFolder::commit() {
  sync(path_);
  // rename(2) replaces an empty folder and nothing else.
  if (std::rename(path_.c_str(), target_.c_str()) != 0) {
    fail(target_, {errno, std::generic_category()});
  }
  path_.clear();
  sync(target_.parent_path());
}

}  // namespace mneme::data
