// The update of a step as work of the device alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "host/optim/optimizer.hpp"

namespace mneme::train {

using ReportSums = std::map<std::string, at::Tensor>;  // f64 []

// Adds term by term.
void add_all(ReportSums& sums, const ReportSums& terms);

// What the loss of a step consists of, summed over segments by their weights.
struct LossSums {
  at::Tensor loss;  // mean nll, f64 []; undefined without targets
  // The part of each auxiliary loss, before its weight; segments that did not report it count as 0.
  ReportSums losses;

  // Nothing changes where `terms` has no loss.
  void add(const LossSums& terms);
  // Whether all of them, and the norm of the gradient, are finite, on their device, bool [].
  [[nodiscard]] at::Tensor are_finite(const at::Tensor& norm) const;
};

// Behind the last backward pass of a step: gradients are clipped and parameters updated, unless a
// number of the step is not finite. Nothing waits for the device. What differs from step to step is
// in tensors, so that the update can be a part of a recording.
class StepUpdate {
 public:
  // `clip` is train.clip, `factor` that of Optimizer::rates; `skip_before` is `skip` of the step
  // before where its numbers are not read yet, undefined = 0. The optimiser must outlive it.
  StepUpdate(optim::Optimizer& optimizer, double clip, double factor,
             const at::Tensor& skip_before);

  // With the sums of the whole step, and its gradients at the parameters.
  void run(const LossSums& sums);

  // Behind run(), or from a recording of it.
  at::Tensor norm;  // of the gradients before they are clipped, f64 []
  at::Tensor skip;  // f32 []: 1 = nothing has changed, for this step or one before is not finite

  // All tensors that run() reads and that differ from step to step, besides sums and gradients.
  [[nodiscard]] std::vector<at::Tensor> inputs() const { return {rates_, skip_before_}; }
  // As Optimizer::changed.
  [[nodiscard]] std::vector<optim::NamedTensor> changed() const { return optimizer_.changed(); }

 private:
  optim::Optimizer& optimizer_;
  double clip_;
  at::Tensor rates_;
  at::Tensor skip_before_;
};

}  // namespace mneme::train
