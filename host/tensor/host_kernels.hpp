// When the host computes with kernels of its own (host/kernel) instead of LibTorch's operations.
#pragma once

#include <ATen/core/Tensor.h>

#include "host/kernel/adam.hpp"
#include "host/kernel/cross_entropy.hpp"
#include "host/kernel/rows.hpp"
#include "host/kernel/sampling.hpp"
#include "mneme_kernels/cpu/instruction_sets.hpp"

namespace mneme::tensor {

// Whether this thread uses the host's kernels.
[[nodiscard]] bool has_host_kernels();
// Whether it uses those for the CPU that have no backward pass, for tensors like x: without
// gradient.
[[nodiscard]] bool uses_host_kernels(const at::Tensor& x);

// Whether the program was built with CUDA sources.
[[nodiscard]] bool has_cuda_sources();
// The host's kernels for rows of logits on the device of x, or on `device`: on CUDA, in a program
// that was built with its sources. Null where this thread uses LibTorch's operations, or the CPU's
// kernels.
[[nodiscard]] const kernel::CrossEntropyKernels* cross_entropy_kernels(const at::Tensor& x);
[[nodiscard]] const kernel::SamplingKernels* sampling_kernels(at::Device device);

// While one lives, its thread computes with LibTorch's operations instead of the host's kernels, so
// that all operations can be counted.
class WithoutHostKernels {
 public:
  WithoutHostKernels();
  ~WithoutHostKernels();
  WithoutHostKernels(const WithoutHostKernels&) = delete;
  WithoutHostKernels& operator=(const WithoutHostKernels&) = delete;

 private:
  bool before_;
};

// While one lives that is on, row_kernels(), adam_kernels() and cross_entropy_kernels() give its
// thread none.
class WithoutRowKernels {
 public:
  explicit WithoutRowKernels(bool is_on);
  ~WithoutRowKernels();
  WithoutRowKernels(const WithoutRowKernels&) = delete;
  WithoutRowKernels& operator=(const WithoutRowKernels&) = delete;

 private:
  bool before_;
};

// The host's kernels for rows of tensors on `device`: on CUDA, in a program that was built with its
// sources. Null where this thread uses LibTorch's operations.
[[nodiscard]] const kernel::RowKernels* row_kernels(at::Device device);
// The kernels for rows [.., width] and their norms on the device of `rows`; null where LibTorch's
// operations are used: on the CPU, and for wider rows than kernel::kMostRowWidth.
[[nodiscard]] const kernel::RowKernels* row_kernels(const at::Tensor& rows);
// Of f64, f32 or bf16.
[[nodiscard]] kernel::Element row_element(at::ScalarType type);
// Errors: Error(kDevice) when `failed`, which a kernel returned, is not null.
void check_rows(const char* failed);
// As row_kernels(device), for updates of parameters.
[[nodiscard]] const kernel::AdamKernels* adam_kernels(at::Device device);

// While one lives, row_kernels(), cross_entropy_kernels() and adam_kernels() give its thread these on
// the CPU: for tests.
class WithRowKernels {
 public:
  explicit WithRowKernels(const kernel::RowKernels& kernels,
                          const kernel::CrossEntropyKernels* cross_entropy = nullptr,
                          const kernel::AdamKernels* adam = nullptr);
  ~WithRowKernels();
  WithRowKernels(const WithRowKernels&) = delete;
  WithRowKernels& operator=(const WithRowKernels&) = delete;

 private:
  const kernel::RowKernels* rows_before_;
  const kernel::CrossEntropyKernels* cross_entropy_before_;
  const kernel::AdamKernels* adam_before_;
};

// The same for sampling_kernels().
class WithSamplingKernels {
 public:
  explicit WithSamplingKernels(const kernel::SamplingKernels& kernels);
  ~WithSamplingKernels();
  WithSamplingKernels(const WithSamplingKernels&) = delete;
  WithSamplingKernels& operator=(const WithSamplingKernels&) = delete;

 private:
  const kernel::SamplingKernels* before_;
};

// The functions for the fastest instruction set of this processor.
template <typename Kernels>
const Kernels& fastest_kernels() {
  static const Kernels& fastest = cpu::kernels<Kernels>(cpu::fastest_instruction_set());
  return fastest;
}

}  // namespace mneme::tensor
