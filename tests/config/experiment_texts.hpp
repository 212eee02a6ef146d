// Short experiments as texts, and helpers that return their errors.
#pragma once

#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::config {

inline const std::string kMotif = "[data]\ntask = \"motif\"\n[train]\nsteps = 10\n";
inline const std::string kTextTask =
    "[data]\ntask = \"text\"\ntrain = \"t.txt\"\n[train]\nsteps = 10\n";

inline Experiment parse(const std::string& text, const std::vector<Override>& overrides = {}) {
  return parse_experiment_text(text, "e.toml", "/base", overrides);
}

// All problems of the text; "" when there is none.
inline std::string parse_error(const std::string& text) {
  return test::error_of([&] { static_cast<void>(parse(text)); });
}

// The problems of a [model] that follows a complete rest.
inline std::string model_error(const std::string& lines) {
  return parse_error("[model]\n" + lines + kMotif);
}

inline std::string train_error(const std::string& lines) {
  return parse_error("[data]\ntask = \"motif\"\n[train]\n" + lines);
}

}  // namespace mneme::config
