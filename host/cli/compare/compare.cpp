// mneme compare EXP --memory A --memory B
#include "host/compare/compare.hpp"

#include <memory>

#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/streams.hpp"
#include "host/tensor/device.hpp"

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
  CompareDisplay(Display& display, const Streams& streams) : display_(display), streams_(streams) {}

  void on_training(const std::string& arm, std::uint64_t seed, std::int64_t steps) override {
    display_.next_run();
    has_begun_ = true;
    place_ = str(arm, " (seed ", seed, ')');
    display_.begin("train " + place_, steps);
  }
  void on_step(const run::StepReport& report) override {
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
  void on_result(const std::string& arm, const compare::SeedResult& result) override {
    display_.end();
    if (!has_begun_) display_.next_run();  // what fails before it trains is a run too
    has_begun_ = false;
    if (!result.error) return;
    streams_.err << "mneme: error: " << arm << " (seed " << result.seed
                 << "): " << result.error->what() << '\n'
                 << std::flush;
  }

  // The arm and seed that were begun last.
  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  Display& display_;
  const Streams& streams_;
  std::string place_;
  bool has_begun_ = false;  // the run's training
};

void show(const compare::Comparison& comparison, const CompareArguments& arguments,
          const Streams& streams) {
  if (arguments.json.is_stdout() || comparison.arms.empty()) return;
  streams.out << compare::table_text(comparison, streams.out_width);
}

// A message about the run folders after a comparison that a signal ended.
std::string remains_text(const compare::Comparison& comparison, const CompareArguments& arguments) {
  std::size_t done = 0;
  std::vector<std::string> runs;
  for (const compare::Arm& arm : comparison.arms) {
    done += arm.seeds.size();
    for (const compare::SeedResult& seed : arm.seeds) {
      if (!seed.folder.empty()) runs.push_back(seed.folder.string());
    }
  }
  const auto total = arguments.memory.size() * static_cast<std::size_t>(arguments.seeds);
  std::string text = str(done, " of ", total, " trainings were done");
  if (done > 0) text += " and are shown";
  if (!runs.empty()) text += "; their runs are " + join(runs, ", ");
  if (!arguments.run.empty()) text += "; the unfinished one's folder was removed";
  return text;
}

// After a signal: prints and writes the finished results.
int stop(const compare::Comparison& comparison, const CompareArguments& arguments,
         const std::string& how, const Streams& streams) {
  show(comparison, arguments, streams);
  std::string file;
  Outputs outputs;
  outputs.add([&] {
    arguments.json.write(compare::to_json(comparison), streams);
    if (arguments.json.is_given()) file = "; the JSON is in " + arguments.json.path();
  });
  streams.err << "mneme: stopped by " << how << ": " << remains_text(comparison, arguments)
              << (arguments.json.is_stdout() ? "" : file)
              << "; a comparison cannot be continued: the same command trains every arm anew\n"
              << std::flush;
  outputs.finish();
  return static_cast<int>(ErrorKind::kRun);
}

int run(const CompareArguments& arguments, const Streams& streams) {
  arguments.json.check();
  tensor::set_threads(arguments.machine.threads);
  compare::Options options;
  options.device = tensor::open_device(arguments.machine.device);
  options.free_memory = arguments.machine.free_memory();
  options.seeds = arguments.seeds;
  options.folder = arguments.run;
  options.experiment = arguments.experiment;
  const auto arms = read_input([&] {
    return compare::read_arms(arguments.experiment, arguments.memory, arguments.set.overrides());
  });
  Display display(streams, arguments.is_quiet);
  display.count_runs(static_cast<std::int64_t>(arms.size()) * arguments.seeds);
  CompareDisplay observer(display, streams);
  const InterruptGuard guard;
  compare::Comparison comparison;
  try {
    compare::compare(arms, options, observer, comparison);
  } catch (const Interrupted& interrupted) {
    display.end();
    return stop(comparison, arguments,
                str(signal_name(interrupted.signal), " in ", observer.place()), streams);
  }
  show(comparison, arguments, streams);
  arguments.json.write(compare::to_json(comparison), streams);
  return comparison.has_failures() ? static_cast<int>(ErrorKind::kRun) : 0;
}

}  // namespace

void add_compare(const Command& app) {
  const Command command = app.subcommand(
      "compare", "Train one model with several memories, from the same weights, and compare them");
  const auto arguments = std::make_shared<CompareArguments>();
  command.option("EXP", arguments->experiment, "", "The experiment file").required();
  add_memory_files(
      command, arguments->memory,
      "Memory file of one arm, given once for each; the others are compared with the first");
  command["--memory"].required();
  arguments->set.add(command);
  command.option("--seeds", arguments->seeds, "N", "Train every arm from so many seeds")
      .in(1, 1000)
      .shown();
  command.option("--run", arguments->run, "DIR",
                 "Folder for the arms' run folders, <memory>-seed<N>, with a number after it when "
                 "that is there; default: none is kept");
  arguments->machine.add(command);
  arguments->json.add(command);
  command.flag("--quiet", arguments->is_quiet, "Show no progress");
  command.examples(
      {"mneme compare configs/quickstart.toml --memory configs/memory/none.toml "
       "--memory my_memory.toml",
       "mneme compare configs/quickstart.toml --memory configs/memory/none.toml "
       "--memory my_memory.toml --seeds 3 --json comparison.json"});
  command.runs(arguments, &run);
}

}  // namespace mneme::cli
