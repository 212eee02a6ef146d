// Which runs can go on from a checkpoint.
#include <set>
#include <sstream>

#include "host/base/error.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/checkpoint/checkpoint_format.hpp"

namespace mneme::run {
namespace {

constexpr std::size_t kShownDifferences = 5;

// The first lines of a list of problems.
std::string first_of(const std::vector<std::string>& lines) {
  std::string text;
  for (std::size_t i = 0; i < lines.size() && i < kShownDifferences; ++i) text += "\n  " + lines[i];
  if (lines.size() > kShownDifferences) {
    text += str("\n  and ", lines.size() - kShownDifferences, " more");
  }
  return text;
}

// What of an experiment a resumed run depends on: paths, pins, lengths and reporting do not count.
config::Experiment essence(config::Experiment experiment) {
  experiment.memory.plugins.clear();
  for (config::TierConfig& tier : experiment.memory.tiers) tier.sha256.clear();
  for (std::filesystem::path* path :
       {&experiment.data.train, &experiment.data.valid, &experiment.data.test,
        &experiment.data.prepared, &experiment.data.vocabulary_file}) {
    path->clear();
  }
  experiment.eval = {};
  experiment.generate = {};
  const config::TrainConfig none;
  experiment.train.steps = 1;
  experiment.train.epochs = 0;
  experiment.train.log_every = none.log_every;
  experiment.train.eval_every = none.eval_every;
  experiment.train.save_every = none.save_every;
  experiment.train.early_stop = none.early_stop;
  experiment.train.keep_checkpoints = none.keep_checkpoints;
  experiment.train.tensorboard = none.tensorboard;
  return experiment;
}

// "[section] key = value" of every line.
std::set<std::string> settings_of(const config::Experiment& experiment) {
  std::set<std::string> out;
  std::istringstream in(config::to_toml(essence(experiment)));
  std::string section;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("[")) section = line;
    if (!line.empty()) out.insert(section == line ? line : section + " " + line);
  }
  return out;
}

}  // namespace

void refuse_checkpoint(const SafetensorsFile& file, const std::string& failed,
                       const std::vector<std::string>& differences, const std::string& hint) {
  throw_usage({.where = file.path().string(),
               .failed = failed + first_of(differences) + "\n",
               .hint = hint});
}

bool Checkpoint::holds_whole_run() const {
  const auto found = file_.metadata().find(kContents);
  return found == file_.metadata().end() || found->second != kWeightsOnly;
}

void Checkpoint::check_whole_run() const {
  if (holds_whole_run()) return;
  throw_usage({.where = path().string(),
               .failed = "it holds weights alone: there is no training to resume",
               .hint = "start a new run from them with mneme train EXP --init RUN"});
}

void Checkpoint::check_resumable(const config::Experiment& experiment) const {
  check_whole_run();
  const std::set<std::string> theirs = settings_of(experiment_);
  const std::set<std::string> ours = settings_of(experiment);
  std::vector<std::string> differences;
  for (const std::string& line : theirs) {
    if (!ours.contains(line)) differences.push_back("checkpoint: " + line);
  }
  for (const std::string& line : ours) {
    if (!theirs.contains(line)) differences.push_back("this run:   " + line);
  }
  if (!differences.empty()) {
    refuse_checkpoint(file_, "the checkpoint was written with other settings:", differences,
                      "resume with the experiment that wrote it, or start a new run");
  }
}

}  // namespace mneme::run
