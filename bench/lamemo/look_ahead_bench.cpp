// The look-ahead kernel alone against the same mathematics by LibTorch's ops, forward, and forward
// with backward to all its differentiable inputs, f32, on one and two threads.
//
// `ops` is the two-pass form [LaMemo, eq. 7 to 11] without avoidable costs: position terms of all
// offsets [M,R] by one product, of which a strided view, not a copy, is the band; mask,
// log-sum-exp, softmax and interpolation as tensors, under autograd. Correctness before timing:
// results and gradients agree to 1e-5 with `ops` in double. Then the ways take turns; reported are
// medians of seconds over the rounds, and
//   ratio      median over the rounds of the ops' time over the kernel's
//   of peak    the flops of the pairs of a query and a key that it attends, 6 d each forward and 12
//              d more for the derivatives (scores that are recomputed do not count), over each
//              way's time, as a share of what the host's product of 1024^3 reached in the same
//              rounds
//   workspace  of the kernel's backward pass, against one [B,H,M,R] of the ops
//
// At last the peak of allocated memory at the sizes of enwik8's evaluation (80/2100, one lane): the
// released algorithm (official.hpp) against all that the kernel is given beyond its inputs:
// results, gradients that arrive and leave, both workspaces.
//
//   look_ahead_bench [rounds]     9
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "bench/lamemo/official.hpp"
#include "bench/measure/allocations.hpp"
#include "bench/measure/rounds.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/kernel_function.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"
#include "plugins/lamemo/kernels/look_ahead.hpp"

namespace mneme::bench {
namespace {

using lamemo::LookAhead;

struct LookAheadSizes {
  int64_t lanes, queries, keys, heads, head_width;

  int64_t first() const { return queries - keys + 1; }  // the last key is the first token
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(head_width)); }
  double pairs() const {  // of all lanes and heads
    double sum = 0.0;
    for (int64_t i = 0; i < queries; ++i) {
      sum += static_cast<double>(std::min(keys, queries - i));
    }
    return sum * static_cast<double>(lanes * heads);
  }
  double forward_flops() const { return 6.0 * pairs() * static_cast<double>(head_width); }
};

// q, k, v, table, content_bias, position_bias, valid, lse, context.
std::vector<at::Tensor> random_inputs(const LookAheadSizes& s) {
  const auto rows = [&](int64_t count) {
    return torch::randn({s.lanes, count, s.heads, s.head_width});
  };
  return {rows(s.queries),
          rows(s.keys),
          rows(s.keys),
          torch::randn({s.heads, s.queries, s.head_width}),
          torch::randn({s.heads, s.head_width}),
          torch::randn({s.heads, s.head_width}),
          torch::ones({s.lanes, s.keys}, torch::kBool),
          torch::randn({s.lanes, s.queries, s.heads}) + 3.0,
          rows(s.queries)};
}

// context, lse, and the gradients of inputs 0 to 5.
using Results = std::vector<at::Tensor>;

// By LibTorch's ops under its autograd; gradients of ones arrive for both results.
class ByOps {
 public:
  ByOps(const LookAheadSizes& s, const std::vector<at::Tensor>& in, at::ScalarType dtype) : s_(s) {
    for (const at::Tensor& input : in) {
      const bool is_mask = input.scalar_type() == at::kBool;
      in_.push_back(is_mask ? input : input.to(dtype).detach().clone());
    }
    for (std::size_t i = 0; i < 6; ++i) in_[i].requires_grad_(true);
    const at::Tensor place = at::arange(s.keys).view({1, -1}) + s.first();
    is_behind_ = place <= at::arange(s.queries).view({-1, 1});
  }
  Results forward() const {
    const at::Tensor content =
        at::matmul((in_[0] + in_[4]).transpose(1, 2), in_[1].permute({0, 2, 3, 1}));
    const at::Tensor terms =
        at::matmul((in_[0] + in_[5]).transpose(1, 2), in_[3].transpose(1, 2));  // [B,H,M,R], R = M
    const int64_t r = terms.size(3);
    const at::Tensor band = terms.contiguous().as_strided(
        content.sizes(), {s_.heads * s_.queries * r, s_.queries * r, r - 1, 1}, s_.first() - 1);
    const at::Tensor scores =
        ((content + band) * s_.scale())
            .masked_fill(is_behind_, -std::numeric_limits<double>::infinity());
    const at::Tensor lse = in_[7].transpose(1, 2);
    const at::Tensor ahead_lse = scores.logsumexp(-1);
    const at::Tensor ahead = at::matmul(scores.softmax(-1), in_[2].transpose(1, 2)).transpose(1, 2);
    const at::Tensor alpha = (lse - ahead_lse).sigmoid().transpose(1, 2).unsqueeze(-1);
    return {alpha * in_[8] + (1.0 - alpha) * ahead, at::logaddexp(lse, ahead_lse).transpose(1, 2)};
  }
  Results step() {
    for (std::size_t i = 0; i < 6; ++i) in_[i].mutable_grad().reset();
    Results out = forward();
    torch::autograd::backward({out[0], out[1]},
                              {torch::ones_like(out[0]), torch::ones_like(out[1])});
    for (std::size_t i = 0; i < 6; ++i) out.push_back(in_[i].grad());
    return out;
  }

 private:
  LookAheadSizes s_;
  std::vector<at::Tensor> in_;
  at::Tensor is_behind_;
};

// The kernel, called as the host calls it.
class ByKernel {
 public:
  ByKernel(const LookAheadSizes& s, const std::vector<at::Tensor>& in)
      : integers_({s.first(), 1}),
        scale_(s.scale()),
        inputs_(in),
        outputs_({torch::empty_like(in[8]), torch::empty_like(in[7])}),
        arriving_({torch::ones_like(in[8]), torch::ones_like(in[7])}),
        input_views_(inputs_),
        output_views_(outputs_),
        arriving_views_(arriving_),
        leaving_views_({}) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      shapes_.push_back(Shape(inputs_[i].sizes().vec()).raw(i == 6 ? DType::kBool : DType::kF32));
      if (i < 6) grads_.push_back(torch::empty_like(inputs_[i]));
      leaving_views_.add_or_absent(i < 6 ? grads_.back() : at::Tensor(), inputs_[i]);
    }
    std::array<mneme_shape, 2> answers;
    mneme_kernel_plan raw = MNEME_INIT(mneme_kernel_plan);
    raw.inputs = shapes_.data();
    raw.outputs = answers.data();
    raw.integers = integers_.data();
    raw.n_integers = 2;
    raw.reals = &scale_;
    raw.n_reals = 1;
    KernelPlan plan(raw);
    kernel_.infer(plan);
    const auto bytes = [](uint64_t count) {
      return torch::empty({static_cast<int64_t>(count)}, torch::kByte);
    };
    workspace_ = bytes(raw.workspace_bytes);
    backward_workspace_ = bytes(raw.backward_workspace_bytes);
  }
  void forward() { kernel_.forward_cpu(KernelCall(call(workspace_), LookAhead::kName)); }
  Results step() {
    forward();
    kernel_.backward_cpu(KernelCall(call(backward_workspace_), LookAhead::kName));
    Results out = outputs_;
    out.insert(out.end(), grads_.begin(), grads_.end());
    return out;
  }
  double workspace_mib() const { return static_cast<double>(backward_workspace_.numel()) / 0x1p20; }

 private:
  const mneme_kernel_call& call(const at::Tensor& workspace) {
    raw_ = MNEME_INIT(mneme_kernel_call);
    raw_.inputs = input_views_.data();
    raw_.outputs = output_views_.data();
    raw_.grad_outputs = arriving_views_.data();
    raw_.grad_inputs = leaving_views_.data();
    raw_.integers = integers_.data();
    raw_.n_integers = 2;
    raw_.reals = &scale_;
    raw_.n_reals = 1;
    raw_.workspace = workspace.data_ptr();
    raw_.workspace_bytes = static_cast<uint64_t>(workspace.numel());
    return raw_;
  }

  LookAhead kernel_;
  std::array<int64_t, 2> integers_;
  double scale_;
  std::vector<at::Tensor> inputs_, outputs_, arriving_, grads_;
  memory::Views input_views_, output_views_, arriving_views_, leaving_views_;
  std::vector<mneme_shape> shapes_;
  at::Tensor workspace_, backward_workspace_;
  mneme_kernel_call raw_;
};

bool agrees(const LookAheadSizes& s, const std::vector<at::Tensor>& in, const Results& got) {
  const Results expected = ByOps(s, in, torch::kDouble).step();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = ((got[i] - expected[i]).norm() / expected[i].norm()).item<double>();
    if (error <= 1e-5) continue;
    std::printf("result %zu: relative error %g\n", i, error);
    return false;
  }
  return true;
}

// Seconds of [ops, kernel].
struct Seconds {
  std::vector<double> product;
  std::array<std::vector<double>, 2> forward, step;
};

Seconds take_turns(const LookAheadSizes& s, const std::vector<at::Tensor>& in, int rounds) {
  const at::Tensor a = torch::rand({1024, 1024}), b = torch::rand({1024, 1024});
  ByOps ops(s, in, torch::kFloat);
  ByKernel kernel(s, in);
  Seconds out;
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    if (round == 0) out = {};
    out.product.push_back(seconds_of([&] { static_cast<void>(tensor::dense_matmul(a, b)); }));
    out.forward[0].push_back(seconds_of([&] {
      const at::NoGradGuard no_grad;
      static_cast<void>(ops.forward());
    }));
    out.forward[1].push_back(seconds_of([&] { kernel.forward(); }));
    out.step[0].push_back(seconds_of([&] { ops.step(); }));
    out.step[1].push_back(seconds_of([&] { kernel.step(); }));
  }
  return out;
}

bool measure(const LookAheadSizes& s, int rounds) {
  torch::manual_seed(1);
  const std::vector<at::Tensor> in = random_inputs(s);
  ByKernel kernel(s, in);
  if (!agrees(s, in, kernel.step())) return false;
  const Seconds seconds = take_turns(s, in, rounds);
  const double peak = 2.0 * 1024.0 * 1024.0 * 1024.0 / median(seconds.product);
  const double terms_mib =
      4.0 * static_cast<double>(s.lanes * s.heads * s.queries * s.queries) / 0x1p20;
  const auto row = [&](const char* what, double flops,
                       const std::array<std::vector<double>, 2>& of) {
    const auto share = [&](int way) { return 100.0 * flops / median(of[way]) / peak; };
    std::printf(
        "%7d B=%-2ld M=%-5ld W=%-4ld H=%-3ld d=%-3ld %-17s %8.2f %7.0f %% %7.0f %% %8.1f %8.1f\n",
        at::get_num_threads(), s.lanes, s.queries, s.keys, s.heads, s.head_width, what,
        median_ratio(of[0], of[1]), share(0), share(1), kernel.workspace_mib(), terms_mib);
  };
  row("forward", s.forward_flops(), seconds.forward);
  row("forward, backward", 3.0 * s.forward_flops(), seconds.step);
  return true;
}

double peak_mib(const auto& body) {
  const int64_t before = held_bytes();
  restart_peak();
  body();
  return static_cast<double>(peak_bytes() - before) / 0x1p20;
}

void measure_memory() {
  constexpr int64_t kRows = 2100, kSegment = 80, kHeads = 8, kWidth = 64;
  const auto leaf = [](at::IntArrayRef shape) {
    return torch::randn(shape).set_requires_grad(true);
  };
  const StackSizes sizes{0, kHeads * kWidth, kHeads, kWidth, 0, 1, kSegment, kRows};
  const at::Tensor bias = leaf({kHeads, kWidth});
  const OfficialLaMemo official(sizes, {}, bias, bias, bias);
  const at::Tensor q = leaf({kRows, 1, kHeads, kWidth}), k = leaf({kRows + 1, 1, kHeads, kWidth});
  const at::Tensor positions = leaf({kRows + kSegment + 1, kHeads, kWidth});
  const OfficialLaMemo::Attended carried{torch::randn({kRows, 1, kHeads, kWidth}),
                                         torch::randn({kRows, 1, kHeads})};
  const double forward = peak_mib([&] {
    const at::NoGradGuard no_grad;
    static_cast<void>(official.look_ahead(q, k, k, positions, carried));
  });
  const double step =
      peak_mib([&] { official.look_ahead(q, k, k, positions, carried).context.sum().backward(); });
  const LookAheadSizes s{1, kRows, kSegment, kHeads, kWidth};
  const std::vector<at::Tensor> in = random_inputs(s);
  const double ours = peak_mib([&] { static_cast<void>(ByKernel(s, in).step()); });
  std::printf(
      "peak of allocated memory, B=1 M=%ld W=%ld: official forward %.0f MiB, with backward "
      "%.0f; kernel, both %.0f: %.1f and %.1f times\n",
      kRows, kSegment, forward, step, ours, forward / ours, step / ours);
}

int run(int rounds) {
  count_allocations();
  detail::groups.parallel = memory::parallel_api();
  std::printf("%s\n%7s %-33s %-17s %8s %9s %9s %8s %8s\n", tensor::describe(at::kCPU).c_str(),
              "threads", "", "", "ratio", "ops", "kernel", "MiB", "of [M,R]");
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const LookAheadSizes& s :
         {LookAheadSizes{8, 150, 150, 10, 41}, LookAheadSizes{4, 640, 64, 10, 41},
          LookAheadSizes{2, 2100, 80, 8, 64}}) {
      if (!measure(s, rounds)) return 1;
    }
  }
  measure_memory();
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) { return mneme::bench::run(argc > 1 ? std::atoi(argv[1]) : 9); }
