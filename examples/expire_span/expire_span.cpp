// expire_span: a cache of rows that forgets each row after a span that it learns to predict
// (Expire-Span, Sukhbaatar et al. 2021). The span becomes a bias on the scores: the logarithm of a
// mask that falls from 1 to 0 while the row's age passes the span.
#include <cmath>

#include "mneme/plugin.hpp"

namespace {

using mneme::Tensor;

class ExpireSpan : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "a cache whose rows expire after learned spans (Expire-Span, Sukhbaatar et al. 2021)";
  static constexpr const char* kLosses = "span";
  static constexpr auto kOptions = mneme::options(
      mneme::integer("rows", 16, 1, 65536, "newest rows that are kept, expired ones included")
          .trained(),
      mneme::real("span", 0.0, 0.0, 1e6, "longest span L in tokens; 0 = rows").trained(),
      mneme::real("ramp", 8.0, 1.0, 65536.0, "tokens in which a row fades after its span")
          .trained(),
      mneme::real("start", 0.3, 0.001, 0.999, "part of L that spans have at the start"));

  explicit ExpireSpan(mneme::Setup& s)
      : rows_(s.integer("rows")),
        longest_(s.real("span") > 0.0 ? s.real("span") : static_cast<double>(rows_)),
        ramp_(s.real("ramp")) {
    const double start = s.real("start");
    weight_ = s.parameter("span_weight", {1, s.width()});
    bias_ = s.parameter("span_bias", {1}, mneme::constant_value(std::log(start / (1.0 - start))));
    mneme::QueueSettings kept;
    kept.capacity = rows_;
    kept_ = s.queue("kept", kept);
    mneme::SlotSettings open;
    open.lifetime = mneme::Lifetime::kSegment;
    open_spans_ = s.slot("open_spans", {mneme::kLanes, mneme::kAny}, mneme::zeros(), open);
    s.context_rows(rows_);
    s.emits_token_bias();
    s.is_cut_invariant();
  }

  void context(mneme::Layer& l) override {
    const mneme::Rows rows = l.queue(kept_).rows();
    const Tensor fresh = spans(l, l.x(), l.valid());
    Tensor all = fresh;  // [B,K] spans of the rows, then of the segment's tokens so far
    if (l.is_open()) {
      all = cat({l.slot(open_spans_), fresh}, 1);
      l.slot(open_spans_) = all;
    }
    if (!rows.empty()) all = cat({spans(l, rows.hidden, rows.valid), all}, 1);

    const Tensor left = remaining(l, all, rows.count);  // [B,T,K]
    const Tensor bias = unsqueeze(log_mask(left), 1);   // [B,1,T,K]
    if (!rows.empty()) {
      mneme::BlockSettings settings;
      settings.bias = slice(bias, 3, 0, rows.count);
      l.emit(kept_, settings);
    }
    l.emit_token_bias(slice(bias, 3, rows.count));
    report(l, fresh, all, left, rows);
  }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    // A row's age is its distance to the newest token: there may be no gap between the two.
    mneme::require(l.local().is_own_segment, MNEME_E_UNSUPPORTED,
                   "expire_span keeps the segment's own rows, and another tier feeds it with those "
                   "that it releases: set feed = \"segment\"");
    const mneme::QueueValue kept = l.queue(kept_);
    kept.append(rows);
    if (kept.size() > rows_) kept.drop_oldest(kept.size() - rows_);
  }

 private:
  // e = L sigmoid(w.h + c) [B,n] of rows [B,n,D], through the layer's norm; no gradient into h.
  Tensor spans(const mneme::Layer& l, const Tensor& rows, const Tensor& valid) const {
    const Tensor weight = l.parameter(weight_);
    Tensor h = cast(l.norm(detach(rows), mneme::WeightGradient::kStops), weight.dtype());
    if (valid) h = masked_fill(h, unsqueeze(logical_not(valid), 2), 0.0);
    return longest_ * squeeze(sigmoid(linear(h, weight, l.parameter(bias_))), 2);
  }

  // 1 + (e - age) / R [B,T,K], for queries at the newest T of the K places: the mask before it is
  // limited to 0 and 1. Of later tokens, which no query sees, it is above 1.
  Tensor remaining(const mneme::Layer& l, const Tensor& all, int64_t rows) const {
    const auto first = static_cast<double>(rows + l.offset());
    const auto end = static_cast<double>(rows + l.offset() + l.length());
    const Tensor queries = unsqueeze(arange(first, end, 1.0, all.dtype()), 1);
    const Tensor age = queries - unsqueeze(arange(0.0, end, 1.0, all.dtype()), 0);
    return (unsqueeze(all, 1) - unsqueeze(age, 0)) / ramp_ + 1.0;
  }

  static Tensor log_mask(const Tensor& left) {
    const Tensor is_gone = le(left, 0.0);
    const Tensor mask = clamp_max(masked_fill(left, is_gone, 1.0), 1.0);
    return masked_fill(log(mask), is_gone, -INFINITY);
  }

  // The loss: e summed over the rows on the ramp of each query, over R T. Each row is on it for R
  // queries, so that over a text this is the paper's sum of e / T, taken where a mask is decided.
  void report(const mneme::Layer& l, const Tensor& fresh, const Tensor& all, const Tensor& left,
              const mneme::Rows& rows) const {
    const int64_t lanes = l.lanes();
    Tensor tokens = full({lanes}, static_cast<double>(l.length()), all.dtype());
    Tensor own = fresh;
    if (l.valid()) {
      tokens = sum(cast(l.valid(), all.dtype()), 1);
      own = where(l.valid(), fresh, 0.0);
    }
    const Tensor divisor = maximum(tokens, 1.0);
    l.metric("mean_span", sum(own, 1) / divisor, tokens);
    if (!l.has_loss()) return;

    Tensor on_ramp = logical_and(gt(left, 0.0), lt(left, 1.0));
    if (rows.valid) {
      const Tensor others = full({lanes, all.dim(1) - rows.count}, 1.0, mneme::DType::kBool);
      on_ramp = logical_and(on_ramp, unsqueeze(cat({rows.valid, others}, 1), 1));
    }
    if (l.valid()) on_ramp = logical_and(on_ramp, unsqueeze(l.valid(), 2));
    const Tensor counted = where(on_ramp, unsqueeze(all, 1), 0.0);
    l.aux("span", sum(counted, {1, 2}) / (divisor * ramp_), tokens);
  }

  int64_t rows_;
  double longest_;  // L
  double ramp_;     // R
  mneme::Parameter weight_, bias_;
  mneme::Queue kept_;
  mneme::Slot open_spans_;
};

}  // namespace

MNEME_PLUGIN(ExpireSpan, "org.example.expire_span", "0.1.0")
