// mneme train EXP
#include <memory>
#include <optional>

#include "host/base/log.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/command.hpp"
#include "host/cli/display.hpp"
#include "host/cli/input.hpp"
#include "host/cli/interrupt.hpp"
#include "host/train/device.hpp"
#include "host/train/session.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  fs::path experiment;
  std::vector<fs::path> memory;
  SetArgument set;
  fs::path run;
  fs::path resume;
  MachineArguments machine;
  JsonArgument json;
  bool is_quiet = false;
};

class TrainDisplay final : public train::Observer {
 public:
  explicit TrainDisplay(Display& display) : display_(display) {}

  void on_step(const train::StepReport& report) override {
    display_.update(report);
    throw_if_interrupted();
  }
  void on_eval_progress(std::int64_t, std::int64_t) override { throw_if_interrupted(); }
  void on_eval(const train::EvalReport& report) override {
    display_.note(str("step ", report.step, ", ", data::to_word(report.split), ": ",
                      result_line(report.result)));
    last_ = report;
    evaluations_.push_back(train::to_json(report));
  }
  void on_checkpoint(std::int64_t step, const fs::path& path) override {
    display_.note(str("step ", step, ": saved ", path.string()));
  }

  [[nodiscard]] const std::optional<train::EvalReport>& last() const { return last_; }
  [[nodiscard]] const Json& evaluations() const { return evaluations_; }

 private:
  Display& display_;
  std::optional<train::EvalReport> last_;
  Json evaluations_ = Json::array();
};

void check_use(const TrainArguments& arguments) {
  const bool is_resumed = !arguments.resume.empty();
  if (!is_resumed && arguments.experiment.empty()) {
    throw_usage(
        "train: expected an experiment file EXP, or --resume RUN, got neither; see mneme "
        "train --help");
  }
  const bool has_settings = !arguments.experiment.empty() || !arguments.memory.empty() ||
                            !arguments.run.empty() || !arguments.set.overrides().empty();
  if (is_resumed && has_settings) {
    throw_usage(
        "train --resume: the run's own experiment is continued: expected no experiment "
        "file, --memory, --set or --run beside it; start a new run for other settings");
  }
  if (arguments.memory.size() > 1) {
    throw_usage("train --memory: expected one file, got ", arguments.memory.size(),
                "; mneme compare trains several");
  }
}

// runs/<experiment>[-<memory>], with a number when that is there.
fs::path default_run_folder(const TrainArguments& arguments) {
  std::string name = arguments.experiment.stem().string();
  if (!arguments.memory.empty()) name += '-' + arguments.memory.front().stem().string();
  fs::path folder = fs::path("runs") / name;
  for (int i = 2; fs::exists(folder); ++i) folder = fs::path("runs") / str(name, '-', i);
  return folder;
}

std::unique_ptr<train::Session> open_session(const TrainArguments& arguments, fs::path& folder) {
  train::SessionOptions options;
  options.runtime.device = train::open_device(arguments.machine.device);
  if (!arguments.resume.empty()) {
    folder = arguments.resume;
    auto session = train::Session::resume(folder, std::move(options));
    if (!fs::exists(train::RunFolder::open(folder).checkpoint())) {
      log_warning(folder.string(), ": has no checkpoint yet: training starts from the beginning");
    }
    return session;
  }
  std::optional<fs::path> memory;
  if (!arguments.memory.empty()) memory = arguments.memory.front();
  const config::Experiment experiment =
      config::parse_experiment(arguments.experiment, arguments.set.overrides(), memory);
  folder = arguments.run.empty() ? default_run_folder(arguments) : arguments.run;
  options.folder = folder;
  return std::make_unique<train::Session>(experiment, std::move(options));
}

Json json_of(train::Session& session, const fs::path& folder, const Json& evaluations,
             int interrupted_by) {
  Json plugins = Json::array();
  for (const auto& plugin : session.runtime().stack().identities()) {
    plugins.push_back(train::to_json(plugin));
  }
  return {{"format", "mneme-train"},
          {"run", folder.string()},
          {"steps", session.step()},
          {"total_steps", session.total_steps()},
          {"interrupted", interrupted_by != 0},
          {"tokens", session.tokens()},
          {"backbone_parameters", session.runtime().backbone_parameter_count()},
          {"memory_parameters", session.runtime().memory_parameter_count()},
          {"plugins", std::move(plugins)},
          {"evaluations", evaluations}};
}

// Trains to the end or to a signal, which is returned.
int train_until_signal(train::Session& session, TrainDisplay& observer, const fs::path& folder) {
  const InterruptGuard guard;
  try {
    session.train(&observer);
    return 0;
  } catch (const Interrupted& interrupted) {
    session.save(train::RunFolder::open(folder).checkpoint());
    return interrupted.signal;
  }
}

int run(const TrainArguments& arguments, const Streams& streams) {
  check_use(arguments);
  arguments.json.check();
  train::set_threads(arguments.machine.threads);
  fs::path folder;
  const auto session = read_input([&] { return open_session(arguments, folder); });

  Display display(streams, arguments.is_quiet);
  TrainDisplay observer(display);
  display.note(str("run folder ", folder.string(), "; ",
                   session->runtime().backbone_parameter_count(), " parameters in the backbone, ",
                   session->runtime().memory_parameter_count(), " in the memory"));
  display.begin("train", session->total_steps(), session->step(), session->tokens());
  const int signal = train_until_signal(*session, observer, folder);
  display.end();
  arguments.json.write(json_of(*session, folder, observer.evaluations(), signal), streams);
  if (signal != 0) {
    streams.err << "mneme: stopped by " << signal_name(signal) << " after step " << session->step()
                << " of " << session->total_steps()
                << "; saved; continue with mneme train --resume " << folder.string() << '\n';
    return static_cast<int>(ErrorKind::kRun);
  }
  if (arguments.json.is_stdout()) return 0;
  streams.out << "trained " << session->step() << " steps, " << session->tokens()
              << " tokens: " << folder.string() << '\n';
  if (observer.last()) {
    streams.out << data::to_word(observer.last()->split) << ": "
                << result_line(observer.last()->result) << '\n';
  }
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  CLI::App* const command = app.add_subcommand("train", "Train the model of an experiment file");
  const auto arguments = std::make_shared<TrainArguments>();
  command->add_option("EXP", arguments->experiment, "The experiment file")->type_name("");
  add_memory_files(*command, arguments->memory,
                   "Memory file to use in place of the experiment's [memory]");
  arguments->set.add(*command);
  command
      ->add_option("--run", arguments->run,
                   "Folder to make for the run; default runs/<names of the files>")
      ->type_name("DIR");
  command->add_option("--resume", arguments->resume, "Continue the run of this folder")
      ->type_name("RUN");
  arguments->machine.add(*command);
  arguments->json.add(*command);
  command->add_flag("--quiet", arguments->is_quiet, "Show no progress");
  set_examples(*command,
               {"mneme train configs/quickstart.toml --memory my_memory.toml --run runs/first",
                "mneme train --resume runs/first"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return run(*arguments, streams); };
  });
}

}  // namespace mneme::cli
