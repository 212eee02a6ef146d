#include "host/base/freed_memory.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace mneme {
namespace {

bool says(const char* file, const std::string& word) {
  std::string text;
  std::getline(std::ifstream(file), text);
  return text.find(word) != std::string::npos;
}

bool is_limited() {
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return true;
  }
  return false;
}

}  // namespace

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

void ask_for_huge_pages() {
#ifdef __GLIBC__
  // Elsewhere they are given without being asked for, or never; and where the system counts what
  // is reserved, half of the memory is too much.
  if (!says("/sys/kernel/mm/transparent_hugepage/enabled", "[madvise]") ||
      says("/proc/sys/vm/overcommit_memory", "2") || is_limited()) {
    return;
  }
  constexpr std::uintptr_t kHugePage = std::uintptr_t{1} << 21;
  const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PHYS_PAGES)) *
                    static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)) / 2;
  void* const all = std::malloc(size);
  if (all == nullptr) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(all);
  const std::uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t last = (begin + size) / kHugePage * kHugePage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
  std::free(all);
#endif
}

}  // namespace mneme
