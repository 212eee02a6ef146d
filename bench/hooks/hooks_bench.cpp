// What a hook costs beyond its mathematics.
//
// (1) Tiny sizes (2 lanes, 4 tokens, width 8, 4 layers): one segment of the memory decayed_mean
//     through the plugin, the stack and the C ABI, against the same lines written in LibTorch;
//     interleaved pair by pair in this run. Results are compared before anything is timed. Cost of
//     a hook = difference of the medians / hooks of a segment.
// (2) A training step (forward, loss, backward) of the backbone at 4 layers, width 256, segment
//     128, 8 lanes with that memory. Share = hooks of a step * cost of a hook / median of the step.
//     median of the step.
//
// Prints ratios and the cost; exits 1 when the two paths differ.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/hook_driver.hpp"
#include "host/plugin/loader.hpp"
#include "host/tensor/torch.hpp"

namespace {

using mneme::memory::LocalAttention;
using mneme::memory::Phase;
using mneme::memory::SegmentHooks;
using mneme::memory::Stack;
using mneme::memory::StackState;
using mneme::plugin::PluginLoader;

constexpr int64_t kLayers = 4;
constexpr int kHooks = 2 * kLayers;
constexpr int kPairs = 400;

double seconds_of(const auto& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

mneme::config::MemoryConfig manifest() {
  return mneme::config::parse_experiment_text(
             "[memory]\nplugins = [\"" MNEME_BENCH_PLUGIN_DIR
             "\"]\n[[memory.tier]]\nplugin = \"bench_decayed_mean\"\n"
             "[model]\nlayers = 4\n[data]\ntask = \"motif\"\n[train]\nsteps = 1\n",
             "bench.toml", "/")
      .memory;
}

mneme::memory::BackboneInfo tiny_backbone() {
  mneme::memory::BackboneInfo info;
  info.layers = kLayers;
  info.width = 8;
  info.heads = 2;
  info.head_width = 4;
  info.train_segment = info.eval_segment = 4;
  return info;
}

// One segment through the stack; x stands for every layer's input and projected result.
at::Tensor through_hooks(Stack& stack, StackState& state, mneme::memory::PlainLayer& layer,
                         const at::Tensor& x) {
  const LocalAttention local;
  at::Tensor sum;
  SegmentHooks hooks(stack, state, {.length = x.size(1)});
  for (int64_t l = 0; l < kLayers; ++l) {
    sum = hooks.read_out(l, x, local, layer);
  }
  for (int64_t l = 0; l < kLayers; ++l) hooks.absorb_after(l, x, local, layer);
  hooks.commit();
  return sum;
}

struct Direct {
  std::vector<at::Tensor> gates, means;
};

at::Tensor in_libtorch(Direct& memory, const at::Tensor& x) {
  at::Tensor sum;
  for (std::size_t l = 0; l < kLayers; ++l)
    sum = x + (at::sigmoid(memory.gates[l]) * memory.means[l]).unsqueeze(1);
  for (std::size_t l = 0; l < kLayers; ++l) {
    memory.means[l] = (0.9 * memory.means[l] + 0.1 * x.detach().mean(1)).detach();
  }
  return sum;
}

struct HookCost {
  double seconds = 0;
  bool agrees = true;
};

HookCost measure_hooks(PluginLoader& loader) {
  Stack stack(manifest(), tiny_backbone(), loader);
  StackState state = stack.new_state(Phase::kTraining, 2);
  mneme::memory::PlainLayer layer({}, 2);
  Direct direct;
  for (const auto& parameter : stack.parameters()) {
    direct.gates.push_back(parameter.tensor);
    direct.means.push_back(torch::zeros({2, 8}));
  }
  const at::Tensor x = torch::rand({2, 4, 8});
  HookCost cost;
  for (int i = 0; i < 5; ++i)
    cost.agrees =
        cost.agrees && at::equal(through_hooks(stack, state, layer, x), in_libtorch(direct, x));
  std::vector<double> hooks;
  std::vector<double> plain;
  for (int i = 0; i < kPairs; ++i) {
    hooks.push_back(seconds_of([&] { through_hooks(stack, state, layer, x); }));
    plain.push_back(seconds_of([&] { in_libtorch(direct, x); }));
  }
  cost.seconds = (median(hooks) - median(plain)) / kHooks;
  std::printf(
      "tiny segment, %d hooks, %d interleaved pairs: hook path / LibTorch = %.2f, cost of a hook = "
      "%.2f us\n",
      kHooks, kPairs, median(hooks) / median(plain), cost.seconds * 1e6);
  return cost;
}

double measure_step(PluginLoader& loader) {
  mneme::config::ModelConfig config;
  config.layers = kLayers;
  config.width = 256;
  config.heads = 4;
  config.head_width = 64;
  config.ff = 1024;
  config.embedding = 256;
  config.dropout = 0.1;
  mneme::backbone::ModelSetup setup;
  setup.vocabulary = 256;
  setup.train_segment = setup.eval_segment = 128;
  const auto model = mneme::backbone::make_model(config, setup);
  Stack stack(manifest(), model->info(), loader);
  StackState state = stack.new_state(Phase::kTraining, 8);
  model->train(true);
  mneme::backbone::Batch batch;
  batch.input = torch::randint(0, 256, {8, 128}, at::kLong);
  batch.target = torch::randint(0, 256, {8, 128}, at::kLong);
  std::vector<double> steps;
  for (int i = 0; i < 12; ++i) {
    const double seconds = seconds_of([&] {
      SegmentHooks hooks(stack, state, {.length = 128});
      model->forward(batch, hooks).nll.mean().backward();
      hooks.commit();
    });
    if (i >= 2) steps.push_back(seconds);
  }
  return median(steps);
}

}  // namespace

int main() {
  torch::manual_seed(1);
  std::printf("processor: %s, threads: %d\n", processor().c_str(), at::get_num_threads());
  PluginLoader loader = mneme::memory::make_loader();
  const HookCost cost = measure_hooks(loader);
  if (!cost.agrees) {
    std::printf("the hook path and LibTorch gave different results\n");
    return 1;
  }
  const double step = measure_step(loader);
  std::printf(
      "training step (4 layers, width 256, segment 128, 8 lanes): %d hooks * cost / step = %.4f "
      "%%\n",
      kHooks, 100.0 * kHooks * cost.seconds / step);
  return 0;
}
