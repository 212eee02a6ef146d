// Official weights as a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "host/config/experiment.hpp"
#include "host/data/text/vocabulary.hpp"
#include "host/weights/initial_weights.hpp"

namespace mneme::weights {

struct ImportOptions {
  std::filesystem::path folder = {};  // of the new run
  std::string prefix = {};            // in front of every name
  std::filesystem::path names = {};   // a name map; default: beside the library of a tier
  std::optional<data::Vocabulary> vocabulary = std::nullopt;  // of text; default: as [data] says
};

struct ImportReport {
  InitialWeights weights = {};
  std::int64_t backbone_parameters = 0;  // numbers
  std::int64_t memory_parameters = 0;
};

// Makes a run's folder of official weights (kimiyoung/transformer-xl, pytorch/, or what a name map
// says: the names of the state dict) and an experiment: it can be evaluated and start new runs
// (`mneme train --init`). The folder appears whole or not at all. No split of the data is read;
// only the vocabulary.
// Errors: Error (kUsage) when `weights` is a checkpoint or the folder is not empty; Error (kRun)
// with every tensor and setting that does not fit; as Runtime and RunFolder::create give them.
ImportReport import_official(const std::filesystem::path& weights,
                             const config::Experiment& experiment, const ImportOptions& options);

}  // namespace mneme::weights
