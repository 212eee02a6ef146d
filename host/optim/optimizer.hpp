// Adam and AdamW, clipping, parameter groups, learning-rate schedules and the number of steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "host/backbone/linear.hpp"
#include "host/backbone/model.hpp"
#include "host/config/experiment.hpp"
#include "host/data/stream/stream.hpp"
#include "host/kernel/adam.hpp"
#include "host/memory/stack/stack.hpp"

namespace mneme::optim {

// --- How each parameter is optimised: learning rate and weight decay ---

// A leaf tensor of the model or of a tier, and how it is optimised.
struct TrainableParameter {
  std::string name;  // "model.<name>" or TierParameter::name
  at::Tensor tensor;
  double lr = 0.0;            // base learning rate, which the schedule scales
  double weight_decay = 0.0;  // 0 = none
  // What set the learning rate, for reports: "model", "memory.<tier>" or "group.<index>", with
  // " x <factor>" where the plugin scales it. Equal names have equal rates.
  std::string rate = "model";
  // train.freeze: it has no gradient and no moments.
  bool is_frozen = false;
};

// The parameters of a backbone and its memory, the backbone's first. In order of precedence:
//
//   learning rate  the first [[train.group]] with `lr` that names the parameter; the tier's own
//                  `lr`; train.lr. A tier's parameters have it times the plugin's factor.
//   weight decay   the first [[train.group]] that names it, when that has `weight_decay`; 0 for the
//                  plugin's group "none"; the tier's own `weight_decay`; 0 for biases, norms and
//                  other vectors; train.weight_decay.
//
// Only the first group that names a parameter counts for it, whichever of the two it sets. With
// train.freeze = "backbone" the backbone's are frozen, whatever groups say.
[[nodiscard]] std::vector<TrainableParameter> group_parameters(
    const config::TrainConfig& train, const std::vector<backbone::Parameter>& backbone,
    const std::vector<memory::TierParameter>& tiers);

// Error (kUsage) for a pattern of a [[train.group]] that names no parameter, with the nearest one.
void check_groups(const config::TrainConfig& train,
                  const std::vector<TrainableParameter>& parameters);

// True when `name` fits `pattern`, in which "*" stands for any characters.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

// Error (kUsage) when train.freeze leaves no parameter to train.
void check_frozen(const std::vector<TrainableParameter>& parameters);

using NamedTensor = std::pair<std::string, at::Tensor>;  // the name is for people

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
// operation; where products read copies of them in bf16 and the device has the host's kernel
// (tensor::adam_kernels), by that kernel, which writes the copies too.
class Adam {
 public:
  // Frozen parameters are left out. `converted`, null = none, has the copies and outlives it.
  Adam(std::vector<TrainableParameter> parameters, const AdamOptions& options,
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
    std::vector<at::Tensor> tensors, gradients, means, squares, counts, copies;
  };
  // Which the kernel writes together with parameter i; undefined = there is none.
  [[nodiscard]] at::Tensor copy_of(std::size_t i) const;
  [[nodiscard]] Batch batch_of(const Group& group) const;
  void update_by_kernel(const Group& group, const Batch& batch, const at::Tensor& rate,
                        const at::Tensor& skip) const;

  std::vector<TrainableParameter> parameters_;
  AdamOptions options_;
  std::vector<Moments> moments_;
  at::Tensor counts_;  // f32 [n], of which moments_ have parts
  std::vector<Group> groups_;
  backbone::ConvertedWeights* converted_;
  const kernel::AdamKernels* kernels_ = nullptr;  // that write copies
};

// --- Parameters that no gradient has reached ---

// One line for the backbone and one for each tier that has some of these parameters
// (Adam::untrained) after `steps` steps, naming the first of them.
[[nodiscard]] std::vector<std::string> untrained_lines(const std::vector<std::string>& untrained,
                                                       const memory::Stack& stack,
                                                       std::int64_t steps);

// --- Schedules, by step: the learning rate and the number of backward passes ---

// The factor on every parameter's base learning rate, f(s), where s counts the steps done before
// (from 0), w = warmup, n = all steps, m = lr_min / lr:
//
//   s < w         s / w: linear growth from 0, whatever the schedule
//   constant      1
//   cosine        m + (1 - m) (1 + cos(pi s / n)) / 2: over all steps, warm-up included
//   linear        m + (1 - m) (n - s) / (n - w): from 1 at the warm-up's end to m
//   inverse_sqrt  max(m, sqrt(w / s)) [Vaswani et al. 2017, 5.3]: 1 at the warm-up's end
//
// Departures from the official Transformer-XL (train.py): its warm-up skips f(0) = 0, running the
// first step at the full rate; its inv_sqrt, 1 / sqrt(s), is ours times 1 / sqrt(w), so that its
// `lr` is no rate that is ever reached; it knows no linear schedule. Its cosine is ours.
class LearningRate {
 public:
  LearningRate(const config::TrainConfig& train, std::int64_t total_steps);

  // step 0 .. total; later steps keep the last value.
  [[nodiscard]] double factor(std::int64_t step) const;

 private:
  config::Schedule schedule_;
  std::int64_t warmup_;
  std::int64_t total_;
  double least_;  // m
};

// Backward passes of the step after `step` steps: train.accumulate, or what the last of
// train.accumulate_from that holds says (the Compressive Transformer's update period).
[[nodiscard]] std::int64_t accumulation(const config::TrainConfig& train, std::int64_t step);

// Steps of the whole run: train.steps, or the number that it takes to see train.epochs epochs of
// the stream; the last step may reach into another one. A backward pass takes bptt_segments
// segments, or one answer of a task whose other segments have no target. Error (kUsage) for epochs
// of data without end.
[[nodiscard]] std::int64_t count_steps(const config::TrainConfig& train,
                                       const data::Stream& stream);
// Epochs of the stream, whose data have an end, that the first `steps` steps see.
[[nodiscard]] double count_epochs(const config::TrainConfig& train, const data::Stream& stream,
                                  std::int64_t steps);

}  // namespace mneme::optim
