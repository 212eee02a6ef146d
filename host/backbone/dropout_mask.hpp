// Dropout masks on the CPU.
//
// LibTorch draws one number after another on one thread, which took nearly a fifth of a training
// step on the CPU, and draws other masks from the same seed on an Intel processor than on others.
#pragma once

#include <ATen/core/Tensor.h>

#include "host/base/random.hpp"

namespace mneme::backbone {

// A tensor on the CPU of `shape` and the options' floating-point dtype: entry i, row-major, is 0
// when word i of the stream (Random) is among the p * 2^32 largest, else 1 / (1 - p). The same for
// every processor and number of threads. p in [0, 1).
at::Tensor dropout_mask(at::IntArrayRef shape, const at::TensorOptions& options, double p,
                        StreamKey stream);

}  // namespace mneme::backbone
