// How much memory this process may still take before the system ends it.
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
  std::string source;  // what says so: "MemAvailable", "memory.max of the cgroup /a, 4.0 GiB"
};

// The least of MemAvailable (/proc/meminfo) and of what the limits of the process's cgroup and of
// those above it (v1 or v2) leave. Of a cgroup's use, what the kernel gives back by itself does not
// count: pages of files and reclaimable slabs. Swap does not count either. Absent where the system
// says nothing. `root` holds proc/ and sys/.
[[nodiscard]] std::optional<FreeMemory> free_memory(const std::filesystem::path& root = "/");

// Asked when a model is about to be made.
using FreeMemorySource = std::function<std::optional<FreeMemory>()>;

// Sets of signals.

inline sigset_t signal_set(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

// All but what a thread's own instructions raise, and abort(3): those must not be blocked.
inline sigset_t signals_that_can_wait() {
  sigset_t set;
  sigfillset(&set);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT}) {
    sigdelset(&set, fault);
  }
  return set;
}

}  // namespace mneme
