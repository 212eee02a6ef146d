// Compression and attention reconstruction [Rae et al. 2019, algorithm 2] written plainly with
// LibTorch: conv1d, score matrices, autograd.
#pragma once

#include "bench/compressive/sizes.hpp"

namespace mneme::bench {

// How much a plain implementation projects anew.
enum class Plain {
  kProjectsAll,  // as the algorithm is printed, and as labml's code: q, k and v from hidden rows
  kReuses,       // as lucidrains's code: those that the segment's attention has made
};

class PlainCompression {
 public:
  PlainCompression(const CompressionSizes& sizes, const CompressionWeights& weights, Plain how);
  Compressed step(const CompressionInputs& in) const;
  const at::Tensor& weight() const { return weights_.weight; }  // leaves
  const at::Tensor& bias() const { return weights_.bias; }

 private:
  at::Tensor heads(const at::Tensor& rows, const at::Tensor& weight) const;

  CompressionSizes sizes_;
  CompressionWeights weights_;
  Plain how_;
};

}  // namespace mneme::bench
