// Evaluates, saves, loads and resumes a training run.
#include <nlohmann/json.hpp>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/run_description.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"

namespace mneme::train {
namespace {

// The experiment with another length.
config::Experiment with_steps(config::Experiment experiment, std::int64_t steps) {
  if (steps == 0) return experiment;
  const std::int64_t warmup = experiment.train.warmup;
  const std::int64_t decay = experiment.train.decay_steps(steps);
  if (steps < warmup + decay) {
    throw_usage({.where = "--steps",
                 .failed = steps < warmup ? "the run would end within its warm-up"
                                          : "the decay would begin within the warm-up",
                 .expected = decay == 0 ? str("at least train.warmup, ", warmup)
                                        : str("at least train.warmup, ", warmup,
                                              ", and train.decay_share of the steps, ", decay),
                 .got = str(steps)});
  }
  experiment.train.steps = steps;
  experiment.train.epochs = 0;
  return experiment;
}

void check_extension(const std::filesystem::path& folder, const Trainer& trainer) {
  if (trainer.is_finished() && trainer.step() < trainer.total_steps()) {
    throw_usage(
        {.where = "--steps",
         .failed = str(folder.string(), " stopped early, after step ", trainer.step(),
                       ": more steps do not continue it"),
         .expected = str("fewer than train.early_stop = ", trainer.experiment().train.early_stop,
                         " evaluations without a lower loss"),
         .got = str(trainer.valid_record().evaluations_since_best),
         .hint = "raise early_stop in its experiment.toml, or start a new run with mneme "
                 "train EXP --init RUN"});
  }
  if (!trainer.is_finished()) return;
  throw_usage({.where = "--steps",
               .failed = "the run would not continue",
               .expected = str("more than the ", trainer.step(), " steps that ", folder.string(),
                               " has done"),
               .got = str(trainer.total_steps())});
}

// The run's folder as a rank other than 0 sees it.
run::RunFolder seen_by_rank(const std::filesystem::path& folder, const ranks::Communicator& ranks) {
  try {
    return run::RunFolder::open(folder);
  } catch (const Error& error) {
    throw_usage({.where = name_of(ranks, ranks.rank()),
                 .failed = str("it does not see the run that rank 0 resumes: ", error.what()),
                 .hint = str("put ", folder.string(),
                             " on a file system that all hosts share; a new run needs none")});
  }
}

// "train.steps = 100" or "train.epochs = 3".
std::string length_text(const config::TrainConfig& train) {
  return train.steps > 0 ? str("train.steps = ", train.steps)
                         : str("train.epochs = ", train.epochs);
}

// The length is the one setting of the training that may be edited: it is that of --steps.
void note_edited_length(const std::filesystem::path& folder, const config::TrainConfig& saved,
                        const config::TrainConfig& now) {
  const std::string before = length_text(saved), after = length_text(now);
  if (before == after) return;
  log_info(folder.string(), ": the checkpoint was saved with ", before, ", experiment.toml has ",
           after, ": the run goes on as with --steps, by the schedule of its new length");
}

// Where the experiment was edited, its keys say more than the numbers that follow from them.
void check_data(const Json& info, const Json& data, const std::optional<run::Checkpoint>& saved,
                const config::Experiment& experiment) {
  try {
    run::check_data(info, data);
  } catch (const Error&) {
    if (saved) saved->check_resumable(experiment);
    throw;
  }
}

// The checkpoint that the run continues from; none when it begins anew.
std::optional<run::Checkpoint> open_checkpoint(const std::filesystem::path& folder,
                                               const run::RunFolder& run,
                                               const std::string& which) {
  if (!run.checkpoints().steps().empty() || which != "last") {
    const std::string command = str("mneme train --resume ", shell_word(folder.string()));
    std::optional<run::Checkpoint> checkpoint(
        run.open_checkpoint(which, command, run::CheckpointUse::kTraining));
    checkpoint->check_whole_run();
    return checkpoint;
  }
  if (!run.info().contains("initial_weights")) return {};
  throw_usage(
      {.where = folder.string(),
       .failed = "the run began with given weights, and the checkpoint that holds them is missing",
       .hint = "start a new run with mneme train EXP --init SOURCE"});
}

}  // namespace

// A resume that fails changes nothing in the folder, on no rank: it is locked first, then everything
// is read and checked, files before the data and the model, which take longer; the folder is changed
// last.
std::unique_ptr<Trainer> Trainer::resume(const std::filesystem::path& folder,
                                         TrainerOptions options) {
  const RankOptions ranks = options.ranks;
  std::unique_ptr<LogFile> log;
  std::unique_ptr<run::RunWriter> writer;
  if (ranks.is_writer()) {
    log = std::make_unique<LogFile>();
    writer = run::RunWriter::reopen(folder);
  }
  const run::RunFolder run = writer ? writer->folder() : seen_by_rank(folder, *ranks.ranks);
  const std::int64_t steps = options.steps;
  const config::Experiment experiment = with_steps(run.experiment(), steps);
  const std::optional<run::Checkpoint> checkpoint =
      open_checkpoint(folder, run, options.checkpoint);
  if (!options.runtime.dataset) {
    data::DatasetOptions data;
    data.vocabulary = run.vocabulary();
    options.runtime.dataset = std::make_shared<const data::Dataset>(experiment.data, data);
  }
  check_data(run.info(), options.runtime.dataset->describe(), checkpoint, experiment);
  const bool may_change = options.may_change_plugins;
  const bool is_locked = options.is_locked;
  options.folder.clear();  // the folder of a new run
  options.runtime.weights_follow = checkpoint.has_value();
  auto trainer = std::make_unique<Trainer>(experiment, std::move(options));
  if (!may_change) {
    run::check_plugins(checkpoint ? checkpoint->plugins() : run::read_plugins(run.info()),
                       trainer->runtime().stack().identities(), is_locked);
  }
  if (checkpoint) trainer->load(*checkpoint);
  if (steps > 0) check_extension(folder, *trainer);
  trainer->has_folder_ = true;
  // Rank 0 changes the folder when all have read it.
  if (ranks.is_parallel()) ranks.ranks->meet("resuming the run");
  if (!writer) return trainer;
  writer->continue_from(checkpoint ? checkpoint->progress() : run::RunProgress(),
                        trainer->runtime());
  if (steps > 0) write_file_atomic(run.experiment_file(), config::to_toml(experiment));
  if (checkpoint && steps == 0) {
    note_edited_length(folder, checkpoint->experiment().train, experiment.train);
  }
  log->open(run.log());
  trainer->log_ = std::move(log);
  trainer->writer_ = std::move(writer);
  return trainer;
}

void Trainer::with_averages(const std::function<void()>& body) {
  if (!average_) return body();
  const auto exchange = [&] {
    average_->exchange();
    runtime_->weights_changed();
  };
  exchange();
  try {
    body();
  } catch (...) {
    exchange();
    throw;
  }
  exchange();
}

eval::Result Trainer::evaluate_split(data::Split split, eval::Options options,
                                     std::int64_t segments) {
  eval::Result result;
  with_averages([&] { result = evaluate_weights(split, std::move(options), segments); });
  return result;
}

eval::Result Trainer::evaluate_weights(data::Split split, eval::Options options,
                                       std::int64_t segments) {
  if (experiment().eval.precision == runtime_->precision()) {
    is_training_mode_ = false;
    return runtime_->evaluate_split(split, std::move(options), segments);
  }
  if (!eval_runtime_) {
    run::RuntimeOptions with;
    with.device = runtime_->device();
    with.precision = experiment().eval.precision;
    with.dataset = runtime_->dataset();
    with.loader = runtime_->loader();
    with.weights_follow = true;
    eval_runtime_ = std::make_unique<run::Runtime>(experiment(), with);
  }
  eval_runtime_->copy_parameters(*runtime_);
  return eval_runtime_->evaluate_split(split, std::move(options), segments);
}

void Trainer::store(run::EvaluationRecorder& recorder, const run::EvalReport& report) {
  const std::filesystem::path& folder = writer_->folder().path();
  try {
    recorder.write(folder, report.step, report.result, run::StoredBy::kTrain);
    run::retain_trained_evaluations(folder, recorder.name(report.step), done_.valid.best_step);
  } catch (const std::exception& error) {
    log_warning("the evaluation of step ", report.step, " is not stored: ", error.what());
  }
}

void Trainer::save() {
  if (!has_folder_) {
    throw_usage({.where = "checkpoint",
                 .failed = "the trainer has no folder",
                 .expected = "TrainerOptions::folder"});
  }
  if (!writer_) return give_checkpoint();
  save(writer_->prepare_checkpoint(done_.step));
  writer_->retain_checkpoints(done_.valid.best_step);
}

Trainer::Gathered Trainer::gather() {
  Gathered out{state_.save(), {}};
  if (parallel_) out.state = parallel_->gather(out.state);
  out.moments = parallel_ ? parallel_->gather(*optimizer_) : optimizer_->moments();
  if (average_) average_->attach(out.moments);
  return out;
}

void Trainer::give_checkpoint() {
  static_cast<void>(gather());
  last_checkpoint_.clear();
  last_checkpoint_step_ = done_.step;
}

void Trainer::save(const std::filesystem::path& path) {
  const Gathered all = gather();
  done_.metrics_lines = writer_ ? writer_->metrics_lines() : 0;
  done_.data_position = stream_->position();
  done_.noise_position = runtime_->model().noise_position();
  with_averages([&] { run::write_checkpoint(path, *runtime_, all.moments, all.state, done_); });
  last_checkpoint_ = path;
  last_checkpoint_step_ = done_.step;
}

void Trainer::load(const std::filesystem::path& path) { load(run::Checkpoint::open(path)); }

void Trainer::load(const run::Checkpoint& checkpoint) {
  if (parallel_) parallel_->check_same_checkpoint(checkpoint);
  // Checked first, because a default value is not written in the experiment.
  const auto changes = runtime_->stack().changed_options(checkpoint.trained_options());
  if (!changes.empty()) {
    plugin::throw_changed_options(
        checkpoint.path().string(), changes,
        "resume with the experiment and the plugins that wrote it, or start a new run");
  }
  checkpoint.check_resumable(experiment());
  std::vector<optim::Optimizer::Moments> moments =
      parallel_ ? parallel_->whole_moments(*optimizer_) : optimizer_->moments();
  if (average_) average_->attach(moments);
  checkpoint.check_moments(moments);
  memory::StackState state = checkpoint.restored_state(*runtime_);
  if (parallel_) parallel_->keep_own(state);
  const std::vector<std::int64_t> place = stream_->position();
  stream_->seek(checkpoint.progress().data_position);
  try {
    static_cast<void>(checkpoint.load_weights(*runtime_, config::Carry::kRefuse));
  } catch (...) {
    stream_->seek(place);
    throw;
  }
  checkpoint.load_moments(moments);
  if (average_) {  // it holds the averages as parameters
    average_->exchange();
    runtime_->weights_changed();
  }
  if (parallel_) parallel_->take(moments, *optimizer_);
  state_ = std::move(state);
  if (recorder_) recorder_ = new_recorder();
  runtime_->model().seek_noise(checkpoint.progress().noise_position);
  done_ = checkpoint.progress();
  last_checkpoint_ = checkpoint.path();
  last_checkpoint_step_ = done_.step;
}

}  // namespace mneme::train
