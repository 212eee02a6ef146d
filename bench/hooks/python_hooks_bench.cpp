// What a hook in Python costs beyond its mathematics, beside the same hook in C++.
//
// One hook a layer, four layers of width 8, in training: empty, and with ten small operations on a
// learned row (small_ops.py, small_ops.cpp). What takes turns in each round: a segment without a
// memory, with each of them, with twenty operations in Python, and the ten operations written in
// LibTorch. Results are compared before anything is timed. All times are medians over the rounds
// for one hook, less that of the segment without a memory; LibTorch's include the sum that the host
// computes of what a hook gives.
//
// PyTorch's own calls: what ten operations more take in the hook in Python, and that sum. What the
// hook takes longer is its cost.
//
//   python_hooks_bench [rounds]     2000
#include <cstdio>
#include <string>
#include <vector>

#include "bench/measure/program.hpp"
#include "bench/measure/rounds.hpp"
#include "host/base/text.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/hook_driver.hpp"
#include "host/plugin/python/python_place.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr std::int64_t kLayers = 4;
constexpr int kOps = 10;
constexpr const char* kPython = MNEME_BENCH_SOURCE_DIR "/small_ops.py";

config::MemoryConfig memory_of(const std::string& plugin, int ops) {
  const std::string tier =
      str("plugins = [\"", MNEME_BENCH_PLUGIN_DIR, "\"]\n[[memory.tier]]\nplugin = \"", plugin,
          "\"\nops = ", ops, "\n");
  return config::parse_experiment_text(
             str("[memory]\n", plugin.empty() ? "" : tier,
                 "[model]\nlayers = 4\n[data]\ntask = \"motif\"\n[train]\nsteps = 1\n"),
             "bench.toml", "/")
      .memory;
}

memory::BackboneInfo backbone() {
  memory::BackboneInfo info;
  info.layers = kLayers;
  info.width = 8;
  info.heads = 2;
  info.head_width = 4;
  info.train_segment = info.eval_segment = 4;
  return info;
}

// One way of computing a segment, and its times.
class Way {
 public:
  Way(plugin::PluginLoader& loader, const std::string& plugin, int ops)
      : stack_(memory_of(plugin, ops), backbone(), loader),
        state_(stack_.new_state(memory::Phase::kTraining, 2)) {}

  at::Tensor segment(const at::Tensor& x) {
    at::Tensor sum;
    memory::SegmentHooks hooks(stack_, state_, {.length = x.size(1)});
    for (std::int64_t l = 0; l < kLayers; ++l) sum = hooks.read_out(l, x, {}, layer_);
    hooks.commit();
    return sum;
  }
  void time(const at::Tensor& x) {
    times_.push_back(seconds_of([&] { segment(x); }));
  }
  [[nodiscard]] double microseconds() const { return median(times_) / kLayers * 1e6; }

 private:
  memory::Stack stack_;
  memory::StackState state_;
  memory::PlainLayer layer_{{}, 2};
  std::vector<double> times_;
};

at::Tensor in_libtorch(const at::Tensor& start, const at::Tensor& x, int ops) {
  at::Tensor row = start;
  for (int i = 0; i < ops / 2; ++i) row = row * 0.5 + 1.0;
  return x + row;
}

double microseconds_in_libtorch(const std::vector<double>& times) { return median(times) * 1e6; }

int compare(int rounds) {
  plugin::PluginLoader loader = memory::make_loader();
  Way without(loader, "", 0);
  Way empty(loader, "bench_small_ops", 0), ten(loader, "bench_small_ops", kOps);
  Way python_empty(loader, kPython, 0), python_ten(loader, kPython, kOps);
  Way python_twenty(loader, kPython, 2 * kOps);
  const at::Tensor x = torch::rand({2, 4, 8});
  const at::Tensor start = torch::ones({1, 1, 8}).requires_grad_();
  const auto agrees = [&](Way& way, int ops) {
    return at::equal(way.segment(x), ops == 0 ? x : in_libtorch(start, x, ops));
  };
  if (!agrees(without, 0) || !agrees(empty, 0) || !agrees(python_empty, 0) || !agrees(ten, kOps) ||
      !agrees(python_ten, kOps) || !agrees(python_twenty, 2 * kOps)) {
    std::printf("the hooks and LibTorch gave different results\n");
    return 1;
  }
  std::vector<double> direct, sum;
  for (int i = 0; i < rounds; ++i) {
    for (Way* way : {&without, &empty, &python_empty, &ten, &python_ten, &python_twenty})
      way->time(x);
    direct.push_back(seconds_of([&] { in_libtorch(start, x, kOps); }));
    sum.push_back(seconds_of([&] { in_libtorch(start, x, 0); }));
  }
  const double none = without.microseconds();
  const auto cost = [&](const Way& way) { return way.microseconds() - none; };
  const double libtorch = microseconds_in_libtorch(direct);
  const double pytorch = cost(python_twenty) - cost(python_ten) + microseconds_in_libtorch(sum);
  std::printf("threads: %d, %d interleaved rounds\n", at::get_num_threads(), rounds);
  std::printf("an empty hook: %.1f us in Python, %.1f us in C++\n", cost(python_empty),
              cost(empty));
  std::printf(
      "ten operations in C++: %.1f us, LibTorch's own calls %.1f us, ratio %.2f, cost of the hook "
      "%.1f us\n",
      cost(ten), libtorch, cost(ten) / libtorch, cost(ten) - libtorch);
  std::printf(
      "ten operations in Python: %.1f us, PyTorch's own calls %.1f us, ratio %.2f, cost of the "
      "hook "
      "%.1f us\n",
      cost(python_ten), pytorch, cost(python_ten) / pytorch, cost(python_ten) - pytorch);
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) {
  using namespace mneme::bench;
  return run_program("python_hooks_bench", [&] {
    const Arguments argument(argc, argv);
    const std::string problem = mneme::plugin::python_place("python_hooks_bench").problem;
    if (!problem.empty()) {
      std::printf("skipped: %s\n", problem.c_str());
      return 0;
    }
    torch::manual_seed(1);
    return compare(static_cast<int>(argument(1, 2000)));
  });
}
