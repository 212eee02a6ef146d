#include "host/compare/planning/disk.hpp"

#include <algorithm>
#include <system_error>

#include "host/base/text.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;

// Of a target in a stored evaluation, and of what else a run's folder holds: the log, event files,
// the report's part.
constexpr std::int64_t kTargetBytes = 30;
constexpr std::int64_t kFolderBytes = std::int64_t{1} << 20;

// Checkpoints that are there at the end: of the last step, and the newest ones of train.save_every.
std::int64_t checkpoints_of(const config::TrainConfig& train, std::int64_t steps) {
  if (train.save_every == 0) return 1;
  return std::min(train.keep_checkpoints, (steps + train.save_every - 1) / train.save_every);
}

std::int64_t bytes_of_parameters(const run::Runtime& runtime) {
  std::int64_t numbers = 0;
  for (const optim::TrainableParameter& parameter : runtime.parameters()) {
    const std::int64_t moments = parameter.is_frozen ? 0 : parameter.by_muon ? 1 : 2;
    const std::int64_t averages =
        !parameter.is_frozen && runtime.experiment().train.average > 0.0 ? 1 : 0;
    numbers += parameter.tensor.numel() * (1 + moments + averages);
  }
  return (runtime.precision() == config::Precision::kF64 ? 8 : 4) * numbers;
}

std::int64_t bytes_in(const fs::path& folder) {
  std::error_code ignored;
  std::int64_t bytes = 0;
  for (fs::recursive_directory_iterator entry(folder, ignored), end; entry != end;
       entry.increment(ignored)) {
    const auto size = entry->is_regular_file(ignored) ? entry->file_size(ignored) : 0;
    if (size != static_cast<std::uintmax_t>(-1)) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

}  // namespace

std::int64_t run_disk_bytes(const run::Runtime& runtime, const std::vector<data::Split>& splits,
                            std::int64_t steps, std::int64_t state_bytes) {
  const config::Experiment& experiment = runtime.experiment();
  std::int64_t targets = 0;
  for (const data::Split split : splits) {
    targets += runtime.evaluation_segments(split) * experiment.eval.lanes * experiment.eval.segment;
  }
  return checkpoints_of(experiment.train, steps) * (bytes_of_parameters(runtime) + state_bytes) +
         targets * kTargetBytes + kFolderBytes;
}

std::int64_t disk_left(const ArmRecord& arm, std::int64_t run_bytes, const fs::path& folder) {
  std::int64_t bytes = 0;
  for (const RunRecord& run : arm.runs) {
    if (run.is_done()) continue;
    bytes += std::max<std::int64_t>(0, run_bytes - bytes_in(folder / run.folder));
  }
  return bytes;
}

std::int64_t disk_left(const Record& record, const fs::path& folder) {
  std::int64_t bytes = 0;
  for (const ArmRecord& arm : record.arms)
    bytes += arm.runs_of.empty() ? disk_left(arm, arm.disk_bytes, folder) : 0;
  return bytes;
}

std::int64_t free_disk(fs::path folder) {
  std::error_code code;
  folder = fs::absolute(folder, code);
  while (!fs::exists(folder, code) && folder.has_relative_path()) folder = folder.parent_path();
  const fs::space_info space = fs::space(folder, code);
  return code ? -1 : static_cast<std::int64_t>(space.available);
}

std::string disk_warning(std::int64_t bytes, std::int64_t free) {
  if (free < 0 || bytes <= free) return "";
  return str("the runs will take about ", human_bytes(static_cast<std::uint64_t>(bytes)),
             " of the disk, ", human_bytes(static_cast<std::uint64_t>(free)),
             " are free: make room, or name another place with --run DIR");
}

}  // namespace mneme::compare
