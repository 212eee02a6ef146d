// A training run: experiment, model, memory, optimiser, data stream and the state of all of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "host/config/experiment.hpp"
#include "host/data/stream.hpp"
#include "host/eval/evaluator.hpp"
#include "host/memory/stack.hpp"
#include "host/train/observer.hpp"
#include "host/train/optimizer.hpp"
#include "host/train/run_folder.hpp"
#include "host/train/runtime.hpp"
#include "host/train/schedule.hpp"
#include "host/train/valid_record.hpp"

namespace mneme::train {

struct SessionOptions {
  RuntimeOptions runtime = {};
  // Where config, metrics and checkpoints go; "" = nothing is written. See run_folder.hpp.
  std::filesystem::path folder = {};
  // The training data in place of the dataset's stream; tests use it.
  std::unique_ptr<data::Stream> stream = nullptr;
};

// One thread at a time.
//
// A step runs `accumulate` times `bptt_segments` segments; the graph reaches over bptt_segments
// segments and gradients over all of them. The loss is the mean over segments of (mean nll of the
// segment's targets + auxiliary losses by their weights). A step that fails, by a hook's error or
// by a loss or gradient that is not finite, leaves weights, optimiser, memory and data position as
// they were before it.
class Session {
 public:
  // Error (kUsage | kPlugin | kRun) as Runtime and the stream give them. With a folder: creates it,
  // and Error (kUsage) when it already holds a run (resume() continues one).
  explicit Session(const config::Experiment& experiment, SessionOptions options = {});
  // Continues the run of a folder from its checkpoint: options.folder is `folder`. Errors as above
  // and as load().
  static std::unique_ptr<Session> resume(const std::filesystem::path& folder,
                                         SessionOptions options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Steps of the whole run: train.steps, or what train.epochs need.
  [[nodiscard]] std::int64_t total_steps() const { return total_steps_; }
  // True when nothing is left to train: all steps done, or stopped early.
  [[nodiscard]] bool is_finished() const;
  [[nodiscard]] bool is_stopped_early() const { return is_finished() && step_ < total_steps_; }
  // The evaluations of the valid split so far.
  [[nodiscard]] const ValidRecord& valid_record() const { return valid_; }
  // Steps done.
  [[nodiscard]] std::int64_t step() const { return step_; }
  // Targets trained on so far.
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] const config::Experiment& experiment() const { return runtime_->experiment(); }
  [[nodiscard]] Runtime& runtime() { return *runtime_; }
  [[nodiscard]] const memory::StackState& state() const { return state_; }

  // One optimiser step. Errors: Error (kRun) naming the step, the parameters without finite
  // gradient and the last good checkpoint; Error (kPlugin) of hooks; Error (kRun) when the data
  // end.
  StepReport train_step();
  // Trains until total_steps(): reports every step, logs every log_every steps to the folder,
  // evaluates the valid split every eval_every steps and at the end (when there is one), saves to
  // the folder every save_every steps and at the end, and keeps the checkpoint of the lowest valid
  // loss apart. Ends before total_steps() when early_stop evaluations brought no lower loss. When
  // an observer's exception left an evaluation undone, the next call begins with it. An observer
  // may be null.
  void train(Observer* observer = nullptr);
  // Evaluates a split with the present weights at eval.precision; training continues unharmed.
  eval::Result evaluate(data::Split split, eval::Options options = {});

  // Writes everything that load() needs (see checkpoint.hpp), atomically.
  void save(const std::filesystem::path& path);
  // Continues where a checkpoint of the same experiment was written: the steps that follow equal
  // those of a run that never stopped, bit for bit on CPU. Errors: Error (kUsage) for another
  // model, memory, data or training settings, listing the differences; Error (kRun) for files that
  // are no checkpoint. A failed load leaves the session as it was.
  void load(const std::filesystem::path& path);

 private:
  struct Pass;  // sums of one step

  void begin_training();
  void run_segment(Pass& pass);
  void update(StepReport& report, const Pass& pass);
  [[noreturn]] void fail_not_finite(const StepReport& report) const;
  // session_loop.cpp
  [[nodiscard]] bool is_evaluation_due() const;
  void evaluate_valid(Observer* observer);
  void save_to_folder(Observer* observer);

  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Runtime> eval_runtime_;  // when eval.precision differs
  std::unique_ptr<data::Stream> stream_;
  std::unique_ptr<Adam> optimizer_;
  std::int64_t total_steps_ = 0;
  std::unique_ptr<LearningRate> rate_;
  memory::StackState state_;
  std::unique_ptr<RunFolder> folder_;
  std::filesystem::path last_checkpoint_;
  std::int64_t last_checkpoint_step_ = 0;
  ValidRecord valid_;
  std::int64_t step_ = 0;
  std::int64_t tokens_ = 0;
  double seconds_ = 0.0;
  bool is_training_mode_ = false;
};

}  // namespace mneme::train
