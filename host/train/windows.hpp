// What model.window leaves out of a memory's rows, for dry runs and as warnings of trainings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/run/runtime.hpp"

namespace mneme::train {

// The layers of a model that have the same window.
struct WindowedLayers {
  std::int64_t window = 0;  // tokens; 0 = none
  std::int64_t count = 0;   // those with attention; 0 = a memory replaces the attention of all
  std::int64_t rows = 0;    // of the memory before a segment of training, at most, in one of them

  // What the window leaves out, or that no layer has it; "" = nothing to say.
  [[nodiscard]] std::string problem() const;
};

// By windows, rising; none without model.window. `tokens`: those that a lane reads before all lanes
// are reset (run::training_reach).
[[nodiscard]] std::vector<WindowedLayers> windowed_layers(const config::ModelConfig& model,
                                                          const memory::Stack& stack,
                                                          double tokens);

// A line for each window with a problem.
[[nodiscard]] std::vector<std::string> window_warnings(const run::Runtime& runtime);

}  // namespace mneme::train
