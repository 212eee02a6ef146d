// The memory of a device whose allocator the test makes.
#include "host/tensor/device_memory.hpp"

#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include <utility>

namespace mneme::tensor {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// Counts what it is told; hands out nothing.
class CountingAllocator final : public c10::DeviceAllocator {
 public:
  c10::CachingDeviceAllocator::DeviceStats stats;
  std::pair<std::size_t, std::size_t> info;

  c10::DataPtr allocate(std::size_t) override { return {}; }
  void copy_data(void*, const void*, std::size_t) const override {}
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {
    stats.allocated_bytes[0].peak = stats.allocated_bytes[0].current;
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override { return info; }
};

// LibTorch keeps the pointer to the end of the process.
CountingAllocator& counting() {
  static CountingAllocator allocator;
  c10::SetAllocator(c10::kPrivateUse1, &allocator, 0xff);
  return allocator;
}

const c10::Device kCounted(c10::kPrivateUse1, 0);

TEST(DeviceMemory, PeakIsThatSinceTheReset) {
  counting().stats.allocated_bytes[0].current = 2 * kGiB;
  counting().stats.allocated_bytes[0].peak = 5 * kGiB;
  EXPECT_EQ(peak_bytes(kCounted), 5 * kGiB);
  reset_peak_bytes(kCounted);
  EXPECT_EQ(peak_bytes(kCounted), 2 * kGiB);
}

TEST(DeviceMemory, FreeIsTheDriversAndWhatTheAllocatorKeeps) {
  counting().info = {10 * kGiB, 80 * kGiB};
  counting().stats.reserved_bytes[0].current = 6 * kGiB;
  counting().stats.allocated_bytes[0].current = 2 * kGiB;
  const auto free = free_device_memory(kCounted);
  ASSERT_TRUE(free.has_value());
  EXPECT_EQ(free->bytes, 14 * kGiB);
  EXPECT_EQ(free->source,
            "of the GPU's 80.0 GiB, of which other processes hold about 64.0 GiB: see nvidia-smi");
}

// A GiB of this process is CUDA's, in none of the allocator's counts.
TEST(DeviceMemory, NamesOtherProcessesWhereTheyHoldMuch) {
  counting().stats.reserved_bytes[0].current = 6 * kGiB;
  counting().stats.allocated_bytes[0].current = 2 * kGiB;
  counting().info = {73 * kGiB, 80 * kGiB};
  EXPECT_EQ(free_device_memory(kCounted)->source, "of the GPU's 80.0 GiB");
  counting().info = {72 * kGiB, 80 * kGiB};
  EXPECT_EQ(free_device_memory(kCounted)->source,
            "of the GPU's 80.0 GiB, of which other processes hold about 2.0 GiB: see nvidia-smi");
}

TEST(DeviceMemory, OfTheCpuIsNotKnown) {
  EXPECT_FALSE(peak_bytes(c10::kCPU).has_value());
  EXPECT_FALSE(peak_bytes(c10::kMeta).has_value());
  EXPECT_FALSE(free_device_memory(c10::kCPU).has_value());
  reset_peak_bytes(c10::kCPU);
}

}  // namespace
}  // namespace mneme::tensor
