// The folder of a run: what `mneme eval`, `compare` and `report` read.
//
//   experiment.toml          the resolved experiment, every key written
//   run.json                 versions, device, seed, data checksums, plugins, processor, counts
//   metrics.jsonl            one JSON object a line: "kind": "step" | "eval"
//   vocabulary.json          of text; absent for ids and generated tasks
//   checkpoint.safetensors   see checkpoint.hpp
//   best.safetensors         the checkpoint of the lowest valid loss
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "host/base/json.hpp"
#include "host/config/experiment.hpp"
#include "host/data/vocabulary.hpp"
#include "host/train/observer.hpp"
#include "host/train/runtime.hpp"

namespace mneme::train {

class RunFolder {
 public:
  // Creates the folder and writes experiment.toml, run.json and vocabulary.json. Error (kUsage)
  // when the folder already holds a run, or is a file; Error (kRun) when it cannot be written.
  [[nodiscard]] static RunFolder create(const std::filesystem::path& path, const Runtime& runtime);
  // Opens an existing run. Error (kUsage) naming what is missing.
  [[nodiscard]] static RunFolder open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path checkpoint() const {
    return path_ / "checkpoint.safetensors";
  }
  // The checkpoint of the lowest valid loss; there only when train.eval_every is set.
  [[nodiscard]] std::filesystem::path best_checkpoint() const { return path_ / "best.safetensors"; }
  [[nodiscard]] std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  // The stored experiment.
  [[nodiscard]] config::Experiment experiment() const;
  // The stored vocabulary; none for ids and generated tasks.
  [[nodiscard]] std::optional<data::Vocabulary> vocabulary() const;
  // The stored run.json.
  [[nodiscard]] Json info() const;

  // Append one line. Error (kRun).
  void append(const StepReport& report) const;
  void append(const EvalReport& report) const;
  // Removes lines of steps after `step`, which a resumed run will write again.
  void truncate_metrics(std::int64_t step) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  void append_line(const Json& line) const;

  std::filesystem::path path_;
};

// What run.json holds: versions, host commit, device, threads, processor, seed, data, plugins,
// counts.
[[nodiscard]] Json describe_run(const Runtime& runtime);
[[nodiscard]] Json to_json(const memory::TierIdentity& identity);
[[nodiscard]] Json to_json(const StepReport& report);
[[nodiscard]] Json to_json(const EvalReport& report);

// A trained model ready for evaluation: the run's experiment with `memory` in place of its own when
// given, at eval.precision, its data with the stored vocabulary, and the checkpoint's weights. Tier
// parameters that the checkpoint lacks follow memory.carry.
[[nodiscard]] std::unique_ptr<Runtime> open_run(
    const std::filesystem::path& folder, const RuntimeOptions& options,
    const std::optional<config::MemoryConfig>& memory = std::nullopt);

}  // namespace mneme::train
