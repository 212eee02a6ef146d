// mneme eval RUN

#include "host/cli/eval/eval.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/log_once.hpp"
#include "host/base/process/child_process.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/display.hpp"
#include "host/cli/rank_session.hpp"
#include "host/cli/streams.hpp"
#include "host/cli/unread_output.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/run/record/evaluation_recorder.hpp"
#include "host/run/sweep.hpp"
#include "host/tensor/device.hpp"

namespace mneme::cli {
namespace {

constexpr const char* kEvalRules = R"(
--watch refuses --extrapolate, --breakdown, --json -, --no-store: prints a line of numbers an evaluation and stores nothing
--watch refuses --locked: loads every new build, and --locked refuses it
--watch refuses --no-trial: always tries a build
--watch-count needs --watch
--segment, --option needs --extrapolate: use --set eval.segment=T, or eval_<option> in the memory file
--no-trial needs several --memory
--no-trial refuses --trial-seconds: makes no trial
--trial-seconds needs --watch, several --memory
)";

// Evaluates memory after memory. A failure is reported at once and does not stop the others; with a
// single memory it is thrown.
class Evaluations {
 public:
  Evaluations(const EvalArguments& arguments, OpenEvaluation& opened, const Streams& streams)
      : arguments_(arguments),
        streams_(streams),
        display_(streams, arguments.is_quiet || !arguments.is_first_rank()),
        memories_(opened.memories),
        sweep_(opened.checkpoint, opened.experiment, opened.options),
        step_(opened.checkpoint.progress().step) {
    note_data(display_, *opened.options.dataset);
    if (arguments.extrapolate == 0) {
      display_.count_runs(static_cast<std::int64_t>(memories_.size()));
    }
  }

  std::vector<run::SweepResult> run() {
    const LogOnce log;  // each memory is made several times, and says the same each time
    std::vector<std::optional<Error>> failures = check();
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      const run::SweepMemory& memory = memories_[i];
      if (failures[i]) {
        if (arguments_.extrapolate == 0) display_.next_run();
        keep({.name = memory.name, .memory = memory.memory, .error = std::move(failures[i])});
      } else {
        arguments_.extrapolate == 0 ? evaluate_memory(memory) : extrapolate(memory);
      }
    }
    return std::move(results_);
  }

 private:
  // Before the first evaluation. What the files, the options or the checkpoint do not allow ends
  // the command; returned is what a trial has told of a memory whose code fails, for each memory.
  std::vector<std::optional<Error>> check() {
    std::vector<std::optional<Error>> failures(memories_.size());
    std::vector<MemoryProblem> problems;
    std::vector<run::SweepMemory> whole;
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      failures[i] = failed_trial(memories_[i], i);
      if (!failures[i]) {
        whole.push_back(memories_[i]);
      } else if (failures[i]->kind() == ErrorKind::kUsage) {
        problems.push_back({memories_[i].name, *failures[i]});
      }
    }
    if (memories_.size() == 1 && arguments_.extrapolate == 0) return failures;
    const std::vector<MemoryProblem> others =
        arguments_.extrapolate != 0 ? problems_of_sizes(whole) : problems_of_loading(sweep_, whole);
    problems.insert(problems.end(), others.begin(), others.end());
    refuse_memories(problems, memories_.size());
    return failures;
  }

  // The trial of one of several memories: its crash would take the numbers of the others with it.
  // Why the memory with this index must not be loaded; a trial that all files of its plugins have
  // passed is not repeated. What keeps a file from being found or read is left to loading it.
  std::optional<Error> failed_trial(const run::SweepMemory& memory, std::size_t index) {
    const bool is_tried = arguments_.memory.size() > 1 && !arguments_.has_no_trial;
    if (!is_tried || memory.memory.tiers.empty()) return std::nullopt;
    std::set<std::string> files;
    try {
      for (const auto& file : trial::plugin_files(memory.memory))
        files.insert(plugin::sha256_of_plugin(file));
    } catch (const Error&) {
      return std::nullopt;
    }
    if (std::ranges::includes(passed_, files)) return std::nullopt;
    try {
      const auto request = trial_request(arguments_, arguments_.run / "experiment.toml", index);
      static_cast<void>(trial::try_in_child(request, memory.memory, nullptr));
    } catch (const Error& error) {
      return error;
    }
    passed_.merge(files);
    return std::nullopt;
  }

  // The sizes of an extrapolation, of which the last one may be too large.
  std::vector<MemoryProblem> problems_of_sizes(const std::vector<run::SweepMemory>& memories) {
    std::vector<MemoryProblem> problems;
    for (const run::SweepMemory& memory : memories) {
      try {
        static_cast<void>(sweep_.load(memory.memory));
        for (const run::SweepMemory& size : sizes_of(memory)) {
          static_cast<void>(sweep_.load(size.memory));
        }
      } catch (const Error& error) {
        problems.push_back({memory.name, error});
      }
    }
    return problems;
  }

  // Of the memory that is loaded.
  std::vector<run::SweepMemory> sizes_of(const run::SweepMemory& memory) {
    return run::extrapolate(memory,
                            run::find_size_option(sweep_.runtime().stack(), arguments_.option),
                            arguments_.segment, arguments_.extrapolate);
  }

  void extrapolate(const run::SweepMemory& memory) {
    std::vector<run::SweepMemory> sizes;
    try {
      warn_of_untrained(memory.name, sweep_.load(memory.memory));
      sizes = sizes_of(memory);
    } catch (const Error& error) {
      keep({.name = memory.name, .memory = memory.memory, .error = error});
      return;
    }
    display_.count_runs(static_cast<std::int64_t>(sizes.size()));
    for (const run::SweepMemory& size : sizes) evaluate_memory(size);
  }

  void evaluate_memory(const run::SweepMemory& memory) {
    display_.next_run();
    std::optional<run::EvaluationRecorder> recorder;
    run::SweepResult result =
        sweep_.evaluate_memory(memory, split_of(arguments_), [&](run::Runtime& runtime) {
          display_.begin(str("evaluate ", memory.name, ' ', arguments_.split),
                         runtime.evaluation_segments(split_of(arguments_)));
          eval::Options options;
          options.ranks.all = arguments_.ranks;
          options.on_progress = [&](std::int64_t segments, std::int64_t tokens) {
            display_.update(segments, tokens);
          };
          if (!arguments_.is_not_stored && arguments_.is_first_rank()) {
            recorder.emplace(runtime, split_of(arguments_)).listen(options);
          }
          return options;
        });
    if (recorder && result.result) store(*recorder, *result.result);
    if (result.result && arguments_.is_first_rank()) {
      result.speed =
          measured_speed(arguments_, sweep_.runtime(), result.result->tokens_per_second(),
                         arguments_.ranks == nullptr ? 1 : arguments_.ranks->size());
    }
    keep(std::move(result));
  }

  // A run that cannot be written, such as one of somebody else, can be evaluated all the same. A
  // comparison, however, reads what is stored, and nobody reads what is printed for it.
  void store(run::EvaluationRecorder& recorder, const eval::Result& result) {
    try {
      recorder.write(arguments_.run, step_, result, run::StoredBy::kEval);
    } catch (const std::exception& error) {
      const std::string text = str("the evaluation is not stored in the run: ", error.what());
      if (has_parent()) throw_run(text);
      log_warning(text);
    }
  }

  void keep(run::SweepResult result) {
    display_.end();
    const bool is_only = memories_.size() == 1 && arguments_.extrapolate == 0;
    if (result.error && is_only) throw *result.error;
    if (result.error) report_error(streams_, result.name, *result.error);
    if (arguments_.extrapolate == 0) warn_of_untrained(result.name, result.reset);
    results_.push_back(std::move(result));
  }

  const EvalArguments& arguments_;
  const Streams& streams_;
  Display display_;
  const std::vector<run::SweepMemory>& memories_;
  run::Sweep sweep_;
  std::int64_t step_;
  std::vector<run::SweepResult> results_;
  std::set<std::string> passed_;  // checksums of plugins' files that a trial has run
};

}  // namespace

Json evaluation_json(const EvalArguments& arguments, const OpenEvaluation& opened,
                     const std::vector<run::SweepResult>& results) {
  Json json = {{"format", "mneme-eval"},
               {"run", arguments.run.string()},
               {"step", opened.checkpoint.progress().step},
               {"split", arguments.split},
               {"data", opened.options.dataset->describe()},
               {"differs_from_run", run::to_json(opened.differences)},
               {"memories", Json::array()}};
  if (arguments.extrapolate != 0) {
    json["extrapolation"] = {{"option", arguments.option},
                             {"segment", arguments.segment},
                             {"multiples", arguments.extrapolate}};
  }
  for (const run::SweepResult& result : results) json["memories"].push_back(to_json(result));
  return json;
}

namespace {

// The exit code of the first memory that failed; 0 when none did.
int exit_code_of(const std::vector<run::SweepResult>& results) {
  for (const run::SweepResult& result : results) {
    if (result.error) return result.error->exit_code();
  }
  return 0;
}

int evaluate_run(const EvalArguments& arguments, const Streams& streams) {
  OpenEvaluation opened = read_input([&] { return open_evaluation(arguments); });
  check_plugin_files(opened.experiment, opened.memories);
  const std::vector<run::SweepResult> results = Evaluations(arguments, opened, streams).run();
  Outputs outputs;  // the file first: a reader of what is printed may end early
  if (arguments.is_first_rank()) {
    outputs.add(
        [&] { arguments.json.write(evaluation_json(arguments, opened, results), streams); });
  }
  const std::size_t width = streams.out_width;
  arguments.json.text(streams) << result_table(results, width) << statement_text(results, width)
                               << questions_text(results, width)
                               << (arguments.wants_breakdown ? breakdown_text(results, width) : "")
                               << std::flush;
  outputs.finish();
  return exit_code_of(results);
}

int run(const EvalArguments& given, const Streams& all_streams) {
  check_set(given);
  given.json.check();
  if (given.is_watching) check_started_alone("mneme eval --watch");
  const RankSession session(all_streams);
  const Streams& streams = session.streams();
  EvalArguments arguments = given;
  arguments.ranks = session.ranks();
  arguments.machine.device = session.device(given.machine.device);
  if (arguments.extrapolate != 0) arguments.own_segment = arguments.segment;
  session.set_threads(arguments.machine.threads);
  if (arguments.is_watching) return watch_evaluation(arguments, streams);
  go_on_unread();
  return evaluate_run(arguments, streams);
}

}  // namespace

void add_eval(const Command& app) {
  const Command command = app.subcommand("eval", "Evaluate a trained run");
  const auto arguments = std::make_shared<EvalArguments>();
  arguments->add_run(
      command,
      "Memory file to evaluate with in place of the run's own; may be given several times");
  command.option("--questions", arguments->questions, "FILE",
                 "Evaluate on a file of questions, not on the split");
  command.flag("--breakdown", arguments->wants_breakdown,
               "Print the loss by place in the segment, by distance from the document's start and "
               "by word frequency");
  command.flag("--no-store", arguments->is_not_stored,
               "Do not keep the loss of every token in the run's folder");
  command.option("--extrapolate", arguments->extrapolate, "N",
                 "Evaluate each memory at 1 to N times the segment's size", {in(1, 10'000)});
  command.option("--segment", arguments->segment, "T", "Its segment, in tokens",
                 {in(1, kMaxExtent), shown});
  command.option("--option", arguments->option, "OPTION",
                 "What it changes: an integer option of the first tier that has it", {shown});
  command.flag("--watch", arguments->is_watching,
               "Evaluate again whenever a plugin's file or a memory file changes, until Ctrl-C");
  command.option("--watch-count", arguments->watch_count, "N", "End it after N lines of numbers",
                 {in(1, kMaxCount)});
  add_trial_seconds(command, arguments->trial_seconds);
  command.flag("--no-trial", arguments->has_no_trial,
               "Do not run each build in a child process first");
  arguments->add_settings(command);
  command.examples(
      {"mneme eval runs/first --memory my_memory.toml --watch",
       "mneme eval runs/first --memory configs/memory/none.toml --memory my_memory.toml",
       "mneme eval runs/first --split test --extrapolate 10 --segment 64"});
  command.runs(arguments, &run, nullptr, {kEvalRules});
}

}  // namespace mneme::cli
