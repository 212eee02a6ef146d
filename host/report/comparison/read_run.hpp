// One run folder, read without LibTorch: its experiment, curves and stored evaluations.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"
#include "host/report/comparison/comparison.hpp"

namespace mneme::report {

struct ReadRun {
  Run run;
  std::string experiment;
  config::Value root;                               // of the experiment
  std::optional<scores::MemoryChecks> checks = {};  // before the training
};

// Everything of a run folder. `shown` names it in messages. Lines of metrics.jsonl that are no
// metrics, and stored evaluations that cannot be read, are left out; a sentence of each goes to
// `notes`. Error (kRun) when run.json or experiment.toml cannot be read.
[[nodiscard]] ReadRun read_run(const std::filesystem::path& folder, const std::string& shown,
                               std::vector<std::string>& notes);

// A file as JSON. Error (kRun) with `hint` when it is damaged.
[[nodiscard]] Json read_json(const std::filesystem::path& file, const char* hint);
// The checksum of each entry of the key "plugins"; "" where there is none.
[[nodiscard]] std::vector<std::string> checksums_of(const Json& info);
// A description of data (data::Dataset::describe()) without the paths of files.
[[nodiscard]] Json without_paths(const Json& data);

}  // namespace mneme::report
