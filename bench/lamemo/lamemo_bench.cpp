// LaMemo's layer stack without the output layer, f32: mneme's host with the plugin lamemo against
// the released algorithm written plainly in LibTorch (official.hpp), from the same weights and ids.
//
// Correctness before timing: outputs and gradients of several segments must agree, in f64 at small
// sizes and in f32 at these. Then the sides take turns: a training step (forward, backward, the
// memory moves on) and a segment of an evaluation. Reported are medians over the rounds of the
// ratio of the two sides' times within a round, and each side's operations a second, counted alike
// for both (only scores that a query may use, sizes.hpp), as a share of what a product of 1024^3
// reached in the same rounds.
//
// At the sizes of enwik8's evaluation (80/2100) also the peak of allocated memory in a segment of
// two layers, the first of which looks ahead.
//
//   lamemo_bench [rounds] [layers] [training lanes] [evaluation lanes]     5 16 2 2
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "bench/lamemo/host_stack.hpp"
#include "bench/measure/allocations.hpp"
#include "bench/measure/peak.hpp"
#include "bench/measure/program.hpp"
#include "bench/measure/rounds.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

// Both sides with the same weights, fed with the same ids.
class Sides {
 public:
  Sides(const StackSizes& s, at::ScalarType dtype, double epsilon, bool is_training)
      : sizes_(s),
        is_training_(is_training),
        ours_(s, dtype, epsilon, is_training),
        official_(ours_.official()),
        table_(ours_.table().detach().clone().set_requires_grad(true)),
        to_loss_(torch::randn({s.lanes, s.segment, s.width}, dtype)) {
    next();
  }

  void next() { ids_ = at::randint(256, {sizes_.lanes, sizes_.segment}, at::kLong); }
  at::Tensor official_top() {
    return official_.segment(ours_.embedded(ids_, table_)).transpose(0, 1);
  }
  at::Tensor our_top() { return ours_.segment(ids_); }
  void run(std::size_t side) {
    const at::AutoGradMode grad(is_training_);
    const at::Tensor top = side == 0 ? official_top() : our_top();
    if (is_training_) (top * to_loss_).sum().backward();
  }
  void drop_gradients() {
    ours_.drop_gradients();
    table_.mutable_grad().reset();
  }
  // Segments until both memories are full.
  void fill() {
    for (int64_t rows = 0; rows <= sizes_.rows; rows += sizes_.segment) {
      const at::NoGradGuard no_grad;
      next();
      official_top();
      our_top();
    }
  }
  double largest_difference() {
    double largest = 0.0;
    const auto compare = [&](const at::Tensor& a, const at::Tensor& b) {
      largest = std::max(largest, ((a - b).norm() / b.norm()).item<double>());
    };
    const at::AutoGradMode grad(is_training_);
    const at::Tensor theirs = official_top(), ours = our_top();
    compare(ours, theirs);
    if (!is_training_) return largest;
    (theirs * to_loss_).sum().backward();
    (ours * to_loss_).sum().backward();
    for (const HostStack::Pair& pair : ours_.pairs()) {
      if (pair.theirs.grad().defined()) compare(pair.ours.grad(), pair.theirs.grad());
    }
    return largest;
  }

 private:
  StackSizes sizes_;
  bool is_training_;
  HostStack ours_;
  OfficialLaMemo official_;
  at::Tensor table_, to_loss_, ids_;
};

bool agree(const char* name, const StackSizes& s, at::ScalarType dtype, double epsilon,
           bool is_training, double tolerance) {
  Sides sides(s, dtype, epsilon, is_training);
  sides.fill();
  sides.next();
  const double largest = sides.largest_difference();
  std::printf("%s: largest difference of outputs%s %.1e\n", name,
              is_training ? " and gradients" : "", largest);
  return largest <= tolerance;
}

void measure(const char* name, const StackSizes& s, bool is_training, int rounds) {
  Sides sides(s, at::kFloat, 0.0, is_training);
  sides.fill();
  const Product peak;
  std::vector<double> product;
  std::array<std::vector<double>, 2> seconds;
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    const double now = peak.seconds();
    if (round >= 0) product.push_back(now);
    for (std::size_t turn = 0; turn < 2; ++turn) {
      const std::size_t side = (turn + static_cast<std::size_t>(round + 1)) % 2;
      sides.drop_gradients();
      const double time = seconds_of([&] { sides.run(side); });
      if (round >= 0) seconds[side].push_back(time);
    }
  }
  const double reached = Product::kFlops / median(product);
  const double flops = useful_flops(s) * (is_training ? 3.0 : 1.0);
  std::printf(
      "%d threads, %s, %lld layers, %lld lanes, %lld/%lld: %.2f times faster; shares of "
      "the peak: official %.0f %%, mneme %.0f %%\n",
      at::get_num_threads(), name, static_cast<long long>(s.layers),
      static_cast<long long>(s.lanes), static_cast<long long>(s.segment),
      static_cast<long long>(s.rows), median_ratio(seconds[0], seconds[1]),
      100.0 * flops / median(seconds[0]) / reached, 100.0 * flops / median(seconds[1]) / reached);
}

// Of one segment, beyond weights and state.
double peak_mib(Sides& sides, std::size_t side) {
  sides.drop_gradients();
  sides.run(side);  // whatever is allocated once
  sides.drop_gradients();
  const int64_t before = held_bytes();
  restart_peak();
  sides.run(side);
  return static_cast<double>(peak_bytes() - before) / (1024.0 * 1024.0);
}

void measure_memory(const char* name, const StackSizes& s, bool is_training) {
  Sides sides(s, at::kFloat, 0.0, is_training);
  sides.fill();
  const double official = peak_mib(sides, 0), ours = peak_mib(sides, 1);
  std::printf(
      "%s, %lld layers, %lld/%lld: peak of allocated memory, official %.0f MiB, mneme %.0f "
      "MiB: %.1f times\n",
      name, static_cast<long long>(s.layers), static_cast<long long>(s.segment),
      static_cast<long long>(s.rows), official, ours, official / ours);
}

int run(int rounds, int64_t layers, int64_t training_lanes, int64_t evaluation_lanes) {
  count_allocations();
  torch::manual_seed(3);
  std::printf("%s; %d rounds\n", tensor::describe(at::kCPU).c_str(), rounds);
  const StackSizes small{3, 36, 4, 9, 52, 2, 5, 12};
  const StackSizes training = wikitext103(layers, training_lanes, 150, 150);
  const StackSizes evaluation = wikitext103(layers, evaluation_lanes, 64, 640);
  if (!agree("f64, small, training", small, at::kDouble, 1e-6, true, 1e-9) ||
      !agree("f64, small, evaluation", small, at::kDouble, 1e-6, false, 1e-9) ||
      !agree("f32, 64/640", wikitext103(2, 1, 64, 640), at::kFloat, 0.0, false, 1e-3)) {
    std::fprintf(stderr, "lamemo_bench: the sides do not agree\n");
    return 1;
  }
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    measure("training step", training, true, rounds);
    measure("evaluation", evaluation, false, rounds);
  }
  const StackSizes enwik8{2, 512, 8, 64, 2048, 1, 80, 2100};
  measure_memory("evaluation", enwik8, false);
  measure_memory("training step", enwik8, true);
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) {
  const mneme::bench::Arguments argument(argc, argv);
  return mneme::bench::run_program("lamemo_bench", [&] {
    return mneme::bench::run(static_cast<int>(argument(1, 5)), argument(2, 16), argument(3, 2),
                             argument(4, 2));
  });
}
