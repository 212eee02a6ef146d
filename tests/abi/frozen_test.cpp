// The binary plugins that were built with each version of the ABI (sdk/abi/*/plugin.so) run on
// today's host, with the numbers that are kept beside them. The mini host of compatibility/, which
// has no line in common with this one, computed them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/tensor/torch.hpp"
#include "mneme/abi.h"
#include "tests/abi/compatibility/scenario.h"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

namespace fs = std::filesystem;

// Name ("read.0.1": segment 0, layer 1) and values.
using Numbers = std::map<std::string, std::vector<double>>;

// The versions in sdk/abi whose plugins this host has to run.
std::vector<std::string> frozen_versions() {
  std::vector<std::string> versions;
  for (const auto& entry : fs::directory_iterator(MNEME_SOURCE_DIR "/sdk/abi")) {
    std::istringstream name(entry.path().filename().string());
    unsigned major = 0;
    unsigned minor = 0;
    char dot = 0;
    if (!(name >> major >> dot >> minor)) continue;
    const std::uint32_t version = MNEME_ABI_MAKE(major, minor);
    if (major == MNEME_ABI_MAJOR && version <= MNEME_ABI_VERSION)
      versions.push_back(entry.path().filename().string());
  }
  std::ranges::sort(versions);
  return versions;
}

Numbers read_numbers(const std::string& version) {
  std::ifstream file(fs::path(MNEME_SOURCE_DIR) / "sdk/abi" / version / "plugin.numbers");
  Numbers numbers;
  std::string name;
  for (std::size_t count = 0; file >> name >> count;) {
    std::vector<double>& values = numbers[name];
    values.resize(count);
    for (double& value : values) file >> value;
  }
  EXPECT_TRUE(file.eof()) << "the file ends with a line that is no number";
  return numbers;
}

at::Tensor scenario_tensor(at::IntArrayRef shape, int64_t what, int64_t segment, int64_t layer) {
  at::Tensor out = torch::empty(shape, at::kDouble);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.mutable_data_ptr<double>()[i] = scenario_value(what, segment, layer, i);
  return out;
}

at::Tensor scenario_rows(int64_t rows, int64_t what, int64_t segment, int64_t layer) {
  return scenario_tensor({kScenarioLanes, rows, kScenarioWidth}, what, segment, layer);
}

at::Tensor scenario_heads(int64_t rows, int64_t what, int64_t segment, int64_t layer) {
  return scenario_tensor({kScenarioLanes, rows, kScenarioHeads, kScenarioHeadWidth}, what, segment,
                         layer);
}

// One run of a binary plugin through the scenario.
class FrozenRun {
 public:
  explicit FrozenRun(const std::string& version)
      : driver_(memory(version), backbone(), test_loader(), Phase::kTraining, kScenarioLanes) {
    for (int64_t segment = 0; segment < kScenarioSegments; ++segment) run(segment);
  }

  const Numbers& numbers() const { return numbers_; }

 private:
  static config::MemoryConfig memory(const std::string& version) {
    const std::string text = "[memory]\nplugins = [\"" MNEME_SOURCE_DIR "/sdk/abi/" + version +
                             "\"]\n[[memory.tier]]\nplugin = \"plugin\"\n[model]\nlayers = 2\n"
                             "width = 4\nheads = 2\nhead_width = 3\n[data]\ntask = \"motif\"\n"
                             "[train]\nsteps = 1\n";
    return config::parse_experiment_text(text, "test.toml", "/").memory;
  }

  static BackboneInfo backbone() {
    BackboneInfo info;
    info.layers = kScenarioLayers;
    info.width = kScenarioWidth;
    info.heads = kScenarioHeads;
    info.head_width = kScenarioHeadWidth;
    info.compute_dtype = at::kDouble;
    info.train_segment = kScenarioLongest;
    info.eval_segment = kScenarioLongest;
    return info;
  }

  // The host reads no weight of the layer in this run.
  static PlainLayer unused_weights() {
    const int64_t inner = kScenarioHeads * kScenarioHeadWidth;
    const at::Tensor in = torch::zeros({inner, kScenarioWidth}, at::kDouble);
    return PlainLayer({in, in, in, in.t(), {}, {}}, kScenarioHeads);
  }

  static std::map<std::string, at::Tensor> draws(int64_t segment) {
    std::map<std::string, at::Tensor> draws;
    for (int64_t layer = 0; layer < kScenarioLayers; ++layer) {
      at::Tensor& draw = draws[str("0." SCENARIO_PLUGIN_ID ".", layer, ".noise")];
      draw = torch::empty({kScenarioLanes, 1, 1}, at::kDouble);
      for (int64_t lane = 0; lane < kScenarioLanes; ++lane)
        draw.mutable_data_ptr<double>()[lane] = scenario_draw(segment, layer, lane);
    }
    return draws;
  }

  void note(const std::string& name, const at::Tensor& tensor) {
    std::vector<double>& values = numbers_[name];
    if (!tensor.defined()) return;
    const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous().flatten();
    values.assign(flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel());
  }

  static at::Tensor weighted(const at::Tensor& tensor, int64_t layer) {
    return (tensor * scenario_tensor(tensor.sizes(), kScenarioLossWeights, 0, layer)).sum();
  }

  void run(int64_t segment) {
    const int64_t length = scenario_length(segment);
    const auto replayed = draws(segment);
    std::map<std::string, at::Tensor> probes;
    driver_.begin({.length = length,
                   .replay_draws = &replayed,
                   .wanted_probes = {"squashed"},
                   .probes = &probes});
    SegmentHooks& hooks = driver_.hooks();
    const at::Tensor riders = hooks.riders().rows;
    note(str("riders.", segment), riders);
    at::Tensor loss = weighted(riders, 0);
    at::Tensor first_x;
    for (int64_t layer = 0; layer < kScenarioLayers; ++layer) {
      at::Tensor x = scenario_rows(length, kScenarioX, segment, layer).requires_grad_(true);
      if (layer == 0) first_x = x;
      loss = loss + run_layer(segment, layer, x, riders.detach());
      note(str("squashed.", segment, '.', layer),
           probes.at(str("0." SCENARIO_PLUGIN_ID ".", layer, ".squashed")));
    }
    hooks.finish(scenario_rows(length, kScenarioTop, segment, 0), {}, {}, {});
    note(str("distance.", segment), hooks.losses().at("0." SCENARIO_PLUGIN_ID ".distance").value);
    note(str("gate.", segment), hooks.metrics().at("0." SCENARIO_PLUGIN_ID ".gate").value);
    if (segment == 0) note_gradients(loss + hooks.total_loss(), first_x);
    driver_.commit();
  }

  // Stages 3 to 7; returns the layer's part of the loss.
  at::Tensor run_layer(int64_t segment, int64_t layer, const at::Tensor& x,
                       const at::Tensor& riders) {
    const int64_t length = x.size(1);
    const std::string place = str('.', segment, '.', layer);
    SegmentHooks& hooks = driver_.hooks();
    const LayerContext context = hooks.context(layer, x, layer_);
    std::vector<at::Tensor> rows;
    for (const ContextBlock& block : context.blocks) rows.push_back(block.rows.hidden);
    note("context" + place, rows.empty() ? at::Tensor() : at::cat(rows, 1));
    const at::Tensor ride =
        hooks.ride(layer, riders, scenario_heads(1, kScenarioRiderQueries, segment, layer),
                   scenario_heads(1 + length, kScenarioKeys, segment, layer),
                   scenario_heads(1 + length, kScenarioValues, segment, layer), layer_);
    note("ride" + place, ride);
    const at::Tensor projected = scenario_rows(length, kScenarioProjected, segment, layer);
    LocalAttention local;
    local.normed = scenario_rows(length, kScenarioNormed, segment, layer);
    const at::Tensor read = hooks.read_out(layer, projected, local, layer_) - projected;
    note("read" + place, read);
    hooks.absorb_after(layer, x, {}, layer_);
    return weighted(ride, layer) + weighted(read, layer);
  }

  void note_gradients(const at::Tensor& loss, const at::Tensor& x) {
    std::vector<at::Tensor> of = {x};
    std::vector<std::string> names;
    for (const TierParameter& parameter : driver_.stack().parameters()) {
      of.push_back(parameter.tensor);
      names.push_back(parameter.name.substr(parameter.name.rfind('.') + 1));
    }
    const auto gradients = torch::autograd::grad({loss}, of);
    note("gradient.x.0", gradients[0].flatten().narrow(0, 0, kScenarioGradientsOfX));
    std::map<std::string, std::vector<at::Tensor>> layers;
    for (std::size_t i = 0; i < names.size(); ++i) layers[names[i]].push_back(gradients[i + 1]);
    for (const auto& [name, parts] : layers) note("gradient." + name + ".0", at::cat(parts));
  }

  Numbers numbers_;
  HookDriver driver_;
  PlainLayer layer_ = unused_weights();
};

void expect_numbers(const Numbers& got, const Numbers& expected) {
  ASSERT_GT(expected.size(), 30U);
  for (const auto& [name, values] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    const std::vector<double>& mine = got.at(name);
    ASSERT_EQ(mine.size(), values.size()) << name;
    // Those of gradients are central differences.
    const double tolerance = name.starts_with("gradient.") ? 1e-7 : 1e-12;
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_LE(std::abs(mine[i] - values[i]), tolerance * (1 + std::abs(values[i])))
          << name << '[' << i << "]: " << mine[i] << ", expected " << values[i];
  }
  for (const auto& [name, values] : got) EXPECT_TRUE(expected.contains(name)) << name;
}

TEST(FrozenPlugin, ComputesTheNumbersOfItsVersion) {
#ifndef __x86_64__
  GTEST_SKIP() << "the binary plugins are built for x86-64";
#else
  const std::vector<std::string> versions = frozen_versions();
  EXPECT_FALSE(versions.empty())
      << "sdk/abi has no version that this host speaks: run scripts/freeze_abi.sh";
  for (const std::string& version : versions) {
    SCOPED_TRACE("ABI " + version);
    expect_numbers(FrozenRun(version).numbers(), read_numbers(version));
  }
#endif
}

}  // namespace
}  // namespace mneme::memory
