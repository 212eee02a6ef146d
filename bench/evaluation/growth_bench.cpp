// How the cost of a step grows with the memory's rows, the segment, the layers, the lanes and the
// vocabulary: a Transformer-XL with its cache, one quantity at a time, doubled three times. Printed
// is the exponent p of cost ~ quantity^p, a least-squares line through the logarithms, of the time
// (in units of a product of 1024^3 that takes turns with it) and of the operations that the program
// counts (run/cost/flops.hpp). A time that grows faster than its operations does work that they do
// not count.
//   growth_bench [rounds]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "bench/evaluation/layer_stack.hpp"
#include "bench/measure/peak.hpp"
#include "bench/measure/rounds.hpp"
#include "host/backbone/embedding/embedding.hpp"
#include "host/backbone/embedding/softmax.hpp"
#include "host/backbone/parameters.hpp"
#include "host/run/cost/flops.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr int kDoublings = 3;

// Slope of log(y) over log(1, 2, 4, ...).
double exponent(const std::vector<double>& y) {
  double sum_x = 0.0, sum_y = 0.0, sum_xx = 0.0, sum_xy = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double a = static_cast<double>(i), b = std::log2(y[i]);
    sum_x += a;
    sum_y += b;
    sum_xx += a * a;
    sum_xy += a * b;
  }
  const auto n = static_cast<double>(y.size());
  return (n * sum_xy - sum_x * sum_y) / (n * sum_xx - sum_x * sum_x);
}

struct Cost {
  double time = 0.0;        // of a segment, over that of the product
  double operations = 0.0;  // of a segment
};

// `once` is what takes the time; the stack is made ready before.
double relative_time(const std::function<void()>& once, int rounds) {
  const Product product;
  std::vector<double> ours, unit;
  once();
  for (int round = 0; round < rounds; ++round) {
    unit.push_back(product.seconds());
    ours.push_back(seconds_of(once));
  }
  return median_ratio(ours, unit);
}

Cost cost_of(const StackSizes& s, int rounds) {
  LayerStack stack(s);
  const run::FlopsPerToken counted = run::count_flops(stack.runtime());
  // The output layer's 256 words hardly count.
  const double per_token = s.trains ? counted.training : counted.evaluation;
  return {relative_time([&] { stack.step(); }, rounds),
          per_token * static_cast<double>(s.lanes * s.segment)};
}

// A softmax over so many words for 512 tokens of width 410: forward, in training backward too.
Cost softmax_cost(int64_t words, bool trains, int rounds) {
  config::ModelConfig config;
  config.width = config.embedding = 410;
  backbone::ParameterStore store(1, at::kFloat, at::kCPU);
  const backbone::InitScheme init;
  const backbone::ClusterPlan plan = backbone::plan_clusters(config, words);
  const backbone::Embedding embedding(config, plan, init, store);
  const backbone::Softmax softmax(config, plan, embedding, init, store);
  const at::Tensor top = at::randn({512, 410}).requires_grad_(trains);
  const at::Tensor targets = at::randint(words, {512}, at::kLong);
  const auto once = [&] {
    const at::AutoGradMode grad(trains);
    const at::Tensor nll = softmax.forward(top, targets, false, at::kFloat).nll;
    if (!trains) return;
    nll.sum().backward();
    for (const backbone::Parameter& p : store.all()) {
      at::Tensor tensor = p.tensor;
      tensor.mutable_grad().reset();
    }
  };
  const double passes = trains ? 3.0 : 1.0;
  return {relative_time(once, rounds), passes * 2.0 * 512.0 * 410.0 * static_cast<double>(words)};
}

void print(const char* what, bool trains, const std::vector<Cost>& costs) {
  std::vector<double> time, operations;
  for (const Cost& cost : costs) {
    time.push_back(cost.time);
    operations.push_back(cost.operations);
  }
  std::printf("%-46s %-10s %6.2f %11.2f\n", what, trains ? "training" : "evaluation",
              exponent(time), exponent(operations));
  std::fflush(stdout);
}

void vary(const char* what, const StackSizes& base, int rounds,
          const std::function<void(StackSizes&, int64_t)>& scale) {
  std::vector<Cost> costs;
  for (int i = 0; i <= kDoublings; ++i) {
    StackSizes s = base;
    scale(s, int64_t{1} << i);
    s.memory = cache_of(s.rows);
    costs.push_back(cost_of(s, rounds));
  }
  print(what, base.trains, costs);
}

int run(int rounds) {
  at::set_num_threads(1);
  std::printf("%s, 1 thread; medians of %d rounds\n%-57s %6s %11s\n",
              tensor::processor_name().c_str(), rounds, "exponent of", "time", "operations");
  for (const bool trains : {true, false}) {
    const StackSizes base{4, 410, 10, 41, 2100, 1, 64, 256, trains, ""};
    vary("rows of the memory, 256 to 2048", base, rounds,
         [](StackSizes& s, int64_t factor) { s.rows *= factor; });
    vary("tokens of a segment, 64 to 512", base, rounds,
         [](StackSizes& s, int64_t factor) { s.segment *= factor; });
    vary("layers, 2 to 16", base, rounds,
         [](StackSizes& s, int64_t factor) { s.layers = 2 * factor; });
    vary("lanes, 1 to 8", base, rounds, [](StackSizes& s, int64_t factor) { s.lanes *= factor; });
    std::vector<Cost> costs;
    for (int i = 0; i <= kDoublings; ++i) {
      costs.push_back(softmax_cost(int64_t{8192} << i, trains, rounds));
    }
    print("words of the vocabulary, 8,192 to 65,536", trains, costs);
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) { return mneme::bench::run(argc > 1 ? std::atoi(argv[1]) : 5); }
