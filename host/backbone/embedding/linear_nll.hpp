// Losses of a linear layer that is followed by a softmax.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace mneme::backbone {

class SharedGradient;

// Consecutive rows of a weight.
struct WeightRows {
  at::Tensor rows;  // [n,d]
  // Where their gradient is made, from row `first` on; null = in a tensor of its own.
  std::shared_ptr<SharedGradient> gradient = {};
  std::int64_t first = 0;
  at::Tensor converted = {};  // in the dtype of the products; undefined = made where it is needed
};

// A weight [V,d] in pieces of these sizes, which add up to V, and the rows of `ids`, where there
// are any. All gradients of the weight are made in one tensor: linear_nll makes those of the
// pieces, and those of the rows are added to them. With narrow() and embedding() each of them would
// be a gradient of V rows.
struct SplitWeight {
  std::vector<WeightRows> pieces;
  at::Tensor rows;  // [.., d] of ids [..]; undefined without ids
};
SplitWeight split_weight(const at::Tensor& weight, const std::vector<std::int64_t>& sizes,
                         const at::Tensor& ids = {});

// Negative log-likelihood of softmax(x W^T + b) in one operation. A small number of logits is kept;
// more are made in blocks of ids, in the backward pass again. On CUDA the host's kernels compute
// (device_nll.hpp), with limits of their own.
//   x [n,d], weight [V,d] in one dtype (bf16: probabilities are f32), bias [V], target i64 [n]; a
//   target of -1 gives 0 and no gradient. No bias where it is undefined. Result [n] f32 or f64. best (i64 [n]) receives the arg
//   max when asked. kept_logits: the most logits that are kept for the backward pass. log_sum [n], when
//   asked, receives the logs of the denominators, with a gradient of their own; 0 where the target is -1.
inline constexpr std::int64_t kKeptLogits = std::int64_t{1} << 25;
// Numbers of a block of logits: on the CPU the number that stays in the processor's cache while
// they are summed up; elsewhere kKeptLogits, because every operation has to be launched there.
inline constexpr std::int64_t kBlockLogits = std::int64_t{1} << 21;
at::Tensor linear_nll(const at::Tensor& x, const WeightRows& weight, const at::Tensor& bias,
                      const at::Tensor& target, at::Tensor* best = nullptr,
                      std::int64_t kept_logits = kKeptLogits, at::Tensor* log_sum = nullptr);

// The same of logits cap * tanh(logits / cap), by LibTorch's operations; blocks are of rows. weight and
// bias as they are, whatever the dtype of x.
at::Tensor capped_nll(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double cap, const at::Tensor& target, at::Tensor* best = nullptr,
                      std::int64_t kept_logits = kKeptLogits, at::Tensor* log_sum = nullptr);

// What losses and predictions need of the logits x W^T + b [n,V], which are made in blocks and not
// stored. Without gradient.
struct LogitSummary {
  at::Tensor log_sum;  // [n] f32 or f64: log of the sum of their exponentials
  at::Tensor own;      // [n]: the target's; any number where the target is not in 0 .. V-1
  at::Tensor highest;  // [n]: the largest; where it was asked for
  at::Tensor best;     // [n] i64: its first place; where it was asked for
};
// Of the rows of x, without values.
LogitSummary empty_summary(const at::Tensor& x, const at::Tensor& target, bool wants_best);
LogitSummary summarize_logits(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& target, bool wants_best);

}  // namespace mneme::backbone
