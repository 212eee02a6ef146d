#include "bench/continuous_ltm/agreement.hpp"

#include <algorithm>
#include <cstdio>

#include "bench/continuous_ltm/official.hpp"
#include "bench/continuous_ltm/plugin_ltm.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

// Output of both segments and the auxiliary loss; gradients of the second.
struct Results {
  std::vector<at::Tensor> outputs, gradients;
};

// Not a number counts as different; so does a gradient that only one side has.
double difference(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected) {
  double largest = got.size() == expected.size() ? 0.0 : 1.0;
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    if (got[i].defined() != expected[i].defined()) return 1.0;
    if (!got[i].defined()) continue;
    const at::Tensor a = got[i].to(at::kDouble), b = expected[i].to(at::kDouble);
    const double relative = ((a - b).norm() / b.norm()).item<double>();
    if (!(relative <= largest)) largest = relative;
  }
  return largest;
}

// `step` runs one segment; `parameters` are those that it uses.
template <typename Step>
Results run(const LtmSettings& settings, const Step& step) {
  torch::manual_seed(7);
  Results results;
  for (const bool is_last : {false, true}) {
    LtmInputs in = random_inputs(settings);
    in.projected.zero_();  // so that the output is the memory's alone
    const LtmOutcome outcome = step(in);
    results.outputs.push_back(outcome.out.detach());
    results.outputs.push_back(outcome.aux.detach());
    if (!is_last) continue;
    backward(outcome, in);
    results.gradients.push_back(in.q.grad());
  }
  return results;
}

Results run_official(const LtmSettings& settings, const LtmParameters& given,
                     Derivative derivative) {
  LtmParameters parameters = given;
  for (at::Tensor* t :
       {&parameters.key, &parameters.value, &parameters.output, &parameters.gate_weight,
        &parameters.gate_bias, &parameters.mu_weight, &parameters.sigma_weight}) {
    if (t->defined()) *t = t->detach().clone().requires_grad_(true);
  }
  OfficialLtm ltm(settings, parameters, derivative);
  Results results = run(settings, [&](const LtmInputs& in) { return ltm.step(in); });
  for (const at::Tensor& p : parameters.all()) results.gradients.push_back(p.grad());
  return results;
}

Results run_plugin(const LtmSettings& settings, const LtmParameters& given) {
  PluginLtm ltm(settings, given);
  Results results = run(settings, [&](const LtmInputs& in) { return ltm.step(in); });
  for (const at::Tensor& grad : ltm.gradients()) results.gradients.push_back(grad);
  return results;
}

bool compare(const char* name, const Results& got, const Results& expected,
             const Tolerance& tolerance) {
  const double out = difference(got.outputs, expected.outputs);
  const double gradient = difference(got.gradients, expected.gradients);
  const bool agrees = out <= tolerance.out && gradient <= tolerance.gradient;
  std::printf(
      "%s: largest relative difference of outputs %.1e (limit %.0e), gradients %.1e "
      "(limit %.0e)%s\n",
      name, out, tolerance.out, gradient, tolerance.gradient, agrees ? "" : "  DIFFERS");
  return agrees;
}

}  // namespace

bool check_official() {
  LtmSettings s;
  s.lanes = 2;
  s.segment = 12;
  s.width = 24;
  s.heads = 3;
  s.basis = 16;
  s.samples = 10;
  s.widths = {0.05, 0.1};
  s.lambda_kl = 1e-2;
  s.dtype = at::kDouble;
  torch::manual_seed(5);
  const LtmParameters parameters = random_parameters(s, 100.0);
  return compare("released derivative against autograd, f64",
                 run_official(s, parameters, Derivative::kNatural),
                 run_official(s, parameters, Derivative::kDirect), {1e-12, 1e-8});
}

bool check_plugin(const char* name, const LtmSettings& settings, double spread,
                  const Tolerance& tolerance) {
  torch::manual_seed(6);
  const LtmParameters parameters = random_parameters(settings, spread);
  return compare(name, run_plugin(settings, parameters),
                 run_official(settings, parameters, Derivative::kNatural), tolerance);
}

}  // namespace mneme::bench
