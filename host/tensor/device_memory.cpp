#include "host/tensor/device_memory.hpp"

#include <c10/core/CachingDeviceAllocator.h>

#include "host/base/text.hpp"

namespace mneme::tensor {
namespace {

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
// What a process holds on a GPU beside its allocator's memory (CUDA's context, code, libraries) is
// some hundred MiB, less than this.
constexpr std::int64_t kMostOfContext = std::int64_t{1} << 30;

// Null for devices whose allocator counts nothing.
c10::DeviceAllocator* counting_allocator(c10::Device device) {
  if (device.is_cpu() || device.is_meta()) return nullptr;
  return dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
}

}  // namespace

std::optional<std::int64_t> peak_bytes(c10::Device device) {
  c10::DeviceAllocator* const allocator = counting_allocator(device);
  if (allocator == nullptr) return std::nullopt;
  return allocator->getDeviceStats(device.index()).allocated_bytes[kAll].peak;
}

void reset_peak_bytes(c10::Device device) {
  if (auto* const allocator = counting_allocator(device)) {
    allocator->resetPeakStats(device.index());
  }
}

std::optional<FreeMemory> free_device_memory(c10::Device device) {
  c10::DeviceAllocator* const allocator = counting_allocator(device);
  if (allocator == nullptr) return std::nullopt;
  const auto stats = allocator->getDeviceStats(device.index());
  const auto [free, total] = allocator->getMemoryInfo(device.index());
  const std::int64_t reserved = stats.reserved_bytes[kAll].current;
  const std::int64_t kept = reserved - stats.allocated_bytes[kAll].current;
  FreeMemory out{static_cast<std::int64_t>(free) + kept, str("of the GPU's ", human_bytes(total))};
  const std::int64_t others = static_cast<std::int64_t>(total - free) - reserved;
  if (others > kMostOfContext) {
    out.source += str(", of which other processes hold about ",
                      human_bytes(static_cast<std::uint64_t>(others)), ": see nvidia-smi");
  }
  return out;
}

}  // namespace mneme::tensor
