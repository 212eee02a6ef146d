// Saving, loading and resuming a session.
#include "host/base/error.hpp"
#include "host/torch.hpp"
#include "host/train/checkpoint.hpp"
#include "host/train/run_description.hpp"
#include "host/train/session.hpp"

namespace mneme::train {

std::unique_ptr<Session> Session::resume(const std::filesystem::path& folder,
                                         SessionOptions options) {
  std::unique_ptr<RunWriter> writer = RunWriter::reopen(folder);
  const RunFolder& run = writer->folder();
  const config::Experiment experiment = run.experiment();
  const Json info = run.info();
  std::optional<Checkpoint> checkpoint;
  if (!run.checkpoints().steps().empty() || options.checkpoint != "last") {
    checkpoint.emplace(
        run.open_checkpoint(options.checkpoint, str("mneme train --resume ", folder.string())));
    checkpoint->check_whole_run();
  } else if (info.contains("initial_weights")) {
    throw_usage({.where = folder.string(),
                 .failed = "the run began with given weights, and the checkpoint with them is gone",
                 .hint = "start a new run with mneme train EXP --init SOURCE"});
  }
  if (!options.runtime.dataset) {
    data::DatasetOptions data;
    data.vocabulary = run.vocabulary();
    options.runtime.dataset = std::make_shared<const data::Dataset>(experiment.data, data);
  }
  check_data(info, options.runtime.dataset->describe());
  const bool may_change = options.may_change_plugins;
  options.folder.clear();
  options.runtime.weights_follow = checkpoint.has_value();
  auto session = std::make_unique<Session>(experiment, std::move(options));
  if (!may_change) {
    check_plugins(checkpoint ? checkpoint->plugins() : read_plugins(info),
                  session->runtime().stack().identities());
  }
  RunProgress progress;
  if (checkpoint) {
    session->load(*checkpoint);
    progress = checkpoint->progress();
  }
  writer->continue_from(progress, session->runtime());
  session->writer_ = std::move(writer);
  return session;
}

void Session::save() {
  if (!writer_) {
    throw_usage({.where = "checkpoint",
                 .failed = "the session has no folder",
                 .expected = "SessionOptions::folder"});
  }
  save(writer_->prepare_checkpoint(step_));
  writer_->retain_checkpoints(valid_.best_step);
}

void Session::save(const std::filesystem::path& path) {
  RunProgress progress;
  progress.step = step_;
  progress.tokens = tokens_;
  progress.seconds = seconds_;
  progress.metrics_lines = writer_ ? writer_->metrics_lines() : 0;
  progress.valid = valid_;
  progress.data_position = stream_->position();
  progress.noise_position = runtime_->model().noise_position();
  write_checkpoint(path, *runtime_, *optimizer_, state_, progress);
  last_checkpoint_ = path;
  last_checkpoint_step_ = step_;
}

void Session::load(const std::filesystem::path& path) { load(Checkpoint::open(path)); }

void Session::load(const Checkpoint& checkpoint) {
  // First: a default on either side stands in no experiment.
  const auto changes = runtime_->stack().changed_options(checkpoint.trained_options());
  if (!changes.empty()) {
    memory::throw_changed_options(
        checkpoint.path().string(), changes,
        "resume with the experiment and the plugins that wrote it, or start a new run");
  }
  checkpoint.check_resumable(experiment());
  checkpoint.check_moments(*optimizer_);
  memory::StackState state = checkpoint.load_state(*runtime_);
  const std::vector<std::int64_t> place = stream_->position();
  stream_->seek(checkpoint.progress().data_position);
  try {
    static_cast<void>(checkpoint.load_weights(*runtime_, config::Carry::kRefuse));
  } catch (...) {
    stream_->seek(place);
    throw;
  }
  checkpoint.load_moments(*optimizer_);
  state_ = std::move(state);
  runtime_->model().seek_noise(checkpoint.progress().noise_position);
  step_ = checkpoint.progress().step;
  tokens_ = checkpoint.progress().tokens;
  seconds_ = checkpoint.progress().seconds;
  valid_ = checkpoint.progress().valid;
  last_checkpoint_ = checkpoint.path();
  last_checkpoint_step_ = step_;
}

}  // namespace mneme::train
