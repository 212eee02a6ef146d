#include "host/base/file/file_watch.hpp"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

namespace mneme {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kTick{100};       // between two questions whether to stop
constexpr milliseconds kNotified{2000};  // between two looks without a notification
constexpr milliseconds kPolled{500};

constexpr std::uint32_t kEvents = IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVED_TO |
                                  IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF;

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// The folders whose entries decide what these names mean: those of the names and, where links lead
// elsewhere, those of the files themselves.
std::set<fs::path> folders_of(const std::map<fs::path, FileState>& files) {
  std::set<fs::path> folders;
  for (const auto& [path, state] : files) {
    folders.insert(path.parent_path());
    std::error_code code;
    const fs::path real = fs::canonical(path, code);
    if (!code) folders.insert(real.parent_path());
  }
  return folders;
}

}  // namespace

FileState file_state(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {.exists = true,
          .device = status.st_dev,
          .inode = status.st_ino,
          .bytes = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = nanoseconds(status.st_mtim),
          .changed_ns = nanoseconds(status.st_ctim)};
}

FileWatch::FileWatch(milliseconds quiet, WatchMethod method) : quiet_(quiet), method_(method) {
  if (method_ == WatchMethod::kPolled) return;
  events_ = Descriptor(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (events_.get() < 0) method_ = WatchMethod::kPolled;
}

void FileWatch::watch(const std::vector<fs::path>& files) {
  std::map<fs::path, FileState> next;
  for (const fs::path& file : files) {
    const fs::path path = fs::absolute(file).lexically_normal();
    const auto known = reported_.find(path);
    next[path] = known == reported_.end() ? file_state(path) : known->second;
  }
  reported_ = std::move(next);
  watch_folders();
}

// Folders are watched in place of files: a file that is replaced by rename is another file. Adding
// a folder again changes nothing. One that is removed and made again is found at the next look.
void FileWatch::watch_folders() {
  if (events_.get() < 0) return;
  for (const fs::path& folder : folders_of(reported_)) {
    if (::inotify_add_watch(events_.get(), folder.c_str(), kEvents) >= 0) continue;
    if (errno == ENOENT || errno == ENOTDIR) continue;
    method_ = WatchMethod::kPolled;  // the limit of watches, a folder that cannot be read
  }
}

bool FileWatch::sleep(milliseconds limit) {
  pollfd waiting{events_.get(), POLLIN, 0};
  if (::poll(&waiting, 1, static_cast<int>(limit.count())) <= 0 || events_.get() < 0) return false;
  std::array<char, 16 * 1024> events{};
  while (::read(events_.get(), events.data(), events.size()) > 0) {
  }
  return true;
}

std::map<fs::path, FileState> FileWatch::look() const {
  std::map<fs::path, FileState> now;
  for (const auto& [path, state] : reported_) now[path] = file_state(path);
  return now;
}

std::vector<fs::path> FileWatch::wait(const std::function<bool()>& is_cancelled) {
  using Steady = std::chrono::steady_clock;
  std::map<fs::path, FileState> last = look();
  auto quiet_since = Steady::now();
  for (;;) {
    if (is_cancelled && is_cancelled()) return {};
    const bool is_changed = last != reported_;
    if (is_changed && Steady::now() - quiet_since >= quiet_) break;
    const milliseconds pause = method_ == WatchMethod::kNotified ? kNotified : kPolled;
    // Sleeps in ticks until a notification, the next look, or the end of the quiet time.
    const auto until = Steady::now() + (is_changed ? std::min(quiet_, kTick) : pause);
    bool is_notified = false;
    while (!is_notified && Steady::now() < until) {
      if (is_cancelled && is_cancelled()) return {};
      const auto left = std::chrono::ceil<milliseconds>(until - Steady::now());
      is_notified = sleep(std::clamp(left, milliseconds(1), kTick));
    }
    std::map<fs::path, FileState> now = look();
    watch_folders();
    if (now != last) quiet_since = Steady::now();
    last = std::move(now);
  }
  std::vector<fs::path> changed;
  for (const auto& [path, state] : last) {
    if (state != reported_.at(path)) changed.push_back(path);
  }
  reported_ = std::move(last);
  return changed;
}

}  // namespace mneme
