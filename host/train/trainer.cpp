#include "host/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/progress.hpp"
#include "host/eval/segment_step.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/finite_watch.hpp"
#include "host/optim/optimizer.hpp"
#include "host/run/cost/footprint.hpp"
#include "host/run/cost/memory_check.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/dry_run.hpp"
#include "host/weights/official_weights.hpp"

namespace mneme::train {
namespace {

// The base learning rate of each group of parameters; empty when all have the same.
std::map<std::string, double> rates_of(const std::vector<optim::TrainableParameter>& parameters) {
  std::map<std::string, double> rates;
  for (const optim::TrainableParameter& parameter : parameters)
    rates[parameter.rate] = parameter.lr;
  return rates.size() > 1 ? rates : std::map<std::string, double>();
}

// A runtime, or an error that says what took the memory. The data are read before, so that the
// vocabulary is known by then.
std::unique_ptr<run::Runtime> open_runtime(const config::Experiment& experiment,
                                           run::RuntimeOptions options) {
  if (!options.dataset) options.dataset = std::make_shared<const data::Dataset>(experiment.data);
  if (!options.loader) options.loader = std::make_shared<plugin::PluginLoader>(memory::find_group);
  run::check_training_fits(experiment, options);
  try {
    return std::make_unique<run::Runtime>(experiment, options);
  } catch (const std::exception& error) {
    if (!run::is_out_of_memory(error)) throw;
    const std::int64_t vocabulary = options.dataset->vocabulary_size();
    run::throw_out_of_memory(
        "making the model",
        run::training_footprint(experiment, vocabulary, options.device.is_cuda()), error);
  }
}

run::RuntimeOptions runtime_options(const TrainerOptions& options) {
  run::RuntimeOptions runtime = options.runtime;
  if (!options.initial_weights.empty()) runtime.weights_follow = true;
  return runtime;
}

}  // namespace

using ReportSums = std::map<std::string, at::Tensor>;  // f64 []

// Sums over the segments of one step. Tensors stay on the device: all numbers of a step come to the
// CPU in one transfer.
struct Trainer::StepSums {
  at::Tensor graph;  // loss of the segments since the last backward pass
  at::Tensor loss;   // mean of the segments' mean nll, f64 []
  // The part of each auxiliary loss in the step's loss, before its weight; segments that did not
  // report it count as 0.
  ReportSums losses;
  ReportSums metrics;                           // means over the segments that reported them
  std::map<std::string, double> metric_weight;  // of these segments
  std::int64_t tokens = 0;
  std::vector<data::TokenSegment> segments;  // in the order in which they ran

  // Adds the results of a segment with so many targets.
  void add(const backbone::Output& out, const memory::SegmentHooks& hooks, std::int64_t targets,
           double weight);
};

Trainer::Trainer(const config::Experiment& experiment, TrainerOptions options)
    : log_(options.folder.empty() && !options.claim_folder ? nullptr : std::make_unique<LogFile>()),
      runtime_(open_runtime(experiment, runtime_options(options))),
      stream_(std::move(options.stream)) {
  const config::TrainConfig& train = experiment.train;
  optim::check_groups(train, runtime_->parameters());
  optim::check_frozen(runtime_->parameters());
  if (!stream_) {
    stream_ = runtime_->dataset()->make_stream(data::Split::kTrain, run::training_options(train));
    run::check_valid_split(experiment, *runtime_->dataset());
  }
  total_steps_ = optim::count_steps(train, *stream_);
  rate_ = std::make_unique<optim::LearningRate>(train, total_steps_);
  rates_ = rates_of(runtime_->parameters());
  const bool has_initial = !options.initial_weights.empty();
  // Before the state: slots may start from a parameter.
  if (has_initial)
    static_cast<void>(weights::load_initial_weights(*runtime_, options.initial_weights));
  try {
    optimizer_ = std::make_unique<optim::Adam>(
        runtime_->parameters(),
        optim::AdamOptions{train.optimizer, train.beta1, train.beta2, train.eps});
    state_ = runtime_->stack().new_state(memory::Phase::kTraining, train.lanes);
  } catch (const std::exception& error) {
    if (!run::is_out_of_memory(error)) throw;
    run::throw_out_of_memory("making the optimiser and the memory's state", estimate(), error);
  }
  if (!log_) return;
  const bool is_claimed = options.claim_folder != nullptr;
  run::RunWriter::WriteCheckpoint write_first;
  if (has_initial) write_first = [this](const std::filesystem::path& path) { save(path); };
  const std::filesystem::path folder = is_claimed ? options.claim_folder() : options.folder;
  writer_ = run::RunWriter::create(folder, *runtime_, write_first, is_claimed);
  log_->open(writer_->folder().log());
}

Trainer::~Trainer() = default;

void Trainer::begin_training() {
  if (is_training_mode_) return;
  runtime_->model().train(true);
  backbone::set_context_window(runtime_->model(),
                               runtime_->stack().context_rows(memory::Phase::kTraining));
  is_training_mode_ = true;
}

Trainer::StepStart Trainer::step_start() const {
  return {stream_->position(), runtime_->model().noise_position(), state_.clone()};
}

void Trainer::go_back(StepStart start) {
  optimizer_->zero_grad();
  state_ = std::move(start.state);
  stream_->seek(start.data);
  runtime_->model().seek_noise(start.noise);
}

run::StepReport Trainer::train_step() {
  begin_training();
  const double start = steady_clock().seconds();
  const at::AutoGradMode grad(true);
  StepStart begin = step_start();
  run::StepReport report;
  try {
    optimizer_->zero_grad();
    const StepSums sums = run_passes();
    report_numbers(report, sums);
    const bool has_finite_losses = std::ranges::all_of(
        report.losses, [](const auto& loss) { return std::isfinite(loss.second); });
    if (!std::isfinite(report.loss) || !has_finite_losses || !std::isfinite(report.grad_norm)) {
      fail_not_finite(report, sums, begin);
    }
    update(report, sums);
  } catch (const std::exception& error) {
    go_back(std::move(begin));
    if (run::is_out_of_memory(error))
      run::throw_out_of_memory(str("step ", step_ + 1), estimate(), error);
    throw;
  } catch (...) {
    go_back(std::move(begin));
    throw;
  }
  seconds_ += steady_clock().seconds() - start;
  report.seconds = seconds_;
  return report;
}

void Trainer::report_numbers(run::StepReport& report, const StepSums& sums) const {
  std::vector<at::Tensor> numbers = {sums.loss, optimizer_->gradient_norm().to(sums.loss.device())};
  for (const auto& [name, sum] : sums.losses) numbers.push_back(sum);
  for (const auto& [name, sum] : sums.metrics) numbers.push_back(sum);
  const at::Tensor host = at::stack(numbers).to(at::kCPU);
  const double* number = host.const_data_ptr<double>();
  report.loss = *number++;
  report.grad_norm = *number++;
  for (const auto& [name, sum] : sums.losses) report.losses[name] = *number++;
  for (const auto& [name, sum] : sums.metrics) report.metrics[name] = *number++;
}

void Trainer::update(run::StepReport& report, const StepSums& sums) {
  const config::TrainConfig& train = experiment().train;
  if (train.clip > 0.0) optimizer_->clip(report.grad_norm, train.clip);
  const double factor = rate_->factor(step_);
  optimizer_->step(factor);
  runtime_->weights_changed();
  tokens_ += sums.tokens;
  report.step = ++step_;
  report.lr = train.lr * factor;
  for (const auto& [name, rate] : rates_) report.rates[name] = rate * factor;
  report.tokens = tokens_;
}

eval::NotFinite Trainer::find_in_backward(const StepStart& begin) {
  memory::FiniteWatch watch;
  go_back({begin.data, begin.noise, begin.state.clone()});
  watch_ = &watch;
  try {
    static_cast<void>(run_passes());
  } catch (const std::exception& error) {
    log_warning("the failed step could not be run again: ", error.what());
  }
  watch_ = nullptr;
  return {watch.found(), !watch.found().empty()};
}

namespace {

// The first of the loss and the auxiliary losses that is not finite.
std::string loss_text(const run::StepReport& report) {
  const auto bad = std::ranges::find_if(
      report.losses, [](const auto& loss) { return !std::isfinite(loss.second); });
  if (!std::isfinite(report.loss) || bad == report.losses.end()) {
    return str("the loss is ", format_number(report.loss, 4));
  }
  return str("the auxiliary loss ", bad->first, " is ", format_number(bad->second, 4));
}

}  // namespace

void Trainer::fail_not_finite(const run::StepReport& report, const StepSums& sums,
                              const StepStart& begin) {
  const std::vector<std::string> names = optimizer_->non_finite_gradients();
  optimizer_->zero_grad();
  memory::StackState state = begin.state.clone();
  runtime_->model().seek_noise(begin.noise);
  eval::NotFinite first = find_not_finite(*runtime_, state, sums.segments);
  std::string what = loss_text(report);
  if (first.place.empty()) {
    what += str(", its forward passes are finite; the global norm of the gradients is ",
                format_number(report.grad_norm, 4));
    first = find_in_backward(begin);
  }
  if (!first.place.empty()) what += str("; the first thing that is not finite is ", first.place);
  if (!names.empty()) {
    what += str("; ", names.size(), " of ", runtime_->parameters().size(),
                " parameters have gradients that are not finite, first ", names.front(), ", last ",
                names.back());
  }
  const std::string last = last_checkpoint_.empty()
                               ? std::string("no checkpoint was written yet")
                               : str("the last good checkpoint is ", last_checkpoint_.string(),
                                     " (step ", last_checkpoint_step_, ")");
  throw_run({.where = str("step ", step_ + 1),
             .failed = "the training reached numbers that are not finite",
             .got = what,
             .hint = str(last, first.is_plugin
                                   ? "; all inputs of the plugin were finite: correct the plugin, "
                                     "or lower train.lr if its numbers grow from step to step"
                                   : "; lower train.lr, lengthen train.warmup, or use "
                                     "train.precision = \"f32\"")});
}

run::Footprint Trainer::estimate() const { return run::training_footprint(*runtime_); }

// --- The forward and backward passes of a step ---

namespace {

void add_reported(ReportSums& sums, const std::map<std::string, memory::Reported>& reported,
                  double weight) {
  for (const auto& [name, value] : reported) {
    const at::Tensor term = value.value.detach().to(at::kDouble) * weight;
    at::Tensor& sum = sums[name];
    sum = sum.defined() ? sum + term : term;
  }
}

}  // namespace

void Trainer::StepSums::add(const backbone::Output& out, const memory::SegmentHooks& hooks,
                            std::int64_t targets, double weight) {
  const at::Tensor nll = out.nll.sum() / static_cast<double>(targets);
  const at::Tensor auxiliary = hooks.total_loss();
  const at::Tensor total = (auxiliary.defined() ? nll + auxiliary : nll) * weight;
  graph = graph.defined() ? graph + total : total;
  const at::Tensor value = nll.detach().to(at::kDouble) * weight;
  loss = loss.defined() ? loss + value : value;
  tokens += targets;
  const auto reported = hooks.metrics();
  add_reported(losses, hooks.losses(), weight);
  add_reported(metrics, reported, weight);
  for (const auto& [name, metric] : reported) metric_weight[name] += weight;
}

Trainer::StepSums Trainer::run_passes() {
  StepSums sums;
  const std::int64_t count = optim::accumulation(experiment().train, step_);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<data::TokenSegment> window = read_window(sums);
    const auto asked = std::count_if(window.begin(), window.end(), [](const data::TokenSegment& s) {
      return s.target_count() > 0;
    });
    const double weight = 1.0 / static_cast<double>(asked * count);
    for (const data::TokenSegment& segment : window) run_segment(sums, segment, weight);
    if (sums.graph.requires_grad()) sums.graph.backward();
    sums.graph = at::Tensor();
    state_.cut_graph();
  }
  for (auto& [name, sum] : sums.metrics) sum = sum / sums.metric_weight.at(name);
  return sums;
}

// The next bptt_segments segments when all have targets. Where only some have (a task with an
// answer), a window ends with the segments that have targets and includes as many before them as
// gradients can reach. Earlier segments fill the memory without gradient.
std::vector<data::TokenSegment> Trainer::read_window(StepSums& sums) {
  const auto size = static_cast<std::size_t>(experiment().train.bptt_segments);
  std::vector<data::TokenSegment> window;
  bool has_target = false;
  for (std::int64_t passed = 0; window.size() < size;) {
    const std::vector<std::int64_t> before = stream_->position();
    data::TokenSegment segment;
    if (!stream_->next(segment)) {
      if (has_target) break;
      throw_run({.where = "training data",
                 .failed = str("they ended at step ", step_ + 1, " of ", total_steps_)});
    }
    if (segment.target_count() > 0) {
      has_target = true;
    } else if (has_target) {
      stream_->seek(before);
      break;
    }
    window.push_back(std::move(segment));
    if (has_target || window.size() < size) continue;
    check_has_targets(++passed);
    const at::NoGradGuard no_grad;
    run_segment(sums, window.front(), 0.0);
    window.erase(window.begin());
  }
  return window;
}

void Trainer::check_has_targets(std::int64_t passed) const {
  const std::int64_t epoch = stream_->segments_per_epoch();
  if (epoch == 0 || passed <= epoch) return;
  throw_run({.where = str("step ", step_ + 1),
             .failed = "the training data have nothing to predict",
             .expected = "a segment with a target in every epoch",
             .got = str(passed, " segments without one")});
}

void Trainer::run_segment(StepSums& sums, const data::TokenSegment& segment, double weight) {
  sums.segments.push_back(segment);
  eval::SegmentStep step;
  step.memory.watch = watch_;
  step.before_commit = [&](const backbone::Output& out, const memory::SegmentHooks& hooks) {
    const std::int64_t targets = segment.target_count();
    if (targets > 0) sums.add(out, hooks, targets, weight);
  };
  eval::run_segment(runtime_->model(), runtime_->stack(), state_, segment, std::move(step));
}

// --- The loop around the steps: evaluations, early stop, saving ---

namespace {

// From this step on the log may warn of parameters without gradient: in the first steps a memory
// may have nothing to read yet.
std::int64_t first_settled_log(std::int64_t log_every, std::int64_t total) {
  constexpr std::int64_t kSettled = 10;
  if (log_every <= 0) return total;
  return std::min((kSettled + log_every - 1) / log_every * log_every, total);
}

}  // namespace

bool Trainer::is_finished() const {
  const std::int64_t patience = experiment().train.early_stop;
  return step_ >= total_steps_ || (patience > 0 && valid_.evaluations_since_best >= patience);
}

bool Trainer::is_evaluation_due() const {
  const std::int64_t every = experiment().train.eval_every;
  if (step_ == 0 || valid_.last_step == step_) return false;
  if (!runtime_->dataset()->has(data::Split::kValid)) return false;
  return step_ == total_steps_ || (every > 0 && step_ % every == 0);
}

bool Trainer::is_due(std::int64_t every) const {
  return is_finished() || (every > 0 && step_ % every == 0);
}

void Trainer::run_steps(
    const std::function<void(const run::StepReport& report, bool is_logged)>& after_step) {
  const std::int64_t every = experiment().train.log_every;
  while (!is_finished()) {
    const run::StepReport report = train_step();
    const bool is_logged = every > 0 && is_due(every);
    if (writer_ && is_logged) writer_->append(report);
    after_step(report, is_logged);
  }
}

void Trainer::train(run::Observer* observer) {
  const config::TrainConfig& train = experiment().train;
  if (is_evaluation_due() && (evaluate_valid(observer) || is_finished())) {
    save_to_folder(observer);
  }
  run_steps([&](const run::StepReport& report, bool) {
    if (step_ == first_settled_log(train.log_every, total_steps_)) log_untrained();
    if (observer != nullptr) observer->on_step(report);
    const bool is_best = is_evaluation_due() && evaluate_valid(observer);
    if (is_best || is_due(train.save_every)) save_to_folder(observer);
  });
}

void Trainer::log_untrained() const {
  for (const std::string& line : optim::untrained_lines(*optimizer_, runtime_->stack(), step_)) {
    log_warning(line);
  }
}

bool Trainer::evaluate_valid(run::Observer* observer) {
  run::EvalReport report;
  report.step = step_;
  report.split = data::Split::kValid;
  eval::Options options;
  if (observer != nullptr) {
    options.on_progress = [observer](std::int64_t segments, std::int64_t tokens) {
      observer->on_eval_progress(segments, tokens);
    };
  }
  std::optional<run::EvaluationRecorder> recorder;
  if (writer_) recorder.emplace(*runtime_, report.split).listen(options);
  report.result = evaluate(report.split, std::move(options));
  report.is_best = valid_.add(step_, report.result.loss());
  // Reported before saving, so that a full disk does not lose the result.
  if (observer != nullptr) observer->on_eval(report);
  if (writer_) {
    writer_->append(report);
    store(*recorder, report);
  }
  // A single evaluation at the end has no earlier one to compare with.
  return report.is_best && experiment().train.eval_every > 0;
}

void Trainer::save_to_folder(run::Observer* observer) {
  if (!writer_) return;
  save();
  if (observer != nullptr) observer->on_checkpoint(step_, last_checkpoint_);
}

}  // namespace mneme::train
