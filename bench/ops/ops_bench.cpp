// What an op costs over the same LibTorch call written directly, at sizes where nothing else
// counts. Both run alternately in one loop; the counters are nanoseconds a call.
#include <benchmark/benchmark.h>

#include <chrono>

#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

using Clock = std::chrono::steady_clock;

mneme_attr integer(const char* name, int64_t value) {
  mneme_attr attr = {};
  attr.name = name;
  attr.type = MNEME_ATTR_INT;
  attr.integer = value;
  return attr;
}

// direct: at::Tensor(); the same result as the op.
template <typename Direct>
void compare(benchmark::State& state, const char* name, std::span<const at::Tensor> inputs,
             std::span<const mneme_attr> attrs, const Direct& direct) {
  constexpr int kCalls = 2000;
  const mneme_op op = ops::find_op(name);
  at::Tensor out;
  ops::run_op(op, inputs, attrs, at::kCPU, {&out, 1});
  if (!out.equal(direct())) {
    state.SkipWithError("the op and the direct call disagree");
    return;
  }
  double direct_ns = 0.0;
  double op_ns = 0.0;
  for (auto _ : state) {
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) benchmark::DoNotOptimize(direct());
    const auto middle = Clock::now();
    for (int i = 0; i < kCalls; ++i) {
      ops::run_op(op, inputs, attrs, at::kCPU, {&out, 1});
      benchmark::DoNotOptimize(out);
    }
    const auto end = Clock::now();
    direct_ns += std::chrono::duration<double, std::nano>(middle - start).count();
    op_ns += std::chrono::duration<double, std::nano>(end - middle).count();
  }
  const double calls = static_cast<double>(state.iterations()) * kCalls;
  state.counters["direct_ns"] = direct_ns / calls;
  state.counters["op_ns"] = op_ns / calls;
  state.counters["over_ns"] = (op_ns - direct_ns) / calls;
  state.counters["ratio"] = op_ns / direct_ns;
}

void tiny_add(benchmark::State& state) {
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> inputs = {torch::ones({4}), torch::ones({4})};
  compare(state, "add/1", inputs, {}, [&] { return at::add(inputs[0], inputs[1]); });
}
BENCHMARK(tiny_add);

void tiny_add_with_gradient(benchmark::State& state) {
  const std::vector<at::Tensor> inputs = {torch::ones({4}).requires_grad_(true), torch::ones({4})};
  compare(state, "add/1", inputs, {}, [&] { return at::add(inputs[0], inputs[1]); });
}
BENCHMARK(tiny_add_with_gradient);

void tiny_slice_with_three_attributes(benchmark::State& state) {
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> inputs = {torch::ones({4, 8})};
  const mneme_attr attrs[] = {integer("dim", 1), integer("start", 2), integer("end", 6)};
  compare(state, "slice/1", inputs, attrs, [&] { return at::slice(inputs[0], 1, 2, 6); });
}
BENCHMARK(tiny_slice_with_three_attributes);

void tiny_matmul(benchmark::State& state) {
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> inputs = {torch::ones({4, 4}), torch::ones({4, 4})};
  compare(state, "matmul/1", inputs, {}, [&] { return at::matmul(inputs[0], inputs[1]); });
}
BENCHMARK(tiny_matmul);

// A row of -inf is defined here and NaN in LibTorch: this shows what that costs.
void tiny_softmax(benchmark::State& state) {
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> inputs = {torch::ones({4, 4})};
  compare(state, "softmax/1", inputs, {}, [&] { return at::softmax(inputs[0], -1); });
}
BENCHMARK(tiny_softmax);

}  // namespace
}  // namespace mneme::memory
