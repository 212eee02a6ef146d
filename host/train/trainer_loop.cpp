// The loop around a training's steps: evaluations, early stop, saving.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "host/base/log.hpp"
#include "host/base/progress.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/optim/schedule.hpp"
#include "host/run/record/evaluation_recorder.hpp"
#include "host/run/record/run_writer.hpp"
#include "host/tensor/device_memory.hpp"
#include "host/train/trainer.hpp"

namespace mneme::train {
namespace {

// From this step on the log may warn of parameters without gradient: in the first steps a memory
// may have nothing to read yet.
std::int64_t first_settled_log(std::int64_t log_every, std::int64_t total) {
  constexpr std::int64_t kSettled = 10;
  if (log_every <= 0) return total;
  return std::min((kSettled + log_every - 1) / log_every * log_every, total);
}

}  // namespace

void Trainer::count_update(run::StepReport& report, const StepSums& sums, const at::Tensor& skip) {
  const double factor = schedule_->factor(done_.step);
  if (average_) average_->add(done_.step + 1, skip);
  runtime_->weights_changed(/*by_optimizer=*/true);
  done_.tokens += sums.tokens;
  if (done_.tokens_read) *done_.tokens_read += sums.tokens_read;
  report.step = ++done_.step;
  report.lr = experiment().train.lr * factor;
  for (const auto& [name, rate] : rates_) report.rates[name] = rate * factor;
  report.tokens = done_.tokens;
  report.tokens_read = done_.tokens_read;
}

bool Trainer::is_finished() const {
  const std::int64_t patience = experiment().train.early_stop;
  return done_.step >= total_steps_ ||
         (patience > 0 && done_.valid.evaluations_since_best >= patience);
}

bool Trainer::is_at_stop() const {
  return stop_at_ > 0 && done_.step >= stop_at_ && !is_finished();
}

bool Trainer::is_evaluation_due() const {
  const std::int64_t every = experiment().train.eval_every;
  if (done_.step == 0 || done_.valid.last_step == done_.step) return false;
  if (!runtime_->dataset()->has(data::Split::kValid)) return false;
  return done_.step == total_steps_ || (every > 0 && done_.step % every == 0);
}

bool Trainer::is_curve_due() const {
  if (curve_.every == 0 || done_.step == 0 || done_.curve_step == done_.step) return false;
  if (!runtime_->dataset()->has(data::Split::kValid)) return false;
  return done_.step == total_steps_ || done_.step % curve_.every == 0;
}

bool Trainer::is_next_logged() const {
  const std::int64_t every = experiment().train.log_every;
  return every > 0 && ((done_.step + 1) % every == 0 || done_.step + 1 == total_steps_);
}

bool Trainer::is_next_quiet() const {
  const config::TrainConfig& train = experiment().train;
  const std::int64_t next = done_.step + 1;
  if (next >= total_steps_ || next == stop_at_ ||
      next == first_settled_log(train.log_every, total_steps_))
    return false;
  const std::array<std::int64_t, 4> all = {train.log_every, train.eval_every, train.save_every,
                                           curve_.every};
  return std::ranges::none_of(all,
                              [&](std::int64_t every) { return every > 0 && next % every == 0; });
}

bool Trainer::is_due(std::int64_t every) const {
  return is_finished() || (every > 0 && done_.step % every == 0);
}

bool Trainer::log_step(run::StepReport& report, SinceLine& since) {
  const std::int64_t every = experiment().train.log_every;
  if (every == 0) return false;
  done_.interval.add(report);
  const config::TrainConfig& train = experiment().train;
  since.tokens += optim::accumulation(train, report.step - 1) * train.bptt_segments * train.lanes *
                  train.segment;
  since.peak = std::max(since.peak, tensor::peak_bytes(runtime_->device()));
  if (!is_due(every)) return false;
  report.peak_device_bytes = std::exchange(since.peak, std::nullopt);
  peak_device_bytes_ = std::max(peak_device_bytes_, report.peak_device_bytes);
  tensor::reset_peak_bytes(runtime_->device());
  if (writer_) {
    report.mfu =
        utilization_.of(static_cast<double>(since.tokens) / (report.seconds - since.seconds),
                        parallel_ ? parallel_->ranks().size() : 1);
    if (report.mfu) report.product_flops = utilization_.peak;
    writer_->append(done_.interval.mean(report));
    since.tokens = 0;
    since.seconds = report.seconds;
  }
  done_.interval = {};
  return true;
}

void Trainer::run_steps(
    const std::function<void(const run::StepReport& report, bool is_logged)>& after_step) {
  SinceLine since{.seconds = done_.seconds};
  std::optional<UnreadStep> unread;
  const auto pass_on = [&](run::StepReport report) {
    const bool is_logged = log_step(report, since);
    try {
      after_step(report, is_logged);
    } catch (...) {
      // What was begun behind it counts, or is undone.
      if (unread && read(*unread)) log_step(unread->report, since);
      throw;
    }
  };
  // Reads the step that is not read yet, whose place the next one takes. Where it failed, the next
  // one has changed nothing either, and it runs again.
  const auto read_last = [&](std::optional<UnreadStep> next) {
    std::optional<UnreadStep> last = std::exchange(unread, std::nullopt);
    const bool is_fine = !last || read(*last);
    if (is_fine) unread = std::move(next);
    if (last) pass_on(is_fine ? last->report : train_step());
  };
  tensor::reset_peak_bytes(runtime_->device());
  while (!is_finished() && !is_at_stop()) {
    if (!reads_late_ || !is_next_quiet()) {
      read_last({});
      pass_on(train_step());
      continue;
    }
    UnreadStep next;
    try {
      next = train_ahead(unread ? unread->skip : at::Tensor());
    } catch (...) {
      read_last({});
      throw;
    }
    read_last(std::move(next));
  }
}

void Trainer::train(run::Observer* observer) {
  const config::TrainConfig& train = experiment().train;
  if (is_curve_due()) evaluate_curve(observer);
  if (is_evaluation_due() && (evaluate_valid(observer) || is_finished())) {
    save_to_folder(observer);
  }
  if (writer_ && utilization_.peak == 0.0 && !is_finished()) {
    utilization_ = run::measure_utilization(*runtime_);
  }
  run_steps([&](const run::StepReport& report, bool) {
    if (done_.step == first_settled_log(train.log_every, total_steps_)) log_untrained();
    if (observer != nullptr) observer->on_step(report);
    if (is_at_stop()) return;
    if (is_curve_due()) evaluate_curve(observer);
    const bool is_best = is_evaluation_due() && evaluate_valid(observer);
    if (is_best || is_due(train.save_every)) save_to_folder(observer);
  });
}

void Trainer::log_untrained() const {
  const std::vector<std::string> names =
      parallel_ ? parallel_->untrained(*optimizer_) : optimizer_->untrained();
  for (const std::string& line : optim::untrained_lines(names, runtime_->stack(), done_.step)) {
    log_warning(line);
  }
}

namespace {

// Evaluations that an observer may end.
eval::Options watched_by(run::Observer* observer) {
  eval::Options options;
  if (observer != nullptr) {
    options.on_progress = [observer](std::int64_t segments, std::int64_t tokens) {
      observer->on_eval_progress(segments, tokens);
    };
  }
  return options;
}

}  // namespace

void Trainer::evaluate_curve(run::Observer* observer) {
  const double start = steady_clock().seconds();
  run::CurveReport report{.step = done_.step, .segments = curve_.segments};
  report.result = evaluate_split(data::Split::kValid, with_ranks(watched_by(observer), observer),
                                 report.segments);
  report.seconds = steady_clock().seconds() - start;
  done_.curve_step = done_.step;
  if (writer_) writer_->append(report);
}

bool Trainer::evaluate_valid(run::Observer* observer) {
  run::EvalReport report;
  report.step = done_.step;
  report.split = data::Split::kValid;
  eval::Options options = watched_by(observer);
  std::optional<run::EvaluationRecorder> recorder;
  if (writer_) recorder.emplace(*runtime_, report.split).listen(options);
  report.result = evaluate_split(report.split, with_ranks(std::move(options), observer));
  report.is_best = done_.valid.add(done_.step, report.result.loss());
  // Reported before saving, so that a full disk does not lose the result.
  if (observer != nullptr) observer->on_eval(report);
  if (writer_) {
    writer_->append(report);
    store(*recorder, report);
  }
  // A single evaluation at the end has no earlier one to compare with.
  return report.is_best && experiment().train.eval_every > 0;
}

eval::Options Trainer::with_ranks(eval::Options options, run::Observer* observer) {
  if (!parallel_) return options;
  options.ranks.all = &parallel_->ranks();
  options.ranks.stop_signal = ranks_.stop_signal;
  if (observer != nullptr) {
    options.ranks.on_stop_signal = [observer](int signal) { observer->on_stop_signal(signal); };
  }
  return options;
}

void Trainer::save_to_folder(run::Observer* observer) {
  if (!has_folder_) return;
  save();
  if (observer != nullptr) observer->on_checkpoint(done_.step, last_checkpoint_);
}

}  // namespace mneme::train
