// Shared by `mneme eval`, `mneme decode` and `mneme score`: options and opening a run. `mneme analyze`
// opens its runs in the same way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/machine_arguments.hpp"
#include "host/cli/streams.hpp"
#include "host/ranks/communicator.hpp"
#include "host/run/sweep.hpp"
#include "host/trial/trial.hpp"

namespace mneme::cli {

// What a command opens a run and its memories with.
struct OpenArguments {
  std::optional<Command> parser;  // for messages
  std::filesystem::path run;
  std::vector<std::filesystem::path> memory;
  std::string checkpoint = "last";
  std::string split = "valid";
  bool reads_split = true;       // false: the tokens are not those of the run's data
  std::int64_t own_segment = 0;  // in place of eval.segment; 0 = none
  SetArgument set;
  MachineArguments machine;
  JsonArgument json;
  bool is_quiet = false;
  bool is_locked = false;
  std::int64_t trial_seconds = trial::kTrialSeconds;  // of commands that load new builds
  std::filesystem::path questions;  // of eval: a file in place of the split's data; "" = none

  // Adds --memory, --checkpoint and, where a split is read, --split.
  void add_source(const Command& to, const std::string& memory_help);
  // Adds RUN and those.
  void add_run(const Command& to, const std::string& memory_help);
  // Adds --locked, --set, --unset, those of the machine, --json and --quiet.
  void add_settings(const Command& to);
};

// Its options, for rules.
inline constexpr const char* kOpenOptions =
    "RUN, --memory, --checkpoint, --split, --locked, --set, --unset, --device, --threads, --force, "
    "--json, --quiet";

// The command line of `mneme eval`.
struct EvalArguments : OpenArguments {
  bool wants_breakdown = false;
  bool is_not_stored = false;    // --no-store
  std::int64_t extrapolate = 0;  // multiples of the segment; 0 = no extrapolation
  std::int64_t segment = 64;     // of the extrapolation
  std::string option = "rows";   // of the extrapolation
  bool is_watching = false;
  std::int64_t watch_count = 0;          // lines of numbers after which the watch ends; 0 = never
  bool has_no_trial = false;             // --no-trial
  ranks::Communicator* ranks = nullptr;  // of an evaluation over several ranks

  // True where results are written and shown.
  [[nodiscard]] bool is_first_rank() const { return ranks == nullptr || ranks->is_first(); }
};

// Error (kUsage) for keys of --set that belong to a trained model, or among `own`, which have
// options of their own, as "key: option".
void check_set(const OpenArguments& arguments,
               const std::vector<std::pair<std::string, std::string>>& own = {});

// A run opened for evaluation.
struct OpenEvaluation {
  run::Checkpoint checkpoint;
  config::Experiment experiment;           // with the last memory
  std::vector<run::SweepMemory> memories;  // the run's own, or the files'
  run::RuntimeOptions options;
  std::vector<run::RunDifference> differences;  // of the data from the run's; the log has them
};

// Why a memory cannot be evaluated, with its name.
struct MemoryProblem {
  std::string memory;
  Error error;
};

// The memories of an evaluation as their files say now.
struct EvaluatedMemories {
  config::Experiment experiment;  // with the last memory that could be read
  std::vector<run::SweepMemory> memories;
  std::vector<std::optional<Error>> failures;  // for each memory: why it could not be read
};

// `file` is the run's experiment. Error (kUsage | kRun) for what is wrong with the run or the
// overrides; what is wrong with a memory's file is in `failures`.
[[nodiscard]] EvaluatedMemories read_memories(const OpenArguments& arguments,
                                              const std::filesystem::path& file);

// Reads the run, every memory file and the data: what is wrong with them shows before anything
// runs. Error (kUsage | kRun | kDevice).
[[nodiscard]] OpenEvaluation open_evaluation(const OpenArguments& arguments);

// The trial, in a child process, of the memory with this index. `experiment` is the run's file.
[[nodiscard]] trial::TrialRequest trial_request(const OpenArguments& arguments,
                                                const std::filesystem::path& experiment,
                                                std::size_t index);

// The files of the plugins of all memories, before any of their code runs: each is found and can be
// loaded by this host. When one cannot, or is in `unread`, the other memories are made without a
// model, so that the message has the wrong options of these, too. Errors as refuse_memories.
void check_plugin_files(const config::Experiment& experiment,
                        const std::vector<run::SweepMemory>& memories,
                        const std::vector<std::optional<Error>>& unread = {});

// Throws what was found wrong with memories before anything was computed: the error of the only one
// as it is, of several a line each with the memory's name, of the first one's kind.
void refuse_memories(const std::vector<MemoryProblem>& problems, std::size_t memories);

// Loads every memory once: what is wrong with its options, its parameters in the checkpoint and its
// size, before the first one is evaluated.
[[nodiscard]] std::vector<MemoryProblem> problems_of_loading(
    run::Sweep& sweep, const std::vector<run::SweepMemory>& memories);
// The same, with errors as refuse_memories.
void load_each(run::Sweep& sweep, const std::vector<run::SweepMemory>& memories);

// The checks and settings that a command in one process begins with: --set, --json, --threads. It
// continues when the reader of its output has ended.
void begin_alone(const OpenArguments& arguments);

[[nodiscard]] data::Split split_of(const OpenArguments& arguments);

// Names the parameters that keep their initial values: a warning, which --quiet does not hide, as
// the numbers are not those of a trained memory.
void warn_of_untrained(const std::string& name, const std::vector<std::string>& untrained);

// What reports show beside the losses of a run.
struct ForReport {
  std::int64_t samples = 0;        // prompts from the split to continue; 0 = none
  std::int64_t prompt_tokens = 0;  // of each; 0 = by the segment
  std::int64_t segments = 0;       // of the split, on which the memory is measured; 0 = none
};

// mneme generate RUN --for-report N, mneme analyze RUN --for-report N: makes it of each memory and
// keeps it in the run.
int make_for_report(const OpenArguments& arguments, const ForReport& wanted,
                    const Streams& streams);

// mneme eval RUN --watch: evaluates again whenever a plugin's file or a memory file changes.
int watch_evaluation(const EvalArguments& arguments, const Streams& streams);

// --- The report of `mneme eval` on several memories, in lines of at most `width` columns ---

// One line a memory; columns that no memory has a number for are left out. Below it, which memory
// ran which build where one plugin occurs in several.
[[nodiscard]] std::string result_table(const std::vector<run::SweepResult>& results,
                                       std::size_t width);

// How the first numbers of the table were obtained, as a paragraph; "" when there are none.
[[nodiscard]] std::string statement_text(const std::vector<run::SweepResult>& results,
                                         std::size_t width);

// Loss by place, by distance and by frequency, one table each with a column a memory; places
// are drawn together in powers of two.
[[nodiscard]] std::string breakdown_text(const std::vector<run::SweepResult>& results,
                                         std::size_t width);

// The share of right answers of all questions and of each of their groups, with intervals, and a
// column a memory; "" for other tasks.
[[nodiscard]] std::string questions_text(const std::vector<run::SweepResult>& results,
                                         std::size_t width);

// The line of a watch: the time of the day, the memory's name, its numbers, how they differ from
// those of `previous` (null: there are none), and the builds that ran. At most `width` columns wide
// (0 = no limit): words that do not fit are in a second line. Where two lines are not enough the
// speed is left out; then there may be more lines.
[[nodiscard]] std::string watch_line(const std::string& time, const run::SweepResult& result,
                                     const eval::Result* previous, std::size_t width);

// The document that --json writes.
[[nodiscard]] Json evaluation_json(const EvalArguments& arguments, const OpenEvaluation& opened,
                                   const std::vector<run::SweepResult>& results);

// Everything, for programs: name, memory, plugins, and either result, statement and breakdown or
// error.
[[nodiscard]] Json to_json(const run::SweepResult& result);
// Its operations are those of the lanes and the segment of [eval]. Absent without --json.
[[nodiscard]] std::optional<run::Speed> measured_speed(const OpenArguments& arguments,
                                                       const run::Runtime& runtime,
                                                       double tokens_a_second,
                                                       std::int64_t devices = 1);

}  // namespace mneme::cli
