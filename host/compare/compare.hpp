// Trains one backbone with several memories and measures each.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/compare/comparison.hpp"
#include "host/config/experiment.hpp"
#include "host/train/observer.hpp"

namespace mneme::compare {

// A memory to compare, and the experiment with it in place.
struct ArmSetup {
  std::string name;
  std::filesystem::path file;
  config::Experiment experiment;
};

// Reads the experiment once with each memory file; overrides apply to every arm. Arms are called
// after their files; names that repeat get "#2" and so on. Error (kUsage) as
// config::parse_experiment, and for no memory.
[[nodiscard]] std::vector<ArmSetup> read_arms(const std::filesystem::path& experiment,
                                              const std::vector<std::filesystem::path>& memories,
                                              const std::vector<config::Override>& overrides);

struct Options {
  c10::Device device = c10::kCPU;
  std::int64_t seeds = 1;                 // train.seed, train.seed + 1, ...
  std::filesystem::path folder = {};      // a run folder for every arm and seed; "" = none
  std::filesystem::path experiment = {};  // the experiment's file, for the record
};

// What a comparison tells its caller, on the caller's thread. What it throws ends the comparison.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  virtual void on_training(const std::string& arm, std::uint64_t seed, std::int64_t steps) = 0;
  virtual void on_step(const train::StepReport& report) = 0;
  // `segments` 0 = not known.
  virtual void on_evaluation(const std::string& arm, data::Split split, std::int64_t segments) = 0;
  virtual void on_evaluated(std::int64_t segments, std::int64_t tokens) = 0;
  virtual void on_done() = 0;  // of a training or an evaluation
};

// Trains every arm from the same data, seeds and initial backbone weights, one after the other, and
// evaluates it on valid, and on test when data.test names one. Plugins are loaded, and options
// checked, for all arms before the first one trains. Errors: Error (kUsage) when there is nothing
// to evaluate on; Error (kRun) when two arms' initial backbone parameters differ, naming the
// parameter; what training and evaluation throw, with the arm's name in front.
[[nodiscard]] Comparison compare(const std::vector<ArmSetup>& arms, const Options& options,
                                 Observer& observer);

}  // namespace mneme::compare
