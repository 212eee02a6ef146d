// Several memories evaluated one after another in one process, behind one backbone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/config/experiment.hpp"
#include "host/eval/result.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/cost/ram_check.hpp"
#include "host/run/cost/utilization.hpp"
#include "host/run/run_description.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

// One memory of a sweep.
struct SweepMemory {
  std::string name;
  config::MemoryConfig memory;
};

// The result of evaluating it, or why there is none.
struct SweepResult {
  std::string name;
  config::MemoryConfig memory;
  std::vector<memory::TierIdentity> plugins = {};  // empty when it could not be loaded
  std::vector<std::string> reset = {};             // its parameters that the run has not trained
  std::vector<RunDifference> differences = {};     // of its plugins from the run's
  std::optional<eval::Result> result = std::nullopt;
  std::optional<Error> error = std::nullopt;  // why there is no result
  std::optional<Speed> speed = std::nullopt;  // where a command asked for it
};

// One backbone with the checkpoint's weights and several memories in turn: the first is built with
// it, each next one replaces its predecessor (Runtime::swap_memory). Trained values of a memory's
// parameters always come from the checkpoint, so that a memory's numbers do not depend on what ran
// before it: they equal those of a separate process, bit for bit on CPU.
class Sweep {
 public:
  // `checkpoint` outlives the sweep. `options` need a dataset; the experiment's memory is not used.
  // `extents`: lanes and tokens of the work, when it is not an evaluation by [eval].
  Sweep(const Checkpoint& checkpoint, config::Experiment experiment, RuntimeOptions options,
        const EvaluationExtents& extents = {})
      : checkpoint_(checkpoint),
        experiment_(std::move(experiment)),
        options_(std::move(options)),
        extents_(extents) {
    if (!options_.loader)
      options_.loader = std::make_shared<plugin::PluginLoader>(memory::make_loader());
  }

  // Loads a memory into the backbone; returns its parameters that the checkpoint has no values for
  // (memory.carry = "reset"). Errors as check_evaluation_fits, Runtime's constructor,
  // Checkpoint::load_weights and Runtime::swap_memory give them; the memory before it stays then.
  std::vector<std::string> load(const config::MemoryConfig& memory);
  // The same while a memory is loaded, which is kept: return_to(that swap) brings it back.
  [[nodiscard]] MemorySwap exchange(const config::MemoryConfig& memory);
  // Undoes the exchange, which was the last one. `memory` is what was loaded before it.
  void return_to(MemorySwap swap, const config::MemoryConfig& memory);
  // The runtime with the memory that was loaded last; load() must have succeeded once.
  [[nodiscard]] Runtime& runtime() { return *runtime_; }
  // Whether the log tells how plugins differ from those of the checkpoint, which is the default.
  void say_differences(bool is_said) { is_said_ = is_said; }
  // How its plugins differ from those of the checkpoint. The log has told each difference once.
  [[nodiscard]] const std::vector<RunDifference>& differences() const { return differences_; }

  // Loads and evaluates one memory. `make_options` is asked when it has been loaded. A failure
  // becomes the result's error, and the sweep can continue with the next memory.
  [[nodiscard]] SweepResult evaluate_memory(
      const SweepMemory& memory, data::Split split,
      const std::function<eval::Options(Runtime&)>& make_options);

 private:
  void note_differences();
  // Of a pretrained model that was not trained with a cache: such models attend to a text's first
  // tokens, which a cache drops [Xiao et al. 2023].
  void warn_of_lost_rows();

  const Checkpoint& checkpoint_;
  config::Experiment experiment_;
  RuntimeOptions options_;
  EvaluationExtents extents_;
  std::unique_ptr<Runtime> runtime_;
  std::vector<RunDifference> differences_;
  std::set<std::string> said_;
  bool is_said_ = true;
};

// A tier's option that says how much its memory holds.
struct SizeOption {
  std::size_t tier = 0;
  std::string key;
};

// The first tier whose plugin publishes an integer option `key` that may differ at evaluation.
// Error (kUsage) naming what the tiers do publish when there is none; `where` asked for it, `hint`
// is what to do then.
[[nodiscard]] SizeOption find_size_option(
    const memory::Stack& stack, const std::string& key, const std::string& where = "extrapolation",
    const std::string& hint = "mneme plugins describe prints a plugin's options");

// The extrapolation sweep [LaMemo, fig. 5]: the memory with eval_<key> = segment * m of that tier,
// m = 1 .. multiples, named "<name>, <key> = <value>".
[[nodiscard]] std::vector<SweepMemory> extrapolate(const SweepMemory& base,
                                                   const SizeOption& option, std::int64_t segment,
                                                   std::int64_t multiples);

}  // namespace mneme::run
