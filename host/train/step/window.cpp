#include "host/train/step/window.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "host/base/text.hpp"
#include "host/memory/state/state_tensors.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::train {
namespace {

ReportSums weighted(const std::map<std::string, memory::Reported>& reported, double weight) {
  ReportSums out;
  for (const auto& [name, value] : reported)
    out[name] = value.value.detach().to(at::kDouble) * weight;
  return out;
}

// Of the ids in clusters, on a device.
std::vector<at::Tensor> places_of(const backbone::Batch& batch) {
  std::vector<at::Tensor> out;
  for (const auto* lists : {&batch.places.input, &batch.places.target, &batch.places.types})
    for (const at::Tensor& list : *lists)
      if (list.defined()) out.push_back(list);
  return out;
}

// What an update depends on besides what its window does.
std::string update_key(const LossSums& before, const std::vector<at::Tensor>& gradients,
                       const StepUpdate& update) {
  std::string out = str("\nupdate behind ", before.loss.defined() ? "losses" : "no losses");
  for (const auto& [name, sum] : before.losses) out += " " + name;
  out += " and gradients ";
  for (const at::Tensor& gradient : gradients) out += gradient.defined() ? '1' : '0';
  // The copies of weights among them become more where an evaluation reads a weight that windows
  // did not, and a recording made before does not write those.
  return out + str(" of tensors ", update.changed().size());
}

}  // namespace

SegmentNumbers::SegmentNumbers(const WindowSegment& segment, const backbone::Output& out,
                               const memory::SegmentHooks& hooks, bool has_metrics, double z_loss,
                               at::Tensor& graph) {
  const auto targets = static_cast<double>(segment.targets);
  const at::Tensor nll = out.nll.sum() / targets;
  const at::Tensor auxiliary = hooks.total_loss();
  at::Tensor trained = auxiliary.defined() ? nll + auxiliary : nll;
  if (z_loss > 0.0) trained = trained + out.log_sum.square().sum() * (z_loss / targets);
  const at::Tensor total = trained * segment.weight;
  graph = graph.defined() ? graph + total : total;
  loss = nll.detach().to(at::kDouble) * segment.weight;
  losses = weighted(hooks.losses(), segment.weight);
  if (has_metrics) metrics = weighted(hooks.metrics(), segment.weight);
}

void StepSums::add(const WindowSegment& segment, const SegmentNumbers& numbers) {
  if (!numbers.loss.defined()) return;
  LossSums::add(numbers);
  tokens += segment.targets;
  add_all(metrics, numbers.metrics);
  for (const auto& [name, metric] : numbers.metrics) metric_weight[name] += segment.weight;
}

std::vector<at::Tensor> StepSums::numbers() const {
  std::vector<at::Tensor> out = {loss};
  for (const auto& [name, sum] : losses) out.push_back(sum);
  for (const auto& [name, sum] : metrics) out.push_back(sum);
  return out;
}

void StepSums::put_into(run::StepReport& report, const std::vector<double>& numbers) const {
  auto number = numbers.begin();
  report.loss = *number++;
  for (const auto& [name, sum] : losses) report.losses[name] = *number++;
  for (const auto& [name, sum] : metrics) report.metrics[name] = *number++;
  report.grad_norm = *number;
}

struct RecordedWindow::Outline {
  std::vector<SegmentNumbers> numbers;
  std::vector<memory::TierState> tiers;

  // on_tensor(name, tensor) for all numbers, in their order.
  template <typename Numbers, typename F>
  static void for_each(Numbers& numbers, F on_tensor) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::string of = str(" of segment ", i + 1, " of its window");
      on_tensor("the loss" + of, numbers[i].loss);
      for (auto& [name, value] : numbers[i].losses) on_tensor("the loss " + name + of, value);
      for (auto& [name, value] : numbers[i].metrics) on_tensor("the metric " + name + of, value);
    }
  }
};

RecordedWindow::RecordedWindow(run::Runtime& runtime, memory::StackState& state,
                               const std::vector<WindowSegment>& window)
    : runtime_(runtime), state_(state), window_(window) {}

std::string RecordedWindow::key() const {
  std::string out = memory::outline_of(state_);
  for (const WindowSegment& segment : window_) {
    out += str("segment ", list_text(segment.batch.input.sizes().vec()),
               segment.batch.types.defined() ? " with types" : "",
               segment.batch.documents.defined() ? " with documents" : "", " valid ",
               list_text(segment.batch.valid_count), " reset ",
               list_text(std::vector<std::int64_t>(segment.reset.begin(), segment.reset.end())),
               segment.do_others_go_on ? " beside others" : "", " targets ", segment.targets,
               " by ", format_exact(segment.weight), '\n');
    for (const at::Tensor& places : places_of(segment.batch))
      out += str("places ", list_text(places.sizes().vec()), '\n');
  }
  // One number is drawn from both, and a parameter is read where it lies.
  out += str("noise from ",
             runtime_.model().noise_position() - static_cast<std::uint64_t>(state_.segments()));
  std::size_t hash = 0;
  for (const optim::TrainableParameter& parameter : runtime_.parameters())
    hash = hash * 31 + std::hash<const void*>()(parameter.tensor.const_data_ptr());
  return str(out, " parameters at ", hash);
}

std::vector<at::Tensor> RecordedWindow::inputs() const {
  std::vector<at::Tensor> out = memory::tensors_of(state_);
  for (const WindowSegment& segment : window_) {
    out.push_back(segment.batch.input);
    out.push_back(segment.batch.target);
    if (segment.batch.types.defined()) out.push_back(segment.batch.types);
    if (segment.batch.documents.defined()) out.push_back(segment.batch.documents);
    for (const at::Tensor& places : places_of(segment.batch)) out.push_back(places);
  }
  return out;
}

std::vector<at::Tensor> RecordedWindow::take_gradients() const {
  std::vector<at::Tensor> out;
  for (const optim::TrainableParameter& parameter : runtime_.parameters())
    out.push_back(std::exchange(at::Tensor(parameter.tensor).mutable_grad(), at::Tensor()));
  return out;
}

void RecordedWindow::add_gradients(const std::vector<at::Tensor>& before) const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!before[i].defined()) continue;
    at::Tensor& sum = at::Tensor(runtime_.parameters()[i].tensor).mutable_grad();
    sum = sum.defined() ? sum.add_(before[i]) : before[i].clone();
  }
}

tensor::RecordedResults RecordedWindow::results_of(const std::vector<SegmentNumbers>& numbers,
                                                   const StepUpdate* update) const {
  const auto outline = std::make_shared<Outline>();
  outline->numbers = numbers;
  tensor::RecordedResults out;
  Outline::for_each(outline->numbers, [&](const std::string&, at::Tensor& t) {
    out.tensors.push_back(std::exchange(t, at::Tensor()));
  });
  std::vector<at::Tensor> behind = take_gradients();
  if (update != nullptr) behind = {update->norm, update->skip};
  out.tensors.insert(out.tensors.end(), behind.begin(), behind.end());
  for (const at::Tensor& t : memory::tensors_of(state_)) out.tensors.push_back(t);
  outline->tiers = memory::with_tensors(state_.tiers(), {});
  out.outline = outline;
  return out;
}

void RecordedWindow::take_state(const Outline& outline, const std::vector<at::Tensor>& tensors) {
  for (std::size_t i = 0; i < window_.size(); ++i) {
    const WindowSegment& segment = window_[i];
    if (!segment.reset.empty()) state_.reset(segment.reset, segment.do_others_go_on);
    const memory::RunCounters& before = state_.counters();
    std::vector<std::int64_t> tokens = before.tokens;
    const std::int64_t length = segment.batch.input.size(1);
    const std::vector<std::int64_t>& valid = segment.batch.valid_count;
    for (std::size_t b = 0; b < tokens.size(); ++b)
      tokens[b] = (before.reset[b] != 0 ? 0 : tokens[b]) + (valid.empty() ? length : valid[b]);
    std::vector<memory::TierState> tiers = state_.tiers();
    if (i + 1 == window_.size()) tiers = memory::with_tensors(outline.tiers, tensors);
    state_.commit(std::move(tiers), std::move(tokens), length, true);
  }
  runtime_.model().seek_noise(runtime_.model().noise_position() + window_.size());
}

std::vector<SegmentNumbers> RecordedWindow::take(const tensor::RecordedResults& results,
                                                 StepUpdate* update) {
  const auto& outline = *static_cast<const Outline*>(results.outline.get());
  auto next = results.tensors.begin();
  std::vector<SegmentNumbers> numbers = outline.numbers;
  Outline::for_each(numbers, [&](const std::string&, at::Tensor& t) { t = *next++; });
  if (update != nullptr) {
    update->norm = *next++;
    update->skip = *next++;
  } else {
    for (const optim::TrainableParameter& parameter : runtime_.parameters())
      at::Tensor(parameter.tensor).mutable_grad() = *next++;
  }
  if (results.is_replayed) take_state(outline, {next, results.tensors.end()});
  return numbers;
}

std::vector<SegmentNumbers> RecordedWindow::run(
    tensor::Recorder& recorder, const std::function<std::vector<SegmentNumbers>()>& pass,
    const LossSums& before, StepUpdate* update) {
  const std::vector<at::Tensor> gradients = take_gradients();  // of the windows before
  std::vector<std::string> names;                              // of results
  tensor::RecordedWork work;
  work.key = key();
  work.inputs = inputs();
  work.position = state_.segments();
  work.run = [&] {
    const std::vector<SegmentNumbers> numbers = pass();
    Outline::for_each(numbers,
                      [&](const std::string& name, const at::Tensor&) { names.push_back(name); });
    if (update == nullptr) {
      for (const optim::TrainableParameter& parameter : runtime_.parameters())
        names.push_back("the gradient of " + parameter.name);
      return results_of(numbers, nullptr);
    }
    names.insert(names.end(), {"the norm of the gradient", "whether the update is skipped"});
    LossSums sums = before;
    for (const SegmentNumbers& one : numbers) sums.add(one);
    add_gradients(gradients);
    update->run(sums);
    return results_of(numbers, update);
  };
  work.name_of = [&](std::size_t i) {
    return i < names.size() ? names[i] : str("tensor ", i - names.size(), " of the state");
  };
  if (update == nullptr) {
    std::vector<SegmentNumbers> numbers = take(recorder.run(work), nullptr);
    add_gradients(gradients);
    return numbers;
  }
  work.key += update_key(before, gradients, *update);
  for (const at::Tensor& t : update->inputs()) work.inputs.push_back(t);
  work.inputs.push_back(before.loss);
  for (const auto& [name, sum] : before.losses) work.inputs.push_back(sum);
  work.inputs.insert(work.inputs.end(), gradients.begin(), gradients.end());
  work.changed = [update] { return update->changed(); };
  return take(recorder.run(work), update);
}

}  // namespace mneme::train
