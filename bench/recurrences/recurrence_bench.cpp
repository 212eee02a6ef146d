// The recurrence's kernel against its own products as plain GEMMs, f32, on one and two threads:
// forward, and forward with backward to all inputs.
//
// `GEMMs` are the products of all chunks, heads and lanes in one batch each, by LibTorch: of the
// same shapes, whole where the kernel leaves out a triangle of zeros, and without the reading,
// scaling and turning of rows around them. Correctness before timing: results agree to 1e-4 with
// the recurrence in double by LibTorch, token by token. Then the ways take turns; reported are the
// medians of seconds over the rounds, and
//   share      median over the rounds of the GEMMs' time over the kernel's
//   Gflop/s    the products' operations over the kernel's time
//
//   recurrence_bench [rounds]     9
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/measure/rounds.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/kernel_function.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"
#include "plugins/recurrences/kernels/recurrence.hpp"

namespace mneme::bench {
namespace {

using recurrences::Recurrence;

constexpr int64_t kChunk = 64;

struct RecurrenceSizes {
  const char* name;
  int64_t lanes, length, heads, keys, values;
  bool is_by_channel, is_delta;
};

// q, k, v, decay, state and, under the delta rule, beta.
std::vector<at::Tensor> random_inputs(const RecurrenceSizes& s) {
  const auto rows = [&](int64_t width) {
    return torch::randn({s.lanes, s.length, s.heads, width});
  };
  const at::Tensor k = rows(s.keys);
  std::vector<at::Tensor> in = {
      rows(s.keys), k / k.norm(2, -1, true), rows(s.values),
      s.is_by_channel ? -0.1 * rows(s.keys).abs() : -0.1 * rows(1).abs().squeeze(-1),
      torch::randn({s.lanes, s.heads, s.keys, s.values})};
  if (s.is_delta) in.push_back(rows(1).sigmoid().squeeze(-1));
  return in;
}

// The definition in double: out.
at::Tensor by_definition(const RecurrenceSizes& s, const std::vector<at::Tensor>& given) {
  std::vector<at::Tensor> in;
  for (const at::Tensor& input : given) in.push_back(input.to(at::kDouble));
  at::Tensor state = in[4];
  std::vector<at::Tensor> out;
  for (int64_t t = 0; t < s.length; ++t) {
    const auto token = [&](const at::Tensor& x) { return x.select(1, t).unsqueeze(-1); };
    const at::Tensor k = token(in[1]), decay = token(in[3]).exp();
    state = state * (s.is_by_channel ? decay : decay.unsqueeze(-1));
    at::Tensor u = in[2].select(1, t).unsqueeze(-2);
    if (s.is_delta) u = (u - (k * state).sum(-2, true)) * token(in[5]).unsqueeze(-1);
    state = state + k * u;
    out.push_back((token(in[0]) * state).sum(-2));
  }
  return at::stack(out, 1);
}

// The kernel, called as the host calls it.
class ByKernel {
 public:
  explicit ByKernel(const std::vector<at::Tensor>& in)
      : inputs_(in),
        outputs_({torch::empty_like(in[2]), torch::empty_like(in[4])}),
        arriving_({torch::ones_like(in[2]), torch::ones_like(in[4])}),
        input_views_(in),
        output_views_(outputs_),
        arriving_views_(arriving_),
        saved_views_({}),
        leaving_views_({}) {
    for (const at::Tensor& input : in) {
      shapes_.push_back(Shape(input.sizes().vec()).raw(DType::kF32));
      grads_.push_back(torch::empty_like(input));
      leaving_views_.add_or_absent(grads_.back(), input);
    }
    shapes_.resize(Recurrence::kInputs);
    std::array<mneme_shape, 2> answers;
    std::array<mneme_shape, 1> saved;
    mneme_kernel_plan raw = MNEME_INIT(mneme_kernel_plan);
    raw.inputs = shapes_.data();
    raw.outputs = answers.data();
    raw.saved = saved.data();
    raw.integers = &kChunk;
    raw.n_integers = 1;
    KernelPlan plan(raw);
    kernel_.infer(plan);
    saved_ = torch::empty(at::IntArrayRef(saved[0].dims, saved[0].rank));
    saved_views_.add_or_absent(saved_, saved_);
    const auto bytes = [](uint64_t count) {
      return torch::empty({static_cast<int64_t>(count)}, torch::kByte);
    };
    workspace_ = bytes(raw.workspace_bytes);
    backward_workspace_ = bytes(raw.backward_workspace_bytes);
    inputs_of_call_.assign(input_views_.data(), input_views_.data() + in.size());
    inputs_of_call_.resize(Recurrence::kInputs);
    leaving_.assign(leaving_views_.data(), leaving_views_.data() + in.size());
    leaving_.resize(Recurrence::kInputs);
  }
  const at::Tensor& forward() {
    kernel_.forward_cpu(KernelCall(call(workspace_), Recurrence::kName));
    return outputs_[0];
  }
  void step() {
    forward();
    kernel_.backward_cpu(KernelCall(call(backward_workspace_), Recurrence::kName));
  }

 private:
  const mneme_kernel_call& call(const at::Tensor& workspace) {
    raw_ = MNEME_INIT(mneme_kernel_call);
    raw_.inputs = inputs_of_call_.data();
    raw_.outputs = output_views_.data();
    raw_.saved = saved_views_.data();
    raw_.grad_outputs = arriving_views_.data();
    raw_.grad_inputs = leaving_.data();
    raw_.integers = &kChunk;
    raw_.n_integers = 1;
    raw_.workspace = workspace.data_ptr();
    raw_.workspace_bytes = static_cast<uint64_t>(workspace.numel());
    return raw_;
  }

  Recurrence kernel_;
  std::vector<at::Tensor> inputs_, outputs_, arriving_, grads_;
  at::Tensor saved_, workspace_, backward_workspace_;
  memory::Views input_views_, output_views_, arriving_views_, saved_views_, leaving_views_;
  std::vector<mneme_view> inputs_of_call_, leaving_;
  std::vector<mneme_shape> shapes_;
  mneme_kernel_call raw_;
};

// One shape of product, [rows,inner] by [inner,columns], and how many of a chunk have it.
struct GemmShape {
  int64_t rows, inner, columns;
  int forward, backward;
};

class ByGemms {
 public:
  explicit ByGemms(const RecurrenceSizes& s) {
    const int64_t c = kChunk, k = s.keys, v = s.values;
    const int more = s.is_delta ? 1 : 0;
    batch_ = s.lanes * s.heads * (s.length / kChunk);
    // Scores; states to results; scores times U; keys times U. Backward makes scores and U again.
    // A decay by channel adds no product: scores are those of blocks of rows, scaled in between.
    shapes_ = {{c, k, c, 1 + more, 1 + more},
               {c, k, v, 1 + more, 1 + more},
               {c, c, v, 1 + more, 1 + 2 * more},
               {k, c, v, 1, 1 + more},
               {c, v, c, 0, 1 + more},
               {c, v, k, 0, 2 + more},
               {c, c, k, 0, 2 + 2 * more}};
    for (const GemmShape& g : shapes_) {
      a_.push_back(torch::rand({batch_, g.rows, g.inner}));
      b_.push_back(torch::rand({batch_, g.inner, g.columns}));
      out_.push_back(torch::empty({batch_, g.rows, g.columns}));
    }
  }
  void forward() {
    for (std::size_t i = 0; i < shapes_.size(); ++i) repeat(i, shapes_[i].forward);
  }
  void step() {
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      repeat(i, shapes_[i].forward + shapes_[i].backward);
    }
  }
  double flops(bool has_backward) const {
    double sum = 0.0;
    for (const GemmShape& g : shapes_) {
      const int count = g.forward + (has_backward ? g.backward : 0);
      sum += 2.0 * static_cast<double>(batch_ * g.rows * g.inner * g.columns * count);
    }
    return sum;
  }

 private:
  void repeat(std::size_t i, int times) {
    for (int n = 0; n < times; ++n) at::bmm_out(out_[i], a_[i], b_[i]);
  }

  int64_t batch_ = 0;
  std::vector<GemmShape> shapes_;
  std::vector<at::Tensor> a_, b_, out_;
};

bool measure(const RecurrenceSizes& s, int rounds) {
  torch::manual_seed(1);
  const std::vector<at::Tensor> in = random_inputs(s);
  ByKernel kernel(in);
  const at::Tensor expected = by_definition(s, in);
  const double error = ((kernel.forward() - expected).norm() / expected.norm()).item<double>();
  if (!(error <= 1e-4)) {
    std::printf("%s: relative error %g\n", s.name, error);
    return false;
  }
  ByGemms gemms(s);
  for (const bool has_backward : {false, true}) {
    std::vector<double> ours, theirs;
    for (int round = -1; round < rounds; ++round) {  // the first one warms up
      if (round == 0) ours = theirs = {};
      ours.push_back(seconds_of([&] { has_backward ? kernel.step() : void(kernel.forward()); }));
      theirs.push_back(seconds_of([&] { has_backward ? gemms.step() : gemms.forward(); }));
    }
    std::printf("%7d %-16s B=%ld T=%-4ld H=%-2ld K=%-3ld V=%-3ld %-18s %8.2f ms %7.1f %7.0f %%\n",
                at::get_num_threads(), s.name, s.lanes, s.length, s.heads, s.keys, s.values,
                has_backward ? "forward, backward" : "forward", 1e3 * median(ours),
                gemms.flops(has_backward) / median(ours) / 1e9, 100.0 * median_ratio(theirs, ours));
    std::fflush(stdout);
  }
  return true;
}

int run(int rounds) {
  const at::NoGradGuard no_grad;
  detail::groups.parallel = memory::parallel_api();
  std::printf("%s; chunks of %ld; medians of %d rounds\n%7s %-65s %11s %7s %9s\n",
              tensor::describe(at::kCPU).c_str(), kChunk, rounds, "threads", "", "", "Gflop/s",
              "share");
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const RecurrenceSizes& s : {RecurrenceSizes{"gla", 4, 512, 8, 32, 64, true, false},
                                     {"gla", 4, 512, 4, 128, 128, true, false},
                                     {"mamba2", 4, 512, 8, 64, 128, false, false},
                                     {"gated_deltanet", 4, 512, 8, 48, 96, false, true},
                                     {"gated_deltanet", 4, 512, 4, 128, 128, false, true},
                                     {"kda", 4, 512, 8, 64, 64, true, true}}) {
      if (!measure(s, rounds)) return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) { return mneme::bench::run(argc > 1 ? std::atoi(argv[1]) : 9); }
