// Trains one backbone with several memories and measures each.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/base/process.hpp"
#include "host/compare/comparison.hpp"
#include "host/config/experiment.hpp"
#include "host/run/record/observer.hpp"

namespace mneme::compare {

// A memory to compare, and the experiment with it in place.
struct ArmSetup {
  std::string name;
  std::filesystem::path file;
  config::Experiment experiment;
};

// Reads the experiment once with each memory file; overrides apply to every arm. Arms are named
// after their files; names that repeat get "#2" and so on. Error (kUsage) as
// config::parse_experiment, and for no memory.
[[nodiscard]] std::vector<ArmSetup> read_arms(const std::filesystem::path& experiment,
                                              const std::vector<std::filesystem::path>& memories,
                                              const std::vector<config::Override>& overrides);

struct Options {
  c10::Device device = c10::kCPU;
  std::int64_t seeds = 1;  // train.seed, train.seed + 1, ...
  // Where every arm and seed gets a run folder: <arm>-seed<seed>, with a number after it when that
  // is there. "" = none.
  std::filesystem::path folder = {};
  std::filesystem::path experiment = {};   // the experiment's file, for the record
  FreeMemorySource free_memory = nullptr;  // see run::RuntimeOptions
};

// Callbacks of a comparison, on the caller's thread. An exception that is no std::exception ends
// the comparison.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  virtual void on_training(const std::string& arm, std::uint64_t seed, std::int64_t steps) = 0;
  virtual void on_step(const run::StepReport& report) = 0;
  // `segments` 0 = not known.
  virtual void on_evaluation(const std::string& arm, data::Split split, std::int64_t segments) = 0;
  virtual void on_evaluated(std::int64_t segments, std::int64_t tokens) = 0;
  virtual void on_done() = 0;  // of a training or an evaluation
  // An arm's training from one seed and its evaluations came to their end; with `result.error` they
  // failed, and the others go on.
  virtual void on_result(const std::string& arm, const SeedResult& result) = 0;
};

// Trains every arm from the same data, seeds and initial backbone weights, one after the other, and
// evaluates it on valid, and on test when data.test names one. Plugins are loaded, options checked
// and initial weights compared, for all arms before the first one trains. A training or evaluation
// that fails is kept as its seed's error. `out` grows seed by seed: when the observer ends the
// comparison, it holds what was finished before, is_interrupted, and the run folder of the
// unfinished seed is removed. Errors, before anything trains: Error (kUsage) when there is nothing
// to evaluate on; Error (kRun) when two arms' initial backbone parameters differ, naming the
// parameter; what making an arm throws, with its name in front.
void compare(const std::vector<ArmSetup>& arms, const Options& options, Observer& observer,
             Comparison& out);
[[nodiscard]] Comparison compare(const std::vector<ArmSetup>& arms, const Options& options,
                                 Observer& observer);

// --- Checksums that tell whether two models have the same initial weights ---

// SHA-256 of each backbone parameter's dtype, shape and bytes, by name, in the model's order.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] Fingerprint fingerprint(const backbone::Model& model);
// One digest of all.
[[nodiscard]] std::string digest(const Fingerprint& fingerprint);
// Error (kRun) naming the arms and the first parameter that differs.
void check_equal(const Fingerprint& first, const std::string& first_arm, const Fingerprint& other,
                 const std::string& other_arm);

}  // namespace mneme::compare
