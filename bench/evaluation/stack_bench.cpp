// What share of the GEMM peak the layers of a Transformer-XL with its cache reach: a training step
// (forward, backward, the memory moves on) and a segment of an evaluation with kept projections,
// without the output layer. A product of 1024^3 takes turns with them. Counted are the products of
// the mathematics, each once, and of scores those that a query may use. That the numbers are right
// is tested elsewhere (golden.transformer_xl).
//   stack_bench [rounds [part of a case's name, such as "enwik8 evaluation"]]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench/evaluation/layer_stack.hpp"
#include "bench/measure/peak.hpp"
#include "bench/measure/rounds.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

struct Case {
  const char* name;
  StackSizes sizes;
};

// A multiply-add counts 2. In an evaluation a query sees as many places as there are rows. A
// training projects old rows and positions again; they are constants, so that the backward pass
// takes as much as the forward pass for them and twice as much for the rest.
double flops_of(const StackSizes& s) {
  const auto d = [](int64_t n) { return static_cast<double>(n); };
  const double tokens = d(s.segment), inner = d(s.heads * s.head_width);
  const double seen = d(s.rows) + (s.trains ? (tokens + 1.0) / 2.0 : 1.0);
  const double projection = 2.0 * d(s.width) * inner;  // of a row
  const double own = 4.0 * tokens * projection + 3.0 * 2.0 * inner * tokens * seen +
                     2.0 * 2.0 * tokens * d(s.width) * d(s.ff);
  if (!s.trains) return d(s.layers * s.lanes) * own;
  const double constants = (2.0 * d(s.lanes * s.rows) + d(s.rows + s.segment)) * projection;
  return d(s.layers) * (3.0 * d(s.lanes) * own + 2.0 * constants);
}

Case with_cache(const char* name, StackSizes sizes) {
  sizes.memory = cache_of(sizes.rows);
  sizes.same_length = !sizes.trains;
  return {name, sizes};
}

void measure(const Case& c, int rounds) {
  const StackSizes& s = c.sizes;
  LayerStack stack(s);
  const Product product;
  std::vector<double> peak, seconds;
  for (int round = 0; round < (s.trains ? rounds : 10 * rounds); ++round) {
    peak.push_back(product.seconds() * flops_of(s) / Product::kFlops);
    seconds.push_back(seconds_of([&] { stack.step(); }));
  }
  std::printf("%7d  %-12s %-10s %2d layers, %d lane(s), %4d/%-4d  %3.0f %%\n",
              at::get_num_threads(), c.name, s.trains ? "training" : "evaluation",
              static_cast<int>(s.layers), static_cast<int>(s.lanes), static_cast<int>(s.segment),
              static_cast<int>(s.rows), 100.0 * median_ratio(peak, seconds));
  std::fflush(stdout);
}

int run(int rounds, std::string_view which) {
  std::printf(
      "%s; f32, medians of %d rounds of a step, ten times as many of an "
      "evaluation's segment\nthreads%50s\n",
      tensor::processor_name().c_str(), rounds, "GEMM peak");
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const Case& c : std::vector<Case>{
             with_cache("WikiText-103", {16, 410, 10, 41, 2100, 4, 150, 150, true, ""}),
             with_cache("WikiText-103", {16, 410, 10, 41, 2100, 1, 64, 640, false, ""}),
             with_cache("enwik8", {12, 512, 8, 64, 2048, 2, 512, 512, true, ""}),
             with_cache("enwik8", {12, 512, 8, 64, 2048, 1, 80, 2100, false, ""}),
         }) {
      const std::string name = std::string(c.name) + (c.sizes.trains ? " training" : " evaluation");
      if (name.find(which) != std::string::npos) measure(c, rounds);
    }
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) {
  return mneme::bench::run(argc > 1 ? std::atoi(argv[1]) : 5, argc > 2 ? argv[2] : "");
}
