// Adam and AdamW, and global-norm clipping.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/optim/parameter_groups.hpp"

namespace mneme::optim {

struct AdamOptions {
  config::Optimizer kind = config::Optimizer::kAdam;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};

// [Kingma and Ba 2015, algorithm 1] as torch.optim.Adam computes it:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
//   p = p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps).
// Weight decay w: kAdam adds w p to the gradient, g = g + w p, so that it enters the moments
// (torch.optim.Adam); kAdamW shrinks p = p - lr w p before the update and leaves the moments alone
// [Loshchilov and Hutter 2019, algorithm 2]. A parameter without gradient is skipped: its value,
// its moments and its count t stay. All tensors of equal settings are updated by one fused
// operation.
class Adam {
 public:
  Adam(std::vector<TrainableParameter> parameters, const AdamOptions& options);

  // Sets all gradients to undefined.
  void zero_grad();
  // 2-norm of all defined gradients together, as a 0-dimensional tensor on their device; 0 when
  // there is none.
  [[nodiscard]] at::Tensor gradient_norm() const;
  // Scales all gradients by max_norm / (norm + 1e-6) when that is below 1
  // [torch.nn.utils.clip_grad_norm_].
  void clip(double norm, double max_norm);
  // One update; each parameter's learning rate is its base times `factor`.
  void step(double factor);
  // Names of parameters whose gradient holds a NaN or an infinity, in order of the parameters.
  [[nodiscard]] std::vector<std::string> non_finite_gradients() const;

  // Names of parameters that are to be trained and never had a gradient, in their order.
  [[nodiscard]] std::vector<std::string> untrained() const;

  // State of one parameter, for checkpoints. The tensors are the optimiser's own.
  struct Moments {
    std::string name;
    at::Tensor mean;    // m
    at::Tensor square;  // v
    at::Tensor count;   // t, f32 []: updates so far
  };
  [[nodiscard]] std::vector<Moments>& moments() { return moments_; }
  [[nodiscard]] const std::vector<Moments>& moments() const { return moments_; }

 private:
  struct Group {
    double lr;
    double weight_decay;
    std::vector<std::size_t> members;  // indices of parameters_
  };
  // The tensors of a group's members that have a gradient.
  struct Batch {
    std::vector<at::Tensor> tensors, gradients, means, squares, counts;
  };
  [[nodiscard]] Batch batch_of(const Group& group) const;

  std::vector<TrainableParameter> parameters_;
  AdamOptions options_;
  std::vector<Moments> moments_;
  std::vector<Group> groups_;
};

}  // namespace mneme::optim
