#include "host/base/process/process.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "host/base/exit_status.hpp"
#include "host/base/text.hpp"

namespace mneme {
namespace {

namespace fs = std::filesystem;

// File names of a version of the cgroup interface, for memory.
struct CgroupFiles {
  const char* limit;
  const char* use;
  std::vector<std::string_view> given_back;  // keys of memory.stat
};

CgroupFiles second_version() {
  return {"memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}};
}

CgroupFiles first_version() {
  return {"memory.limit_in_bytes",
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

// The bytes of a line "key: 12 kB".
std::optional<std::int64_t> bytes_of(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kibibytes = 0;
    if (words >> name >> kibibytes && name == key) return kibibytes * 1024;
  }
  return std::nullopt;
}

// The first version writes "no limit" as a number near the largest.
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max() / 2;

void add_group(const CgroupFiles& files, const fs::path& folder, const fs::path& group,
               std::optional<FreeMemory>& least) {
  const auto limit = number_in(folder / files.limit);
  const auto use = number_in(folder / files.use);
  if (!limit || !use || *limit >= kNoLimit) return;
  const std::int64_t held =
      std::max<std::int64_t>(0, *use - sum_of(folder / "memory.stat", files.given_back));
  keep_least(least, {std::max<std::int64_t>(0, *limit - held),
                     str(files.limit, " of the cgroup ", group.string(), ", ",
                         human_bytes(static_cast<std::uint64_t>(*limit)))});
}

// A group of the process, its folder, and the version of the interface.
using GroupVisitor =
    std::function<void(const fs::path& folder, const fs::path& group, bool is_second_version)>;

// Visits a group and those above it. In a container the path may be the host's, which is not
// mounted: then only the mount's own folder has files.
void visit_group(const fs::path& mount, fs::path group, bool is_second_version,
                 const GroupVisitor& visit) {
  for (;; group = group.parent_path()) {
    visit(mount / group.relative_path(), group, is_second_version);
    if (!group.has_relative_path()) return;
  }
}

// The groups that limit the process by a controller. A line of the file is
// "<number>:<controllers>:<path>", without controllers in the second version.
void visit_groups(const fs::path& root, const std::string& controller, const GroupVisitor& visit) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const fs::path group = fs::path(line.substr(second + 1)).lexically_normal();
    if (controllers == ",,") visit_group(mount, group, true, visit);
    if (controllers.find(',' + controller + ',') != std::string::npos) {
      visit_group(mount / controller, group, false, visit);
    }
  }
}

// The cores' worth of time that a group may use; absent without a limit.
std::optional<double> quota_of(const fs::path& folder, bool is_second_version) {
  if (is_second_version) {
    std::ifstream in(folder / "cpu.max");  // "<quota or max> <period>"
    double quota = 0.0;
    double period = 0.0;
    return in >> quota >> period && period > 0 ? std::optional(quota / period) : std::nullopt;
  }
  const auto quota = number_in(folder / "cpu.cfs_quota_us");  // -1 = no limit
  const auto period = number_in(folder / "cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::int64_t cores_of_affinity() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  // It fails where the machine has more cores than the set.
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

}  // namespace

std::optional<FreeMemory> free_memory(const fs::path& root) {
  std::optional<FreeMemory> least;
  if (const auto available = bytes_of(root / "proc/meminfo", "MemAvailable:")) {
    least = {*available, "MemAvailable of /proc/meminfo"};
  }
  visit_groups(root, "memory", [&](const fs::path& folder, const fs::path& group, bool is_second) {
    add_group(is_second ? second_version() : first_version(), folder, group, least);
  });
  return least;
}

std::int64_t usable_cores(const fs::path& root) {
  std::int64_t cores = cores_of_affinity();
  visit_groups(root, "cpu", [&](const fs::path& folder, const fs::path&, bool is_second) {
    const std::optional<double> quota = quota_of(folder, is_second);
    if (quota) cores = std::min(cores, static_cast<std::int64_t>(*quota));
  });
  return std::max<std::int64_t>(1, cores);
}

std::optional<std::int64_t> peak_memory_bytes(const std::filesystem::path& status) {
  return bytes_of(status, "VmHWM:");
}

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  const sigset_t one = signal_set({signal});
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  std::raise(signal);
  ::_exit(exit_code_of_signal(signal));  // the first process of a container is not ended by it
}

}  // namespace mneme
