// The same layer stack through mneme's host with the plugin lamemo.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "bench/lamemo/official.hpp"
#include "bench/lamemo/sizes.hpp"

namespace mneme::bench {

class HostStack {
 public:
  // training: segments have the size of training, and a graph while gradients are on.
  HostStack(const StackSizes& sizes, at::ScalarType dtype, double epsilon, bool is_training);
  ~HostStack();

  // One segment of ids [B,T] -> the last layer's output [B,T,D]; the memory moves on.
  at::Tensor segment(const at::Tensor& ids);

  // The embedding as both sides use it: [T,B,D] with its graph, from a table [V,D].
  at::Tensor embedded(const at::Tensor& ids, const at::Tensor& table) const;
  // The stack's weights by the names of the official code's modules; copies, leaves.
  OfficialLaMemo official() const;
  at::Tensor table() const;
  // Gradients of our parameters and of the copies that official() made last, pair by pair.
  struct Pair {
    at::Tensor ours, theirs;
  };
  const std::vector<Pair>& pairs() const { return pairs_; }
  void drop_gradients();

 private:
  struct Parts;
  StackSizes sizes_;
  std::unique_ptr<Parts> parts_;
  mutable std::vector<Pair> pairs_;
};

}  // namespace mneme::bench
