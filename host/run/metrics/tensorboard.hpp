// Reports of a run as TensorBoard's scalars.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "host/run/metrics/event_file.hpp"
#include "host/run/observer.hpp"

namespace mneme::run {

// train/loss, train/grad_norm, train/lr, train/tokens_per_second (since the report of `tokens` and
// `seconds`; absent when no time has passed), loss/<tier>.<name>, memory/<tier>.<name>.
[[nodiscard]] std::vector<Scalar> scalars_of(const StepReport& report, std::int64_t tokens,
                                             double seconds);
// <split>/loss, perplexity, accuracy, bits_per_character, state_bytes, tokens_per_second, and the
// tiers' <split>/loss/<tier>.<name>, <split>/memory/<tier>.<name>; those that are known.
[[nodiscard]] std::vector<Scalar> scalars_of(const EvalReport& report);

// The event files of a run, in one folder: a new one for every process that has something to add.
class TensorBoard {
 public:
  // Of a run that has done `step` steps on `tokens` targets in `seconds`.
  TensorBoard(std::filesystem::path folder, std::int64_t step, std::int64_t tokens, double seconds)
      : folder_(std::move(folder)), step_(step), tokens_(tokens), seconds_(seconds) {}

  // Errors as EventFile.
  void add(const StepReport& report);
  void add(const EvalReport& report);

 private:
  EventFile& file();

  std::filesystem::path folder_;
  std::optional<EventFile> file_;  // made with the first report
  std::int64_t step_;
  std::int64_t tokens_;
  double seconds_;
};

}  // namespace mneme::run
