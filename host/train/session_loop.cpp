// The loop around the steps of a session: evaluations, early stop, saving.
#include <algorithm>

#include "host/base/log.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/session.hpp"
#include "host/optim/untrained.hpp"

namespace mneme::train {
namespace {

// The step of the first line of the log that can tell what is not trained: in the first steps a
// memory may have nothing to read yet.
std::int64_t first_settled_log(std::int64_t log_every, std::int64_t total) {
  constexpr std::int64_t kSettled = 10;
  if (log_every <= 0) return total;
  return std::min((kSettled + log_every - 1) / log_every * log_every, total);
}

}  // namespace

eval::Result Session::evaluate(data::Split split, eval::Options options) {
  if (experiment().eval.precision == runtime_->precision()) {
    is_training_mode_ = false;
    return runtime_->evaluate(split, std::move(options));
  }
  if (!eval_runtime_) {
    run::RuntimeOptions with;
    with.device = runtime_->device();
    with.precision = experiment().eval.precision;
    with.dataset = runtime_->dataset();
    with.loader = runtime_->loader();
    with.weights_follow = true;
    eval_runtime_ = std::make_unique<run::Runtime>(experiment(), with);
  }
  eval_runtime_->copy_parameters(*runtime_);
  return eval_runtime_->evaluate(split, std::move(options));
}

bool Session::is_finished() const {
  const std::int64_t patience = experiment().train.early_stop;
  return step_ >= total_steps_ || (patience > 0 && valid_.evaluations_since_best >= patience);
}

bool Session::is_evaluation_due() const {
  const std::int64_t every = experiment().train.eval_every;
  if (step_ == 0 || valid_.last_step == step_) return false;
  if (!runtime_->dataset()->has(data::Split::kValid)) return false;
  return step_ == total_steps_ || (every > 0 && step_ % every == 0);
}

void Session::train(run::Observer* observer) {
  const config::TrainConfig& train = experiment().train;
  const auto is_due = [&](std::int64_t every) {
    return is_finished() || (every > 0 && step_ % every == 0);
  };
  if (is_evaluation_due() && (evaluate_valid(observer) || is_finished())) {
    save_to_folder(observer);
  }
  while (!is_finished()) {
    const run::StepReport report = train_step();
    if (writer_ && train.log_every > 0 && is_due(train.log_every)) writer_->append(report);
    if (step_ == first_settled_log(train.log_every, total_steps_)) say_untrained();
    if (observer != nullptr) observer->on_step(report);
    const bool is_best = is_evaluation_due() && evaluate_valid(observer);
    if (is_best || is_due(train.save_every)) save_to_folder(observer);
  }
}

void Session::say_untrained() const {
  for (const std::string& line : optim::untrained_lines(*optimizer_, runtime_->stack(), step_)) {
    log_warning(line);
  }
}

bool Session::evaluate_valid(run::Observer* observer) {
  run::EvalReport report;
  report.step = step_;
  report.split = data::Split::kValid;
  eval::Options options;
  if (observer != nullptr) {
    options.on_progress = [observer](std::int64_t segments, std::int64_t tokens) {
      observer->on_eval_progress(segments, tokens);
    };
  }
  report.result = evaluate(report.split, std::move(options));
  report.is_best = valid_.add(step_, report.result.loss());
  // First: a full disk does not take the result.
  if (observer != nullptr) observer->on_eval(report);
  if (writer_) writer_->append(report);
  // An evaluation at the end only has nothing to be better than.
  return report.is_best && experiment().train.eval_every > 0;
}

void Session::save_to_folder(run::Observer* observer) {
  if (!writer_) return;
  save();
  if (observer != nullptr) observer->on_checkpoint(step_, last_checkpoint_);
}

}  // namespace mneme::train
