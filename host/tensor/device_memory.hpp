// The memory of a GPU, by the statistics of LibTorch's allocator for it: LibTorch's CUDA libraries
// are not linked, but the allocator that they register is found by the device's type.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

#include "host/base/process/process.hpp"

namespace mneme::tensor {

// The most bytes that tensors on the device held at once, since the process began or
// reset_peak_bytes() was called. Absent on the CPU.
[[nodiscard]] std::optional<std::int64_t> peak_bytes(c10::Device device);
void reset_peak_bytes(c10::Device device);  // does nothing on the CPU

// What the driver has free on the device, and what the allocator keeps for tensors to come; `source`
// says how much other processes hold, where it is more than CUDA itself may take. Absent on the CPU.
[[nodiscard]] std::optional<FreeMemory> free_device_memory(c10::Device device);

}  // namespace mneme::tensor
