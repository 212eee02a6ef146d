#include "bench/continuous_ltm/settings.hpp"

#include <cmath>

#include "host/tensor/torch.hpp"

namespace mneme::bench {

std::vector<at::Tensor> LtmParameters::all() const {
  std::vector<at::Tensor> defined;
  for (const at::Tensor& t :
       {key, value, output, gate_weight, gate_bias, mu_weight, sigma_weight}) {
    if (t.defined()) defined.push_back(t);
  }
  return defined;
}

LtmParameters random_parameters(const LtmSettings& s, double spread) {
  const auto options = at::TensorOptions().dtype(s.dtype);
  const auto leaf = [&](const at::Tensor& t) { return t.contiguous().requires_grad_(true); };
  const auto normal = [&](at::IntArrayRef shape, double deviation) {
    return leaf(torch::randn(shape, options) * deviation);
  };
  LtmParameters p;
  p.key = normal({s.width, s.width}, 0.02);
  p.value = normal({s.width, s.width}, 0.02);
  p.output = normal({s.width, s.width}, 0.02);
  p.mu_weight = normal({1, s.basis}, 0.02 * spread);
  p.sigma_weight = normal({1, s.basis}, 0.02 * spread);
  if (s.has_gate) {
    const double bound = 1.0 / std::sqrt(3.0 * static_cast<double>(s.width));
    p.gate_weight = leaf(torch::empty({s.width, s.width, 3}, options).uniform_(-bound, bound));
    p.gate_bias = leaf(torch::empty({s.width}, options).uniform_(-bound, bound));
  }
  return p;
}

LtmInputs random_inputs(const LtmSettings& s) {
  const auto options = at::TensorOptions().dtype(s.dtype);
  LtmInputs in;
  in.rows = torch::randn({s.lanes, s.segment, s.width}, options);
  in.q = torch::randn({s.lanes, s.segment, s.heads, s.head_width()}, options).requires_grad_(true);
  in.projected = torch::randn({s.lanes, s.segment, s.width}, options);
  in.weight = torch::randn({s.lanes, s.segment, s.width}, options);
  return in;
}

void backward(const LtmOutcome& outcome, const LtmInputs& inputs) {
  torch::autograd::backward({outcome.out, outcome.aux},
                            {inputs.weight, torch::ones_like(outcome.aux)});
}

}  // namespace mneme::bench
