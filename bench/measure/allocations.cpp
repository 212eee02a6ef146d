#include "bench/measure/allocations.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <cstddef>

namespace mneme::bench {
namespace {

std::atomic<int64_t> held{0};
std::atomic<int64_t> peak{0};

void count(int64_t bytes) {
  const int64_t now = held.fetch_add(bytes) + bytes;
  int64_t highest = peak.load();
  while (now > highest && !peak.compare_exchange_weak(highest, now)) {
  }
}

// The size stands before the block: oneDNN takes raw pointers, which carry no context.
constexpr std::size_t kHeader = 64;  // keeps LibTorch's alignment

void release(void* block) {
  if (block == nullptr) return;
  char* const start = static_cast<char*>(block) - kHeader;
  count(-*reinterpret_cast<const int64_t*>(start));
  c10::free_cpu(start);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, cpu};
    char* const start = static_cast<char*>(c10::alloc_cpu(bytes + kHeader));
    *reinterpret_cast<int64_t*>(start) = static_cast<int64_t>(bytes);
    count(static_cast<int64_t>(bytes));
    return {start + kHeader, start + kHeader, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void count_allocations() {
  static CountingAllocator allocator;
  constexpr uint8_t kPriority = 1;  // above that of the default
  c10::SetCPUAllocator(&allocator, kPriority);
}

int64_t held_bytes() { return held.load(); }
int64_t peak_bytes() { return peak.load(); }
void restart_peak() { peak.store(held.load()); }

}  // namespace mneme::bench
