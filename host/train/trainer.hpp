// A training run: experiment, model, memory, optimiser, data stream and the state of all of them.
// Its files: trainer.cpp, one step; trainer_loop.cpp, the steps with their evaluations and early stop;
// trainer_store.cpp, saving, loading and resuming, and the evaluation of a split.
//
// The way of a batch to a plugin's hook and back: Trainer::train_step, run_passes, run_window and
// run_segment here, eval::run_segment, backbone::Model::forward, which runs a LayerPass for each layer, and in it
// the stages of memory::SegmentHooks, such as read_heads(). A LayerPass gives the layer's output,
// Model::forward the losses, and SegmentNumbers (step/window.hpp) sums them up for the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/base/log.hpp"
#include "host/config/experiment.hpp"
#include "host/data/stream/stream.hpp"
#include "host/eval/evaluator.hpp"
#include "host/eval/protocol.hpp"
#include "host/eval/run_segment.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/optim/optimizer.hpp"
#include "host/optim/schedule.hpp"
#include "host/optim/weight_average.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/cost/utilization.hpp"
#include "host/run/record/curve.hpp"
#include "host/run/record/evaluation_recorder.hpp"
#include "host/run/record/observer.hpp"
#include "host/run/record/run_writer.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/dispatch/recorder.hpp"
#include "host/tensor/to_device.hpp"
#include "host/train/parallel.hpp"
#include "host/train/step/window.hpp"

namespace mneme::train {

// Evaluations of the first segments of the valid split while training. Nothing else depends on
// them: neither the training's numbers, nor its checkpoints, nor what is reported at the end.
struct LearningCurve {
  std::int64_t every = 0;     // steps between two of them; the last step has one too; 0 = none
  std::int64_t segments = 0;  // of each, at most
};

struct TrainerOptions {
  run::RuntimeOptions runtime = {};
  // The folder for config, metrics and checkpoints; "" = nothing is written. See run_folder.hpp.
  std::filesystem::path folder = {};
  // Instead of `folder`: creates a new folder for this run, after everything else has succeeded,
  // and returns its path. It is removed again when the run cannot begin.
  std::function<std::filesystem::path()> claim_folder = nullptr;
  // For a new run: where its first weights come from (weights::load_initial_weights); "" =
  // train.seed. With a folder, the run begins with a checkpoint of step 0, so that it can be
  // resumed from there.
  std::filesystem::path initial_weights = {};
  // For resume(): which checkpoint (RunFolder::checkpoint), and whether the plugins may be other
  // files than those that wrote it.
  std::string checkpoint = "last";
  bool may_change_plugins = false;
  // Refuses other versions of what a memory in Python runs with, where resume() else warns.
  bool is_locked = false;
  // For resume(): the run's length from now on, in steps, which its experiment.toml then holds;
  // more than are done. 0 = as it is. The schedule becomes that of a run of this length.
  std::int64_t steps = 0;
  // Where the lanes are split over several ranks. Then every rank makes a Trainer alike and calls
  // the same functions; rank 0 alone has the folder.
  RankOptions ranks = {};
  // Not kept with the run: given again when it is resumed.
  LearningCurve curve = {};
  // The last step of train() and run_steps(), with the schedule of the whole run; 0 = the run's own.
  // Not kept with the run either.
  std::int64_t stop_at = 0;
  // The training data in place of the dataset's stream; tests use it.
  std::unique_ptr<data::Stream> stream = nullptr;
  // run_steps() reads numbers late on the CPU too; tests use it.
  bool reads_late = false;
};

// One thread at a time.
//
// A step runs `accumulate` windows of `bptt_segments` segments (accumulate_from changes the first
// with the steps). The graph of slots with gradient `through` reaches over a window, and the
// gradients of all windows are summed. The loss is the mean over windows of the mean over their
// segments of (mean nll of the segment's targets + auxiliary losses by their weights).
//
// Segments without any target, as those of a task before its answer, are not counted: they only
// fill the memory, without gradient, unless they are among the bptt_segments - 1 before one with a
// target. They have no loss, auxiliary losses included.
//
// A step that fails, by a hook's error or by a loss or gradient that is not finite, leaves weights,
// optimiser, memory and data position as they were before it.
class Trainer {
 public:
  // Error (kUsage | kPlugin | kRun) as Runtime and the stream give them. With a folder: creates it,
  // and Error (kUsage) when it already holds a run (resume() continues one).
  explicit Trainer(const config::Experiment& experiment, TrainerOptions options = {});
  // Continues the run of a folder from a checkpoint, or from its beginning when there is none yet:
  // options.folder is `folder`. Checkpoints and metrics of later steps are deleted. Errors as
  // above, as RunFolder::open_checkpoint and load(); Error (kUsage) when another process trains the
  // run or the data have changed since it began, Error (kPlugin) when a plugin has; Error (kUsage)
  // for options.steps that do not extend it.
  static std::unique_ptr<Trainer> resume(const std::filesystem::path& folder,
                                         TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Steps of the whole run: train.steps, or what train.epochs need.
  [[nodiscard]] std::int64_t total_steps() const { return total_steps_; }
  // True when nothing is left to train: all steps done, or stopped early.
  [[nodiscard]] bool is_finished() const;
  [[nodiscard]] bool is_stopped_early() const { return is_finished() && done_.step < total_steps_; }
  // The evaluations of the valid split so far.
  [[nodiscard]] const run::ValidRecord& valid_record() const { return done_.valid; }
  // Steps done.
  [[nodiscard]] std::int64_t step() const { return done_.step; }
  // Targets trained on so far.
  [[nodiscard]] std::int64_t tokens() const { return done_.tokens; }
  [[nodiscard]] const config::Experiment& experiment() const { return runtime_->experiment(); }
  [[nodiscard]] run::Runtime& runtime() { return *runtime_; }
  [[nodiscard]] const memory::StackState& state() const { return state_; }
  // Of train.replay; nullptr where nothing is recorded.
  [[nodiscard]] const tensor::Recorder* recorder() const { return recorder_.get(); }

  // One optimiser step. Errors: Error (kRun) for a loss, auxiliary loss or gradient that is not
  // finite, naming the step, the first hook, layer or parameter that is not and the last good
  // checkpoint; Error (kPlugin) of hooks; Error (kRun) when the data end, or hold no target; Error
  // (kRun | kDevice) when memory runs out, naming the largest consumers and the keys to lower.
  run::StepReport train_step();
  // Takes steps until is_finished() or TrainerOptions::stop_at, appends every train.log_every-th and
  // the run's last one to the folder's metrics, with the mean of the losses since the line before,
  // and calls `after_step` with each; is_logged says whether the step was one of those. No
  // evaluation, no saving.
  //
  // On a GPU, in one process, the numbers of a step that is neither logged nor followed by anything
  // else are read when the next one has been begun, so that the device has work meanwhile;
  // `after_step` gets its report then. The device itself asks whether they are finite: where they
  // are not, neither this step nor the next one changes weights or moments. Then the training goes
  // back to this step, and runs it once more as train_step() does, which names what is not finite.
  void run_steps(
      const std::function<void(const run::StepReport& report, bool is_logged)>& after_step);
  // Trains until total_steps(): reports every step, logs every log_every steps to the folder,
  // evaluates the valid split every eval_every steps and at the end (when there is one), and a part
  // of it for the learning curve, saves to the folder every save_every steps and at the end, and
  // keeps the checkpoint of the lowest valid loss apart. Ends before total_steps() when early_stop
  // evaluations brought no lower loss. When an observer's exception interrupted an evaluation, the
  // next call repeats it first. Ends behind the report of TrainerOptions::stop_at too, without
  // saving: what is due after this step is evaluated by the next training. An observer may be null.
  void train(run::Observer* observer = nullptr);
  // Evaluates a split with the present weights, or their averages, at eval.precision; the training state is not
  // changed. `segments` as Runtime::evaluate_split.
  eval::Result evaluate_split(data::Split split, eval::Options options = {},
                              std::int64_t segments = 0);

  // Saves to the folder, and deletes the checkpoints that train.keep_checkpoints leaves over.
  void save();
  // Of this process' training; nothing before train(), without a folder, and on ranks other than 0.
  [[nodiscard]] const run::Utilization& utilization() const { return utilization_; }
  // The most that tensors on the GPU held at once in the steps of this process, up to the last line
  // of the metrics; absent on the CPU.
  [[nodiscard]] std::optional<std::int64_t> peak_device_bytes() const { return peak_device_bytes_; }
  // The ranks over which the lanes are split; nullptr in a training of one process.
  [[nodiscard]] const Parallel* parallel() const { return parallel_.get(); }
  // The folder's writer; nullptr without a folder and on ranks other than 0.
  [[nodiscard]] run::RunWriter* writer() { return writer_.get(); }
  // The checkpoint written or loaded last; "" = none yet, or one that rank 0 has written for this
  // rank.
  [[nodiscard]] const std::filesystem::path& last_checkpoint() const { return last_checkpoint_; }

  // Writes everything that load() needs (see checkpoint.hpp), atomically. In one process, or on
  // rank 0 while the others save() too.
  void save(const std::filesystem::path& path);
  // Continues where a checkpoint of the same experiment was written: the steps that follow equal
  // those of a run that never stopped, bit for bit on CPU. Errors: Error (kUsage) for another
  // model, memory, data or training settings, listing the differences; Error (kRun) for files that
  // are no checkpoint. A failed load leaves the trainer as it was.
  void load(const std::filesystem::path& path);
  void load(const run::Checkpoint& checkpoint);

  // Calls `body` while parameters have the values of their averages, where there are any.
  void with_averages(const std::function<void()>& body);

 private:
  // The state before a step, restored when the step fails.
  struct StepStart {
    std::vector<std::int64_t> data;
    std::uint64_t noise = 0;
    memory::StackState state = {};
  };

  // A step whose update was made before its numbers were read.
  struct UnreadStep {
    StepStart start = {};
    run::StepReport report = {};  // without them
    StepSums sums = {};
    tensor::SentNumbers numbers = {};
    at::Tensor skip = {};  // f32 []: 1 = it has changed nothing, as it or one before is not finite
  };

  // What was done since the line of the metrics before, or since this process began.
  struct SinceLine {
    std::int64_t tokens = 0;                // with and without target
    double seconds = 0.0;                   // of the run, then
    std::optional<std::int64_t> peak = {};  // an evaluation resets the device's
  };

  // Of all lanes and shards.
  struct Gathered {
    memory::NamedState state;
    std::vector<optim::Optimizer::Moments> moments;
  };

  void begin_training();
  [[nodiscard]] StepStart step_start() const;
  void go_back(StepStart start);
  // Runs the body of a step. Where it fails, everything is as before it.
  void run_step(const std::function<void(const StepStart& begin)>& body);
  void report_numbers(run::StepReport& report, const StepSums& sums);
  // Adds the step to the line that it belongs to; true where that is complete, and written.
  bool log_step(run::StepReport& report, SinceLine& since);
  // Behind the update of a step; `skip` as that of StepUpdate.
  void count_update(run::StepReport& report, const StepSums& sums, const at::Tensor& skip = {});
  // A step whose numbers nobody has to wait for; `skip` of the one before, if that is not read yet.
  // With train.replay all of it is recorded.
  [[nodiscard]] UnreadStep train_ahead(const at::Tensor& skip);
  // Completes the report; false where the numbers are not finite: then everything is as before it.
  [[nodiscard]] bool read(UnreadStep& step);
  [[noreturn]] void fail_not_finite(const run::StepReport& report, const StepSums& sums,
                                    const StepStart& begin);
  // Gradients from plugins' kernels that are not finite.
  [[nodiscard]] eval::NotFinite find_in_backward(const StepStart& begin);
  // The forward and backward passes of a step, with its update where there is one. Only then windows
  // are recorded: hooks have to run in a step that failed.
  [[nodiscard]] StepSums run_passes(StepUpdate* update = nullptr);
  [[nodiscard]] std::vector<data::TokenSegment> read_window(StepSums& sums);
  void check_has_targets(std::int64_t passed) const;
  // As the model takes it; also to the segments of `sums`.
  [[nodiscard]] WindowSegment window_segment(StepSums& sums, const data::TokenSegment& segment,
                                             double weight) const;
  // The passes of one window; `is_last` of the step.
  std::vector<SegmentNumbers> run_window(const std::vector<WindowSegment>& window, bool is_last);
  // `graph` gets the sum of the losses so far.
  SegmentNumbers run_segment(const WindowSegment& segment, at::Tensor& graph);
  // True where TrainerOptions::stop_at ends a run that is not finished.
  [[nodiscard]] bool is_at_stop() const;
  // True at multiples of `every` steps, where it is above 0, and at the end.
  [[nodiscard]] bool is_due(std::int64_t every) const;
  [[nodiscard]] bool is_evaluation_due() const;
  [[nodiscard]] bool is_curve_due() const;
  void evaluate_curve(run::Observer* observer);
  // True when the step that comes is among those of metrics.jsonl.
  [[nodiscard]] bool is_next_logged() const;
  // True when nothing looks at the step that comes, or at the state behind it, before the next one.
  [[nodiscard]] bool is_next_quiet() const;
  // True when the result is the best of several.
  bool evaluate_valid(run::Observer* observer);
  // Of evaluations that a training stores, the newest and the best stay. A failure, such as a full
  // disk, is a warning in the log: the training continues.
  void store(run::EvaluationRecorder& recorder, const run::EvalReport& report);
  // Logs which parameters no gradient has reached.
  void log_untrained() const;
  void save_to_folder(run::Observer* observer);
  // What a checkpoint holds, on rank 0. Collective.
  [[nodiscard]] Gathered gather();
  // Of a rank that does not write: gives rank 0 its part of a checkpoint.
  void give_checkpoint();
  // Of train.replay; null where nothing is recorded, which the log says.
  [[nodiscard]] std::unique_ptr<tensor::Recorder> new_recorder() const;
  // With the values that the parameters have.
  eval::Result evaluate_weights(data::Split split, eval::Options options, std::int64_t segments);
  // The options of an evaluation with what the ranks need.
  [[nodiscard]] eval::Options with_ranks(eval::Options options, run::Observer* observer);

  std::unique_ptr<LogFile> log_;  // the folder's log.txt; the first, for it also gets what is
                                  // logged while the others are made; null without a folder
  std::unique_ptr<run::Runtime> runtime_;
  std::unique_ptr<run::Runtime> eval_runtime_;  // when eval.precision differs
  std::unique_ptr<data::Stream> stream_;
  RankOptions ranks_;
  std::unique_ptr<Parallel> parallel_;  // null in a training of one process
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::WeightAverage> average_;  // of train.average; null without it
  std::int64_t total_steps_ = 0;
  std::unique_ptr<optim::LearningRate> schedule_;
  std::map<std::string, double> rates_;  // base rates of the groups, when they differ
  memory::StackState state_;
  std::unique_ptr<tensor::Recorder> recorder_;  // with train.replay = "on"
  std::unique_ptr<run::RunWriter> writer_;
  bool has_folder_ = false;  // the run has one, which rank 0 writes
  std::filesystem::path last_checkpoint_;
  std::optional<std::int64_t> last_checkpoint_step_;
  LearningCurve curve_;
  std::int64_t stop_at_;
  bool reads_late_;
  run::RunProgress done_;  // its positions and lines of the metrics are those of the last save()
  run::Utilization utilization_;  // measured before the first step that is logged
  std::optional<std::int64_t> peak_device_bytes_;
  bool is_training_mode_ = false;
  bool has_first_weights_ = false;        // those of rank 0
  memory::FiniteWatch* watch_ = nullptr;  // while a failed step runs once more
};

}  // namespace mneme::train
