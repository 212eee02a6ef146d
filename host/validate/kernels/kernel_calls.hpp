// What the checks of kernels share: calls as a plugin's hooks made them, and comparisons of
// results.
#pragma once

#include <string>
#include <vector>

#include "host/validate/check.hpp"
#include "host/validate/interposer.hpp"
#include "host/validate/kernels/kernel_run.hpp"
#include "host/validate/setting.hpp"

namespace mneme::validate {

// The calls of its kernels in a few segments, and the session whose instance registered them.
struct Recorded {
  std::unique_ptr<Session> session;
  std::vector<KernelCall> calls;
};

// Throws Skipped when no hook calls a kernel.
[[nodiscard]] Recorded record_kernels(const Subject& subject, at::ScalarType dtype = at::kDouble);

// "kernel gated ([8], [2, 8]): ".
[[nodiscard]] std::string where(const KernelCall& call);
// "12 calls".
[[nodiscard]] std::string seen(const Recorded& recorded);

[[nodiscard]] bool has_gradient(const KernelCall& call);
// Whether it is there and of a floating-point type.
[[nodiscard]] bool is_real(const at::Tensor& tensor);

// Normal values in the shape and dtype of each output.
[[nodiscard]] std::vector<at::Tensor> random_like(const std::vector<at::Tensor>& outputs,
                                                  std::uint64_t seed);
// Those for the outputs of a call.
[[nodiscard]] std::vector<at::Tensor> grads_for(const KernelCall& call, const Subject& subject);

// forward and backward of a call, for those.
[[nodiscard]] KernelResult run_alone(const KernelCall& call, const Subject& subject,
                                     const KernelMemory& memory = {});

// Equal bits, NaN included.
[[nodiscard]] bool is_same(const at::Tensor& a, const at::Tensor& b);
// Throws Failed "<what> <i> <why>" for the first pair that is not.
void expect_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b,
                 const std::string& what, const std::string& why);

}  // namespace mneme::validate
