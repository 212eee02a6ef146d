// Stores evaluations of a runtime in a run's folder (host/scores says in which form).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "host/data/dataset.hpp"
#include "host/eval/evaluator.hpp"
#include "host/run/runtime.hpp"
#include "host/scores/evaluation_files.hpp"

namespace mneme::run {

// The command that an evaluation was stored by: the key `written_by`.
enum class StoredBy { kTrain, kEval };

[[nodiscard]] std::string_view to_word(StoredBy command);

// The name that an evaluation of a runtime's weights, those after `step` steps, has.
[[nodiscard]] scores::EvaluationName evaluation_name(const Runtime& runtime, data::Split split,
                                                     std::int64_t step);

// Collects one evaluation of a runtime and writes it. `mneme train` and `mneme eval` name equal
// evaluations alike, so that one replaces the other.
class EvaluationRecorder {
 public:
  // `runtime` must be as it is evaluated, and outlives the recorder.
  EvaluationRecorder(const Runtime& runtime, data::Split split);

  // Sets on_segment, which refers to the recorder.
  void listen(eval::Options& options);
  // As evaluation_name.
  [[nodiscard]] scores::EvaluationName name(std::int64_t step) const {
    return evaluation_name(runtime_, split_, step);
  }
  // Writes RUN/evaluations/<name>, and the counts of the vocabulary when the run has none and the
  // runtime knows them. Errors as scores::write_evaluation.
  std::filesystem::path write(const std::filesystem::path& run_folder, std::int64_t step,
                              const eval::Result& result, StoredBy command);

 private:
  [[nodiscard]] Json info(const eval::Result& result, StoredBy command) const;
  [[nodiscard]] std::vector<std::int64_t> vocabulary_counts() const;

  const Runtime& runtime_;
  data::Split split_;
  scores::Columns columns_;
};

// Removes the evaluations that a training stored of this name's split and settings, but those of
// its step and of `best_step`. Error (kRun) when one cannot be removed.
void retain_trained_evaluations(const std::filesystem::path& run_folder,
                                const scores::EvaluationName& newest, std::int64_t best_step);

// Removes evaluations, generated samples and diagnostics of steps after `step`, whose weights are
// gone, and warns, through the log, of each that `mneme eval` stored: the continued training stores
// its own again. One that cannot be removed stays, with a warning.
void drop_later_evaluations(const std::filesystem::path& run_folder, std::int64_t step);

}  // namespace mneme::run
