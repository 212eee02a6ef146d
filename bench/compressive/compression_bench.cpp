// Compression of evicted rows and its attention reconstruction loss [Rae et al. 2019, algorithm 2],
// one layer, f32: the plugin compressive through the real host against the same mathematics written
// plainly in LibTorch (plain_compression.hpp), from the same parameters and inputs.
//
// Correctness before timing: rows, loss and gradients of the convolution must agree, in f64 at
// small sizes and in f32 at these. Then the sides take turns, forward alone and forward with
// backward, at 1 and 2 threads. Reported are medians over the rounds of the ratio of two sides'
// times within a round, each side's operations a second as a share of what a product of 1024^3
// reached in the same rounds, the peak of allocated memory in one step beyond weights and state,
// and how much of a whole training step of two layers it all is.
//
//   compression_bench [rounds] [lanes] [segment] [width] [heads] [rate]     9 1 512 1024 16 4
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <vector>

#include "bench/compressive/plain_compression.hpp"
#include "bench/compressive/plugin_compression.hpp"
#include "bench/compressive/whole_step.hpp"
#include "bench/measure/allocations.hpp"
#include "bench/measure/peak.hpp"
#include "bench/measure/rounds.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

// The sides of one setting, and what they work on.
struct Sides {
  explicit Sides(const CompressionSizes& s)
      : sizes(s),
        inputs(random_inputs(s)),
        weights(random_weights(s)),
        printed(s, weights, Plain::kProjectsAll),
        reusing(s, weights, Plain::kReuses),
        plugin(s, weights, inputs) {}

  CompressionSizes sizes;
  CompressionInputs inputs;
  CompressionWeights weights;
  PlainCompression printed, reusing;
  PluginCompression plugin;

  static constexpr std::size_t kCount = 3;
  static constexpr std::array<const char*, kCount> kNames = {"plain, projects all", "plain, reuses",
                                                             "plugin"};
  Compressed run(std::size_t side) {
    if (side == 2) return plugin.step(inputs);
    return (side == 0 ? printed : reusing).step(inputs);
  }
  // With its graph: without gradient the plugin has no loss to compute.
  void forward(std::size_t side) { run(side); }
  void step(std::size_t side) { run(side).loss.backward(); }
  void drop_gradients() {
    for (const at::Tensor& leaf : {printed.weight(), printed.bias(), reusing.weight(),
                                   reusing.bias(), plugin.weight(), plugin.bias()})
      leaf.mutable_grad().reset();
  }
};

// Floating-point operations of a forward pass and of forward and backward; a multiply-add counts 2.
std::array<double, 2> operations(const CompressionSizes& s, std::size_t side) {
  const auto rows = static_cast<double>(s.lanes * s.segment), width = static_cast<double>(s.width);
  const double made = rows / static_cast<double>(s.rate);
  const double projection = 2.0 * rows * width * width;  // of as many rows as a segment has
  const double convolution = projection;
  const double new_rows = 2.0 * 2.0 * made * width * width;
  const double target = 2.0 * 2.0 * rows * static_cast<double>(s.segment) * width;
  const double got = target / static_cast<double>(s.rate);
  const double forward =
      (side == 0 ? 3.0 * projection : 0.0) + convolution + new_rows + target + got;
  // Backward: probabilities' and values' gradients, keys', rows', and the convolution's weight.
  return {forward, forward + 1.5 * got + new_rows + convolution};
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

// Prints the largest differences between the plugin and the printed algorithm; false beyond
// `tolerance`.
bool agree(const char* name, const CompressionSizes& s, double tolerance) {
  Sides sides(s);
  const Compressed expected = sides.printed.step(sides.inputs);
  const Compressed got = sides.plugin.step(sides.inputs, true);
  expected.loss.backward();
  got.loss.backward();
  const double rows = distance(got.rows, expected.rows);
  const double loss = distance(got.loss.to(expected.loss.scalar_type()), expected.loss);
  const double weight =
      distance(sides.plugin.weight().grad().transpose(1, 2), sides.printed.weight().grad());
  const double bias = distance(sides.plugin.bias().grad(), sides.printed.bias().grad());
  std::printf("%s: rows %.1e, loss %.1e, gradients %.1e and %.1e\n", name, rows, loss, weight,
              bias);
  return std::max({rows, loss, weight, bias}) <= tolerance;
}

struct Times {
  std::array<std::vector<double>, Sides::kCount> forward, step;
  std::vector<double> product;
};

Times measure(Sides& sides, int rounds) {
  const Product peak;
  Times times;
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    const double product = peak.seconds();
    if (round >= 0) times.product.push_back(product);
    for (std::size_t turn = 0; turn < Sides::kCount; ++turn) {
      // The sides change places, for each finds the caches as another left them.
      const std::size_t side = (turn + static_cast<std::size_t>(round + 1)) % Sides::kCount;
      sides.drop_gradients();
      const double forward = seconds_of([&] { sides.forward(side); });
      const double step = seconds_of([&] { sides.step(side); });
      if (round < 0) continue;
      times.forward[side].push_back(forward);
      times.step[side].push_back(step);
    }
  }
  return times;
}

void print_times(const CompressionSizes& s, const Times& times) {
  const double peak = Product::kFlops / median(times.product);
  for (std::size_t side = 0; side < Sides::kCount; ++side) {
    const auto [forward, both] = operations(s, side);
    std::printf("%7d %-20s %9.2f %11.2f %11.0f %% %12.0f %%\n", at::get_num_threads(),
                Sides::kNames[side], median_ratio(times.forward[side], times.forward[2]),
                median_ratio(times.step[side], times.step[2]),
                100.0 * forward / median(times.forward[side]) / peak,
                100.0 * both / median(times.step[side]) / peak);
  }
}

void measure_memory(Sides& sides) {
  std::array<double, Sides::kCount> peak{}, gradients{};
  for (std::size_t side = 0; side < Sides::kCount; ++side) {
    sides.drop_gradients();
    sides.step(side);  // whatever is allocated once
    sides.drop_gradients();
    const int64_t before = held_bytes();
    restart_peak();
    sides.step(side);
    peak[side] = static_cast<double>(peak_bytes() - before) / kMebibyte;
    gradients[side] = static_cast<double>(held_bytes() - before) / kMebibyte;
  }
  for (std::size_t side = 0; side < Sides::kCount; ++side) {
    std::printf(
        "memory, %-20s peak of a step %.1f MiB (gradients that stay: %.1f), %.2f times the "
        "plugin's; without those %.2f\n",
        Sides::kNames[side], peak[side], gradients[side], peak[side] / peak[2],
        (peak[side] - gradients[side]) / (peak[2] - gradients[2]));
  }
}

void measure_whole_step(const CompressionSizes& s, int rounds) {
  WholeStep with(s, StepMemory::kCompressive), without(s, StepMemory::kCompressiveWithoutLoss);
  WholeStep cache(s, StepMemory::kXlCache);
  std::vector<double> with_s, without_s, cache_s;
  for (int round = 0; round < rounds; ++round) {
    with_s.push_back(seconds_of([&] { with.step(); }));
    without_s.push_back(seconds_of([&] { without.step(); }));
    cache_s.push_back(seconds_of([&] { cache.step(); }));
  }
  std::printf(
      "%d threads, whole training step of 2 layers: with loss %.2f, without %.2f times that of "
      "an xl_cache with equally many rows\n",
      at::get_num_threads(), median_ratio(with_s, cache_s), median_ratio(without_s, cache_s));
}

int run(const CompressionSizes& sizes, int rounds) {
  count_allocations();
  torch::manual_seed(3);
  std::printf("%s; %lld lanes, T = %lld, D = %lld, %lld heads, rate %lld, %d rounds\n",
              tensor::describe(at::kCPU).c_str(), static_cast<long long>(sizes.lanes),
              static_cast<long long>(sizes.segment), static_cast<long long>(sizes.width),
              static_cast<long long>(sizes.heads), static_cast<long long>(sizes.rate), rounds);
  CompressionSizes small{.lanes = 2, .segment = 24, .width = 48, .heads = 4, .rate = 3};
  small.dtype = at::kDouble;
  if (!agree("f64, small", small, 1e-10) || !agree("f32", sizes, 1e-3)) {
    std::fprintf(stderr, "compression_bench: the sides do not agree\n");
    return 1;
  }
  Sides sides(sizes);
  std::printf("times the plugin's, and shares of the peak of a product of 1024^3\n");
  std::printf("%7s %-20s %9s %11s %13s %14s\n", "threads", "", "forward", "+backward", "forward",
              "+backward");
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    print_times(sizes, measure(sides, rounds));
  }
  measure_memory(sides);
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    measure_whole_step(sizes, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) {
  std::array<long long, 6> numbers = {9, 1, 512, 1024, 16, 4};
  for (int i = 1; i < argc && i <= 6; ++i)
    numbers[static_cast<std::size_t>(i - 1)] = std::atoll(argv[i]);
  mneme::bench::CompressionSizes sizes{.lanes = numbers[1],
                                       .segment = numbers[2],
                                       .width = numbers[3],
                                       .heads = numbers[4],
                                       .rate = numbers[5]};
  const bool is_usable = std::all_of(numbers.begin(), numbers.end(), [](auto n) { return n > 0; });
  if (!is_usable || sizes.width % sizes.heads != 0 || sizes.segment % sizes.rate != 0) {
    std::fprintf(
        stderr,
        "compression_bench [rounds] [lanes] [segment] [width] [heads] [rate]: all at least "
        "1, heads divide the width, rate the segment\n");
    return 2;
  }
  try {
    return mneme::bench::run(sizes, static_cast<int>(numbers[0]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compression_bench: %s\n", error.what());
    return 1;
  }
}
