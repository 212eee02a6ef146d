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

void add_all(ReportSums& sums, const ReportSums& terms) {
  for (const auto& [name, term] : terms) {
    at::Tensor& sum = sums[name];
    sum = sum.defined() ? sum + term : term;
  }
}

}  // namespace

SegmentNumbers::SegmentNumbers(const WindowSegment& segment, const backbone::Output& out,
                               const memory::SegmentHooks& hooks, bool has_metrics,
                               at::Tensor& graph) {
  const at::Tensor nll = out.nll.sum() / static_cast<double>(segment.targets);
  const at::Tensor auxiliary = hooks.total_loss();
  const at::Tensor total = (auxiliary.defined() ? nll + auxiliary : nll) * segment.weight;
  graph = graph.defined() ? graph + total : total;
  loss = nll.detach().to(at::kDouble) * segment.weight;
  losses = weighted(hooks.losses(), segment.weight);
  if (has_metrics) metrics = weighted(hooks.metrics(), segment.weight);
}

void StepSums::add(const WindowSegment& segment, const SegmentNumbers& numbers) {
  if (!numbers.loss.defined()) return;
  loss = loss.defined() ? loss + numbers.loss : numbers.loss;
  tokens += segment.targets;
  add_all(losses, numbers.losses);
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

at::Tensor StepSums::are_finite(const at::Tensor& numbers) const {
  const at::Tensor finite = at::isfinite(numbers);
  const auto before_metrics = static_cast<std::int64_t>(1 + losses.size());
  return finite.narrow(0, 0, before_metrics).all().logical_and(finite.select(0, -1));
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
               segment.batch.types.defined() ? " with types" : "", " valid ",
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
    for (const at::Tensor& places : places_of(segment.batch)) out.push_back(places);
  }
  return out;
}

tensor::RecordedResults RecordedWindow::results_of(
    const std::vector<SegmentNumbers>& numbers) const {
  const auto outline = std::make_shared<Outline>();
  outline->numbers = numbers;
  tensor::RecordedResults out;
  Outline::for_each(outline->numbers, [&](const std::string&, at::Tensor& t) {
    out.tensors.push_back(std::exchange(t, at::Tensor()));
  });
  for (const optim::TrainableParameter& parameter : runtime_.parameters())
    out.tensors.push_back(std::exchange(at::Tensor(parameter.tensor).mutable_grad(), at::Tensor()));
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

std::vector<SegmentNumbers> RecordedWindow::run(
    tensor::Recorder& recorder, const std::function<std::vector<SegmentNumbers>()>& pass) {
  const std::vector<optim::TrainableParameter>& parameters = runtime_.parameters();
  std::vector<at::Tensor> sums;  // of the windows before
  for (const optim::TrainableParameter& parameter : parameters)
    sums.push_back(std::exchange(at::Tensor(parameter.tensor).mutable_grad(), at::Tensor()));
  std::vector<std::string> names;
  const tensor::RecordedResults results = recorder.run(
      {.key = key(),
       .inputs = inputs(),
       .position = state_.segments(),
       .run =
           [&] {
             const std::vector<SegmentNumbers> numbers = pass();
             Outline::for_each(numbers, [&](const std::string& name, const at::Tensor&) {
               names.push_back(name);
             });
             return results_of(numbers);
           },
       .name_of =
           [&](std::size_t i) {
             if (i < names.size()) return names[i];
             i -= names.size();
             return i < parameters.size() ? "the gradient of " + parameters[i].name
                                          : str("tensor ", i - parameters.size(), " of the state");
           }});
  const auto& outline = *static_cast<const Outline*>(results.outline.get());
  auto next = results.tensors.begin();
  std::vector<SegmentNumbers> numbers = outline.numbers;
  Outline::for_each(numbers, [&](const std::string&, at::Tensor& t) { t = *next++; });
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& gradient = *next++;
    at::Tensor& sum = at::Tensor(parameters[i].tensor).mutable_grad();
    sum = sums[i].defined() && gradient.defined() ? sums[i].add_(gradient)
          : sums[i].defined()                     ? sums[i]
                                                  : gradient;
  }
  if (results.is_replayed) take_state(outline, {next, results.tensors.end()});
  return numbers;
}

}  // namespace mneme::train
