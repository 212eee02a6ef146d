// linear_nll by the kernels of a device that take logits in the dtype of the products
// (host/kernel/cross_entropy.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "host/backbone/embedding/linear_nll.hpp"
#include "host/kernel/cross_entropy.hpp"

namespace mneme::backbone {

// Bytes of logits, without those that fill up rows. A product of all tokens with all ids is the
// fastest, and keeping its result saves one of four products: those of 16,384 tokens and GPT-2's
// 50,257 ids in bf16 are kept, 1.6 GB. Beyond that logits are made in blocks of ids for all tokens:
// a row of the weight then gets its gradient at once, and a block's products stay large.
struct LogitLimits {
  std::int64_t kept = std::int64_t{1} << 31;   // of a loss, for the backward pass
  std::int64_t block = std::int64_t{1} << 28;  // made at once, where none are kept
};

// Whether linear_nll and summarize_logits compute so on CUDA.
bool has_device_nll();

// As linear_nll, in blocks of ids whose gradients are made in their place; the backward pass makes
// them again where they are not kept, and in a second backward pass over the same graph. x, weight
// and bias as there, but an undefined bias saves a pass over the logits, and a weight of another
// dtype is converted here unless it brings its copy, so that its gradient goes to the shared one in its own dtype. All tensors
// are on the device of `kernels`.
at::Tensor linear_nll_by(const kernel::CrossEntropyKernels& kernels, const at::Tensor& x,
                         const WeightRows& weight, const at::Tensor& bias, const at::Tensor& target,
                         at::Tensor* best = nullptr, const LogitLimits& limits = {},
                         at::Tensor* log_sum = nullptr);
// As summarize_logits. Where `nll` is not null it receives what linear_nll returns.
LogitSummary summarize_by(const kernel::CrossEntropyKernels& kernels, const at::Tensor& x,
                          const at::Tensor& weight, const at::Tensor& bias,
                          const at::Tensor& target, bool wants_best, at::Tensor* nll = nullptr,
                          const LogitLimits& limits = {});

}  // namespace mneme::backbone
