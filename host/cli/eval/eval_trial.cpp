// Trials of the memories of mneme eval
#include <algorithm>
#include <filesystem>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/interrupt.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

bool tries(const EvalArguments& arguments) {
  return arguments.memory.size() > 1 && !arguments.has_no_trial;
}

}  // namespace

trial::TrialRequest trial_request(const EvalArguments& arguments, const fs::path& experiment,
                                  std::size_t index) {
  trial::TrialRequest request{.experiment = experiment,
                              .memory = std::nullopt,
                              .set = arguments.set.words(),
                              .device = arguments.machine.device,
                              .threads = arguments.machine.threads,
                              .seconds = arguments.trial_seconds,
                              .is_locked = arguments.is_locked,
                              .signal_mask = inherited_signal_mask()};
  if (!arguments.memory.empty()) request.memory = arguments.memory.at(index);
  return request;
}

std::optional<Error> Trials::failure_of(const run::SweepMemory& memory, std::size_t index) {
  if (!tries(arguments_) || memory.memory.tiers.empty()) return std::nullopt;
  std::set<std::string> files;
  try {
    for (const fs::path& file : trial::plugin_files(memory.memory)) files.insert(sha256_file(file));
  } catch (const Error&) {
    return std::nullopt;
  }
  if (std::ranges::includes(passed_, files)) return std::nullopt;
  const fs::path experiment = fs::path(arguments_.run) / "experiment.toml";
  try {
    static_cast<void>(
        trial::try_in_child(trial_request(arguments_, experiment, index), memory.memory, nullptr));
  } catch (const Error& error) {
    return error;
  }
  passed_.merge(files);
  return std::nullopt;
}

}  // namespace mneme::cli
