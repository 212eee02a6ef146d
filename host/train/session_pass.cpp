// The forward and backward passes of a step.
#include "host/train/session_pass.hpp"

#include <algorithm>

#include "host/base/error.hpp"
#include "host/eval/batch.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::train {
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

Session::Pass Session::run_passes() {
  Pass pass;
  const std::int64_t count = optim::accumulation(experiment().train, step_);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<data::Segment> window = read_window(pass);
    const auto asked = std::count_if(window.begin(), window.end(),
                                     [](const data::Segment& s) { return s.target_count() > 0; });
    const double weight = 1.0 / static_cast<double>(asked * count);
    for (const data::Segment& segment : window) run_segment(pass, segment, weight);
    pass.graph.backward();
    pass.graph = at::Tensor();
    state_.cut_graph();
  }
  for (auto& [name, sum] : pass.metrics) sum = sum / pass.metric_weight.at(name);
  return pass;
}

// With all segments asking for something, the next bptt_segments of them. Where only some ask (a
// task with an answer), a window ends with the ones that ask and holds as many before them as fit:
// those that gradient can reach. Segments before these fill the memory without gradient.
std::vector<data::Segment> Session::read_window(Pass& pass) {
  const auto size = static_cast<std::size_t>(experiment().train.bptt_segments);
  std::vector<data::Segment> window;
  bool has_target = false;
  for (std::int64_t passed = 0; window.size() < size;) {
    const std::vector<std::int64_t> before = stream_->position();
    data::Segment segment;
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
    run_segment(pass, window.front(), 0.0);
    window.erase(window.begin());
  }
  return window;
}

void Session::check_has_targets(std::int64_t passed) const {
  const std::int64_t epoch = stream_->segments_per_epoch();
  if (epoch == 0 || passed <= epoch) return;
  throw_run({.where = str("step ", step_ + 1),
             .failed = "the training data have nothing to predict",
             .expected = "a segment with a target in every epoch",
             .got = str(passed, " segments without one")});
}

void Session::run_segment(Pass& pass, const data::Segment& segment, double weight) {
  pass.segments.push_back(segment);
  backbone::Model& model = runtime_->model();
  const backbone::Batch batch = eval::make_batch(segment, model.vocabulary(), runtime_->device());
  if (std::find(segment.reset.begin(), segment.reset.end(), 1) != segment.reset.end()) {
    state_.reset(segment.reset);
  }
  memory::SegmentInput input;
  input.length = segment.length;
  input.valid_count = batch.valid_count;
  input.watch = watch_;
  memory::SegmentRun run(runtime_->stack(), state_, input);
  const backbone::Output out = model.forward(batch, run);
  if (const std::int64_t targets = segment.target_count(); targets > 0) {
    const at::Tensor nll = out.nll.sum() / static_cast<double>(targets);
    const at::Tensor auxiliary = run.total_loss();
    const at::Tensor total = (auxiliary.defined() ? nll + auxiliary : nll) * weight;
    pass.graph = pass.graph.defined() ? pass.graph + total : total;
    const at::Tensor value = nll.detach().to(at::kDouble) * weight;
    pass.loss = pass.loss.defined() ? pass.loss + value : value;
    pass.tokens += targets;
    const auto metrics = run.metrics();
    add_reported(pass.losses, run.losses(), weight);
    add_reported(pass.metrics, metrics, weight);
    for (const auto& [name, metric] : metrics) pass.metric_weight[name] += weight;
  }
  run.commit();
}

}  // namespace mneme::train
