// The trainings and evaluations of a comparison, as processes that run one after another or side by
// side, on one machine or on several. What they write stays in a folder: a comparison that was
// interrupted is continued by the same call.
//
//   DIR/comparison.json          what is compared, and how far every run is; docs/compare.md
//   DIR/experiments/<run>.toml   the experiment of a run
//   DIR/<arm>-seed<N>/           run folders (docs/runs.md), with their stored evaluations
//   DIR/lock                     see run::RunLock
//   DIR/tuning/                  the trials of tuned arms, a comparison of their own: tuning/trials.hpp
#pragma once

#include <c10/core/Device.h>
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/base/process/process.hpp"
#include "host/base/text.hpp"
#include "host/compare/arms.hpp"
#include "host/data/dataset.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/plugin/loader.hpp"
#include "host/scores/looks.hpp"
#include "host/scores/memory_checks.hpp"
#include "host/scores/trials.hpp"

namespace mneme::ranks {
class Communicator;
}

namespace mneme::compare {

// How far one arm is with one seed.
struct RunRecord {
  enum class State { kWaiting, kRunning, kDone, kFailed };

  std::string arm = {};
  std::uint64_t seed = 0;
  std::string folder = {};  // below the comparison's; also the run's name
  State state = State::kWaiting;
  // All that the tables need is in its folder: known before the runs begin. Such a run is done
  // while it waits, and while its process looks for what else is missing.
  bool is_complete = false;
  std::string initial_sha256 = {};  // of the backbone's first weights; "" = not begun
  std::string error = {};           // why it failed
  int exit_code = 0;                // of the process that failed
  // Of the first split, nats a token; nullopt = not evaluated yet. Not in comparison.json.
  std::optional<double> loss = {};

  [[nodiscard]] bool is_done() const {
    return state == State::kDone || (is_complete && state != State::kFailed);
  }
};

// Evaluations of the first segments of the valid split while an arm trains (`mneme train
// --curve-every`); every = 0: none.
struct ArmCurve {
  std::int64_t every = 0;  // steps
  std::int64_t segments = 0;
};

// One arm with what is known of it before it trains.
struct ArmRecord {
  ArmSetup setup;
  std::vector<memory::TierIdentity> plugins;
  std::int64_t backbone_parameters = 0;
  std::int64_t memory_parameters = 0;
  memory::ReplacedLayers replaced = {};  // whose attention its memory replaces
  Json flops = nullptr;                  // run::FlopsPerToken as JSON; null = could not be counted
  scores::MemoryChecks checks;           // before its training
  ArmCurve curve = {};
  // The arm of which the runs are, because both would train the same; "" = they are its own.
  std::string runs_of = {};
  // Of a trial with successive halving: the step after which its training stops, 0 = at its end;
  // whether it has nothing to do in the present rung; its losses after the rungs before (not in
  // comparison.json).
  std::int64_t stop_at = 0;
  bool is_at_rest = false;
  std::vector<double> rung_losses = {};
  // Of one run, with the state of a memory that is empty: see run_disk_bytes. Not in
  // comparison.json.
  std::int64_t disk_bytes = 0;
  std::vector<RunRecord> runs;  // of the first seeds; of all unless their number is open
};

// comparison.json.
struct Record {
  std::string command;              // as it was typed
  std::filesystem::path file;       // the experiment's
  std::string experiment;           // of the first arm, resolved, as TOML
  Json machine, data;               // as in run.json; its threads are those of each process
  std::vector<data::Split> splits;  // that every run is evaluated on
  std::vector<std::uint64_t> seeds;
  std::vector<ArmRecord> arms;
  // Of trials with successive halving, and what early_end() says of them; not in comparison.json.
  std::vector<scores::Rung> rungs = {};
  std::string early_end = {};
  Json initial_weights = nullptr;  // given, file, sha256; null = they are drawn
  Json tuning = nullptr;           // of tuned arms: see tuning_json; null = there are none
  // How seeds are added until a difference is shown; nullopt: their number is fixed.
  std::optional<scores::LookRecord> looks = {};
  // Not in comparison.json: the samples that every run makes of the first split, the tokens of
  // their prompts, and the segments of the split on which its memory is measured.
  std::int64_t samples = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t diagnostics = 0;
  // Likewise: of so many seeds all runs came to their end before, and are not begun again.
  std::size_t ended_seeds = 0;
  std::set<std::string> logged = {};  // while the arms were made: LogOnce::said()

  [[nodiscard]] bool has_failures() const;
  // Of the arms that have work: what several arms have is counted once.
  [[nodiscard]] std::int64_t count_runs() const;
};
// Whether an arm's runs are to be made: it can be, and they are neither another's nor at rest.
[[nodiscard]] bool has_work(const ArmRecord& arm);
// Gives arms that have another's runs (ArmRecord::runs_of) what became of them.
void copy_shared_runs(Record& record);
[[nodiscard]] Json to_json(const Record& record);

// What a comparison is made for.
enum class Purpose {
  kArms,    // the arms as they are, on valid and, if a file is named, on test
  kTrials,  // to choose values: on valid alone; an arm that cannot be made is refused
  kTuned,   // the arms beside those with chosen values: on test, which no choice has seen
};

struct Options {
  std::filesystem::path folder;  // DIR
  Purpose purpose = Purpose::kArms;
  std::int64_t seeds = 1;         // train.seed, train.seed + 1, ...
  bool is_until_decided = false;  // these are the most: see Record::looks
  std::int64_t jobs = 1;          // processes side by side, of each rank
  std::int64_t samples = 0;       // prompts that every run continues, of data that have text
  std::int64_t diagnostics = 0;   // segments on which every run's memory is measured
  // The split on which a pilot is evaluated alone, "" = the first there is; absent = it is none.
  std::optional<std::string> pilot_split = {};
  c10::Device device = c10::kCPU;
  // The names of this rank's devices. Each process gets the device with the fewest processes at
  // work; `device` is the first name.
  std::vector<std::string> device_names = {"cpu"};
  bool is_forced = false;   // --force of the processes
  bool is_dry_run = false;  // nothing is trained or written
  // Of trials: their steps in the first rung of successive halving; 0 = they are trained whole.
  std::int64_t halving_steps = 0;
  // Where every arm's first weights come from (`mneme train --init`): what was given, the file of
  // weights, and its checksum; "" = they are drawn. See find_initial_weights.
  std::filesystem::path given_weights = {};
  std::filesystem::path initial_weights = {};
  std::string initial_weights_sha256 = {};
  FreeMemorySource free_memory = nullptr;  // see run::RuntimeOptions
  std::filesystem::path experiment = {};   // the experiment's file, for the record
  std::string command = {};                // for the record
  std::filesystem::path program = {};      // that trains and evaluates: `mneme`
  sigset_t signal_mask = {};               // of the processes
  // All ranks that share the runs; nullptr = this process has all. Rank 0 writes the record.
  ranks::Communicator* ranks = nullptr;
};

// Fills in the options' initial weights: the newest checkpoint of the run `given`, or that file. A
// comparison in options.folder that began with the same `given` continues with the weights that it
// has kept, even if the run was trained further since. Error (kRun) when the weights cannot be
// read.
void find_initial_weights(const std::filesystem::path& given, Options& options);
// Where a comparison keeps them.
[[nodiscard]] std::filesystem::path kept_weights(const std::filesystem::path& folder);
// Puts the options' weights there, unless they are. Error (kRun) when that fails.
void keep_initial_weights(const Options& options);

// What a process does at present.
struct Activity {
  std::string run;                // its folder below the comparison's
  std::string phase;              // "train", "evaluate valid"
  std::int64_t step = 0, of = 0;  // steps of a training, segments of an evaluation; of = 0: unknown
};

// Runs that came to their end.
struct EndedRuns {
  std::int64_t done = 0;
  std::int64_t failed = 0;
};

// Callbacks of a comparison, on the caller's thread. All but stop_signal() are called on rank 0
// alone.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  // Several times a second. Steps of all trainings: done, and in all (0 = not known yet).
  virtual void on_progress(const std::vector<Activity>& active, const EndedRuns& ended,
                           std::int64_t steps, std::int64_t total_steps) = 0;
  // A line that a process printed beside its progress: a warning of its data, for instance. Lines
  // that were passed on before, or logged while the arms were made, are not repeated.
  virtual void on_message(const std::string& run, const std::string& line) = 0;
  // A run came to its end: done, or failed with its message.
  virtual void on_end(const RunRecord& run, const EndedRuns& ended) = 0;
  // A signal that asks to stop; 0 = continue. The processes get it, save what they have and end.
  [[nodiscard]] virtual int stop_signal() = 0;
};

// Prepares a comparison: the data are read, every plugin is loaded, every arm is made once, its
// initial backbone weights are compared with the first arm's and its memory is checked
// (checks::check_untrained; what fails is a warning in the log), and the first free or equal run
// folder is chosen for each run: one whose experiment, data, plugins, program, device, threads and
// source of first weights are the arm's is continued, or taken as it is when it is finished
// (RunRecord::is_complete). Of trials, an arm that cannot be made is kept with the reason
// (ArmSetup::refused), and its runs have failed with it.
// Nothing is written. Errors: those of check_grows, before the data are read; Error (kUsage) when
// there is nothing to evaluate on; Error (kRun) naming the first parameter in which two arms'
// initial weights differ; what making an arm throws, with its name in front.
[[nodiscard]] Record prepare(std::vector<ArmSetup> arms, const Options& options,
                             plugin::PluginLoader& loader);

// Runs what is not finished; the record is written to comparison.json whenever a run's state
// changes. A run that fails is kept with its error, and the others continue; so is a run that the
// record no longer describes, because its program or a plugin was replaced. Returns the signal with
// which the observer, or that of another rank, asked to stop; 0 = all came to an end.
//
// Of several ranks each has processes for the runs that it is given; all call this with what they
// prepared, and all have the same record afterwards.
//
// Errors: Error (kUsage) when another process works in the folder, when ranks have prepared other
// comparisons, or do not see the folder; Error (kRun) when it cannot be written: the processes of
// all ranks have saved what they have then.
int run_all(Record& record, const Options& options, Observer& observer);

}  // namespace mneme::compare
