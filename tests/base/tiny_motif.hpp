// Parts of the small motif experiments that tests train.
#pragma once

#include <string>

namespace mneme::test {

// [model] of one narrow layer.
inline std::string tiny_model(const std::string& dropout = "0.0") {
  return "[model]\nlayers = 1\nheads = 2\nwidth = 16\nff = 32\ndropout = " + dropout + "\n\n";
}

inline constexpr const char* kMotifData =
    "[data]\ntask = \"motif\"\nalphabet = 8\nperiod_min = 4\nperiod_max = 24\n\n";

// A whole experiment of five steps without a memory.
inline std::string tiny_experiment() {
  return tiny_model() + kMotifData + "[train]\nsegment = 8\nlanes = 4\nsteps = 5\n";
}

}  // namespace mneme::test
