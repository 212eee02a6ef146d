// What share of the GEMM peak the layers of a Transformer-XL with its cache reach: a training step
// (forward, backward, the memory moves on) and a segment of an evaluation with kept projections,
// without the output layer. A product of 1024^3 takes turns with them. Counted are the products of
// the mathematics, each once, and of scores those that a query may use. That the numbers are right
// is tested elsewhere (golden.transformer_xl).
//   stack_bench [rounds]
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/peak.hpp"
#include "bench/measure/rounds.hpp"
#include "host/backbone/model.hpp"
#include "host/base/text.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr int64_t kVocabulary = 256;

struct Case {
  const char* name;
  int64_t layers, width, heads, head_width, ff;
  int64_t lanes, segment, rows;
  bool trains;

  // A multiply-add counts 2. In an evaluation a query sees as many places as there are rows. A
  // training projects old rows and positions again; they are constants, so that the backward pass
  // takes as much as the forward pass for them and twice as much for the rest.
  double flops() const {
    const auto d = [](int64_t n) { return static_cast<double>(n); };
    const double tokens = d(segment), inner = d(heads * head_width);
    const double seen = d(rows) + (trains ? (tokens + 1.0) / 2.0 : 1.0);
    const double projection = 2.0 * d(width) * inner;  // of a row
    const double own = 4.0 * tokens * projection + 3.0 * 2.0 * inner * tokens * seen +
                       2.0 * 2.0 * tokens * d(width) * d(ff);
    if (!trains) return d(layers * lanes) * own;
    const double constants = (2.0 * d(lanes * rows) + d(rows + segment)) * projection;
    return d(layers) * (3.0 * d(lanes) * own + 2.0 * constants);
  }
};

std::unique_ptr<run::Runtime> make_runtime(const Case& c) {
  const std::string text = str(
      "[model]\nlayers = ", c.layers, "\nheads = ", c.heads, "\nhead_width = ", c.head_width,
      "\nwidth = ", c.width, "\nff = ", c.ff, "\ndropout = 0.0\n",
      c.trains ? "" : "same_length = true\n", "[data]\ntask = \"motif\"\nalphabet = ", kVocabulary,
      "\n[train]\nsteps = 1\nlanes = ", c.lanes, "\nsegment = ", c.segment,
      "\n[eval]\nlanes = ", c.lanes, "\nsegment = ", c.segment, "\n[memory]\nplugins = [\"",
      MNEME_PLUGIN_DIR, "\"]\n[[memory.tier]]\nplugin = \"xl_cache\"\nrows = ", c.rows, "\n");
  auto runtime = std::make_unique<run::Runtime>(
      config::parse_experiment_text(text, "stack_bench.toml"), run::RuntimeOptions{});
  runtime->model().train(c.trains);
  if (!c.trains) backbone::set_context_window(runtime->model(), c.rows);
  return runtime;
}

class Stack {
 public:
  explicit Stack(const Case& c)
      : case_(c),
        runtime_(make_runtime(c)),
        state_(runtime_->stack().new_state(
            c.trains ? memory::Phase::kTraining : memory::Phase::kEvaluation, c.lanes)),
        to_loss_(at::randn({c.lanes, c.segment, c.width})) {
    for (int64_t rows = 0; rows <= c.rows; rows += c.segment) step();
  }
  void step() {
    const at::AutoGradMode grad(case_.trains);
    memory::SegmentInput input;
    input.length = case_.segment;
    memory::SegmentHooks hooks(runtime_->stack(), state_, input);
    backbone::Batch batch;
    batch.input = at::randint(kVocabulary, {case_.lanes, case_.segment}, at::kLong);
    const at::Tensor top = runtime_->model().forward(batch, hooks).top;
    if (case_.trains) {
      (top * to_loss_).sum().backward();
      for (const optim::TrainableParameter& p : runtime_->parameters()) {
        p.tensor.mutable_grad().reset();
      }
    }
    hooks.commit();
  }

 private:
  Case case_;
  std::unique_ptr<run::Runtime> runtime_;
  memory::StackState state_;
  at::Tensor to_loss_;
};

void measure(const Case& c, int rounds) {
  Stack stack(c);
  const Product product;
  std::vector<double> peak, seconds;
  for (int round = 0; round < (c.trains ? rounds : 10 * rounds); ++round) {
    peak.push_back(product.seconds() * c.flops() / Product::kFlops);
    seconds.push_back(seconds_of([&] { stack.step(); }));
  }
  std::printf("%7d  %-12s %-10s %2d layers, %d lane(s), %4d/%-4d  %3.0f %%\n",
              at::get_num_threads(), c.name, c.trains ? "training" : "evaluation",
              static_cast<int>(c.layers), static_cast<int>(c.lanes), static_cast<int>(c.segment),
              static_cast<int>(c.rows), 100.0 * median_ratio(peak, seconds));
  std::fflush(stdout);
}

int run(int rounds) {
  std::printf(
      "%s; f32, medians of %d rounds of a step, ten times as many of an "
      "evaluation's segment\nthreads%50s\n",
      tensor::processor_name().c_str(), rounds, "GEMM peak");
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const Case& c : std::vector<Case>{
             {"WikiText-103", 16, 410, 10, 41, 2100, 4, 150, 150, true},
             {"WikiText-103", 16, 410, 10, 41, 2100, 1, 64, 640, false},
             {"enwik8", 12, 512, 8, 64, 2048, 2, 512, 512, true},
             {"enwik8", 12, 512, 8, 64, 2048, 1, 80, 2100, false},
         }) {
      measure(c, rounds);
    }
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) { return mneme::bench::run(argc > 1 ? std::atoi(argv[1]) : 5); }
