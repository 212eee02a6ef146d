// The released algorithm of Transformer-XL for evaluation, written plainly in LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/run/runtime.hpp"

namespace mneme::bench {

// Every segment projects all rows of the memory and of the segment to queries, keys and values, and
// all distances to positions; what it does not need it drops [Transformer-XL, released code]. Post
// norm, tied position biases, no dropout.
class OfficialXl {
 public:
  // Shares the runtime's weights.
  OfficialXl(const run::Runtime& runtime, std::int64_t heads, std::int64_t rows);
  // ids [B,T] -> the last layer's output [B,T,D]; the memory moves on.
  at::Tensor segment(const at::Tensor& ids);

 private:
  struct Layer {
    at::Tensor qkv, position, output, norm_weight, norm_bias;
    at::Tensor ff_in, ff_in_bias, ff_out, ff_out_bias, ff_norm_weight, ff_norm_bias;
  };
  at::Tensor attention(const Layer& layer, const at::Tensor& h, const at::Tensor& memory,
                       const at::Tensor& sinusoids) const;

  std::int64_t heads_, rows_;
  at::Tensor table_, content_bias_, position_bias_;
  std::vector<Layer> layers_;
  std::vector<at::Tensor> memory_;  // [M,B,D] by layer; empty at the start
};

}  // namespace mneme::bench
