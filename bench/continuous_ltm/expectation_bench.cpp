// The expectation kernel alone against the same sum by LibTorch ops that form r [B,H,T,N], forward
// and backward, at the released GPT-2 sizes (B = 1, H = 12, T = N = 512, d = 64, widths .005 and
// .01), f32, on one and two threads.
//
// Densities: wide, as at a run's start (variance .69: every function counts); mixed (a fifth as
// wide, the others 1e-3); narrow (the floor, 1e-4), mu uniform on [0,1]. Correctness before timing:
// context and gradients agree to 1e-5 with LibTorch's, to which both are compared in double. Then
// the ways take turns; reported are medians of seconds over the rounds:
//   ratio     LibTorch's time over the kernel's
//   of peak   the flops of the dense sum, 2 B H T N d forward and 4 backward, over the kernel's
//             time, as a share of what the host's product of 1024^3 (oneDNN's where LibTorch has
//             it) reached in the same rounds; functions that are skipped count as done, so that
//             narrow densities pass 100 %
//   all       the time when every function is visited over the kernel's time
//
//   expectation_bench [rounds]     9
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/measure/rounds.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/kernel_function.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"
#include "plugins/continuous_ltm/basis_grid.hpp"
#include "plugins/continuous_ltm/kernels/expectation.hpp"

namespace mneme::bench {
namespace {

using continuous_ltm::Expectation;

constexpr int64_t kHeads = 12, kQueries = 512, kBasis = 512, kHeadWidth = 64;
const std::vector<double> kWidths = {0.005, 0.01};
constexpr double kFlops = 2.0 * kHeads * kQueries * kBasis * kHeadWidth;
constexpr double kProductFlops = 2.0 * 1024.0 * 1024.0 * 1024.0;

struct Inputs {
  at::Tensor mu, variance;  // [1,H,T]
  at::Tensor values;        // [1,N,H,d]
  at::Tensor context_grad;  // [1,T,H,d]
};

Inputs random_inputs(const std::string& densities) {
  Inputs in;
  in.mu = torch::rand({1, kHeads, kQueries});
  in.variance = torch::full({1, kHeads, kQueries}, densities == "narrow" ? 1e-4 : 0.69);
  if (densities == "mixed") {
    in.variance = torch::where(torch::rand_like(in.mu) < 0.2, in.variance, 1e-3);
  }
  in.values = torch::randn({1, kBasis, kHeads, kHeadWidth});
  in.context_grad = torch::randn({1, kQueries, kHeads, kHeadWidth});
  return in;
}

// Context and the gradients of mu, variance and values.
using Results = std::array<at::Tensor, 4>;

// The sum by LibTorch's ops under its autograd.
class ByOps {
 public:
  ByOps(const Inputs& in, at::ScalarType dtype)
      : mu_(leaf(in.mu, dtype)),
        variance_(leaf(in.variance, dtype)),
        values_(leaf(in.values, dtype)),
        grad_(in.context_grad.to(dtype)) {
    const int64_t each = static_cast<int64_t>(kWidths.size());
    const at::Tensor centres = torch::linspace(0, 1, kBasis / each, torch::kDouble);
    centres_ = centres.repeat_interleave(each).to(dtype);
    squares_ = torch::tensor(kWidths, torch::kDouble).square().repeat({kBasis / each}).to(dtype);
  }
  at::Tensor forward() const {
    const at::Tensor v = variance_.unsqueeze(-1) + squares_;
    const at::Tensor distance = mu_.unsqueeze(-1) - centres_;
    const at::Tensor r = (distance.square() / v * -0.5).exp() / (v * (2.0 * M_PI)).sqrt();
    return at::matmul(r, values_.permute({0, 2, 1, 3})).permute({0, 2, 1, 3}).contiguous();
  }
  Results step() {
    for (at::Tensor* t : {&mu_, &variance_, &values_}) t->mutable_grad().reset();
    const at::Tensor context = forward();
    context.backward(grad_);
    return {context.detach(), mu_.grad(), variance_.grad(), values_.grad()};
  }

 private:
  static at::Tensor leaf(const at::Tensor& from, at::ScalarType dtype) {
    return from.to(dtype).detach().clone().requires_grad_(true);
  }
  at::Tensor mu_, variance_, values_, grad_, centres_, squares_;
};

// The kernel, called as the host calls it.
class ByKernel {
 public:
  ByKernel(const Inputs& in, double band)
      : kernel_(continuous_ltm::make_grid(kBasis, kWidths, band)),
        inputs_({in.mu, in.variance, in.values}),
        results_{torch::empty_like(in.context_grad), torch::empty_like(in.mu),
                 torch::empty_like(in.variance), torch::empty_like(in.values)},
        input_views_(inputs_),
        output_views_({results_[0]}),
        arriving_views_({in.context_grad}),
        leaving_views_({results_[1], results_[2], results_[3]}) {
    const auto shape = [](const at::Tensor& t) { return Shape(t.sizes().vec()).raw(DType::kF32); };
    std::vector<mneme_shape> shapes;
    for (const at::Tensor& input : inputs_) shapes.push_back(shape(input));
    mneme_shape output;
    mneme_kernel_plan raw = MNEME_INIT(mneme_kernel_plan);
    raw.inputs = shapes.data();
    raw.outputs = &output;
    KernelPlan plan(raw);
    kernel_.infer(plan);
    workspace_ = torch::empty(
        {static_cast<int64_t>(std::max(raw.workspace_bytes, raw.backward_workspace_bytes))},
        torch::kByte);
  }
  const Results& forward() {
    kernel_.forward_cpu(KernelCall(call(), Expectation::kName));
    return results_;
  }
  const Results& step() {
    forward();
    kernel_.backward_cpu(KernelCall(call(), Expectation::kName));
    return results_;
  }

 private:
  const mneme_kernel_call& call() {
    raw_ = MNEME_INIT(mneme_kernel_call);
    raw_.inputs = input_views_.data();
    raw_.outputs = output_views_.data();
    raw_.grad_outputs = arriving_views_.data();
    raw_.grad_inputs = leaving_views_.data();
    raw_.workspace = workspace_.data_ptr();
    raw_.workspace_bytes = static_cast<uint64_t>(workspace_.numel());
    return raw_;
  }

  Expectation kernel_;
  std::vector<at::Tensor> inputs_;
  Results results_;
  memory::Views input_views_, output_views_, arriving_views_, leaving_views_;
  at::Tensor workspace_;
  mneme_kernel_call raw_;
};

bool agrees(const Inputs& in, const Results& got) {
  const Results expected = ByOps(in, torch::kDouble).step();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = ((got[i] - expected[i]).norm() / expected[i].norm()).item<double>();
    if (error <= 1e-5) continue;
    std::printf("result %zu: relative error %g\n", i, error);
    return false;
  }
  return true;
}

struct Seconds {
  std::vector<double> product, ops_forward, ops_step, forward, step, all_forward, all_step;
};

Seconds take_turns(const Inputs& in, ByKernel& banded, ByKernel& all, int rounds) {
  const at::Tensor a = torch::rand({1024, 1024}), b = torch::rand({1024, 1024});
  ByOps ops(in, torch::kFloat);
  Seconds s;
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    if (round == 0) s = {};
    s.product.push_back(seconds_of([&] { static_cast<void>(tensor::dense_matmul(a, b)); }));
    s.ops_forward.push_back(seconds_of([&] {
      const at::NoGradGuard no_grad;
      static_cast<void>(ops.forward());
    }));
    s.forward.push_back(seconds_of([&] { banded.forward(); }));
    s.all_forward.push_back(seconds_of([&] { all.forward(); }));
    s.ops_step.push_back(seconds_of([&] { ops.step(); }));
    s.step.push_back(seconds_of([&] { banded.step(); }));
    s.all_step.push_back(seconds_of([&] { all.step(); }));
  }
  return s;
}

bool measure(const std::string& densities, int rounds) {
  torch::manual_seed(1);
  const Inputs in = random_inputs(densities);
  ByKernel banded(in, continuous_ltm::kBandByPrecision);
  ByKernel all(in, 0.0);
  if (!agrees(in, banded.step()) || !agrees(in, all.step())) return false;
  const Seconds s = take_turns(in, banded, all, rounds);
  const double peak = kProductFlops / median(s.product);
  const auto row = [&](const char* what, double flops, const std::vector<double>& by_ops,
                       const std::vector<double>& by_kernel, const std::vector<double>& by_all) {
    std::printf("%7d %-7s %-17s %8.1f %8.0f %% %8.2f\n", at::get_num_threads(), densities.c_str(),
                what, median(by_ops) / median(by_kernel), 100.0 * flops / median(by_kernel) / peak,
                median(by_all) / median(by_kernel));
  };
  row("forward", kFlops, s.ops_forward, s.forward, s.all_forward);
  row("forward, backward", 3.0 * kFlops, s.ops_step, s.step, s.all_step);
  return true;
}

int run(int rounds) {
  detail::groups.parallel = memory::parallel_api();
  std::printf("%s\n%7s %-7s %-17s %8s %10s %8s\n", tensor::describe(at::kCPU).c_str(), "threads",
              "spread", "", "ratio", "of peak", "all");
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const char* densities : {"wide", "mixed", "narrow"}) {
      if (!measure(densities, rounds)) return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) { return mneme::bench::run(argc > 1 ? std::atoi(argv[1]) : 9); }
