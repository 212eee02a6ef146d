// Adam, AdamW and Muon, and the clipping of gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "host/backbone/linear.hpp"
#include "host/config/experiment.hpp"
#include "host/kernel/adam.hpp"
#include "host/optim/parameter_groups.hpp"

namespace mneme::optim {

using NamedTensor = std::pair<std::string, at::Tensor>;  // the name is for people

struct OptimizerOptions {
  config::Optimizer kind = config::Optimizer::kAdam;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0.95;                 // Muon's
  at::ScalarType products = at::kDouble;  // of Muon's iteration
};

// [Kingma and Ba 2015, algorithm 1] as torch.optim.Adam computes it:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
//   p = p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps).
// Weight decay w: kAdam adds w p to the gradient, g = g + w p, so that it enters the moments
// (torch.optim.Adam); kAdamW shrinks p = p - lr w p before the update and leaves the moments alone
// [Loshchilov and Hutter 2019, algorithm 2]. A parameter without gradient is skipped: its value,
// its moments and its count t stay. All tensors of equal settings are updated by one fused
// operation; where products read copies of them in bf16 and the device has the host's kernel
// (tensor::adam_kernels), by that kernel, which writes the copies too.
//
// Parameters with `by_muon` [m,n] are updated by Muon [Jordan et al. 2024; Liu et al. 2025], with
// momentum b from 0 and a momentum factor mu, as torch.optim.Muon does:
//   b = mu b + (1 - mu) g,  d = (1 - mu) g + mu b  (Nesterov),
//   p = p - lr (w p + 0.2 sqrt(max(m, n)) orthogonalized(d)).
class Optimizer {
 public:
  // Frozen parameters are left out. `converted`, null = none, has the copies and outlives it.
  Optimizer(std::vector<TrainableParameter> parameters, const OptimizerOptions& options,
            backbone::ConvertedWeights* converted = nullptr);

  // Sets all gradients to undefined.
  void zero_grad();
  // 2-norm of all defined gradients together, as a 0-dimensional tensor on their device; 0 when
  // there is none.
  [[nodiscard]] at::Tensor gradient_norm() const;
  // Scales all gradients by max_norm / (norm + 1e-6) when that is below 1
  // [torch.nn.utils.clip_grad_norm_].
  void clip(double norm, double max_norm);
  // The same, to the bit, for a norm that is on the gradients' device alone, f64 [].
  void clip(const at::Tensor& norm, double max_norm);
  // The learning rates of one update, those of parameters times `factor`: f64 [n] on the CPU. Where
  // parameters are f32 on a GPU, f32 [n] there, which is the dtype that the kernels take; its copy to
  // the GPU is on its way, and nothing waits for it.
  [[nodiscard]] at::Tensor rates(double factor) const;
  // One update by rates(). Nothing changes where `skip`, f32 [] on the parameters' device, is 1
  // (else 0; undefined = 0). Which operations it does depends on which gradients there are.
  void step(const at::Tensor& rates, const at::Tensor& skip = {});
  // By rates(factor).
  void step(double factor, const at::Tensor& skip = {}) { step(rates(factor), skip); }
  // All that it changes: parameters, their moments, and the copies that it writes.
  [[nodiscard]] std::vector<NamedTensor> changed() const;
  // Names of parameters whose gradient holds a NaN or an infinity, in order of the parameters.
  [[nodiscard]] std::vector<std::string> non_finite_gradients() const;

  // Names of parameters that are to be trained and never had a gradient, in their order; those with
  // learning rate 0 are not named.
  [[nodiscard]] std::vector<std::string> untrained() const;

  // State of one parameter, for checkpoints. The tensors are the optimiser's own.
  struct Moments {
    std::string name;
    at::Tensor mean;           // m; undefined with Muon
    at::Tensor square;         // v; undefined with Muon
    at::Tensor count;          // t, f32 []: updates so far
    at::Tensor momentum = {};  // b of Muon; else undefined
    at::Tensor weight = {};    // WeightAverage::attach; else undefined
  };
  [[nodiscard]] std::vector<Moments>& moments() { return moments_; }
  [[nodiscard]] const std::vector<Moments>& moments() const { return moments_; }

 private:
  struct Group {
    double lr;
    double weight_decay;
    bool by_muon;
    std::vector<std::size_t> members;  // indices of parameters_
  };
  // The tensors of a group's members that have a gradient.
  struct Batch {
    std::vector<at::Tensor> tensors, gradients, means, squares, counts, copies;
  };
  // With muon the other parameters have AdamW.
  [[nodiscard]] bool is_decoupled() const { return options_.kind != config::Optimizer::kAdam; }
  // Which the kernel writes together with parameter i; undefined = there is none.
  [[nodiscard]] at::Tensor copy_of(std::size_t i) const;
  [[nodiscard]] Batch batch_of(const Group& group) const;
  void update_by_kernel(const Group& group, const Batch& batch, const at::Tensor& rate,
                        const at::Tensor& skip) const;
  void update_by_muon(const Group& group, const at::Tensor& rate, const at::Tensor& skip) const;

  std::vector<TrainableParameter> parameters_;
  OptimizerOptions options_;
  std::vector<Moments> moments_;
  at::Tensor counts_;  // f32 [n], of which moments_ have parts
  std::vector<Group> groups_;
  backbone::ConvertedWeights* converted_;
  const kernel::AdamKernels* kernels_ = nullptr;  // that write copies
};

}  // namespace mneme::optim
