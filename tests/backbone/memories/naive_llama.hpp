// The decoder "llama" of small_decoders() in f64: products by LibTorch, attention by loops.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "tests/backbone/memory_session.hpp"

namespace mneme::backbone {

struct NaiveLlama {
  // What layer l adds, of its normed input [B,T,D].
  using Mixer = std::function<at::Tensor(int64_t l, const at::Tensor& normed)>;
  // From the values [B,T,2,6] that a layer projects to those that attention reads.
  using Values = std::function<at::Tensor(const at::Tensor& projected)>;

  const MemorySession& session;  // with the weights
  int64_t layers = 2;

  // ids [B,T+1]: losses [B,T].
  [[nodiscard]] at::Tensor nll(const at::Tensor& ids, const Mixer& mixer) const;
  // Of layer l; `values` undefined = as they are projected.
  [[nodiscard]] at::Tensor attention(int64_t l, const at::Tensor& normed,
                                     const Values& values = {}) const;
  [[nodiscard]] at::Tensor weight(const std::string& name) const;
  // [B,T,n*d] -> [B,T,n,d]
  static at::Tensor heads(const at::Tensor& rows, int64_t count);
};

}  // namespace mneme::backbone
