// Shared by the forms of `mneme compare`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/arguments.hpp"
#include "host/cli/machine_arguments.hpp"
#include "host/cli/rank_session.hpp"
#include "host/cli/report/compared_arms.hpp"
#include "host/cli/streams.hpp"
#include "host/compare/arms.hpp"
#include "host/compare/runs.hpp"
#include "host/compare/tuning/trials.hpp"
#include "host/report/suite/suite.hpp"

namespace mneme::cli {

// The command line of `mneme compare`.
struct CompareArguments {
  std::optional<Command> parser;             // for messages
  std::vector<std::filesystem::path> paths;  // an experiment file, or run folders
  std::vector<std::string> memory;
  std::vector<std::string> sweeps;
  std::vector<std::string> tunes;
  std::vector<std::string> tunes_together;
  std::int64_t tune_trials = 0;  // 0 = all combinations
  // Steps of the first rung of successive halving; 0 = trials are trained whole.
  std::int64_t tune_halving = 0;
  std::filesystem::path suite;  // "" = one experiment
  std::string capacity;         // points, "1,2,4"; "" = none
  std::string scale;            // sizes likewise
  SetArgument set;
  std::int64_t seeds = 1;
  bool has_seeds = false;  // the number was given
  bool is_until_decided = false;
  std::int64_t max_seeds = 0;  // with is_until_decided
  std::int64_t jobs = 1;
  std::int64_t samples = 3;       // prompts that every run continues
  std::int64_t diagnostics = 64;  // segments on which every run's memory is measured
  std::string equal;              // a budget; "" = as the files say
  std::filesystem::path init;     // first weights of every arm; "" = drawn
  std::filesystem::path run;
  MachineArguments machine;
  JsonArgument json;
  ComparedArms compared;
  bool is_quiet = false;
  bool is_locked = false;
  bool is_dry_run = false;
  // compare::Options::pilot_split
  std::optional<std::string> pilot_split = {};
  // Called with the folder of a comparison that has trained, in place of writing and showing its
  // report.
  std::function<void(const std::filesystem::path& folder)> in_place_of_report = nullptr;
};

// Whether all paths are run folders, which are compared as they are.
[[nodiscard]] bool are_runs(const CompareArguments& arguments);

// mneme compare with these arguments. Returns the exit code.
int run_compare(const CompareArguments& arguments, const Streams& streams);

// Of processes, threads and devices; the folder is that of the comparison. Ranks agree on the
// number of threads: all call this.
[[nodiscard]] compare::Options compare_options(const CompareArguments& arguments,
                                               const std::filesystem::path& folder,
                                               const std::filesystem::path& experiment,
                                               const RankSession& session);

// The arms of EXP, with --memory, --sweep and --set. Errors as compare::read_arms.
[[nodiscard]] std::vector<compare::ArmSetup> read_arms(const CompareArguments& arguments,
                                                       plugin::PluginLoader& loader);

// Before the data are read, which may take minutes: every arm's data files, plugins and options.
// Errors as train::check_inputs, with the arm's name.
void check_arms(const std::vector<compare::ArmSetup>& arms, plugin::PluginLoader& loader);

// Warns when these bytes, which runs will write, are not free where the folder will be.
void warn_of_small_disk(std::int64_t bytes, const std::filesystem::path& folder);

// What became of a comparison's runs.
struct CompareEnd {
  int signal = 0;  // that stopped them, on this rank or another; 0 = none
  bool has_failures = false;
  bool has_faults = false;  // a memory does not hold what the comparison rests on
  std::int64_t done = 0;    // runs
  std::int64_t all = 0;
};
// Runs the arms, with a progress line. An InterruptGuard must live.
[[nodiscard]] CompareEnd run_comparison(compare::Record& record, const compare::Options& options,
                                        const CompareArguments& arguments, const Streams& streams);
// Adds the comparison's runs to those of `end`, and those that are done.
void add_counts(const compare::Record& record, CompareEnd& end);
[[nodiscard]] int exit_code_of(const CompareEnd& end);
// What is said after a signal. `more` follows the counts of runs: ", 1 of 2 tasks has not begun".
[[nodiscard]] std::string stopped_text(const CompareEnd& end, const std::string& command,
                                       const std::string& more = "");

// mneme compare --dry-run: measures and prints what the comparison `name` will cost. Returns it as
// JSON.
[[nodiscard]] Json show_plan(const compare::Record& record, const compare::Options& options,
                             const std::string& name, const CompareArguments& arguments,
                             const RankSession& session);

// --- Looks after every seed (compare_looks.cpp) ---

// Runs the arms of a record of the most seeds, all up to the first look, then seed after seed those
// that no look has decided. An InterruptGuard must live.
[[nodiscard]] CompareEnd run_until_decided(const compare::Record& all,
                                           const compare::Options& options,
                                           const CompareArguments& arguments,
                                           const RankSession& session);
// --dry-run: says that the plan is one of the most seeds.
void add_first_look(const compare::Record& record, const CompareArguments& arguments,
                    const Streams& streams, Json& plan);

// --- Tuned arms (compare_tuned.cpp) ---

[[nodiscard]] bool is_tuned(const CompareArguments& arguments);

// What is tried, and the comparison that tries it.
struct Tuning {
  std::vector<compare::Tune> tunes = {};
  std::int64_t halving_steps = 0;  // CompareArguments::tune_halving
  compare::ArmSource source = {};
  std::vector<compare::ArmSetup> trials = {};
  compare::Options options = {};
  compare::Record record = {};
};
// Without reading data. Errors as compare::read_trials.
[[nodiscard]] Tuning read_tuning(const CompareArguments& arguments,
                                 const std::vector<compare::ArmSetup>& arms,
                                 plugin::PluginLoader& loader);
// Fills in the record of the trials; `options` are those of the comparison. Errors as
// compare::prepare, and when all trials are refused.
void prepare_trials(Tuning& tuning, const compare::Options& options, plugin::PluginLoader& loader);
// Runs the trials, with successive halving one rung after another. An InterruptGuard must live.
[[nodiscard]] CompareEnd run_trials(Tuning& tuning, const CompareArguments& arguments,
                                    const Streams& streams);
// The arms, and each once more in the place of its tuned form.
[[nodiscard]] std::vector<compare::ArmSetup> with_stand_ins(
    const std::vector<compare::ArmSetup>& arms);

// The comparison that the trials lead to.
struct TunedArms {
  compare::Record record;
  bool are_missing = false;  // of some arm no trial can be taken
};
// Chooses each arm's values when all trials have ended, says them, and prepares the arms with them
// beside the arms as they are.
[[nodiscard]] TunedArms choose_arms(const Tuning& tuning,
                                    const std::vector<compare::ArmSetup>& arms,
                                    const compare::Options& options,
                                    const CompareArguments& arguments, const Streams& streams);

// --dry-run of a comparison whose record has stand-ins: the plan of the trials, its own, and both.
[[nodiscard]] Json show_tuning_plan(const Tuning& tuning, const compare::Record& record,
                                    const compare::Options& options, const std::string& name,
                                    const CompareArguments& arguments, const RankSession& session);

// --- One comparison after another (compare_suite.cpp) ---

// A comparison of a suite.
struct SuiteTask {
  std::string name;  // its folder below the suite's
  std::filesystem::path experiment;
  std::vector<compare::ArmSetup> arms;
};
// Prepares all tasks, then runs one after another in `folder`, writes their reports, and the table
// of `record`, which has the tasks in the same order. With --dry-run shows their plans. Returns the
// exit code.
[[nodiscard]] int run_tasks(const CompareArguments& arguments, const std::filesystem::path& folder,
                            const report::SuiteRecord& record, const std::vector<SuiteTask>& tasks,
                            const RankSession& session);
// mneme compare --suite FILE
int compare_suite(const CompareArguments& arguments, const RankSession& session);
// mneme compare EXP --capacity POINTS (compare_capacity.cpp)
int compare_capacity(const CompareArguments& arguments, const RankSession& session);
// mneme compare EXP --scale SIZES (compare_scale.cpp)
int compare_scale(const CompareArguments& arguments, const RankSession& session);

}  // namespace mneme::cli
