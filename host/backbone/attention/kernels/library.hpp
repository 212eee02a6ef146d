// A segment's attention by LibTorch's own kernels for CUDA: FlashAttention and the memory-efficient
// one [Dao 2023; Rabe & Staats 2021]. Neither stores scores. The relative term, and whatever else
// is added to scores, is a tensor of their size in the compute dtype, and so is its gradient.
//
// By their sources: scores are scale * q . k plus what is added; in f32 the memory-efficient kernel
// multiplies in three products of TF32, from compute capability 8.0 on, which is nearly f32.
//
// They are the operations aten::_flash_attention_forward and aten::_efficient_attention_forward,
// which are declared in every build of LibTorch and implemented for CUDA. They are internal to it:
// what is presumed of them here is what tests/backbone/library holds an implementation for the CPU
// to. That a device computes so has not been tried yet.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/attention/kernels/choice.hpp"
#include "host/backbone/attention/kernels/fused.hpp"

namespace mneme::backbone {

// Attention over `pieces`, in this order, for args without k and v that choose_attention gives to
// `path`, kFlash or kEfficient. A query sees its own column and those before it; kFlash with window
// > 0 only those at distances 0 .. window-1. args.mask says what else is absent or penalised, for
// kEfficient, the window included. In an evaluation without window the first of two pieces is read
// once for all lanes where it is shared. Gradients flow from z to q, keys, values, table, biases; none from lse. Not twice
// differentiable. The same bits for the same inputs.
AttentionOutput attend_by_library(AttentionPath path, const AttentionArgs& args,
                                  const std::vector<KeyPiece>& pieces, std::int64_t window);

}  // namespace mneme::backbone
