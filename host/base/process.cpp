#include "host/base/process.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/text.hpp"

namespace mneme {
namespace {

namespace fs = std::filesystem;

// File names of a version of the cgroup interface.
struct CgroupFiles {
  fs::path mount;
  const char* limit;
  const char* use;
  std::vector<std::string_view> given_back;  // keys of memory.stat
};

CgroupFiles second_version(const fs::path& mount) {
  return {
      mount, "memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}};
}

CgroupFiles first_version(const fs::path& mount) {
  return {mount,
          "memory.limit_in_bytes",
          "memory.usage_in_bytes",
          {"total_inactive_file", "total_active_file"}};
}

// The number that a file holds; absent for "max" and for files that are not there.
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// The values of these keys in lines "key value", summed.
std::int64_t sum_of(const fs::path& file, const std::vector<std::string_view>& keys) {
  std::ifstream in(file);
  std::int64_t sum = 0;
  std::string key;
  for (std::int64_t value = 0; in >> key >> value;) {
    if (std::ranges::find(keys, key) != keys.end()) sum += value;
  }
  return sum;
}

void keep_least(std::optional<FreeMemory>& least, FreeMemory one) {
  if (!least || one.bytes < least->bytes) least = std::move(one);
}

void add_machine(const fs::path& root, std::optional<FreeMemory>& least) {
  std::ifstream in(root / "proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t kibibytes = 0;
    if (words >> key >> kibibytes && key == "MemAvailable:") {
      keep_least(least, {kibibytes * 1024, "MemAvailable of /proc/meminfo"});
    }
  }
}

// The least memory that is free under the limits of a cgroup and of those above it. In a container
// the path may be the host's, which is not mounted: then only the mount's own folder is read.
void add_cgroup(const CgroupFiles& files, fs::path group, std::optional<FreeMemory>& least) {
  // The first version writes "no limit" as a number near the largest.
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max() / 2;
  for (;; group = group.parent_path()) {
    const fs::path folder = files.mount / group.relative_path();
    const auto limit = number_in(folder / files.limit);
    const auto use = number_in(folder / files.use);
    if (limit && use && *limit < kNoLimit) {
      const std::int64_t held =
          std::max<std::int64_t>(0, *use - sum_of(folder / "memory.stat", files.given_back));
      keep_least(least, {std::max<std::int64_t>(0, *limit - held),
                         str(files.limit, " of the cgroup ", group.string(), ", ",
                             human_bytes(static_cast<std::uint64_t>(*limit)))});
    }
    if (!group.has_relative_path()) return;
  }
}

// "<number>:<controllers>:<path>": no controllers in the second version.
void add_cgroups(const fs::path& root, std::optional<FreeMemory>& least) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const fs::path group = fs::path(line.substr(second + 1)).lexically_normal();
    if (controllers == ",,") add_cgroup(second_version(root / "sys/fs/cgroup"), group, least);
    if (controllers.find(",memory,") != std::string::npos) {
      add_cgroup(first_version(root / "sys/fs/cgroup/memory"), group, least);
    }
  }
}

}  // namespace

std::optional<FreeMemory> free_memory(const fs::path& root) {
  std::optional<FreeMemory> least;
  add_machine(root, least);
  add_cgroups(root, least);
  return least;
}

std::optional<std::int64_t> peak_memory_bytes(const std::filesystem::path& status) {
  std::ifstream in(status);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::int64_t kibibytes = 0;
    if (words >> kibibytes) return kibibytes * 1024;
  }
  return std::nullopt;
}

}  // namespace mneme
