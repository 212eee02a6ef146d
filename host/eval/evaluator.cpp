#include "host/eval/evaluator.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "host/base/error.hpp"
#include "host/eval/loss_queue.hpp"
#include "host/eval/protocol.hpp"
#include "host/eval/question_scores.hpp"
#include "host/eval/rank_exchange.hpp"
#include "host/eval/run_segment.hpp"
#include "host/tensor/device_memory.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::eval {
namespace {

// Weighted means of the tiers' losses and metrics, by name.
class Means {
 public:
  void add(const std::map<std::string, double>& reported, std::int64_t weight) {
    for (const auto& [name, value] : reported) {
      Sum& sum = sums_[name];
      sum.value += value * static_cast<double>(weight);
      sum.weight += static_cast<double>(weight);
    }
  }
  std::map<std::string, double> means() const {
    std::map<std::string, double> out;
    for (const auto& [name, sum] : sums_)
      out[name] = sum.weight > 0.0 ? sum.value / sum.weight : 0.0;
    return out;
  }

 private:
  struct Sum {
    double value = 0.0;
    double weight = 0.0;
  };
  std::map<std::string, Sum> sums_;
};

// The document of each target of a lane's segment and the tokens of it before the target, target by
// target.
class TargetDocument {
 public:
  // `corpus` may be null: no document begins inside the segment then.
  TargetDocument(const data::TokenSegment& segment, std::int64_t lane, const data::Corpus* corpus)
      : corpus_(corpus) {
    const auto b = static_cast<std::size_t>(lane);
    if (segment.document[b] < 0 || segment.offset[b] < 0) return;
    document_ = segment.document[b];
    distance_ = segment.offset[b];
  }

  // Goes on to the next target.
  void advance() {
    if (document_ < 0) return;
    ++distance_;
    if (corpus_ == nullptr) return;
    const auto next = static_cast<std::size_t>(document_) + 1;
    if (next < corpus_->documents.size() &&
        corpus_->documents[next - 1] + distance_ == corpus_->documents[next]) {
      ++document_;
      distance_ = 0;
    }
  }
  // -1 = unknown, both.
  [[nodiscard]] std::int64_t document() const { return document_; }
  [[nodiscard]] std::int64_t distance() const { return distance_; }

 private:
  const data::Corpus* corpus_;
  std::int64_t document_ = -1;
  std::int64_t distance_ = -1;
};

// A segment is run (run_lanes) and waits in the queue (enqueue) until its losses are known; then it is
// added to the result (settle) and given to the caller (hand_over).
class Evaluator {
 public:
  Evaluator(backbone::Model& model, memory::Stack& stack, const Options& options)
      : model_(model),
        stack_(stack),
        options_(options),
        ranks_(options.ranks.all == nullptr
                   ? nullptr
                   : std::make_unique<RankExchange>(options.ranks, options.lanes)),
        state_(stack.new_state(memory::Phase::kEvaluation, std::max<std::int64_t>(1, own().count))),
        breakdown_(options.training_counts, options.protocol.unknown_id.value_or(-1)),
        queue_(model) {
    if (!options.streams.empty() || ranks_) state_.set_streams(own_streams());
    result_.lanes = options.lanes;
    result_.protocol = options.protocol;
    result_.protocol.lanes = options.lanes;
    result_.protocol.context_rows = stack.context_rows(memory::Phase::kEvaluation);
    if (options.protocol.eos_id) result_.end_of_line.emplace();
    if (options.protocol.unknown_id) result_.unknown.emplace();
    if (options.questions) judge_.emplace(options.questions);
  }

  void run(const data::TokenSegment& segment);
  Result finish();

 private:
  // The lanes that this process computes.
  [[nodiscard]] ranks::LaneRange own() const {
    return ranks_ ? ranks_->lanes() : ranks::LaneRange{0, options_.lanes};
  }
  [[nodiscard]] std::vector<std::uint64_t> own_streams() const;
  // Runs the lanes of this process, whose findings it enqueues, and commits them.
  void run_lanes(const data::TokenSegment& segment, std::map<std::string, at::Tensor>& probes);
  // Puts what was found in the lanes of this process, and by the other ranks, into the queue, before
  // the segment is committed; settles what is due.
  void enqueue(const data::TokenSegment& segment, const at::Tensor& top, SegmentFindings own);
  // Adds segments whose losses are known to the result.
  void settle(std::vector<LossQueue::Entry> segments);
  // Gives the segments that were settled to Options::on_segment.
  void hand_over();
  void count_targets(LossQueue::Entry& entry);
  // The lane's segment as a block of Result::perplexity_per_block.
  void add_block(const LossQueue::Entry& entry, std::int64_t lane);
  void add_target(std::int64_t id, double nll, bool is_correct);
  void add_state();
  // Error (kRun) where a target's loss is not finite.
  void check_losses(const LossQueue::Entry& entry);
  // Runs the segment once more to find the first value that is not finite. Throws Error (kRun).
  [[noreturn]] void throw_not_finite(const LossQueue::Entry& entry, const std::string& where,
                                     const std::string& failed, double value);

  backbone::Model& model_;
  memory::Stack& stack_;
  const Options& options_;
  std::unique_ptr<RankExchange> ranks_;  // null = this process computes all lanes
  memory::StackState state_;
  Means losses_;
  Means metrics_;
  BreakdownSums breakdown_;
  Result result_;
  std::optional<QuestionJudge> judge_;  // of a stream of questions
  LossQueue queue_;
  std::vector<LossQueue::Entry> settled_;  // and not yet handed over
  std::int64_t targets_ = 0;               // of the segments so far
};

std::vector<std::uint64_t> Evaluator::own_streams() const {
  std::vector<std::uint64_t> streams;
  const ranks::LaneRange lanes = own();
  for (std::int64_t lane = lanes.first; lane < lanes.first + lanes.count; ++lane) {
    streams.push_back(options_.streams.empty() ? static_cast<std::uint64_t>(lane)
                                               : options_.streams[static_cast<std::size_t>(lane)]);
  }
  if (streams.empty()) streams.push_back(0);  // of a state that is not used
  return streams;
}

void Evaluator::throw_not_finite(const LossQueue::Entry& entry, const std::string& where,
                                 const std::string& failed, double value) {
  NotFinite first;
  const ranks::LaneRange lanes = own();
  if (entry.is_late) {
    first.place = "the softmax";
  } else if (lanes.count > 0) {
    first = find_in_state(state_);
    if (first.place.empty()) {
      first =
          find_not_finite(model_, stack_, state_, entry.segment.lanes_of(lanes.first, lanes.count));
    }
  }
  throw_run({.where = str("segment ", entry.segment.index, where),
             .failed = failed,
             .got = str(format_number(value, 3),
                        first.place.empty() ? "" : "; the first thing that is not finite is ",
                        first.place),
             .hint = "the weights or a memory hold NaN or infinity, or the precision is too low"});
}

void Evaluator::add_target(std::int64_t id, double nll, bool is_correct) {
  result_.total.add(nll, is_correct);
  if (id == options_.protocol.eos_id) result_.end_of_line->add(nll, is_correct);
  if (id == options_.protocol.unknown_id) result_.unknown->add(nll, is_correct);
}

namespace {

std::map<std::string, double> values_of(const std::map<std::string, memory::Reported>& reported) {
  std::map<std::string, double> out;
  for (const auto& [name, value] : reported) out[name] = value.value.item<double>();
  return out;
}

SegmentFindings findings_of(const backbone::Output& out, const memory::SegmentHooks& hooks) {
  SegmentFindings found;
  if (out.nll.defined()) read_losses(out, found.losses);
  found.tier_losses = values_of(hooks.losses());
  found.tier_metrics = values_of(hooks.metrics());
  found.read_rows = hooks.read_rows();
  return found;
}

}  // namespace

void Evaluator::enqueue(const data::TokenSegment& segment, const at::Tensor& top,
                        SegmentFindings own) {
  queue_.push(segment, top, ranks_ ? ranks_->exchange(own) : std::move(own));
  if (queue_.is_due()) settle(queue_.take(/*is_newest_committed=*/false));
}

void Evaluator::settle(std::vector<LossQueue::Entry> segments) {
  for (LossQueue::Entry& entry : segments) {
    const std::int64_t before = result_.total.targets;
    count_targets(entry);
    for (const auto& [name, value] : entry.found.tier_losses) {
      if (std::isfinite(value)) continue;
      throw_not_finite(entry, "", str("the auxiliary loss ", name, " is not finite"), value);
    }
    losses_.add(entry.found.tier_losses, result_.total.targets - before);
    metrics_.add(entry.found.tier_metrics, result_.total.targets - before);
    result_.protocol.read_rows = std::max(result_.protocol.read_rows, entry.found.read_rows);
    settled_.push_back(std::move(entry));
  }
}

void Evaluator::hand_over() {
  for (const LossQueue::Entry& entry : std::exchange(settled_, {})) {
    if (options_.on_segment) options_.on_segment(entry.segment, entry.found.losses);
  }
}

void Evaluator::check_losses(const LossQueue::Entry& entry) {
  const data::TokenSegment& segment = entry.segment;
  for (std::size_t i = 0; i < segment.targets.size(); ++i) {
    if (segment.targets[i] == data::kNoTarget) continue;
    const double nll = entry.found.losses.nll[i];
    if (std::isfinite(nll)) continue;
    const auto place = static_cast<std::int64_t>(i);
    throw_not_finite(entry,
                     str(", lane ", place / segment.length, ", place ", place % segment.length),
                     "the loss of a token is not finite", nll);
  }
}

void Evaluator::count_targets(LossQueue::Entry& entry) {
  check_losses(entry);
  scores::SegmentLosses& losses = entry.found.losses;
  if (judge_) judge_->judge(entry.segment, losses);
  const data::TokenSegment& segment = entry.segment;
  losses.document.assign(segment.targets.size(), -1);
  losses.distance.assign(segment.targets.size(), -1);
  if (!segment.source.empty() && !result_.by_source) result_.by_source.emplace();
  for (std::int64_t lane = 0; lane < segment.lanes; ++lane) {
    add_block(entry, lane);
    TargetDocument text(segment, lane, options_.corpus.get());
    for (std::int64_t place = 0; place < segment.length; ++place) {
      const auto i = static_cast<std::size_t>(lane * segment.length + place);
      text.advance();
      if (segment.targets[i] == data::kNoTarget) {
        losses.correct[i] = 0;
        losses.best[i] = -1;
        continue;
      }
      const double nll = losses.nll[i];
      losses.document[i] = text.document();
      losses.distance[i] = text.distance();
      const bool is_correct = losses.correct[i] != 0;
      add_target(segment.targets[i], nll, is_correct);
      breakdown_.add(place, text.distance(), segment.targets[i], nll, is_correct);
      if (!segment.source.empty()) (*result_.by_source)[segment.source[i]].add(nll, is_correct);
    }
  }
}

void Evaluator::add_block(const LossQueue::Entry& entry, std::int64_t lane) {
  const data::TokenSegment& segment = entry.segment;
  // A lane's or document's last token predicts nothing and may not be among the inputs.
  const std::int64_t length = options_.protocol.segment;
  if (!options_.protocol.has_blocks || length < 2 ||
      segment.valid[static_cast<std::size_t>(lane)] < length - 1) {
    return;
  }
  double sum = 0.0;
  for (std::int64_t t = 0; t + 1 < length; ++t) {
    const auto i = static_cast<std::size_t>(lane * segment.length + t);
    if (segment.targets[i] == data::kNoTarget) return;
    sum += entry.found.losses.nll[i];
  }
  ++result_.blocks;
  result_.block_loss += sum / static_cast<double>(length - 1);
}

void Evaluator::run_lanes(const data::TokenSegment& segment,
                          std::map<std::string, at::Tensor>& probes) {
  SegmentOptions with;
  with.memory.may_keep_projections = options_.use_cache;
  if (options_.on_probes) {
    with.memory.wanted_probes = options_.wanted_probes;
    with.memory.probes = &probes;
  }
  with.forward.wants_correct = true;
  with.forward.distances = options_.distances;
  with.forward.may_leave_losses = !ranks_ && !options_.on_probes;
  // A failure in it leaves the state as it was before the segment.
  with.before_commit = [&](const backbone::Output& out, const memory::SegmentHooks& hooks) {
    enqueue(segment, out.nll.defined() ? at::Tensor() : out.top, findings_of(out, hooks));
  };
  const ranks::LaneRange lanes = own();
  if (!ranks_) {
    run_segment(model_, stack_, state_, segment, std::move(with));
  } else if (lanes.count > 0) {
    with.sum_over_processes = ranks_->sum_over_processes();
    with.do_others_go_on = segment.do_others_go_on(lanes.first, lanes.count);
    run_segment(model_, stack_, state_, segment.lanes_of(lanes.first, lanes.count),
                std::move(with));
  } else {
    // The ranks with lanes sum the weights of their hooks' losses.
    if (!stack_.is_empty()) static_cast<void>(ranks_->sum_over_processes()({}));
    enqueue(segment, {}, {});
  }
}

void Evaluator::run(const data::TokenSegment& segment) {
  if (segment.lanes != options_.lanes) {
    throw_run({.where = "evaluation",
               .failed = "the stream has another number of lanes than its options say",
               .expected = str(options_.lanes),
               .got = str(segment.lanes)});
  }
  std::map<std::string, at::Tensor> probes;
  run_lanes(segment, probes);
  ++result_.segments;
  targets_ += std::ranges::count_if(segment.targets, [](auto id) { return id != data::kNoTarget; });
  add_state();
  // With probes a segment's losses do not wait (may_leave_losses above), so it is the last one.
  if (options_.on_probes) options_.on_probes(segment, settled_.back().found.losses.nll, probes);
  hand_over();
  if (options_.on_progress) options_.on_progress(result_.segments, targets_);
}

void Evaluator::add_state() {
  RankState now;
  if (own().count > 0) {
    now.state_bytes = state_.bytes();
    now.cached_projection_bytes = state_.cached_projection_bytes();
  }
  if (ranks_) {
    if (options_.ranks.stop_signal) now.signal = options_.ranks.stop_signal();
    now = ranks_->exchange(now);
  }
  result_.final_state_bytes = now.state_bytes;
  result_.state_bytes = std::max(result_.state_bytes, result_.final_state_bytes);
  result_.cached_projection_bytes =
      std::max(result_.cached_projection_bytes, now.cached_projection_bytes);
  if (now.signal != 0 && options_.ranks.on_stop_signal) {
    options_.ranks.on_stop_signal(static_cast<int>(now.signal));
  }
}

Result Evaluator::finish() {
  settle(queue_.take(/*is_newest_committed=*/true));
  hand_over();
  if (options_.needs_targets && result_.total.targets == 0) {
    throw_run({.where = "evaluation",
               .failed = "the data have no token to predict",
               .expected = "at least two tokens a lane",
               .got = str(result_.segments, " segments without targets")});
  }
  if (judge_) {
    result_.questions = judge_->scores();
    result_.total.questions = judge_->scores().all.questions;
  }
  result_.losses = losses_.means();
  result_.metrics = metrics_.means();
  result_.breakdown = breakdown_.breakdown();
  return std::move(result_);
}

}  // namespace

Result evaluate_stream(backbone::Model& model, memory::Stack& stack, data::Stream& stream,
                       const Options& options, const Clock& clock) {
  const at::NoGradGuard no_grad;
  model.train(false);
  model.set_context_rows(stack.context_rows(memory::Phase::kEvaluation));
  const c10::Device device = model.info().device;
  tensor::reset_peak_bytes(device);
  const double start = clock.seconds();
  Evaluator evaluator(model, stack, options);
  data::TokenSegment segment;
  while (stream.next(segment)) evaluator.run(segment);
  Result result = evaluator.finish();
  result.seconds = clock.seconds() - start;
  result.peak_device_bytes = tensor::peak_bytes(device);
  tensor::reset_peak_bytes(device);
  return result;
}

}  // namespace mneme::eval
