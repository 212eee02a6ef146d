// One layer that compresses what a full memory evicts, and what both sides of the bench work on.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>

namespace mneme::bench {

struct CompressionSizes {
  int64_t lanes = 1;
  int64_t segment = 512;  // T = rows of the memory = rows that are evicted
  int64_t width = 1024;
  int64_t heads = 16;
  int64_t rate = 4;
  at::ScalarType dtype = at::kFloat;
  int64_t head_width() const { return width / heads; }
  int64_t compressed() const { return segment / rate; }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(head_width())); }
};

struct CompressionInputs {
  at::Tensor hidden;             // [B,T,D] input of the layer
  at::Tensor old;                // [B,T,D] the memory: what is evicted
  at::Tensor query, key, value;  // [D,D] the layer's projections, with gradient
  at::Tensor q;                  // [B,T,H,d] of hidden, as the segment's attention made it
  at::Tensor old_k, old_v;       // [B,T,H,d] of old, likewise
};
CompressionInputs random_inputs(const CompressionSizes& sizes);

// The convolution of the compression.
struct CompressionWeights {
  at::Tensor weight;  // [D,D,c], as torch's conv1d
  at::Tensor bias;    // [D]
};
CompressionWeights random_weights(const CompressionSizes& sizes);

// What one step gives.
struct Compressed {
  at::Tensor rows;  // [B,T/c,D]
  at::Tensor loss;  // []
};

}  // namespace mneme::bench
