// Averages of the weights over the updates of a training.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "host/optim/optimizer.hpp"
#include "host/optim/parameter_groups.hpp"

namespace mneme::optim {

// Exponential moving averages of the parameters that are trained [Polyak and Juditsky 1992]. Behind
// update t, counted from 1,
//
//   a = a + (1 - d) (p - a),  d = min(decay, (1 + t) / (10 + t)).
//
// The second term keeps the first weights from counting for 1 / (1 - decay) updates. One thread at a
// time.
class WeightAverage {
 public:
  // Frozen parameters are left out. Averages begin as the parameters are.
  WeightAverage(std::vector<TrainableParameter> parameters, double decay);

  // Behind the update number `updates`. Nothing changes where `skip`, f32 [] on the parameters'
  // device, is 1 (else 0; undefined = 0).
  void add(std::int64_t updates, const at::Tensor& skip = {});
  // Parameters take the values of their averages, which keep theirs: a second call undoes it. The
  // caller says that weights have changed.
  void exchange();
  // Averages become what the parameters are.
  void reset();
  // Gives the moments of these parameters, in their order, or of none, the tensors of the averages
  // (Moments::weight): a checkpoint is written and read while they are exchanged.
  void attach(std::vector<Optimizer::Moments>& moments) const;

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> averages_;
  double decay_;
};

}  // namespace mneme::optim
