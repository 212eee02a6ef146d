#include "host/eval/evaluator.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "host/base/error.hpp"
#include "host/eval/protocol.hpp"
#include "host/eval/rank_scores.hpp"
#include "host/eval/segment_step.hpp"
#include "host/eval/waiting_losses.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::eval {
namespace {

// Switches off requires_grad of parameters while it lives: grad mode stays on, so that no
// projections are cached, and still no graph is built.
class FrozenParameters {
 public:
  FrozenParameters(const backbone::Model& model, const memory::Stack& stack) {
    for (const backbone::Parameter& parameter : model.parameters()) freeze(parameter.tensor);
    for (const memory::TierParameter& parameter : stack.parameters()) freeze(parameter.tensor);
  }
  ~FrozenParameters() {
    for (at::Tensor& tensor : frozen_) tensor.set_requires_grad(true);
  }
  FrozenParameters(const FrozenParameters&) = delete;
  FrozenParameters& operator=(const FrozenParameters&) = delete;

 private:
  void freeze(at::Tensor tensor) {
    if (!tensor.requires_grad()) return;
    tensor.set_requires_grad(false);
    frozen_.push_back(std::move(tensor));
  }

  std::vector<at::Tensor> frozen_;
};

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

class Evaluation {
 public:
  Evaluation(backbone::Model& model, memory::Stack& stack, const Options& options)
      : model_(model),
        stack_(stack),
        options_(options),
        ranks_(options.ranks.all == nullptr
                   ? nullptr
                   : std::make_unique<RankExchange>(options.ranks, options.lanes)),
        state_(stack.new_state(memory::Phase::kEvaluation, std::max<std::int64_t>(1, own().count))),
        breakdown_(options.training_counts, options.protocol.unknown_id.value_or(-1)),
        waiting_(model) {
    if (!options.streams.empty() || ranks_) state_.set_streams(own_streams());
    result_.lanes = options.lanes;
    result_.protocol = options.protocol;
    result_.protocol.lanes = options.lanes;
    result_.protocol.context_rows = stack.context_rows(memory::Phase::kEvaluation);
    if (options.protocol.eos_id) result_.end_of_line.emplace();
    if (options.protocol.unknown_id) result_.unknown.emplace();
  }

  void run(const data::TokenSegment& segment);
  Result finish();

 private:
  // The lanes that this process computes.
  [[nodiscard]] ranks::LaneRange own() const {
    return ranks_ ? ranks_->lanes() : ranks::LaneRange{0, options_.lanes};
  }
  [[nodiscard]] std::vector<std::uint64_t> own_streams() const;
  // What the forward pass found in the lanes of this process.
  [[nodiscard]] static RankScores read_scores(const backbone::Output& out,
                                              const memory::SegmentHooks& hooks);
  // Whether the losses of a segment are not computed yet and can be computed later. They cannot
  // where a number is not finite: the search for its origin needs the state before the segment.
  [[nodiscard]] static bool can_wait(const backbone::Output& out, const RankScores& found);
  // Computes the losses that wait.
  void flush();
  // Tells the caller of a segment whose losses are known.
  void report(const data::TokenSegment& segment) const;
  // Takes in what was found in the whole segment.
  void take(const data::TokenSegment& segment, RankScores found);
  void count_targets(const data::TokenSegment& segment);
  // The lane's segment as a block of Result::perplexity_per_block.
  void add_block(const data::TokenSegment& segment, std::int64_t lane);
  void add_target(std::int64_t id, double nll, bool is_correct);
  void add_state();
  // Runs the segment once more to find the first value that is not finite. Throws Error (kRun).
  [[noreturn]] void throw_not_finite(const data::TokenSegment& segment, const std::string& where,
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
  SegmentScores scores_;  // of the newest segment whose losses are known
  WaitingLosses waiting_;
  bool is_late_ = false;      // take() is called when the state has gone on
  std::int64_t targets_ = 0;  // of the segments so far
};

std::vector<std::uint64_t> Evaluation::own_streams() const {
  std::vector<std::uint64_t> streams;
  const ranks::LaneRange lanes = own();
  for (std::int64_t lane = lanes.first; lane < lanes.first + lanes.count; ++lane) {
    streams.push_back(options_.streams.empty() ? static_cast<std::uint64_t>(lane)
                                               : options_.streams[static_cast<std::size_t>(lane)]);
  }
  if (streams.empty()) streams.push_back(0);  // of a state that is not used
  return streams;
}

void Evaluation::throw_not_finite(const data::TokenSegment& segment, const std::string& where,
                                  const std::string& failed, double value) {
  NotFinite first;
  const ranks::LaneRange lanes = own();
  if (is_late_) {
    first.place = "the softmax";
  } else if (lanes.count > 0) {
    first = find_in_state(state_);
    if (first.place.empty()) {
      first = find_not_finite(model_, stack_, state_, segment.lanes_of(lanes.first, lanes.count));
    }
  }
  throw_run({.where = str("segment ", segment.index, where),
             .failed = failed,
             .got = str(format_number(value, 3),
                        first.place.empty() ? "" : "; the first thing that is not finite is ",
                        first.place),
             .hint = "the weights or a memory hold NaN or infinity, or the precision is too low"});
}

void Evaluation::add_target(std::int64_t id, double nll, bool is_correct) {
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

}  // namespace

RankScores Evaluation::read_scores(const backbone::Output& out, const memory::SegmentHooks& hooks) {
  RankScores found;
  if (out.nll.defined()) found.read(out);
  found.losses = values_of(hooks.losses());
  found.metrics = values_of(hooks.metrics());
  found.read_rows = hooks.read_rows();
  return found;
}

bool Evaluation::can_wait(const backbone::Output& out, const RankScores& found) {
  return !out.nll.defined() && out.top.isfinite().all().item<bool>() &&
         std::ranges::all_of(found.losses, [](const auto& l) { return std::isfinite(l.second); });
}

void Evaluation::flush() {
  is_late_ = true;
  for (auto& [segment, found] : waiting_.take()) {
    take(segment, std::move(found));
    report(segment);
  }
  is_late_ = false;
}

void Evaluation::report(const data::TokenSegment& segment) const {
  if (options_.on_segment) options_.on_segment(segment, scores_);
}

void Evaluation::take(const data::TokenSegment& segment, RankScores found) {
  const std::int64_t before = result_.total.targets;
  scores_.nll = std::move(found.nll);
  scores_.correct = std::move(found.correct);
  scores_.best = std::move(found.best);
  count_targets(segment);
  for (const auto& [name, value] : found.losses) {
    if (std::isfinite(value)) continue;
    throw_not_finite(segment, "", str("the auxiliary loss ", name, " is not finite"), value);
  }
  losses_.add(found.losses, result_.total.targets - before);
  metrics_.add(found.metrics, result_.total.targets - before);
  result_.protocol.read_rows = std::max(result_.protocol.read_rows, found.read_rows);
}

void Evaluation::count_targets(const data::TokenSegment& segment) {
  scores_.document.assign(segment.targets.size(), -1);
  scores_.distance.assign(segment.targets.size(), -1);
  if (!segment.source.empty() && !result_.by_source) result_.by_source.emplace();
  for (std::int64_t lane = 0; lane < segment.lanes; ++lane) {
    add_block(segment, lane);
    TargetDocument text(segment, lane, options_.corpus.get());
    for (std::int64_t place = 0; place < segment.length; ++place) {
      const auto i = static_cast<std::size_t>(lane * segment.length + place);
      text.advance();
      if (segment.targets[i] == data::kNoTarget) {
        scores_.correct[i] = 0;
        scores_.best[i] = -1;
        continue;
      }
      const double nll = scores_.nll[i];
      if (!std::isfinite(nll)) {
        throw_not_finite(segment, str(", lane ", lane, ", position ", place),
                         "the loss of a token is not finite", nll);
      }
      scores_.document[i] = text.document();
      scores_.distance[i] = text.distance();
      const bool is_correct = scores_.correct[i] != 0;
      add_target(segment.targets[i], nll, is_correct);
      breakdown_.add(place, text.distance(), segment.targets[i], nll, is_correct);
      if (!segment.source.empty()) (*result_.by_source)[segment.source[i]].add(nll, is_correct);
    }
  }
}

void Evaluation::add_block(const data::TokenSegment& segment, std::int64_t lane) {
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
    sum += scores_.nll[i];
  }
  ++result_.blocks;
  result_.block_loss += sum / static_cast<double>(length - 1);
}

void Evaluation::run(const data::TokenSegment& segment) {
  if (segment.lanes != options_.lanes) {
    throw_run({.where = "evaluation",
               .failed = "the stream has another number of lanes than its options say",
               .expected = str(options_.lanes),
               .got = str(segment.lanes)});
  }
  std::map<std::string, at::Tensor> probes;
  SegmentStep step;
  if (options_.on_probes) {
    step.memory.wanted_probes = options_.wanted_probes;
    step.memory.probes = &probes;
  }
  step.forward.wants_correct = true;
  step.forward.distances = options_.distances;
  step.forward.may_leave_losses = !ranks_ && !options_.on_probes;
  bool waits = false;
  // A failure in it leaves the state as it was before the segment.
  step.before_commit = [&](const backbone::Output& out, const memory::SegmentHooks& hooks) {
    RankScores found = read_scores(out, hooks);
    waits = can_wait(out, found);
    if (waits) return waiting_.add(segment, out.top, std::move(found));
    flush();
    if (!out.nll.defined()) {
      waiting_.add(segment, out.top, std::move(found));
      found = std::move(waiting_.take().front().found);
    }
    take(segment, ranks_ ? ranks_->exchange(found) : std::move(found));
  };
  const ranks::LaneRange lanes = own();
  if (!ranks_) {
    run_segment(model_, stack_, state_, segment, std::move(step));
  } else if (lanes.count > 0) {
    step.memory.sum = ranks_->sum_of_weights();
    step.do_others_go_on = segment.do_others_go_on(lanes.first, lanes.count);
    run_segment(model_, stack_, state_, segment.lanes_of(lanes.first, lanes.count),
                std::move(step));
  } else {
    if (!stack_.is_empty()) static_cast<void>(ranks_->sum_of_weights()({}));
    take(segment, ranks_->exchange(RankScores()));
  }
  ++result_.segments;
  targets_ += std::ranges::count_if(segment.targets, [](auto id) { return id != data::kNoTarget; });
  add_state();
  if (options_.on_probes) options_.on_probes(segment, scores_.nll, probes);
  if (!waits) report(segment);
  if (waiting_.is_full()) flush();
  if (options_.on_progress) options_.on_progress(result_.segments, targets_);
}

void Evaluation::add_state() {
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

Result Evaluation::finish() {
  flush();
  if (result_.total.targets == 0) {
    throw_run({.where = "evaluation",
               .failed = "the data have no token to predict",
               .expected = "at least two tokens a lane",
               .got = str(result_.segments, " segments without targets")});
  }
  result_.losses = losses_.means();
  result_.metrics = metrics_.means();
  result_.breakdown = breakdown_.breakdown();
  return std::move(result_);
}

}  // namespace

Result evaluate(backbone::Model& model, memory::Stack& stack, data::Stream& stream,
                const Options& options, const Clock& clock) {
  const at::AutoGradMode grad(!options.use_cache);
  std::optional<FrozenParameters> frozen;
  if (!options.use_cache) frozen.emplace(model, stack);
  model.train(false);
  model.set_context_rows(stack.context_rows(memory::Phase::kEvaluation));
  const double start = clock.seconds();
  Evaluation evaluation(model, stack, options);
  data::TokenSegment segment;
  while (stream.next(segment)) evaluation.run(segment);
  Result result = evaluation.finish();
  result.seconds = clock.seconds() - start;
  return result;
}

}  // namespace mneme::eval
