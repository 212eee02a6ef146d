#include "host/eval/evaluator.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "host/base/error.hpp"
#include "host/eval/protocol.hpp"
#include "host/eval/segment_step.hpp"
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
  void add(const std::map<std::string, memory::Reported>& reported, std::int64_t weight) {
    for (const auto& [name, value] : reported) {
      Sum& sum = sums_[name];
      sum.value += value.value.item<double>() * static_cast<double>(weight);
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

// Tokens of its document before each target of a lane's segment, target by target.
class DocumentDistance {
 public:
  // `corpus` may be null: no document begins inside the segment then.
  DocumentDistance(const data::TokenSegment& segment, std::int64_t lane, const data::Corpus* corpus)
      : corpus_(corpus) {
    const auto b = static_cast<std::size_t>(lane);
    if (segment.document[b] < 0 || segment.offset[b] < 0) return;
    document_ = static_cast<std::size_t>(segment.document[b]);
    distance_ = segment.offset[b];
    is_known_ = true;
  }

  // Of the next target; 0 when it begins a document, or nothing is known.
  std::int64_t next() {
    if (!is_known_) return 0;
    ++distance_;
    if (corpus_ != nullptr && document_ + 1 < corpus_->documents.size() &&
        corpus_->documents[document_] + distance_ == corpus_->documents[document_ + 1]) {
      ++document_;
      distance_ = 0;
    }
    return distance_;
  }

 private:
  const data::Corpus* corpus_;
  std::size_t document_ = 0;
  std::int64_t distance_ = 0;
  bool is_known_ = false;
};

class Evaluation {
 public:
  Evaluation(backbone::Model& model, memory::Stack& stack, const Options& options)
      : model_(model),
        stack_(stack),
        options_(options),
        state_(stack.new_state(memory::Phase::kEvaluation, options.lanes)),
        breakdown_(options.training_counts, options.protocol.unknown_id.value_or(-1)) {
    if (!options.streams.empty()) state_.set_streams(options.streams);
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
  void add_scores(const data::TokenSegment& segment, const std::vector<double>& nll,
                  const at::Tensor& correct);
  void add_target(std::int64_t id, const Score& one);
  void add_reported(const data::TokenSegment& segment, const memory::SegmentHooks& hooks,
                    std::int64_t tokens);
  // Runs the segment once more to find the first value that is not finite. Throws Error (kRun).
  [[noreturn]] void throw_not_finite(const data::TokenSegment& segment, const std::string& where,
                                     const std::string& failed, double value);

  backbone::Model& model_;
  memory::Stack& stack_;
  const Options& options_;
  memory::StackState state_;
  Means losses_;
  Means metrics_;
  BreakdownSums breakdown_;
  Result result_;
};

std::vector<double> to_doubles(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* const begin = flat.const_data_ptr<double>();
  return {begin, begin + flat.numel()};
}

void Evaluation::throw_not_finite(const data::TokenSegment& segment, const std::string& where,
                                  const std::string& failed, double value) {
  NotFinite first = find_in_state(state_);
  if (first.place.empty()) first = find_not_finite(model_, stack_, state_, segment);
  throw_run({.where = str("segment ", segment.index, where),
             .failed = failed,
             .got = str(format_number(value, 3),
                        first.place.empty() ? "" : "; the first thing that is not finite is ",
                        first.place),
             .hint = "the weights or a memory hold NaN or infinity, or the precision is too low"});
}

void Evaluation::add_target(std::int64_t id, const Score& one) {
  result_.total.add(one);
  if (id == options_.protocol.eos_id) result_.end_of_line->add(one);
  if (id == options_.protocol.unknown_id) result_.unknown->add(one);
}

void Evaluation::add_scores(const data::TokenSegment& segment, const std::vector<double>& nll,
                            const at::Tensor& correct) {
  const at::Tensor hits = correct.to(at::kCPU).contiguous();
  const bool* const is_correct = hits.const_data_ptr<bool>();
  if (!segment.source.empty() && !result_.by_source) result_.by_source.emplace();
  for (std::int64_t lane = 0; lane < segment.lanes; ++lane) {
    DocumentDistance distance(segment, lane, options_.corpus.get());
    for (std::int64_t position = 0; position < segment.length; ++position) {
      const auto i = static_cast<std::size_t>(lane * segment.length + position);
      const std::int64_t before = distance.next();
      if (segment.targets[i] == data::kNoTarget) continue;
      if (!std::isfinite(nll[i])) {
        throw_not_finite(segment, str(", lane ", lane, ", position ", position),
                         "the loss of a token is not finite", nll[i]);
      }
      const Score one{.tokens = 1, .nll = nll[i], .correct = is_correct[i] ? 1 : 0};
      add_target(segment.targets[i], one);
      breakdown_.add(position, before, segment.targets[i], one);
      if (!segment.source.empty()) (*result_.by_source)[segment.source[i]].add(one);
    }
  }
}

void Evaluation::add_reported(const data::TokenSegment& segment, const memory::SegmentHooks& hooks,
                              std::int64_t tokens) {
  const auto losses = hooks.losses();
  for (const auto& [name, loss] : losses) {
    const double value = loss.value.item<double>();
    if (std::isfinite(value)) continue;
    throw_not_finite(segment, "", str("the auxiliary loss ", name, " is not finite"), value);
  }
  losses_.add(losses, tokens);
  metrics_.add(hooks.metrics(), tokens);
}

void Evaluation::run(const data::TokenSegment& segment) {
  if (segment.lanes != options_.lanes) {
    throw_run({.where = "evaluation",
               .failed = "the stream has another number of lanes than its options say",
               .expected = str(options_.lanes),
               .got = str(segment.lanes)});
  }
  std::map<std::string, at::Tensor> probes;
  std::vector<double> nll;
  SegmentStep step;
  if (options_.on_probes) {
    step.memory.wanted_probes = options_.wanted_probes;
    step.memory.probes = &probes;
  }
  step.forward.wants_correct = true;
  step.forward.distances = options_.distances;
  step.before_commit = [&](const backbone::Output& out, const memory::SegmentHooks& hooks) {
    const std::int64_t before = result_.total.tokens;
    nll = to_doubles(out.nll);
    add_scores(segment, nll, out.correct);
    add_reported(segment, hooks, result_.total.tokens - before);
    result_.protocol.read_rows = std::max(result_.protocol.read_rows, hooks.read_rows());
  };
  run_segment(model_, stack_, state_, segment, std::move(step));
  ++result_.segments;
  result_.final_state_bytes = state_.bytes();
  result_.state_bytes = std::max(result_.state_bytes, result_.final_state_bytes);
  result_.cached_projection_bytes =
      std::max(result_.cached_projection_bytes, state_.cached_projection_bytes());
  if (options_.on_probes) options_.on_probes(segment, nll, probes);
  if (options_.on_segment) options_.on_segment(segment, nll);
  if (options_.on_progress) options_.on_progress(result_.segments, result_.total.tokens);
}

Result Evaluation::finish() {
  if (result_.total.tokens == 0) {
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
  backbone::set_context_window(model, stack.context_rows(memory::Phase::kEvaluation));
  const double start = clock.seconds();
  Evaluation evaluation(model, stack, options);
  data::TokenSegment segment;
  while (stream.next(segment)) evaluation.run(segment);
  Result result = evaluation.finish();
  result.seconds = clock.seconds() - start;
  return result;
}

}  // namespace mneme::eval
