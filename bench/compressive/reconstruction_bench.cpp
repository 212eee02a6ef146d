// The reconstruction kernel alone against the same error by LibTorch's ops, forward, and forward
// with backward to the new keys and values, f32, on one and two threads.
//
// `ops` forms the scores [B,H,T,rows] by batched products and softmax, under autograd for the new
// rows; `fused` takes at::scaled_dot_product_attention for both attentions. Correctness before
// timing: error and gradients agree to 1e-5 with `ops` in double. Then the ways take turns;
// reported are medians of seconds over the rounds, and
//   ratio     an other way's time over the kernel's
//   of peak   the kernel's flops, 4 B H T (E + N) d forward and 6 B H T N d for the derivatives,
//             over its time, as a share of what the host's product of 1024^3 (oneDNN's where
//             LibTorch has it) reached in the same rounds
//
//   reconstruction_bench [rounds]     9
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/measure/rounds.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/kernel_function.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"
#include "plugins/compressive/kernels/reconstruction.hpp"

namespace mneme::bench {
namespace {

using compressive::Reconstruction;

struct Sizes {
  int64_t lanes, queries, heads, head_width, old_rows, new_rows;

  double scale() const { return 1.0 / std::sqrt(static_cast<double>(head_width)); }
  double products(int64_t rows, double count) const {  // flops of `count` products with rows
    return 2.0 * count * static_cast<double>(lanes * heads * queries * rows * head_width);
  }
  double forward_flops() const { return products(old_rows + new_rows, 2.0); }
  double step_flops() const { return forward_flops() + products(new_rows, 3.0); }
};

struct Inputs {
  at::Tensor q, k_old, v_old, k_new, v_new;  // [B,T|E|N,H,d]
};

Inputs random_inputs(const Sizes& s) {
  const auto rows = [&](int64_t count) {
    return torch::randn({s.lanes, count, s.heads, s.head_width});
  };
  return {rows(s.queries), rows(s.old_rows), rows(s.old_rows), rows(s.new_rows), rows(s.new_rows)};
}

// Error [B] and the gradients of the new keys and values.
using Results = std::array<at::Tensor, 3>;

// By LibTorch's ops under its autograd.
class ByOps {
 public:
  ByOps(const Sizes& s, const Inputs& in, at::ScalarType dtype, bool is_fused)
      : scale_(s.scale()), is_fused_(is_fused) {
    const auto convert = [&](const at::Tensor& t) { return t.to(dtype).detach().clone(); };
    in_ = {convert(in.q), convert(in.k_old), convert(in.v_old),
           convert(in.k_new).requires_grad_(true), convert(in.v_new).requires_grad_(true)};
  }
  at::Tensor forward() const {
    const at::Tensor difference = attend(in_.k_new, in_.v_new) - attend(in_.k_old, in_.v_old);
    return difference.square().sum({1, 2, 3});
  }
  Results step() {
    in_.k_new.mutable_grad().reset();
    in_.v_new.mutable_grad().reset();
    const at::Tensor error = forward();
    error.backward(torch::ones_like(error));
    return {error.detach(), in_.k_new.grad(), in_.v_new.grad()};
  }

 private:
  at::Tensor attend(const at::Tensor& k, const at::Tensor& v) const {
    const at::Tensor queries = in_.q.transpose(1, 2);
    if (is_fused_) {
      return at::scaled_dot_product_attention(queries, k.transpose(1, 2), v.transpose(1, 2), {},
                                              0.0, false, scale_);
    }
    const at::Tensor scores = at::matmul(queries * scale_, k.permute({0, 2, 3, 1}));
    return at::matmul(scores.softmax(-1), v.transpose(1, 2));
  }
  double scale_;
  bool is_fused_;
  Inputs in_;
};

// The kernel, called as the host calls it.
class ByKernel {
 public:
  ByKernel(const Sizes& s, const Inputs& in, bool wants_gradient)
      : wants_gradient_(wants_gradient ? 1 : 0),
        scale_(s.scale()),
        inputs_({in.q, in.k_old, in.v_old, in.k_new, in.v_new, counts_of(s)}),
        error_(torch::empty({s.lanes})),
        saved_({torch::empty_like(in.k_new), torch::empty_like(in.v_new)}),
        grads_({torch::empty_like(in.k_new), torch::empty_like(in.v_new)}),
        arriving_(torch::ones({s.lanes})),
        input_views_(inputs_),
        output_views_({error_}),
        saved_views_(saved_),
        arriving_views_({arriving_}),
        leaving_views_({}) {
    for (const at::Tensor& input : inputs_) {
      shapes_.push_back(Shape(input.sizes().vec())
                            .raw(input.scalar_type() == at::kLong ? DType::kI64 : DType::kF32));
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      leaving_views_.add_or_absent(i == 3 || i == 4 ? grads_[i - 3] : at::Tensor(), inputs_[i]);
    }
    workspace_ = torch::empty({workspace_bytes()}, torch::kByte);
  }
  Results forward() {
    kernel_.forward_cpu(KernelCall(call(), Reconstruction::kName));
    return {error_, grads_[0], grads_[1]};
  }
  Results step() {
    forward();
    kernel_.backward_cpu(KernelCall(call(), Reconstruction::kName));
    return {error_, grads_[0], grads_[1]};
  }

 private:
  static at::Tensor counts_of(const Sizes& s) {
    return torch::tensor({s.old_rows, s.new_rows}, torch::kLong).repeat({s.lanes, 1});
  }
  int64_t workspace_bytes() {
    std::array<mneme_shape, 3> answers;
    mneme_kernel_plan raw = MNEME_INIT(mneme_kernel_plan);
    raw.inputs = shapes_.data();
    raw.outputs = answers.data();
    raw.saved = answers.data() + 1;
    raw.integers = &wants_gradient_;
    raw.n_integers = 1;
    raw.reals = &scale_;
    raw.n_reals = 1;
    KernelPlan plan(raw);
    kernel_.infer(plan);
    return static_cast<int64_t>(raw.workspace_bytes);
  }
  const mneme_kernel_call& call() {
    raw_ = MNEME_INIT(mneme_kernel_call);
    raw_.inputs = input_views_.data();
    raw_.outputs = output_views_.data();
    raw_.saved = saved_views_.data();
    raw_.grad_outputs = arriving_views_.data();
    raw_.grad_inputs = leaving_views_.data();
    raw_.integers = &wants_gradient_;
    raw_.n_integers = 1;
    raw_.reals = &scale_;
    raw_.n_reals = 1;
    raw_.workspace = workspace_.data_ptr();
    raw_.workspace_bytes = static_cast<uint64_t>(workspace_.numel());
    return raw_;
  }

  Reconstruction kernel_;
  int64_t wants_gradient_;
  double scale_;
  std::vector<at::Tensor> inputs_;
  at::Tensor error_;
  std::vector<at::Tensor> saved_, grads_;
  at::Tensor arriving_;
  memory::Views input_views_, output_views_, saved_views_, arriving_views_, leaving_views_;
  std::vector<mneme_shape> shapes_;
  at::Tensor workspace_;
  mneme_kernel_call raw_;
};

bool agrees(const Sizes& s, const Inputs& in, const Results& got) {
  const Results expected = ByOps(s, in, torch::kDouble, false).step();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = ((got[i] - expected[i]).norm() / expected[i].norm()).item<double>();
    if (error <= 1e-5) continue;
    std::printf("result %zu: relative error %g\n", i, error);
    return false;
  }
  return true;
}

// Seconds of [ops, fused, kernel].
struct Seconds {
  std::vector<double> product;
  std::array<std::vector<double>, 3> forward, step;
};

Seconds take_turns(const Sizes& s, const Inputs& in, int rounds) {
  const at::Tensor a = torch::rand({1024, 1024}), b = torch::rand({1024, 1024});
  ByOps ops(s, in, torch::kFloat, false);
  ByOps fused(s, in, torch::kFloat, true);
  ByKernel forward(s, in, false);
  ByKernel step(s, in, true);
  const auto without_gradient = [](const ByOps& way) {
    const at::NoGradGuard no_grad;
    static_cast<void>(way.forward());
  };
  Seconds out;
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    if (round == 0) out = {};
    out.product.push_back(seconds_of([&] { static_cast<void>(tensor::dense_matmul(a, b)); }));
    out.forward[0].push_back(seconds_of([&] { without_gradient(ops); }));
    out.forward[1].push_back(seconds_of([&] { without_gradient(fused); }));
    out.forward[2].push_back(seconds_of([&] { forward.forward(); }));
    out.step[0].push_back(seconds_of([&] { ops.step(); }));
    out.step[1].push_back(seconds_of([&] { fused.step(); }));
    out.step[2].push_back(seconds_of([&] { step.step(); }));
  }
  return out;
}

bool measure(const Sizes& s, int rounds) {
  torch::manual_seed(1);
  const Inputs in = random_inputs(s);
  if (!agrees(s, in, ByKernel(s, in, true).step())) return false;
  const Seconds seconds = take_turns(s, in, rounds);
  const double peak = 2.0 * 1024.0 * 1024.0 * 1024.0 / median(seconds.product);
  const auto row = [&](const char* what, double flops,
                       const std::array<std::vector<double>, 3>& of) {
    const double kernel = median(of[2]);
    std::printf(
        "%7d B=%-3ld T=%-4ld E=%-4ld N=%-4ld H=%-3ld d=%-3ld %-17s %8.2f "
        "%8.2f %8.0f %%\n",
        at::get_num_threads(), s.lanes, s.queries, s.old_rows, s.new_rows, s.heads, s.head_width,
        what, median(of[0]) / kernel, median(of[1]) / kernel, 100.0 * flops / kernel / peak);
  };
  row("forward", s.forward_flops(), seconds.forward);
  row("forward, backward", s.step_flops(), seconds.step);
  return true;
}

int run(int rounds) {
  detail::groups.parallel = memory::parallel_api();
  std::printf("%s\n%7s %-39s %-17s %8s %8s %10s\n", tensor::describe(at::kCPU).c_str(), "threads",
              "", "", "ratio", "fused", "of peak");
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const Sizes& s : {Sizes{2, 512, 8, 64, 512, 128}, Sizes{4, 512, 12, 64, 512, 128},
                           Sizes{16, 130, 4, 32, 130, 32}, Sizes{3, 100, 3, 41, 75, 25}}) {
      if (!measure(s, rounds)) return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) { return mneme::bench::run(argc > 1 ? std::atoi(argv[1]) : 9); }
