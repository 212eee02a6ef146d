// The process: how much memory it may still allocate before the system kills it, how many cores it
// may use, signal sets, and its end by a signal.
#pragma once

#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>

namespace mneme {

struct FreeMemory {
  std::int64_t bytes = 0;
  std::string source;  // of the number: "MemAvailable", "memory.max of the cgroup /a, 4.0 GiB"
};

// The least of MemAvailable (/proc/meminfo) and of what the limits of the process's cgroup and of
// those above it (v1 or v2) leave. Memory that the kernel frees by itself (pages of files,
// reclaimable slabs) is not counted as used by a cgroup. Swap is not counted as free. Absent where
// the system has neither. `root` holds proc/ and sys/.
[[nodiscard]] std::optional<FreeMemory> free_memory(const std::filesystem::path& root = "/");

// Called before a model is allocated.
using FreeMemorySource = std::function<std::optional<FreeMemory>()>;

// The most memory that the process has held so far (VmHWM of /proc/self/status), files mapped by it
// included; absent where the system does not say.
[[nodiscard]] std::optional<std::int64_t> peak_memory_bytes(
    const std::filesystem::path& status = "/proc/self/status");

// The cores that the process may really use, at least 1: those of its affinity (taskset, a
// launcher's binding), and no more than the quota of its cgroup and of those above it (v1 or v2;
// docker --cpus, a job of Slurm) gives time for, rounded down. `root` holds proc/ and sys/.
[[nodiscard]] std::int64_t usable_cores(const std::filesystem::path& root = "/");

// --- Signals ---

inline sigset_t signal_set(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

// All signals but those that a thread's own instructions raise, and that of abort(3), which must
// not be blocked.
inline sigset_t signals_that_can_wait() {
  sigset_t set;
  sigfillset(&set);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT}) {
    sigdelset(&set, fault);
  }
  return set;
}

// Ends the process as the unhandled signal would.
[[noreturn]] void end_by(int signal);

}  // namespace mneme
