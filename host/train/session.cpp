#include "host/memory/host_groups.hpp"
#include "host/train/session.hpp"

#include <algorithm>
#include <cmath>

#include "host/base/clock.hpp"
#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/diagnosis.hpp"
#include "host/weights/initial_weights.hpp"
#include "host/run/footprint/memory_check.hpp"
#include "host/run/footprint/memory_estimate.hpp"
#include "host/train/session_pass.hpp"
#include "host/run/stream_options.hpp"

namespace mneme::train {
namespace {

// What is optimised at which base rate; empty when all have the same.
std::map<std::string, double> rates_of(const std::vector<optim::TrainableParameter>& parameters) {
  std::map<std::string, double> rates;
  for (const optim::TrainableParameter& parameter : parameters) rates[parameter.rate] = parameter.lr;
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
    run::throw_out_of_memory("making the model", run::estimate_memory(experiment, vocabulary), error);
  }
}

run::RuntimeOptions runtime_options(const SessionOptions& options) {
  run::RuntimeOptions runtime = options.runtime;
  if (!options.initial_weights.empty()) runtime.weights_follow = true;
  return runtime;
}

}  // namespace

Session::Session(const config::Experiment& experiment, SessionOptions options)
    : runtime_(open_runtime(experiment, runtime_options(options))),
      stream_(std::move(options.stream)) {
  const config::TrainConfig& train = experiment.train;
  optim::check_groups(train, runtime_->parameters());
  if (!stream_) {
    stream_ = runtime_->dataset()->make_stream(data::Split::kTrain, run::training_options(train));
    run::check_valid_split(experiment, *runtime_->dataset());
  }
  total_steps_ = optim::count_steps(train, *stream_);
  rate_ = std::make_unique<optim::LearningRate>(train, total_steps_);
  rates_ = rates_of(runtime_->parameters());
  const bool has_initial = !options.initial_weights.empty();
  // Before the state: slots may start from a parameter.
  if (has_initial) static_cast<void>(weights::load_initial_weights(*runtime_, options.initial_weights));
  try {
    optimizer_ = std::make_unique<optim::Adam>(
        runtime_->parameters(), optim::AdamOptions{train.optimizer, train.beta1, train.beta2, train.eps});
    state_ = runtime_->stack().new_state(memory::Phase::kTraining, train.lanes);
  } catch (const std::exception& error) {
    if (!run::is_out_of_memory(error)) throw;
    run::throw_out_of_memory("making the optimiser and the memory's state", estimate(), error);
  }
  const bool is_claimed = options.claim_folder != nullptr;
  if (options.folder.empty() && !is_claimed) return;
  run::RunWriter::WriteCheckpoint write_first;
  if (has_initial) write_first = [this](const std::filesystem::path& path) { save(path); };
  const std::filesystem::path folder = is_claimed ? options.claim_folder() : options.folder;
  writer_ = run::RunWriter::create(folder, *runtime_, write_first, is_claimed);
}

Session::~Session() = default;

void Session::begin_training() {
  if (is_training_mode_) return;
  runtime_->model().train(true);
  backbone::set_context_window(runtime_->model(),
                               runtime_->stack().context_rows(memory::Phase::kTraining));
  is_training_mode_ = true;
}

Session::Place Session::place() const {
  return {stream_->position(), runtime_->model().noise_position(), state_.clone()};
}

void Session::go_back(Place place) {
  optimizer_->zero_grad();
  state_ = std::move(place.state);
  stream_->seek(place.data);
  runtime_->model().seek_noise(place.noise);
}

run::StepReport Session::train_step() {
  begin_training();
  const double start = steady_clock().seconds();
  const at::AutoGradMode grad(true);
  Place begin = place();
  run::StepReport report;
  try {
    optimizer_->zero_grad();
    const Pass pass = run_passes();
    report_numbers(report, pass);
    const bool has_finite_losses = std::ranges::all_of(
        report.losses, [](const auto& loss) { return std::isfinite(loss.second); });
    if (!std::isfinite(report.loss) || !has_finite_losses || !std::isfinite(report.grad_norm)) {
      fail_not_finite(report, pass, begin);
    }
    update(report, pass);
  } catch (const std::exception& error) {
    go_back(std::move(begin));
    if (run::is_out_of_memory(error)) run::throw_out_of_memory(str("step ", step_ + 1), estimate(), error);
    throw;
  } catch (...) {
    go_back(std::move(begin));
    throw;
  }
  seconds_ += steady_clock().seconds() - start;
  report.seconds = seconds_;
  return report;
}

void Session::report_numbers(run::StepReport& report, const Pass& pass) const {
  std::vector<at::Tensor> numbers = {pass.loss, optimizer_->gradient_norm().to(pass.loss.device())};
  for (const auto& [name, sum] : pass.losses) numbers.push_back(sum);
  for (const auto& [name, sum] : pass.metrics) numbers.push_back(sum);
  const at::Tensor host = at::stack(numbers).to(at::kCPU);
  const double* number = host.const_data_ptr<double>();
  report.loss = *number++;
  report.grad_norm = *number++;
  for (const auto& [name, sum] : pass.losses) report.losses[name] = *number++;
  for (const auto& [name, sum] : pass.metrics) report.metrics[name] = *number++;
}

void Session::update(run::StepReport& report, const Pass& pass) {
  const config::TrainConfig& train = experiment().train;
  if (train.clip > 0.0) optimizer_->clip(report.grad_norm, train.clip);
  const double factor = rate_->factor(step_);
  optimizer_->step(factor);
  runtime_->weights_changed();
  tokens_ += pass.tokens;
  report.step = ++step_;
  report.lr = train.lr * factor;
  for (const auto& [name, rate] : rates_) report.rates[name] = rate * factor;
  report.tokens = tokens_;
}

eval::NotFinite Session::find_in_backward(const Place& begin) {
  memory::FiniteWatch watch;
  go_back({begin.data, begin.noise, begin.state.clone()});
  watch_ = &watch;
  try {
    static_cast<void>(run_passes());
  } catch (const std::exception& error) {
    log_warning("the failed step did not run once more: ", error.what());
  }
  watch_ = nullptr;
  return {watch.found(), !watch.found().empty()};
}

namespace {

// The loss, or the auxiliary one that is not finite.
std::string loss_text(const run::StepReport& report) {
  const auto bad = std::ranges::find_if(
      report.losses, [](const auto& loss) { return !std::isfinite(loss.second); });
  if (!std::isfinite(report.loss) || bad == report.losses.end()) {
    return str("the loss is ", format_number(report.loss, 4));
  }
  return str("the auxiliary loss ", bad->first, " is ", format_number(bad->second, 4));
}

}  // namespace

void Session::fail_not_finite(const run::StepReport& report, const Pass& pass, const Place& begin) {
  const std::vector<std::string> names = optimizer_->non_finite_gradients();
  optimizer_->zero_grad();
  memory::StackState state = begin.state.clone();
  runtime_->model().seek_noise(begin.noise);
  eval::NotFinite first = find_not_finite(*runtime_, state, pass.segments);
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
             .failed = "training left the finite numbers",
             .got = what,
             .hint = str(last, first.is_plugin
                                   ? "; all that the plugin got was finite: mend it, or where its "
                                     "numbers grow from step to step lower train.lr"
                                   : "; lower train.lr, lengthen train.warmup, or use "
                                     "train.precision = \"f32\"")});
}

run::MemoryEstimate Session::estimate() const { return run::estimate_memory(*runtime_); }

}  // namespace mneme::train
