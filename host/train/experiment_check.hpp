// What an experiment file says, checked and with every default filled in.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"

namespace mneme::train {

// An experiment file as the command line names it.
struct ExperimentSource {
  std::filesystem::path path;
  std::optional<std::filesystem::path> memory = std::nullopt;  // in place of its [memory]
  std::vector<config::Override> overrides = {};
};

struct ExperimentCheck {
  config::Experiment experiment;     // every default filled in, the plugins' options too
  std::vector<std::string> checked;  // "the keys of ...", a line each
};

// Checks the keys, each tier's plugin with its options and weights, then that the data files are
// there and the plugins make their tiers; no data are read. Error (kUsage) with every problem.
[[nodiscard]] ExperimentCheck check_experiment(const ExperimentSource& source);

// The experiment with every default filled in, the plugins' options too. Errors: as
// parse_experiment, PluginLoader and config::resolve_options give them.
[[nodiscard]] config::Experiment resolve_experiment(const ExperimentSource& source);

}  // namespace mneme::train
