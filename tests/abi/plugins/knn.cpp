// A kNN memory (Memorizing Transformers, Wu et al. 2022): keys and values of past tokens; each
// query joins its nearest ones with local attention in one softmax.
#include <cmath>

#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

class Knn : public mneme::Tier {
 public:
  static constexpr auto kOptions = mneme::options(
      mneme::integer("rows", 64, 1, 1 << 20, "keys and values that are kept"),
      mneme::integer("neighbours", 8, 1, 4096, "keys that a query reads"),
      mneme::integer("declared", 0, 0, 1 << 20, "rows that it says it reads"),
      mneme::boolean("grouped", false, "keeps keys as the layer's heads share them"));
  explicit Knn(mneme::Setup& s)
      : rows_(s.integer("rows")),
        neighbours_(s.integer("neighbours")),
        key_heads_(s.boolean("grouped") ? s.kv_heads() : s.heads()),
        shared_(s.heads() / key_heads_) {
    mneme::QueueSettings settings;
    settings.kind = mneme::RowsKind::kKeysValues;
    settings.capacity = rows_;
    past_ = s.queue("past", settings);
    s.read_rows(s.integer("declared"));
    if (s.boolean("grouped")) s.takes_grouped_keys();
    s.reads_at(MNEME_SITE_HEADS);
    s.wants(MNEME_WANT_READ_Q | MNEME_WANT_ABSORB_K | MNEME_WANT_ABSORB_V);
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    const mneme::Rows past = l.queue(past_).rows();
    if (past.empty()) return mneme::nothing();
    // Scores join local attention's in at least f32; values stay in the layer's dtype.
    const mneme::DType dtype =
        in.q.dtype() == mneme::DType::kF64 ? mneme::DType::kF64 : mneme::DType::kF32;
    const int64_t lanes = in.q.dim(0), tokens = in.q.dim(1), heads = in.q.dim(2), d = in.q.dim(3);
    const mneme::Tensor q = reshape(in.q, {lanes, tokens, key_heads_, shared_, d});
    mneme::Tensor scores =
        reshape(cast(einsum("btgsd,bmgd->bgstm", {q, past.k}), dtype) * l.scale(),
                {lanes, heads, tokens, past.count});
    if (past.valid)
      scores = masked_fill(scores, unsqueeze(unsqueeze(logical_not(past.valid), 1), 1), -INFINITY);
    const auto best = topk(scores, neighbours_ < past.count ? neighbours_ : past.count, 3);
    const mneme::Tensor weights =
        scatter_add(zeros_like(scores), best.indices, softmax(best.values, 3), 3);
    const mneme::Tensor shared =
        reshape(cast(weights, past.v.dtype()), {lanes, key_heads_, shared_, tokens, past.count});
    return mneme::lse(
        reshape(einsum("bgstm,bmgd->btgsd", {shared, past.v}), {lanes, tokens, heads, d}),
        logsumexp(best.values, 3));
  }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    const auto past = l.queue(past_);
    mneme::Rows fresh = mneme::Rows::of_keys_values(l.local().k, l.local().v, rows.valid);
    fresh.counts = rows.counts;
    past.append(fresh);
    if (past.size() > rows_) past.drop_oldest(past.size() - rows_);
  }

 private:
  int64_t rows_;
  int64_t neighbours_;
  int64_t key_heads_;  // G
  int64_t shared_;     // heads of queries that use one head of keys
  mneme::Queue past_;
};

}  // namespace

MNEME_PLUGIN(Knn, "test.knn", "0.1.0")
