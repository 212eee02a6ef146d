#include "host/train/trainer.hpp"

#include <optional>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/progress.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/interface/finite_watch.hpp"
#include "host/optim/optimizer.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/optim/schedule.hpp"
#include "host/run/cost/footprint.hpp"
#include "host/run/cost/ram_check.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/device_memory.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/step/not_finite.hpp"
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
                                           run::RuntimeOptions options, const RankOptions& ranks) {
  if (!options.dataset) options.dataset = std::make_shared<const data::Dataset>(experiment.data);
  if (!options.loader)
    options.loader = std::make_shared<plugin::PluginLoader>(memory::make_loader());
  run::check_training_fits(with_own_lanes(experiment, ranks), options);
  try {
    return std::make_unique<run::Runtime>(experiment, options);
  } catch (const std::exception& error) {
    if (!run::is_out_of_memory(error)) throw;
    const std::int64_t vocabulary = options.dataset->vocabulary_size();
    run::throw_out_of_memory(
        "making the model",
        run::training_footprint(experiment, vocabulary, options.device.is_cuda()), error,
        tensor::free_device_memory(options.device));
  }
}

run::RuntimeOptions runtime_options(const TrainerOptions& options) {
  run::RuntimeOptions runtime = options.runtime;
  if (options.ranks.is_parallel() && runtime.free_memory && runtime.device.is_cpu()) {
    // The ranks of a machine share its memory.
    runtime.free_memory = [source = runtime.free_memory,
                           ranks = options.ranks.ranks->ranks_on_host()] {
      std::optional<FreeMemory> free = source();
      if (free) free->bytes /= ranks;
      return free;
    };
  }
  if (!options.initial_weights.empty()) runtime.weights_follow = true;
  return runtime;
}

}  // namespace

Trainer::Trainer(const config::Experiment& experiment, TrainerOptions options)
    : log_((options.folder.empty() && !options.claim_folder) || !options.ranks.is_writer()
               ? nullptr
               : std::make_unique<LogFile>()),
      runtime_(open_runtime(experiment, runtime_options(options), options.ranks)),
      stream_(std::move(options.stream)),
      ranks_(options.ranks),
      has_folder_(!options.folder.empty() || options.claim_folder != nullptr),
      curve_(options.curve),
      stop_at_(options.stop_at),
      reads_late_(!ranks_.is_parallel() && (options.reads_late || runtime_->device().is_cuda())) {
  const config::TrainConfig& train = experiment.train;
  optim::check_groups(train, runtime_->parameters());
  optim::check_frozen(runtime_->parameters());
  if (!stream_) {
    stream_ = runtime_->dataset()->make_stream(data::Split::kTrain, run::training_options(train));
    run::check_valid_split(experiment, *runtime_->dataset());
  }
  total_steps_ = optim::count_steps(train, *stream_);
  schedule_ = std::make_unique<optim::LearningRate>(train, total_steps_);
  rates_ = rates_of(runtime_->parameters());
  const bool has_initial = !options.initial_weights.empty();
  // Before the state: slots may start from a parameter.
  if (has_initial)
    static_cast<void>(weights::load_initial_weights(*runtime_, options.initial_weights));
  try {
    if (ranks_.is_parallel()) parallel_ = std::make_unique<Parallel>(ranks_, *runtime_);
    const tensor::WithoutRowKernels plain(experiment.model.row_kernels ==
                                          config::RowKernels::kOperations);
    optimizer_ = std::make_unique<optim::Optimizer>(
        parallel_ ? parallel_->updated() : runtime_->parameters(),
        optim::OptimizerOptions{.kind = train.optimizer,
                                .beta1 = train.beta1,
                                .beta2 = train.beta2,
                                .eps = train.eps,
                                .momentum = train.momentum,
                                .products = runtime_->model().info().compute_dtype},
        parallel_ ? nullptr : &runtime_->model().converted());
    if (train.average > 0.0)
      average_ = std::make_unique<optim::WeightAverage>(runtime_->parameters(), train.average);
    state_ = parallel_ ? parallel_->new_state(runtime_->stack())
                       : runtime_->stack().new_state(memory::Phase::kTraining, train.lanes);
  } catch (const std::exception& error) {
    if (!run::is_out_of_memory(error)) throw;
    run::throw_out_of_memory("making the optimiser and the memory's state",
                             run::training_footprint(*runtime_), error,
                             tensor::free_device_memory(runtime_->device()));
  }
  recorder_ = new_recorder();
  // With given weights rank 0 gathers the checkpoint of step 0 from all.
  if (has_folder_ && has_initial && !ranks_.is_writer()) give_checkpoint();
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
  if (parallel_ && !has_first_weights_) parallel_->take_first_weights(*runtime_);
  // Of rank 0; a resumed run has its averages.
  if (average_ && !has_first_weights_ && done_.step == 0) average_->reset();
  has_first_weights_ = true;
  runtime_->model().train(true);
  runtime_->model().set_context_rows(runtime_->stack().context_rows(memory::Phase::kTraining));
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

void Trainer::run_step(const std::function<void(const StepStart& begin)>& body) {
  begin_training();
  const double start = steady_clock().seconds();
  const at::AutoGradMode grad(true);
  StepStart begin = step_start();
  if (parallel_) parallel_->begin_step(done_.step + 1);
  try {
    optimizer_->zero_grad();
    if (parallel_) parallel_->zero_grad();
    body(begin);
  } catch (const std::exception& error) {
    go_back(std::move(begin));
    if (run::is_out_of_memory(error))
      run::throw_out_of_memory(str("step ", done_.step + 1), run::training_footprint(*runtime_),
                               error, tensor::free_device_memory(runtime_->device()));
    throw;
  } catch (...) {
    go_back(std::move(begin));
    throw;
  }
  done_.seconds += steady_clock().seconds() - start;
}

run::StepReport Trainer::train_step() {
  if (recorder_) {
    UnreadStep step = train_ahead({});
    if (read(step)) return step.report;
    // It runs once more by its hooks, which names what is not finite.
  }
  run::StepReport report;
  run_step([&](const StepStart& begin) {
    const StepSums sums = run_passes();
    report_numbers(report, sums);
    if (!is_finite(report)) fail_not_finite(report, sums, begin);
    const double clip = experiment().train.clip;
    if (clip > 0.0) optimizer_->clip(report.grad_norm, clip);
    optimizer_->step(schedule_->factor(done_.step));
    if (parallel_) parallel_->share_parameters();
    count_update(report, sums);
  });
  report.seconds = done_.seconds;
  return report;
}

Trainer::UnreadStep Trainer::train_ahead(const at::Tensor& skip) {
  UnreadStep out;
  run_step([&](const StepStart& begin) {
    out.start = {begin.data, begin.noise, begin.state.clone()};
    StepUpdate update(*optimizer_, experiment().train.clip, schedule_->factor(done_.step), skip);
    out.sums = run_passes(&update);
    std::vector<at::Tensor> tensors = out.sums.numbers();
    tensors.push_back(update.norm);
    out.numbers = tensor::SentNumbers(at::stack(tensors));
    out.skip = update.skip;
    count_update(out.report, out.sums, update.skip);
  });
  return out;
}

bool Trainer::read(UnreadStep& step) {
  const double start = steady_clock().seconds();
  step.sums.put_into(step.report, step.numbers.read());
  done_.seconds += steady_clock().seconds() - start;
  step.report.seconds = done_.seconds;
  if (is_finite(step.report)) return true;
  done_.step = step.report.step - 1;
  done_.tokens = step.report.tokens - step.sums.tokens;
  if (done_.tokens_read) *done_.tokens_read = *step.report.tokens_read - step.sums.tokens_read;
  go_back(std::move(step.start));
  return false;
}

void Trainer::report_numbers(run::StepReport& report, const StepSums& sums) {
  std::vector<at::Tensor> tensors = sums.numbers();
  if (!parallel_) tensors.push_back(optimizer_->gradient_norm().to(sums.loss.device()));
  std::vector<double> numbers = tensor::SentNumbers(at::stack(tensors)).read();
  if (parallel_) {
    report.stop_signal = parallel_->finish_backward(numbers);
    numbers.push_back(parallel_->norm_of_all(optimizer_->gradient_norm().item<double>()));
  }
  sums.put_into(report, numbers);
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

void Trainer::fail_not_finite(const run::StepReport& report, const StepSums& sums,
                              const StepStart& begin) {
  const std::vector<std::string> names = optimizer_->non_finite_gradients();
  optimizer_->zero_grad();
  memory::StackState state = begin.state.clone();
  runtime_->model().seek_noise(begin.noise);
  eval::NotFinite first = find_in_forward(*runtime_, state, sums.segments);
  std::string what = loss_text(report);
  if (first.place.empty()) {
    what += str(", its forward passes are finite; the global norm of the gradients is ",
                format_number(report.grad_norm, 4));
    first = find_in_backward(begin);
  }
  if (parallel_) first.place = parallel_->first_text(first.place);
  if (!first.place.empty()) what += str("; the first thing that is not finite is ", first.place);
  if (!names.empty()) {
    what += str("; ", names.size(), " of ", runtime_->parameters().size(),
                " parameters have gradients that are not finite, first ", names.front(), ", last ",
                names.back());
  }
  std::string last = "no checkpoint was written yet";
  if (last_checkpoint_step_)
    last = str("the last good checkpoint is that of step ", *last_checkpoint_step_);
  if (!last_checkpoint_.empty()) {
    last = str("the last good checkpoint is ", last_checkpoint_.string(), " (step ",
               *last_checkpoint_step_, ")");
  }
  throw_run({.where = str("step ", done_.step + 1),
             .failed = "the training reached numbers that are not finite",
             .got = what,
             .hint = str(last, first.is_plugin
                                   ? "; all inputs of the plugin were finite: correct the plugin, "
                                     "or lower train.lr if its numbers grow from step to step"
                                   : "; lower train.lr, lengthen train.warmup, or use "
                                     "train.precision = \"f32\"")});
}

}  // namespace mneme::train
