// Reports of a training run to its caller.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "host/data/dataset.hpp"
#include "host/eval/result.hpp"

namespace mneme::run {

// One optimiser step.
struct StepReport {
  std::int64_t step = 0;   // steps done, this one included
  double loss = 0.0;       // mean nll of the step's targets by segment, nats, before the update
  double grad_norm = 0.0;  // global 2-norm before clipping
  double lr = 0.0;         // train.lr by the schedule
  // Learning rates by TrainableParameter::rate; empty when all parameters have the same.
  std::map<std::string, double> rates = {};
  std::int64_t tokens = 0;  // targets since the run began
  // The tokens that were read for them, those of prompts too; absent in a run that an older program
  // began.
  std::optional<std::int64_t> tokens_read = {};
  double seconds = 0.0;  // of training since the run began, evaluations and saving apart
  // Model FLOPs utilization since the line of metrics.jsonl before (cost/utilization.hpp), 0.25 = a
  // quarter; of the steps that are logged to a folder.
  std::optional<double> mfu = {};
  // Operations a second of the product that it is a share of, Utilization::peak; present with it.
  std::optional<double> product_flops = {};
  // The most bytes that tensors on a GPU held at once since that line, evaluations apart.
  std::optional<std::int64_t> peak_device_bytes = {};
  std::map<std::string, double> losses = {};   // auxiliary, "<tier>.<name>", before their weight
  std::map<std::string, double> metrics = {};  // of tiers, likewise
  // Of a training over several ranks: a signal on which all of them stop after this step; 0 = none.
  int stop_signal = 0;
};

struct EvalReport {
  std::int64_t step = 0;  // steps done
  data::Split split = data::Split::kValid;
  eval::Result result = {};
  bool is_best = false;  // of the valid split: its loss is lower than every earlier one
};

// Callbacks of Trainer::train, on its thread. An exception from one ends the run.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  virtual void on_step(const StepReport& report) { static_cast<void>(report); }
  // After every segment of an evaluation, with the segments and targets done so far.
  virtual void on_eval_progress(std::int64_t segments, std::int64_t tokens) {
    static_cast<void>(segments);
    static_cast<void>(tokens);
  }
  // Of an evaluation over several ranks, on all of them: a signal asks to stop.
  virtual void on_stop_signal(int signal) { static_cast<void>(signal); }
  virtual void on_eval(const EvalReport& report) { static_cast<void>(report); }
  virtual void on_checkpoint(std::int64_t step, const std::filesystem::path& path) {
    static_cast<void>(step);
    static_cast<void>(path);
  }
};

// --- Record of a run's evaluations of the valid split ---

// Part of RunProgress: a resumed run stops early where the uninterrupted one does.
struct ValidRecord {
  std::int64_t last_step = 0;  // steps done at the last evaluation; 0 = none yet
  std::int64_t best_step = 0;  // likewise of the lowest loss
  double best_loss = std::numeric_limits<double>::infinity();  // nats a token
  std::int64_t evaluations_since_best = 0;

  // Notes an evaluation; true when its loss is lower than every earlier one.
  bool add(std::int64_t step, double loss) {
    last_step = step;
    const bool is_best = loss < best_loss;
    if (is_best) {
      best_step = step;
      best_loss = loss;
    }
    evaluations_since_best = is_best ? 0 : evaluations_since_best + 1;
    return is_best;
  }

  friend bool operator==(const ValidRecord&, const ValidRecord&) = default;
};

}  // namespace mneme::run
