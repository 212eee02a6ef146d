// mneme train EXP

#include "host/cli/train/train.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "host/base/exit_status.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/log.hpp"
#include "host/base/log_once.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/display.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/machine_arguments.hpp"
#include "host/cli/rank_session.hpp"
#include "host/cli/streams.hpp"
#include "host/cli/unread_output.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/optim/schedule.hpp"
#include "host/plugin/plugin_lock.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/device_memory.hpp"
#include "host/train/dry_run.hpp"
#include "host/train/trainer.hpp"
#include "host/weights/official_weights.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  fs::path experiment;
  std::vector<fs::path> memory;
  SetArgument set;
  fs::path run, init, resume;
  std::string checkpoint = "last";
  bool may_change_plugins = false;
  bool is_locked = false;
  std::int64_t steps = 0;    // of a run that is extended; 0 = as it is
  std::int64_t stop_at = 0;  // the last step of this command; 0 = of the run
  MachineArguments machine;
  JsonArgument json;
  bool is_quiet = false;
  bool is_dry_run = false;
  bool is_checked = false;
  train::LearningCurve curve;
};

class TrainDisplay final : public run::Observer {
 public:
  // With several ranks a signal counts when all of them know of it.
  TrainDisplay(Display& display, bool has_ranks) : display_(display), has_ranks_(has_ranks) {}

  void on_step(const run::StepReport& report) override {
    display_.update(report);
    has_ranks_ ? on_stop_signal(report.stop_signal) : throw_if_interrupted();
  }
  void on_eval_progress(std::int64_t, std::int64_t) override {
    if (!has_ranks_) throw_if_interrupted();
  }
  void on_stop_signal(int signal) override {
    if (signal != 0) throw Interrupted{signal};
  }
  void on_eval(const run::EvalReport& report) override {
    display_.note(str("step ", report.step, ", ", data::to_word(report.split), ": ",
                      result_line(report.result)));
    last_ = report;
    evaluations_.push_back(run::to_json(report));
  }
  void on_checkpoint(std::int64_t step, const fs::path& path) override {
    display_.note(str("step ", step, ": saved ", path.string()));
  }

  [[nodiscard]] const std::optional<run::EvalReport>& last() const { return last_; }
  [[nodiscard]] const Json& evaluations() const { return evaluations_; }

 private:
  Display& display_;
  bool has_ranks_;
  std::optional<run::EvalReport> last_;
  Json evaluations_ = Json::array();
};

constexpr const char* kTrainRules = R"(
--dry-run refuses --resume, --run, --init, --stop-at: trains and writes nothing
--checkpoint, --allow-changed-plugin needs --resume
--steps needs --resume: for a new run use --set train.steps=N
--resume refuses EXP, --memory, --set, --unset, --init, --run: continues the run's own experiment, which --steps N makes longer
--locked refuses --allow-changed-plugin: asks for the plugin files that the run was saved with
--curve-every needs --curve-segments
--curve-segments needs --curve-every
)";

void check_experiment(const TrainArguments& arguments) {
  if (arguments.resume.empty() && arguments.experiment.empty()) {
    throw_usage(
        "train: expected an experiment file EXP, or --resume RUN, got neither; see mneme train "
        "--help");
  }
  if (arguments.memory.size() > 1) {
    throw_usage("train --memory: expected one file, got ", arguments.memory.size(),
                "; mneme compare trains several");
  }
}

// A new folder is made in "runs" when the one of this name is there.
void check_default_folder(const TrainArguments& arguments) {
  std::error_code ignored;
  const fs::path folder = fs::path("runs") / arguments.experiment.stem();
  check_output_folder("--run", fs::exists(folder, ignored) ? folder.parent_path() : folder);
}

// Makes runs/<experiment>[-<memory>], with a number when that is there. Another process may look
// for a name at the same time: only the one that makes a folder has it.
fs::path claim_default_folder(const TrainArguments& arguments) {
  std::string name = arguments.experiment.stem().string();
  if (!arguments.memory.empty()) name += '-' + arguments.memory.front().stem().string();
  fs::path folder = fs::path("runs") / name;
  std::error_code failure;
  fs::create_directories(folder.parent_path(), failure);
  for (int i = 2; !failure; ++i) {
    if (fs::create_directory(folder, failure)) return folder;
    if (failure && !fs::exists(folder)) break;
    failure.clear();
    folder = fs::path("runs") / str(name, '-', i);
  }
  throw_usage({.where = folder.string(),
               .failed = "the run's folder cannot be made",
               .got = failure.message(),
               .hint = "name another place with --run DIR"});
}

config::Experiment read_experiment(const TrainArguments& arguments) {
  std::optional<fs::path> memory;
  if (!arguments.memory.empty()) memory = arguments.memory.front();
  try {
    return plugin::read_experiment(arguments.experiment, arguments.set.overrides(), memory,
                                   arguments.is_locked);
  } catch (const Error& error) {
    const std::string text = error.what();
    const fs::path kept = arguments.init / "vocabulary.json";
    std::error_code ignored;
    const bool is_missing = text.find("data.vocabulary_file: missing") != text.npos;
    if (!is_missing || arguments.init.empty() || !fs::exists(kept, ignored)) throw;
    throw Error(
        error.kind(), text,
        "the run of --init has one: --set data.vocabulary_file=" + shell_word(kept.string()));
  }
}

// What the command names, before the data are read: that may take minutes.
void check_named(const TrainArguments& arguments, const config::Experiment& experiment) {
  if (!arguments.init.empty()) {
    static_cast<void>(SafetensorsFile::open(weights::initial_weights_file(arguments.init)));
  }
  plugin::PluginLoader loader = memory::make_loader();
  train::check_inputs(experiment, loader);
}

std::unique_ptr<train::Trainer> open_trainer(const TrainArguments& arguments,
                                             ranks::Communicator* ranks, fs::path& folder) {
  train::TrainerOptions options;
  options.ranks = {.ranks = ranks, .stop_signal = [] { return InterruptGuard::signal(); }};
  options.runtime.device = tensor::open_device(arguments.machine.device);
  options.runtime.free_memory = arguments.machine.free_memory(options.runtime.device);
  options.curve = arguments.curve;
  options.stop_at = arguments.stop_at;
  if (!arguments.resume.empty()) {
    folder = arguments.resume;
    if (arguments.machine.threads == 0 && !tensor::has_threads_variable()) {
      tensor::set_threads(run::threads_of(run::RunFolder::open(folder).info()));
    }
    options.checkpoint = arguments.checkpoint;
    options.may_change_plugins = arguments.may_change_plugins;
    options.is_locked = arguments.is_locked;
    options.steps = arguments.steps;
    const bool is_writer = options.ranks.is_writer();
    auto trainer = train::Trainer::resume(folder, std::move(options));
    if (is_writer && trainer->last_checkpoint().empty()) {
      log_warning(folder.string(), ": has no checkpoint yet: training starts from the beginning");
    }
    return trainer;
  }
  const config::Experiment experiment = read_experiment(arguments);
  check_named(arguments, experiment);
  folder = arguments.run;
  options.folder = folder;
  if (folder.empty()) {
    options.claim_folder = [&] { return folder = claim_default_folder(arguments); };
  }
  options.initial_weights = arguments.init;
  return std::make_unique<train::Trainer>(experiment, std::move(options));
}

// `first_step`: steps that were done before this process.
Json json_of(train::Trainer& trainer, const fs::path& folder, const Json& evaluations,
             std::int64_t first_step, int interrupted_by) {
  return {{"format", "mneme-train"},
          {"run", folder.string()},
          {"steps", trainer.step()},
          {"total_steps", trainer.total_steps()},
          {"trained_steps", trainer.step() - first_step},
          {"interrupted", interrupted_by != 0},
          {"stopped_early", trainer.is_stopped_early()},
          {"best_step", trainer.valid_record().best_step},
          {"tokens", trainer.tokens()},
          {"utilization", run::to_json(trainer.utilization())},
          {"peak_device_bytes",
           trainer.peak_device_bytes() ? Json(*trainer.peak_device_bytes()) : Json(nullptr)},
          {"backbone_parameters", trainer.runtime().backbone_parameter_count()},
          {"memory_parameters", trainer.runtime().memory_parameter_count()},
          {"plugins", run::to_json(trainer.runtime().stack().identities())},
          {"evaluations", evaluations}};
}

// Logs how the schedule of an extended run continues.
std::string extension_text(const train::Trainer& trainer) {
  const config::TrainConfig& train = trainer.experiment().train;
  const optim::LearningRate rate(train, trainer.total_steps());
  return str("extended to ", trainer.total_steps(), " steps: the schedule \"",
             config::to_word(train.schedule), "\" is that of a run of this length, and goes on at ",
             train.lr * rate.factor(trainer.step()));
}

// The message for a run that --stop-at has left before its end.
std::string stop_text(const train::Trainer& trainer, const fs::path& folder,
                      std::int64_t first_step) {
  return str(trainer.step() == first_step ? "nothing to train: " : "", folder.string(),
             " is trained to step ", trainer.step(), " of ", trainer.total_steps(),
             "; continue with mneme train --resume ", shell_word(folder.string()), '\n');
}

// The message for a run that is already complete.
std::string finished_text(const train::Trainer& trainer, const fs::path& folder) {
  std::string text = str("nothing to train: ", folder.string(), " was done after ", trainer.step(),
                         " steps, ", trainer.tokens(), " tokens");
  if (!trainer.is_stopped_early()) {
    text += str("; mneme train --resume ", shell_word(folder.string()),
                " --steps N extends it to N steps");
  }
  return text + '\n';
}

// The step that --stop-at names, where the run does not end before; 0 = it trains to its end.
std::int64_t stop_of(const TrainArguments& arguments, const train::Trainer& trainer) {
  return arguments.stop_at < trainer.total_steps() ? arguments.stop_at : 0;
}

// Trains to the end, to --stop-at, or to a signal, which is returned.
int train_until_signal(train::Trainer& trainer, TrainDisplay& observer) {
  try {
    trainer.train(&observer);
    if (!trainer.is_finished()) trainer.save();
    return 0;
  } catch (const Interrupted& interrupted) {
    trainer.save();
    return interrupted.signal;
  }
}

// `first_step`: steps that were done before this process.
std::string results_text(const train::Trainer& trainer, const fs::path& folder,
                         std::int64_t first_step) {
  if (!trainer.is_finished()) return stop_text(trainer, folder, first_step);
  std::string text;
  if (trainer.is_stopped_early()) {
    const run::ValidRecord& valid = trainer.valid_record();
    text += str("stopped early: ", valid.evaluations_since_best,
                " evaluations without a lower valid loss; the best one was at step ",
                valid.best_step, '\n');
  }
  if (trainer.step() == first_step) return text + finished_text(trainer, folder);
  return text + str("trained ", trainer.step(), " steps, ", trainer.tokens(),
                    " tokens: ", folder.string(), '\n');
}

// "" without one.
std::string last_evaluation(const TrainDisplay& observer) {
  if (!observer.last()) return "";
  return str(data::to_word(observer.last()->split), ": ", result_line(observer.last()->result),
             '\n');
}

// Puts the device's free memory into the plan. A plan may be made for another machine: why the
// device is not here is no error, but a text.
std::string look_at_device(const MachineArguments& machine, train::TrainingPlan& plan) {
  const std::string& device = machine.device;
  try {
    const c10::Device opened = tensor::open_device(device);
    plan.free = opened.is_cpu() ? free_memory() : tensor::free_device_memory(opened);
    return "";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kDevice) throw;
    return str("device: ", device, " is not here, a training on it is refused: ", error.what(),
               '\n');
  }
}

int dry_run(const TrainArguments& arguments, const Streams& streams) {
  const c10::Device device = tensor::named_device(arguments.machine.device);
  if (device.is_cuda()) tensor::check_driver_has(device);
  train::TrainingPlan plan =
      read_input([&] { return train::plan_training(read_experiment(arguments), device); });
  const std::string absence = look_at_device(arguments.machine, plan);
  if (!arguments.json.is_stdout()) {
    streams.out << fit_lines(plan_text(plan, arguments.experiment.string()) + absence,
                             streams.out_width);
  }
  arguments.json.write(train::to_json(plan), streams);
  return 0;
}

// "2 ranks train 4 lanes each; gradients of 12.3 MiB a step in 4 sums".
std::string ranks_text(const train::Parallel& parallel) {
  const int ranks = parallel.ranks().size();
  return str(ranks, ranks == 1 ? " rank trains " : " ranks train ", parallel.lanes().count,
             ranks == 1 ? " lanes" : " lanes each", "; gradients of ",
             format_number(static_cast<double>(parallel.gradients().bytes()) / 0x1p20, 1),
             " MiB a step in ", parallel.gradients().buckets(),
             parallel.gradients().buckets() == 1 ? " sum" : " sums");
}

int run(const TrainArguments& given, const Streams& all_streams) {
  check_experiment(given);
  given.json.check();
  const RankSession session(all_streams);
  if (!given.is_dry_run && given.resume.empty()) {
    if (given.run.empty()) {
      check_default_folder(given);
    } else {
      check_output_folder("--run", given.run);
    }
  }
  const Streams& streams = session.streams();
  TrainArguments arguments = given;
  arguments.machine.device = session.device(given.machine.device);
  session.set_threads(arguments.machine.threads);
  if (!arguments.is_dry_run || arguments.json.is_file()) go_on_unread();
  if (arguments.is_dry_run) return session.is_first() ? dry_run(arguments, streams) : 0;
  fs::path folder;
  const auto trainer = read_input([&] {
    const LogOnce log;  // tiers of training and evaluation say the same
    return open_trainer(arguments, session.ranks(), folder);
  });

  Display display(streams, arguments.is_quiet || !session.is_first());
  TrainDisplay observer(display, session.ranks() != nullptr);
  display.note(str("run folder ", folder.string(), "; ",
                   trainer->runtime().backbone_parameter_count(), " parameters in the backbone, ",
                   trainer->runtime().memory_parameter_count(), " in the memory"));
  if (trainer->parallel() != nullptr) display.note(ranks_text(*trainer->parallel()));
  note_data(display, *trainer->runtime().dataset());
  const std::int64_t first_step = trainer->step();
  if (arguments.steps != 0) display.note(extension_text(*trainer));
  const InterruptGuard guard;  // until the results are written
  if (session.is_first() && !arguments.is_checked) check_before(*trainer, folder);
  const std::int64_t stop = stop_of(arguments, *trainer);
  const bool has_work = stop == 0 || first_step < stop;
  display.begin("train", stop == 0 ? trainer->total_steps() : std::max(first_step, stop),
                first_step, trainer->tokens());
  const bool is_for_people = !arguments.json.is_stdout();
  int signal = 0;
  try {
    if (has_work) signal = train_until_signal(*trainer, observer);
  } catch (const Error& error) {
    log_to_files(LogLevel::kError, error.what());
    // Results that were measured before a failure, such as a full disk, are still written.
    display.end();
    if (is_for_people) streams.out << last_evaluation(observer) << std::flush;
    throw;
  }
  display.end();
  if (session.is_first() && signal == 0) check_after(*trainer, folder);
  if (signal != 0) {
    const std::string text =
        str("stopped by ", signal_name(signal), " after step ", trainer->step(), " of ",
            trainer->total_steps(), "; saved; continue with mneme train --resume ",
            shell_word(folder.string()));
    log_to_files(LogLevel::kInfo, text);
    streams.err << str("mneme: ", text, '\n');
  } else if (is_for_people) {
    streams.out << results_text(*trainer, folder, first_step) << last_evaluation(observer);
  }
  if (session.is_first()) {
    arguments.json.write(json_of(*trainer, folder, observer.evaluations(), first_step, signal),
                         streams);
  }
  return signal == 0 ? 0 : exit_code_of_signal(signal);
}

}  // namespace

void add_train(const Command& app) {
  const Command command = app.subcommand("train", "Train the model of an experiment file");
  const auto arguments = std::make_shared<TrainArguments>();
  command.option("EXP", arguments->experiment, "", "The experiment file");
  add_memory_files(command, arguments->memory,
                   "Memory file to use in place of the experiment's [memory]");
  arguments->set.add(command);
  command.option("--run", arguments->run, "DIR",
                 "Folder to make for the run; default runs/<names of the files>");
  command.option("--init", arguments->init, "SOURCE",
                 "Begin with the weights of this run, checkpoint or official safetensors file");
  command.option("--resume", arguments->resume, "RUN", "Continue the run of this folder");
  command.option("--checkpoint", arguments->checkpoint, "WHICH",
                 "The checkpoint to continue from: last, best or its number of steps; what the run "
                 "has of later steps is deleted",
                 {shown});
  command.flag("--allow-changed-plugin", arguments->may_change_plugins,
               "Continue though a plugin's file is another one than before");
  add_locked(command, arguments->is_locked);
  command.option("--steps", arguments->steps, "N",
                 "Extend the run to N steps; the schedule becomes that of a run of this length",
                 {in(1, kMaxCount)});
  command.option(
      "--stop-at", arguments->stop_at, "STEP",
      "End after this step with a checkpoint, as at a signal: the schedule is that of the "
      "whole run, and --resume continues it",
      {in(1, kMaxCount)});
  command.flag("--dry-run", arguments->is_dry_run,
               "Show parameters, memory, schedule and data of the training, and stop");
  command.option("--curve-every", arguments->curve.every, "STEPS",
                 "Evaluate a part of the valid split so often, for a learning curve; nothing else "
                 "depends on it; to be given again with --resume",
                 {in(1, kMaxCount)});
  command.option("--curve-segments", arguments->curve.segments, "N",
                 "That part, the first segments of the split", {in(1, kMaxCount)});
  command.flag(
      "--checked", arguments->is_checked,
      "The memory was checked, as mneme compare does: leave out the checks before the training");
  arguments->machine.add(command);
  arguments->json.add(command);
  command.flag("--quiet", arguments->is_quiet, "Show no progress");
  command.examples({"mneme train configs/quickstart.toml --memory my_memory.toml --run runs/first",
                    "mneme train configs/quickstart.toml --dry-run",
                    "mneme train --resume runs/first",
                    "mneme train --resume runs/first --steps 4000"});
  command.runs(arguments, &run, nullptr, {kTrainRules});
}

}  // namespace mneme::cli
