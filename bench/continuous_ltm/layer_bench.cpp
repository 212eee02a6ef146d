// One layer of the continuous memory at the released GPT-2 sizes (width 768, 12 heads, T = N = M =
// L = 512), f32: the plugin's fast path through the real host against the released algorithm
// written plainly in LibTorch (official.hpp), from the same parameters and inputs.
//
// Correctness before timing: both sides must agree, in f64 at small sizes and in f32 at these. Then
// the two take turns, forward alone and forward with backward, with the gate and without it, at 1
// and 2 threads. Reported are medians over the rounds: the ratio of the two sides' times within a
// round, and each side's operations a second as a share of what a product of 1024^3 reached in the
// same rounds; and the peak of allocated memory in one step, beyond weights, constants and state.
//
// Both sides get ridge matrices made in f64: the released code inverts in f32, which costs the same
// while it runs and gives other numbers.
//
//   layer_bench [rounds] [lanes] [spread]     9 1 1; spread as in random_parameters
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/continuous_ltm/agreement.hpp"
#include "bench/continuous_ltm/official.hpp"
#include "bench/continuous_ltm/operations.hpp"
#include "bench/continuous_ltm/plugin_ltm.hpp"
#include "bench/measure/allocations.hpp"
#include "bench/measure/peak.hpp"
#include "bench/measure/program.hpp"
#include "bench/measure/rounds.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

// Both sides of one setting, and what they work on.
class Pair {
 public:
  Pair(const LtmSettings& settings, double spread)
      : inputs_(random_inputs(settings)),
        parameters_(random_parameters(settings, spread)),
        official_(settings, parameters_, Derivative::kNatural),
        plugin_(settings, parameters_) {}

  void official_forward() {
    const at::NoGradGuard no_grad;
    official_.step(inputs_);
  }
  void plugin_forward() {
    const at::NoGradGuard no_grad;
    plugin_.step(inputs_);
  }
  void official_step() { backward(official_.step(inputs_), inputs_); }
  void plugin_step() { backward(plugin_.step(inputs_), inputs_); }

  void drop_gradients() {
    inputs_.q.mutable_grad().reset();
    for (at::Tensor& p : all_) p.mutable_grad().reset();
  }

 private:
  LtmInputs inputs_;
  LtmParameters parameters_;
  OfficialLtm official_;
  PluginLtm plugin_;
  std::vector<at::Tensor> all_ = [this] {
    std::vector<at::Tensor> both = parameters_.all();
    both.insert(both.end(), plugin_.parameters().begin(), plugin_.parameters().end());
    return both;
  }();
};

// Seconds of one side in each round.
struct Times {
  std::vector<double> forward, step;
};

void print_times(const LtmSettings& s, const Times& official, const Times& plugin,
                 const std::vector<double>& product) {
  const double peak = Product::kFlops / median(product);
  const auto share = [&](double flops, const std::vector<double>& seconds) {
    return 100.0 * flops / median(seconds) / peak;
  };
  const Operations theirs = official_operations(s), ours = fast_operations(s);
  std::printf("%7d %5s %10.2f %10.2f %9.0f %% %9.0f %% %9.0f %% %9.0f %%\n", at::get_num_threads(),
              s.has_gate ? "yes" : "no", median_ratio(official.forward, plugin.forward),
              median_ratio(official.step, plugin.step), share(theirs.forward, official.forward),
              share(theirs.forward + theirs.backward, official.step),
              share(ours.forward, plugin.forward),
              share(ours.forward + ours.backward, plugin.step));
}

void measure_times(Pair& pair, const LtmSettings& s, int rounds) {
  const Product peak;
  Times official, plugin;
  std::vector<double> product;
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    const double peak_seconds = peak.seconds();
    std::array<double, 4> seconds{};
    const auto time = [&](std::size_t i, void (Pair::*step)()) {
      pair.drop_gradients();
      seconds[i] = seconds_of([&] { (pair.*step)(); });
    };
    // The two sides change places, for the first one finds the caches as the other left them.
    const std::size_t first = round % 2 == 0 ? 0 : 1, second = 1 - first;
    void (Pair::*const forward[])() = {&Pair::official_forward, &Pair::plugin_forward};
    void (Pair::*const step[])() = {&Pair::official_step, &Pair::plugin_step};
    time(first, forward[first]);
    time(second, forward[second]);
    time(2 + first, step[first]);
    time(2 + second, step[second]);
    if (round < 0) continue;
    product.push_back(peak_seconds);
    official.forward.push_back(seconds[0]);
    plugin.forward.push_back(seconds[1]);
    official.step.push_back(seconds[2]);
    plugin.step.push_back(seconds[3]);
  }
  print_times(s, official, plugin, product);
}

// Peak of a step, and what of it stays as gradients of parameters and queries.
struct Memory {
  double peak, gradients;
};

Memory memory_of(Pair& pair, void (Pair::*step)()) {
  (pair.*step)();  // whatever is allocated once
  pair.drop_gradients();
  const int64_t before = held_bytes();
  restart_peak();
  (pair.*step)();
  return {static_cast<double>(peak_bytes() - before) / kMebibyte,
          static_cast<double>(held_bytes() - before) / kMebibyte};
}

void measure_memory(Pair& pair, const LtmSettings& s) {
  const Memory official = memory_of(pair, &Pair::official_step);
  const Memory plugin = memory_of(pair, &Pair::plugin_step);
  std::printf(
      "memory, gate %s: peak of a step %.1f MiB released, %.1f MiB plugin (gradients that "
      "stay: %.1f and %.1f), ratio %.2f; forward and backward without those, %.2f\n",
      s.has_gate ? "yes" : "no", official.peak, plugin.peak, official.gradients, plugin.gradients,
      official.peak / plugin.peak,
      (official.peak - official.gradients) / (plugin.peak - plugin.gradients));
}

// In f32 only at spread 1. At larger spreads the released derivative is itself off by per cents: it
// is formed from E[phi psi] - E[phi] E[psi], which cancels when the densities are narrow.
bool check_all(const LtmSettings& full) {
  LtmSettings small = full;
  small.lanes = 2;
  small.segment = 32;
  small.width = 48;
  small.heads = 4;
  small.basis = small.samples = 64;
  small.widths = {0.01, 0.05};
  small.dtype = at::kDouble;
  LtmSettings no_gate = full;
  no_gate.has_gate = false;
  return check_official() && check_plugin("plugin, f64, small", small, 50.0, {1e-9, 1e-6}) &&
         check_plugin("plugin, f32, gate", full, 1.0, {2e-4, 5e-4}) &&
         check_plugin("plugin, f32, no gate", no_gate, 1.0, {2e-4, 5e-4});
}

int run(int rounds, int64_t lanes, double spread) {
  count_allocations();
  torch::manual_seed(3);
  LtmSettings settings;
  settings.lanes = lanes;
  std::printf("%s; %lld lanes, %d rounds, spread %g\n", tensor::describe(at::kCPU).c_str(),
              static_cast<long long>(lanes), rounds, spread);
  if (!check_all(settings)) return 1;
  std::printf("released / plugin (times), and shares of the peak of a product of 1024^3\n");
  std::printf("%7s %5s %10s %10s %11s %11s %11s %11s\n", "threads", "gate", "forward", "+backward",
              "released f", "released f+b", "plugin f", "plugin f+b");
  for (const bool has_gate : {true, false}) {
    settings.has_gate = has_gate;
    Pair pair(settings, spread);
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      measure_times(pair, settings, rounds);
    }
    measure_memory(pair, settings);
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  const long long lanes = argc > 2 ? std::atoll(argv[2]) : 1;
  const double spread = argc > 3 ? std::atof(argv[3]) : 1.0;
  if (rounds < 1 || lanes < 1 || !(spread > 0.0)) {
    std::fprintf(stderr, "layer_bench [rounds >= 1] [lanes >= 1] [spread > 0]\n");
    return 2;
  }
  return mneme::bench::run_program("layer_bench",
                                   [&] { return mneme::bench::run(rounds, lanes, spread); });
}
