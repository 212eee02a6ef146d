#include "host/train/windows.hpp"

#include <algorithm>
#include <map>

#include "host/base/text.hpp"
#include "host/memory/tier/tier.hpp"
#include "host/run/cost/reach.hpp"

namespace mneme::train {
namespace {

// Rows that the contexts of a layer hold at most.
std::int64_t rows_of(const memory::Stack& stack, std::int64_t layer) {
  std::int64_t rows = 0;
  for (const auto& tier : stack.tiers()) {
    if (tier->served_index(layer) < 0) continue;
    rows += tier->instance(memory::Phase::kTraining).traits().context_rows;
  }
  return rows;
}

}  // namespace

std::string WindowedLayers::problem() const {
  if (window == 0) return "";
  if (count == 0) return "a memory replaces the attention of all layers that have it";
  if (rows < window) return "";
  return str("rows by place beyond the nearest ", window - 1, " of the memory's ", rows,
             " are never attended to");
}

std::vector<WindowedLayers> windowed_layers(const config::ModelConfig& model,
                                            const memory::Stack& stack, double tokens) {
  if (model.window.empty()) return {};
  const memory::ReplacedLayers replaced = stack.replaced_layers();
  std::map<std::int64_t, WindowedLayers> layers;
  for (std::int64_t i = 0; i < model.layers; ++i) {
    WindowedLayers& one = layers[model.window_of(i)];
    one.window = model.window_of(i);
    if (replaced.contains(i)) continue;
    ++one.count;
    one.rows = std::max(one.rows, run::reached_rows(rows_of(stack, i), tokens));
  }
  std::vector<WindowedLayers> out;
  for (const auto& [window, one] : layers) out.push_back(one);
  return out;
}

std::vector<std::string> window_warnings(const run::Runtime& runtime) {
  std::vector<std::string> lines;
  for (const WindowedLayers& one :
       windowed_layers(runtime.experiment().model, runtime.stack(),
                       run::reach_of(runtime, memory::Phase::kTraining))) {
    if (one.problem().empty()) continue;
    const std::string layers =
        one.count == 0 ? " has no effect: "
                       : str(": in ", one.count, one.count == 1 ? " layer " : " layers ");
    lines.push_back(str("model.window = ", one.window, layers, one.problem()));
  }
  return lines;
}

}  // namespace mneme::train
