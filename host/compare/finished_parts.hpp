// What a run of a comparison has stored already, and whether it belongs to the comparison that asks
// for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/compare/runs.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/scores/stored_evaluation.hpp"

namespace mneme::compare {

struct FoundEvaluation {
  std::string name;   // of its folder
  double loss = 0.0;  // nats a token
};

// The run's finished evaluation of a split with its last weights, its own memory and settings, and
// these plugins; nullopt when there is none. `others` gets those of the split that cannot be used,
// damaged ones too, with the reason.
[[nodiscard]] std::optional<FoundEvaluation> find_evaluation(
    const std::filesystem::path& run_folder, data::Split split, std::int64_t last_step,
    const std::vector<memory::TierIdentity>& plugins, std::vector<std::string>& others);

// Whether a run has its last checkpoint, of this step, and evaluations of all splits of the
// comparison; false where they cannot be read.
[[nodiscard]] bool is_complete(const std::filesystem::path& run_folder, const Record& record,
                               const std::vector<memory::TierIdentity>& plugins,
                               std::int64_t last_step);

// Whether a file holds the samples that the comparison asks for; false when it is damaged.
[[nodiscard]] bool has_samples(const std::filesystem::path& file, const Record& record);

// Likewise the diagnostics.
[[nodiscard]] bool has_diagnostics(const std::filesystem::path& file, const Record& record);

// Why a stored evaluation is not the one of a run's end: it is of another step or experiment (the
// text of experiment.toml), or was made with other plugin files; "" = it is.
[[nodiscard]] std::string why_unfit(const scores::StoredEvaluation& stored, std::int64_t last_step,
                                    const std::string& experiment,
                                    const std::vector<memory::TierIdentity>& plugins);

// Error (kRun) when a run was trained by another program than this one, or with other plugin files
// than these: one was replaced while the comparison ran. `info` is run.json, `where` names the run.
void check_same_files(const Json& info, const std::vector<memory::TierIdentity>& plugins,
                      const std::string& where);

}  // namespace mneme::compare
