// Choosing and describing the device that computes.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace mneme::tensor {

// The device of a name, "cpu" or "cuda" (the current CUDA device) or "cuda:N". The host links
// LibTorch's CPU libraries only: for CUDA the first call opens libtorch_cuda.so beside them.
// Errors: Error (kUsage) for another name; Error (kDevice), saying what is missing and what to do,
// when LibTorch has no CUDA library, the library or the driver cannot be loaded, or no device is
// visible.
[[nodiscard]] c10::Device open_device(const std::string& name);

// Waits for all work on the device; nothing on the CPU.
void synchronize(c10::Device device);

// Threads that CPU operations use; 0 = OMP_NUM_THREADS, or as many as the machine has
// cores. Error (kUsage) when negative.
void set_threads(std::int64_t threads);
[[nodiscard]] std::int64_t threads();

// "AMD EPYC 7B13, 2 threads" or "NVIDIA H200"; for reports.
[[nodiscard]] std::string describe(c10::Device device);
// The processor's name as the system gives it, or "unknown processor".
[[nodiscard]] std::string processor_name();
// The vector instructions that LibTorch computes with here: "AVX512", "AVX2", or "DEFAULT" for none.
[[nodiscard]] std::string cpu_capability();
// LibTorch's version, "2.11.0".
[[nodiscard]] std::string torch_version();

}  // namespace mneme::tensor
