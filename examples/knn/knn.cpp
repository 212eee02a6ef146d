// knn: keys and values of the past, of which every query reads its nearest ones. The memory of
// Memorizing Transformers [Wu, Rabe, Hutchins and Szegedy 2022].
//
//   absorb   appends keys and values of the segment, and keeps the newest `rows`
//   read     at site HEADS: the softmax attention of each query over the `neighbours` rows with the
//            largest scores; joined with the local one in one softmax, or through a gate
//
// G heads of keys are shared by H heads of queries, H/G each. S = (H/G) T are the queries of a
// segment that look among the same keys.
#include <algorithm>
#include <cmath>

#include "mneme/plugin.hpp"

namespace {

using mneme::DType;
using mneme::Layer;
using mneme::Rows;
using mneme::Tensor;

// Scores are searched in pieces of so many rows, so that no tensor holds the scores of all.
constexpr int64_t kPiece = 1024;

// What queries read, in A groups of queries with the same n rows: all S queries read one piece of
// rows (A = 1), or each reads its own (A = S).
struct Pairs {
  Tensor k, v;   // [B,G,A,n,d]
  Tensor valid;  // [B,1 or G,A,n] bool; empty = all
};

class Knn : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "each query reads its nearest past keys and values; Memorizing Transformers, Wu et al. 2022";
  static constexpr auto kOptions = mneme::options(
      mneme::integer("rows", 512, 1, 1 << 20, "keys and values that are kept").at_evaluation(),
      mneme::integer("neighbours", 32, 1, 4096, "keys that each query and head reads")
          .at_evaluation(),
      mneme::choice("merge", "lse", "lse|gate",
                    "one softmax over neighbours and local keys, or a learned gate a head"));

  explicit Knn(mneme::Setup& s)
      : rows_(s.integer("rows")),
        neighbours_(s.integer("neighbours")),
        heads_(s.heads()),
        key_heads_(s.kv_heads()),
        head_width_(s.head_width()),
        has_content_bias_(s.position() == "relative" || s.position() == "disentangled"),
        is_gated_(s.text("merge") == "gate") {
    mneme::QueueSettings settings;
    settings.kind = mneme::RowsKind::kKeysValues;
    settings.capacity = rows_;
    past_ = s.queue("past", settings);
    if (is_gated_) gate_ = s.parameter("gate", {heads_}, mneme::zeros());
    s.takes_grouped_keys();
    s.read_rows(rows_);
    s.reads_at(MNEME_SITE_HEADS);
    s.wants(MNEME_WANT_READ_Q | MNEME_WANT_ABSORB_K | MNEME_WANT_ABSORB_V);
  }

  mneme::Read read(Layer& l, const mneme::Queries& in) override {
    const Rows past = l.queue(past_).rows();
    if (past.empty()) return nothing();
    const int64_t lanes = l.lanes(), tokens = l.length();
    const Tensor queries = score_queries(l, in.q);
    const bool reads_all = past.count <= neighbours_;
    const Tensor q = unsqueeze(queries, reads_all ? 2 : 3);  // [B,G,A,S/A,d]
    const Pairs pairs = reads_all ? all(l, past) : nearest(l, queries, past);
    Tensor scores = matmul(q, transpose(pairs.k, 3, 4));  // [B,G,A,S/A,n]
    if (pairs.valid) scores = where(unsqueeze(pairs.valid, 3), scores, -INFINITY);
    const Tensor out =
        permute(reshape(matmul(softmax(scores), pairs.v), {lanes, heads_, tokens, head_width_}),
                {0, 2, 1, 3});
    if (!is_gated_) return mneme::lse(out, reshape(logsumexp(scores, 4), {lanes, heads_, tokens}));
    Tensor gate = reshape(sigmoid(l.parameter(gate_)), {1, 1, heads_, 1});
    if (past.valid) gate = where(reshape(any(past.valid, 1), {lanes, 1, 1, 1}), gate, 0.0);
    return mneme::gate(out, gate);
  }

  void absorb(Layer& l, const Rows& rows) override {
    const mneme::QueueValue past = l.queue(past_);
    past.append(keys_values(l, rows));
    past.drop_oldest(std::max<int64_t>(0, past.size() - rows_));
  }

 private:
  // Of the segment's own rows the layer has them; rows that another tier released are projected
  // now.
  static Rows keys_values(const Layer& l, const Rows& rows) {
    constexpr auto kStops = mneme::WeightGradient::kStops;
    const bool is_own = l.local().is_own_segment;
    const Tensor normed = is_own ? Tensor() : l.norm(rows.hidden, kStops);
    Rows out = Rows::of_keys_values(
        is_own ? l.local().k : l.project(mneme::Project::kK, normed, kStops),
        is_own ? l.local().v : l.project(mneme::Project::kV, normed, kStops), rows.valid);
    out.counts = rows.counts;
    return out;
  }

  // Queries [B,T,H,d] -> [B,G,S,d] in at least f32, such that q.k is what the layer's own attention
  // gives for a key without a position: with its content bias and its scale.
  Tensor score_queries(const Layer& l, const Tensor& q) const {
    const int64_t lanes = l.lanes(), tokens = l.length(), shared = heads_ / key_heads_;
    Tensor queries = cast(q, score_dtype(l));
    if (has_content_bias_) queries = queries + l.weight(mneme::Weight::kContentBias);
    queries = queries * l.scale();
    const Tensor by_key_head = reshape(queries, {lanes, tokens, key_heads_, shared, head_width_});
    return reshape(permute(by_key_head, {0, 2, 3, 1, 4}),
                   {lanes, key_heads_, shared * tokens, head_width_});
  }

  static DType score_dtype(const Layer& l) {
    return l.compute_dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  }

  // Rows that a lane lacks hold any numbers, NaN too: they are zeroed, so that what has weight 0
  // gives 0 in both directions.
  static Pairs existing(const Layer& l, Tensor k, Tensor v, Tensor valid) {
    if (valid) {
      const Tensor rows = unsqueeze(valid, 4);
      k = where(rows, k, 0.0);
      v = where(rows, v, 0.0);
    }
    return {cast(k, score_dtype(l)), cast(v, score_dtype(l)), std::move(valid)};
  }

  static Pairs all(const Layer& l, const Rows& past) {
    const auto of = [](const Tensor& t) { return unsqueeze(transpose(t, 1, 2), 2); };
    return existing(l, of(past.k), of(past.v),
                    past.valid ? unsqueeze(unsqueeze(past.valid, 1), 1) : Tensor());
  }

  // The search has no gradient; the scores of what was found are computed again, with theirs.
  Pairs nearest(const Layer& l, const Tensor& q, const Rows& past) const {
    const mneme::Ordered best = search(l, detach(q), past);
    // Places in the rows of [B,M,G,d], one after the other.
    std::vector<int64_t> first;
    for (int64_t i = 0; i < l.lanes() * key_heads_; ++i)
      first.push_back(i / key_heads_ * past.count * key_heads_ + i % key_heads_);
    const Tensor place = flatten(best.indices * static_cast<double>(key_heads_) +
                                 from_data({l.lanes(), key_heads_, 1, 1}, first));
    const auto pick = [&](const Tensor& t) {
      return reshape(index_select(reshape(t, {-1, head_width_}), place, 0),
                     {l.lanes(), key_heads_, -1, neighbours_, head_width_});
    };
    return existing(l, pick(past.k), pick(past.v),
                    past.valid ? ne(best.values, -INFINITY) : Tensor());
  }

  // The largest scores of each query and the rows they belong to, [B,G,S,n].
  mneme::Ordered search(const Layer& l, const Tensor& q, const Rows& past) const {
    const Tensor k = permute(past.k, {0, 2, 3, 1});  // [B,G,d,M]
    const Tensor absent =
        past.valid ? unsqueeze(unsqueeze(logical_not(past.valid), 1), 1) : Tensor();
    mneme::Ordered best;
    for (int64_t from = 0; from < past.count; from += kPiece) {
      const int64_t to = std::min(past.count, from + kPiece);
      Tensor scores = matmul(q, cast(slice(k, 3, from, to), score_dtype(l)));
      if (absent) scores = masked_fill(scores, slice(absent, 3, from, to), -INFINITY);
      mneme::Ordered found = topk(scores, std::min(neighbours_, to - from), 3, true, false);
      if (from > 0) {
        const Tensor values = cat({best.values, found.values}, 3);
        const Tensor rows = cat({best.indices, found.indices + static_cast<double>(from)}, 3);
        found = topk(values, std::min(neighbours_, to), 3, true, false);
        found.indices = gather(rows, found.indices, 3);
      }
      best = std::move(found);
    }
    return best;
  }

  int64_t rows_, neighbours_;
  int64_t heads_, key_heads_, head_width_;  // H, G, d
  bool has_content_bias_, is_gated_;
  mneme::Queue past_;
  mneme::Parameter gate_;
};

}  // namespace

MNEME_PLUGIN(Knn, "org.example.knn", "0.1.0")
