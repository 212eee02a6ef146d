// mneme compare EXP --memory A --memory B
#include "host/compare/compare.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "host/cli/arguments.hpp"
#include "host/cli/command.hpp"
#include "host/cli/display.hpp"
#include "host/cli/input.hpp"
#include "host/cli/interrupt.hpp"
#include "host/train/device.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct CompareArguments {
  fs::path experiment;
  std::vector<fs::path> memory;
  SetArgument set;
  std::int64_t seeds = 1;
  fs::path run;
  MachineArguments machine;
  JsonArgument json;
  bool is_quiet = false;
};

class CompareDisplay final : public compare::Observer {
 public:
  explicit CompareDisplay(Display& display) : display_(display) {}

  void on_training(const std::string& arm, std::uint64_t seed, std::int64_t steps) override {
    display_.next_run();
    display_.begin(str("train ", arm, " (seed ", seed, ')'), steps);
  }
  void on_step(const train::StepReport& report) override {
    display_.update(report);
    throw_if_interrupted();
  }
  void on_evaluation(const std::string& arm, data::Split split, std::int64_t segments) override {
    display_.begin(str("evaluate ", arm, ' ', data::to_word(split)), segments);
  }
  void on_evaluated(std::int64_t segments, std::int64_t tokens) override {
    display_.update(segments, tokens);
    throw_if_interrupted();
  }
  void on_done() override { display_.end(); }

 private:
  Display& display_;
};

int run(const CompareArguments& arguments, const Streams& streams) {
  arguments.json.check();
  train::set_threads(arguments.machine.threads);
  compare::Options options;
  options.device = train::open_device(arguments.machine.device);
  options.seeds = arguments.seeds;
  options.folder = arguments.run;
  options.experiment = arguments.experiment;
  const auto arms = read_input([&] {
    return compare::read_arms(arguments.experiment, arguments.memory, arguments.set.overrides());
  });
  Display display(streams, arguments.is_quiet);
  display.count_runs(static_cast<std::int64_t>(arms.size()) * arguments.seeds);
  CompareDisplay observer(display);
  const InterruptGuard guard;
  try {
    const compare::Comparison comparison = compare::compare(arms, options, observer);
    if (!arguments.json.is_stdout())
      streams.out << compare::table_text(comparison, streams.out_width);
    arguments.json.write(compare::to_json(comparison), streams);
    return 0;
  } catch (const Interrupted& interrupted) {
    display.end();
    streams.err << "mneme: stopped by " << signal_name(interrupted.signal)
                << "; a comparison cannot be continued: nothing was written\n";
    return static_cast<int>(ErrorKind::kRun);
  }
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  CLI::App* const command = app.add_subcommand(
      "compare", "Train one model with several memories, from the same weights, and compare them");
  const auto arguments = std::make_shared<CompareArguments>();
  command->add_option("EXP", arguments->experiment, "The experiment file")
      ->required()
      ->type_name("");
  add_memory_files(
      *command, arguments->memory,
      "Memory file of one arm, given once for each; the first is what others are set against");
  command->get_option("--memory")->required();
  arguments->set.add(*command);
  command->add_option("--seeds", arguments->seeds, "Train every arm from so many seeds")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}))
      ->capture_default_str();
  command
      ->add_option("--run", arguments->run,
                   "Folder for the arms' run folders; default: none is kept")
      ->type_name("DIR");
  arguments->machine.add(*command);
  arguments->json.add(*command);
  command->add_flag("--quiet", arguments->is_quiet, "Show no progress");
  set_examples(*command, {"mneme compare configs/quickstart.toml --memory configs/memory/none.toml "
                          "--memory my_memory.toml",
                          "mneme compare configs/quickstart.toml --memory configs/memory/none.toml "
                          "--memory my_memory.toml --seeds 3 --json comparison.json"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return run(*arguments, streams); };
  });
}

}  // namespace mneme::cli
