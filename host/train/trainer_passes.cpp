// The forward and backward passes of a step.
#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/eval/run_segment.hpp"
#include "host/memory/interface/finite_watch.hpp"
#include "host/optim/schedule.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"

namespace mneme::train {
namespace {

// Faults of hooks in Python that LibTorch finds in the backward pass, where it knows no plugin.
struct GraphFault {
  std::string_view text;  // of LibTorch's message
  const char* hint;
};
constexpr const char* kGradients =
    "in a memory in Python the backward of this class has to return one gradient for each argument "
    "of its forward, of that argument's shape";
constexpr std::array<GraphFault, 3> kGraphFaults = {
    {{"modified by an inplace operation",
      "in a memory in Python a hook may not write into a tensor that it was given: mneme plugins "
      "validate FILE --only python.writes names the line"},
     {"returned an invalid gradient", kGradients},
     {"returned an incorrect number of gradients", kGradients}}};

// What a memory's own function throws in the backward pass, as one in Python does, names its plugin.
void run_backward(const at::Tensor& graph) {
  try {
    graph.backward();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& failure) {
    const std::string text = without_trace(failure.what());
    if (text.starts_with("plugin ")) throw_plugin(text);
    for (const GraphFault& fault : kGraphFaults) {
      if (text.find(fault.text) == std::string::npos) continue;
      throw_plugin({.where = "backward pass", .failed = text, .hint = fault.hint});
    }
    throw;
  }
}

}  // namespace

std::unique_ptr<tensor::Recorder> Trainer::new_recorder() const {
  const config::TrainConfig& train = experiment().train;
  if (train.replay != config::Replay::kOn) return nullptr;
  if (parallel_) {
    if (ranks_.is_writer()) log_info("train.replay: nothing is recorded where several ranks train");
    return nullptr;
  }
  return std::make_unique<tensor::Recorder>(
      tensor::RecorderNames{
          .key = "train.replay",
          .work = "window",
          .remedy = "train with train.replay = \"off\" from an earlier checkpoint"},
      train.replay_check, runtime_->device());
}

StepSums Trainer::run_passes(StepUpdate* update) {
  StepSums sums;
  const std::int64_t count = optim::accumulation(experiment().train, done_.step);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_last = i + 1 == count;
    const std::vector<data::TokenSegment> read = read_window(sums);
    const auto asked = std::count_if(
        read.begin(), read.end(), [](const data::TokenSegment& s) { return s.target_count() > 0; });
    const double weight = 1.0 / static_cast<double>(asked * count);
    std::vector<WindowSegment> window;
    for (const data::TokenSegment& segment : read)
      window.push_back(window_segment(sums, segment, weight));
    const auto pass = [&] { return run_window(window, is_last); };
    const bool is_recorded = recorder_ && update != nullptr;
    const std::vector<SegmentNumbers> numbers =
        is_recorded ? RecordedWindow(*runtime_, state_, window)
                          .run(*recorder_, pass, sums, is_last ? update : nullptr)
                    : pass();
    for (std::size_t s = 0; s < window.size(); ++s) sums.add(window[s], numbers[s]);
    if (is_last && update != nullptr && !is_recorded) update->run(sums);
  }
  for (auto& [name, sum] : sums.metrics) sum = sum / sums.metric_weight.at(name);
  return sums;
}

WindowSegment Trainer::window_segment(StepSums& sums, const data::TokenSegment& segment,
                                      double weight) const {
  const data::TokenSegment own = parallel_ ? parallel_->own(segment) : segment;
  WindowSegment out{.batch = eval::make_batch(own, runtime_->model()),
                    .reset = own.reset,
                    .targets = segment.target_count(),
                    .weight = weight};
  if (parallel_) {
    const ranks::LaneRange& lanes = parallel_->lanes();
    out.do_others_go_on = segment.do_others_go_on(lanes.first, lanes.count);
  }
  sums.tokens_read = std::accumulate(segment.valid.begin(), segment.valid.end(), sums.tokens_read);
  sums.segments.push_back(own);
  return out;
}

std::vector<SegmentNumbers> Trainer::run_window(const std::vector<WindowSegment>& window,
                                                bool is_last) {
  at::Tensor graph;
  std::vector<SegmentNumbers> numbers;
  for (const WindowSegment& segment : window) numbers.push_back(run_segment(segment, graph));
  // A search for a fault (watch_) is every rank's own.
  if (parallel_ && watch_ == nullptr && is_last) parallel_->begin_backward();
  if (graph.requires_grad()) run_backward(graph);
  state_.cut_graph();
  return numbers;
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
                 .failed = str("they ended at step ", done_.step + 1, " of ", total_steps_)});
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
    at::Tensor none;
    static_cast<void>(run_segment(window_segment(sums, window.front(), 0.0), none));
    window.erase(window.begin());
  }
  return window;
}

void Trainer::check_has_targets(std::int64_t passed) const {
  const std::int64_t epoch = stream_->segments_per_epoch();
  if (epoch == 0 || passed <= epoch) return;
  throw_run({.where = str("step ", done_.step + 1),
             .failed = "the training data have nothing to predict",
             .expected = "a segment with a target in every epoch",
             .got = str(passed, " segments without one")});
}

SegmentNumbers Trainer::run_segment(const WindowSegment& segment, at::Tensor& graph) {
  eval::SegmentOptions with;
  with.memory.watch = watch_;
  const double z_loss = experiment().train.z_loss;
  with.forward.wants_log_sum = z_loss > 0.0 && segment.targets > 0;
  // A loss is a weighted mean over all lanes, so the backward pass needs the sum of their weights;
  // metrics are looked at in steps that are logged only.
  const bool is_summed = parallel_ && watch_ == nullptr && segment.targets > 0 &&
                         (runtime_->stack().has_losses() || is_next_logged());
  if (is_summed) with.sum_over_processes = parallel_->sum_over_processes();
  const bool has_metrics = !parallel_ || is_summed;
  SegmentNumbers numbers;
  with.before_commit = [&](const backbone::Output& out, const memory::SegmentHooks& hooks) {
    if (segment.targets > 0)
      numbers = SegmentNumbers(segment, out, hooks, has_metrics, z_loss, graph);
  };
  if (std::ranges::find(segment.reset, 1) != segment.reset.end())
    state_.reset(segment.reset, segment.do_others_go_on);
  eval::run_segment(runtime_->model(), runtime_->stack(), state_, segment.batch, std::move(with));
  return numbers;
}

}  // namespace mneme::train
