#include "host/train/session.hpp"

#include <algorithm>
#include <cmath>

#include "host/base/clock.hpp"
#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/eval/batch.hpp"
#include "host/torch.hpp"
#include "host/train/checkpoint.hpp"
#include "host/train/device.hpp"

namespace mneme::train {
namespace {

data::StreamOptions training_options(const config::TrainConfig& train) {
  data::StreamOptions options;
  options.lanes = train.lanes;
  options.segment = train.segment;
  options.is_training = true;
  options.seed = train.seed;
  return options;
}

std::int64_t segments_per_step(const config::TrainConfig& train) {
  return train.accumulate * train.bptt_segments;
}

std::int64_t count_steps(const config::TrainConfig& train, const data::Stream& stream) {
  if (train.epochs == 0) return train.steps;
  if (stream.segments_per_epoch() == 0) {
    throw_usage({.where = "train.epochs",
                 .failed = "the task generates data without end",
                 .expected = "train.steps",
                 .got = str("train.epochs = ", train.epochs)});
  }
  const std::int64_t segments = train.epochs * stream.segments_per_epoch();
  return (segments + segments_per_step(train) - 1) / segments_per_step(train);
}

using Sums = std::map<std::string, at::Tensor>;

void add_reported(Sums& sums, const std::map<std::string, memory::Reported>& reported) {
  for (const auto& [name, value] : reported) {
    const at::Tensor term = value.value.detach().to(at::kDouble);
    at::Tensor& sum = sums[name];
    sum = sum.defined() ? sum + term : term;
  }
}

}  // namespace

// Sums over the segments of one step. Tensors stay on the device: all numbers of a step come to the
// CPU in one transfer.
struct Session::Pass {
  at::Tensor graph;  // loss of the segments since the last backward pass
  at::Tensor loss;   // sum of the segments' mean nll, f64 []
  Sums losses;
  Sums metrics;
  std::int64_t tokens = 0;
};

Session::Session(const config::Experiment& experiment, SessionOptions options)
    : runtime_(std::make_unique<Runtime>(experiment, options.runtime)),
      stream_(std::move(options.stream)) {
  const config::TrainConfig& train = experiment.train;
  if (!stream_) {
    stream_ = runtime_->dataset()->make_stream(data::Split::kTrain, training_options(train));
  }
  total_steps_ = count_steps(train, *stream_);
  rate_ = std::make_unique<LearningRate>(train, total_steps_);
  optimizer_ = std::make_unique<Adam>(runtime_->parameters(),
                                      AdamOptions{train.beta1, train.beta2, train.eps});
  state_ = runtime_->stack().new_state(memory::Phase::kTraining, train.lanes);
  if (!options.folder.empty()) {
    folder_ = std::make_unique<RunFolder>(RunFolder::create(options.folder, *runtime_));
  }
}

Session::~Session() = default;

void Session::begin_training() {
  if (is_training_mode_) return;
  runtime_->model().train(true);
  backbone::set_context_window(runtime_->model(),
                               runtime_->stack().context_rows(memory::Phase::kTraining));
  is_training_mode_ = true;
}

void Session::run_segment(Pass& pass) {
  data::Segment segment;
  if (!stream_->next(segment)) {
    throw_run({.where = "training data",
               .failed = str("they ended at step ", step_ + 1, " of ", total_steps_)});
  }
  backbone::Model& model = runtime_->model();
  const backbone::Batch batch = eval::make_batch(segment, model.vocabulary(), runtime_->device());
  if (std::find(segment.reset.begin(), segment.reset.end(), 1) != segment.reset.end()) {
    state_.reset(segment.reset);
  }
  memory::SegmentInput input;
  input.length = segment.length;
  input.valid_count = batch.valid_count;
  memory::SegmentRun run(runtime_->stack(), state_, input);
  const backbone::Output out = model.forward(batch, run);
  const std::int64_t targets = segment.target_count();
  const at::Tensor nll = out.nll.sum() / static_cast<double>(std::max<std::int64_t>(1, targets));
  const at::Tensor auxiliary = run.total_loss();
  const at::Tensor total = auxiliary.defined() ? nll + auxiliary : nll;
  pass.graph = pass.graph.defined() ? pass.graph + total : total;
  const at::Tensor value = nll.detach().to(at::kDouble);
  pass.loss = pass.loss.defined() ? pass.loss + value : value;
  pass.tokens += targets;
  add_reported(pass.losses, run.losses());
  add_reported(pass.metrics, run.metrics());
  run.commit();
}

StepReport Session::train_step() {
  begin_training();
  const double start = steady_clock().seconds();
  const at::AutoGradMode grad(true);
  const std::vector<std::int64_t> place = stream_->position();
  const std::uint64_t noise = runtime_->model().noise_position();
  memory::StackState before = state_.clone();
  StepReport report;
  try {
    Pass pass;
    optimizer_->zero_grad();
    const auto segments = static_cast<double>(segments_per_step(experiment().train));
    for (std::int64_t i = 0; i < experiment().train.accumulate; ++i) {
      do {
        run_segment(pass);
      } while (!state_.is_graph_boundary());
      (pass.graph / segments).backward();
      pass.graph = at::Tensor();
    }
    update(report, pass);
  } catch (...) {
    optimizer_->zero_grad();
    state_ = std::move(before);
    stream_->seek(place);
    runtime_->model().seek_noise(noise);
    throw;
  }
  seconds_ += steady_clock().seconds() - start;
  report.seconds = seconds_;
  return report;
}

void Session::update(StepReport& report, const Pass& pass) {
  std::vector<at::Tensor> numbers = {pass.loss, optimizer_->gradient_norm().to(pass.loss.device())};
  for (const auto& [name, sum] : pass.losses) numbers.push_back(sum);
  for (const auto& [name, sum] : pass.metrics) numbers.push_back(sum);
  const at::Tensor host = at::stack(numbers).to(at::kCPU);
  const double* number = host.const_data_ptr<double>();
  const auto segments = static_cast<double>(segments_per_step(experiment().train));
  report.loss = *number++ / segments;
  report.grad_norm = *number++;
  for (const auto& [name, sum] : pass.losses) report.losses[name] = *number++ / segments;
  for (const auto& [name, sum] : pass.metrics) report.metrics[name] = *number++ / segments;
  if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm)) fail_not_finite(report);
  const config::TrainConfig& train = experiment().train;
  if (train.clip > 0.0) optimizer_->clip(report.grad_norm, train.clip);
  const double factor = rate_->factor(step_);
  optimizer_->step(factor);
  runtime_->weights_changed();
  tokens_ += pass.tokens;
  report.step = ++step_;
  report.lr = train.lr * factor;
  report.tokens = tokens_;
}

void Session::fail_not_finite(const StepReport& report) const {
  const std::vector<std::string> names = optimizer_->non_finite_gradients();
  std::string what = str("the loss is ", format_number(report.loss, 4));
  if (!names.empty()) {
    what += str(", and ", names.size(), " of ", runtime_->parameters().size(),
                " parameters have gradients that are not finite, first ", names.front());
  } else if (std::isfinite(report.loss)) {
    what += str(", and the global norm of the gradients is ", format_number(report.grad_norm, 4));
  }
  const std::string last = last_checkpoint_.empty()
                               ? std::string("no checkpoint was written yet")
                               : str("the last good checkpoint is ", last_checkpoint_.string(),
                                     " (step ", last_checkpoint_step_, ")");
  throw_run({.where = str("step ", step_ + 1),
             .failed = "training left the finite numbers",
             .got = what,
             .hint = str(last,
                         "; lower train.lr, lengthen train.warmup, or use train.precision = "
                         "\"f32\"")});
}

}  // namespace mneme::train
