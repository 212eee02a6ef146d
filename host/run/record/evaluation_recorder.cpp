#include "host/run/record/evaluation_recorder.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/json_text.hpp"
#include "host/base/log.hpp"
#include "host/base/process/process.hpp"
#include "host/config/experiment.hpp"
#include "host/eval/result.hpp"
#include "host/run/host_commit.hpp"
#include "host/run/run_description.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/generated.hpp"
#include "host/scores/json_record.hpp"
#include "host/tensor/device.hpp"
#include "mneme/abi.h"

namespace mneme::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSettingsDigits = 8;

// At most so many targets, so that the columns need not grow; 0 = not known. Bounded, because
// eval.steps may be larger than any evaluation that ends.
std::int64_t expected_targets(const Runtime& runtime, data::Split split) {
  const data::StreamOptions options = evaluation_options(runtime.experiment(), *runtime.dataset());
  const std::int64_t all = runtime.dataset()->make_stream(split, options)->targets_per_epoch();
  const std::int64_t bound = options.max_segments * options.lanes * options.segment;
  constexpr std::int64_t kMaxTargets = std::int64_t{1} << 26;
  return std::min(all == 0 || bound == 0 ? std::max(all, bound) : std::min(all, bound),
                  kMaxTargets);
}

// What the experiment says of an evaluation's numbers beside the weights: without the training, and
// without the places of files, which may move.
std::string settings_text(config::Experiment experiment) {
  experiment.train = {};
  experiment.generate = {};
  experiment.memory.plugins.clear();
  experiment.memory.carry = config::Carry::kRefuse;
  for (config::TierConfig& tier : experiment.memory.tiers) {
    tier.sha256.clear();
    tier.lr.reset();
    tier.weight_decay.reset();
    tier.weights.clear();
  }
  for (fs::path* path : {&experiment.data.prepared, &experiment.data.train, &experiment.data.valid,
                         &experiment.data.test, &experiment.data.vocabulary_file}) {
    path->clear();
  }
  return config::to_toml(experiment);
}

// Of the data that were evaluated; other splits and places of files are left out.
std::string data_text(const data::Dataset& dataset, data::Split split) {
  Json data = dataset.describe();
  data.erase("prepared");
  for (const data::Split other : data::kSplits) {
    const std::string key(data::to_word(other));
    if (other != split) data.erase(key);
  }
  const std::string key(data::to_word(split));
  if (data.contains(key)) data[key].erase("files");
  return json_text(data);
}

scores::SampleUnit unit_of(const data::Dataset& dataset, data::Split split) {
  if (dataset.questions(split)) return scores::SampleUnit::kQuestion;
  if (dataset.answer_task()) return scores::SampleUnit::kSequence;
  if (dataset.has_sources()) return scores::SampleUnit::kEpisode;
  return dataset.corpus(split) ? scores::SampleUnit::kDocument : scores::SampleUnit::kLane;
}

}  // namespace

std::string_view to_word(StoredBy command) {
  return command == StoredBy::kTrain ? "train" : "eval";
}

EvaluationRecorder::EvaluationRecorder(const Runtime& runtime, data::Split split)
    : runtime_(runtime), split_(split), columns_(expected_targets(runtime, split)) {}

void EvaluationRecorder::listen(eval::Options& options) {
  // Of a text they would say little, and a text has many targets.
  const scores::SampleUnit unit = unit_of(*runtime_.dataset(), split_);
  const bool keeps_predictions = unit == scores::SampleUnit::kSequence ||
                                 unit == scores::SampleUnit::kQuestion ||
                                 runtime_.dataset()->has_sources();
  options.on_segment = [this, keeps_predictions](const data::TokenSegment& segment,
                                                 const scores::SegmentLosses& losses) {
    columns_.add(segment, losses, keeps_predictions);
  };
}

scores::EvaluationName evaluation_name(const Runtime& runtime, data::Split split,
                                       std::int64_t step) {
  Sha256 sha;
  sha.update(settings_text(runtime.experiment()));
  sha.update(data_text(*runtime.dataset(), split));
  for (const memory::TierIdentity& tier : runtime.stack().identities()) {
    sha.update(str(tier.id, ' ', tier.sha256, '\n'));
  }
  return {.split = std::string(data::to_word(split)),
          .step = step,
          .settings = sha.hex().substr(0, kSettingsDigits)};
}

Json EvaluationRecorder::info(const eval::Result& result, StoredBy command) const {
  const config::Experiment& experiment = runtime_.experiment();
  Json info = {{"seed", experiment.train.seed},
               {"task", config::to_word(experiment.data.task)},
               {"result", eval::to_json(result)},
               {"statement", eval::statement(result)},
               {"memory", config::to_toml(experiment.memory)},
               {"plugins", to_json(runtime_.stack().identities())},
               {"experiment", config::to_toml(experiment)},
               {"data", runtime_.dataset()->describe()},
               {"machine",
                {{"device", tensor::describe(runtime_.device())},
                 {"processor", tensor::processor_name()},
                 {"libtorch", tensor::torch_version()}}},
               {"threads", tensor::threads()},
               {"mneme", MNEME_SDK_VERSION},
               {"commit", host_commit()},
               {"state_bytes", result.state_bytes},
               {"seconds", number_or_null(result.seconds)},
               {"tokens_per_second", number_or_null(result.tokens_per_second())},
               {"written_by", to_word(command)},
               {"written", utc_now()}};
  const auto peak = peak_memory_bytes();
  info["peak_bytes"] = peak ? Json(*peak) : Json(nullptr);
  return info;
}

std::vector<std::int64_t> EvaluationRecorder::vocabulary_counts() const {
  const data::Dataset& dataset = *runtime_.dataset();
  const auto train = dataset.corpus(data::Split::kTrain);
  if (!dataset.training_counts().empty() || !train) return dataset.training_counts();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(dataset.vocabulary_size()), 0);
  for (std::int64_t i = 0; i < train->size(); ++i) {
    ++counts[static_cast<std::size_t>(train->tokens[i])];
  }
  return counts;
}

fs::path EvaluationRecorder::write(const fs::path& run_folder, std::int64_t step,
                                   const eval::Result& result, StoredBy command) {
  scores::EvaluationToStore evaluation{.name = name(step),
                                       .unit = unit_of(*runtime_.dataset(), split_),
                                       .info = info(result, command)};
  if (const auto task = runtime_.dataset()->answer_task()) {
    evaluation.groups = [task, this](std::int64_t sequence) {
      return task->sequence(data::to_word(split_), sequence).slices;
    };
  }
  if (const auto data = runtime_.dataset()->questions(split_)) {
    evaluation.groups = [data](std::int64_t question) {
      return data->questions[data::at(question)].groups;
    };
    evaluation.units = [data](std::int64_t question) {
      return data->questions[data::at(question)].unit;
    };
  }
  if (!scores::has_vocabulary_counts(run_folder)) {
    evaluation.vocabulary_counts = vocabulary_counts();
  }
  return scores::write_evaluation(run_folder, evaluation, columns_);
}

void retain_trained_evaluations(const fs::path& run_folder, const scores::EvaluationName& newest,
                                std::int64_t best_step) {
  scores::remove_evaluations(run_folder, [&](const scores::EvaluationName& name, const Json& info) {
    const bool is_trained = info.value("written_by", Json()) == Json(to_word(StoredBy::kTrain));
    return is_trained && name.split == newest.split && name.settings == newest.settings &&
           name.step != newest.step && name.step != best_step;
  });
}

void drop_later_evaluations(const fs::path& run_folder, std::int64_t step) {
  try {
    scores::remove_evaluations(
        run_folder, [&](const scores::EvaluationName& name, const Json& info) {
          if (name.step <= step) return false;
          if (info.value("written_by", Json()) != Json(to_word(StoredBy::kTrain))) {
            log_warning(run_folder.string(), ": deleted the stored evaluation ", to_text(name),
                        ": the run continues from step ", step);
          }
          return true;
        });
    for (const std::string_view folder : {scores::kGeneratedFolder, scores::kDiagnosticsFolder}) {
      scores::remove_later_records(run_folder / folder, step);
    }
  } catch (const Error& error) {
    log_warning(error.what());
  }
}

}  // namespace mneme::run
