// infini: a linear associative memory for each head, read before it is written
// [Munkhdalai, Faruqui and Gopal 2024]. Gradients flow through it from segment to segment.
#include <cmath>

#include "mneme/plugin.hpp"

namespace {

using mneme::DType;
using mneme::Tensor;

// elu(x) + 1 is above 0, but rounds to 0 where e^x is small beside 1; this sum does not. Its
// gradient is 1 at 0, as that of elu.
Tensor sigma(const Tensor& x) { return relu(x) + exp(clamp_max(x, 0.0)); }

class Infini : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "an associative matrix for each head beside local attention [Munkhdalai, Faruqui and Gopal "
      "2024]";
  static constexpr auto kOptions = mneme::options(
      mneme::choice("update", "linear", "linear|delta",
                    "what is added for a key: its value, or its value less what the memory gives")
          .trained(),
      mneme::real("gate", 0.5, 0.001, 0.999,
                  "share of the memory in a head's result at the start"));

  explicit Infini(mneme::Setup& s) : is_delta_(s.text("update") == "delta"), groups_(s.kv_heads()) {
    const int64_t d = s.head_width();
    mneme::SlotSettings through;
    through.gradient = mneme::Gradient::kThrough;
    matrix_ = s.slot("matrix", {mneme::kLanes, groups_, d, d}, mneme::zeros(), through);
    normaliser_ = s.slot("normaliser", {mneme::kLanes, groups_, d}, mneme::zeros(), through);
    const double start = s.real("gate");
    beta_ = s.parameter("beta", {s.heads()}, mneme::constant_value(std::log(start / (1 - start))));
    s.takes_grouped_keys();
    s.reads_at(MNEME_SITE_HEADS);
    s.wants(MNEME_WANT_READ_Q | MNEME_WANT_ABSORB_K | MNEME_WANT_ABSORB_V);
  }

  // Stage 6: the memory as it was before this segment, for all tokens of it. A query that meets
  // nothing has gate 0, and so the local result to the bit.
  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    const mneme::Shape full = in.q.shape();  // [B,T,H,d]
    const int64_t heads = full[2];
    const Tensor q = cast(in.q, l.slot(matrix_).get().dtype());
    const Found found =
        look_up(l, sigma(reshape(q, {full[0], full[1], groups_, heads / groups_, full[3]})));
    const Tensor is_empty = reshape(found.is_empty, {full[0], full[1], heads, 1});
    const Tensor gate = reshape(sigmoid(l.parameter(beta_)), {1, 1, heads, 1});
    return mneme::gate(reshape(found.values, full),
                       masked_fill(expand(gate, is_empty.shape()), is_empty, 0.0));
  }

  // Stage 7: writes the segment's keys and values, or those of the rows that another tier released.
  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    const Tensor matrix = l.slot(matrix_), normaliser = l.slot(normaliser_);
    Tensor absent;  // [B,m,1]: rows that hold numbers of no meaning, even NaN
    if (rows.valid) absent = unsqueeze(logical_not(rows.valid), 2);
    Tensor k = l.local().k, v = l.local().v;  // [B,m,G,d], in the graph
    if (!l.local().is_own_segment) {
      const Tensor normed = l.norm(absent ? masked_fill(rows.hidden, absent, 0.0) : rows.hidden);
      k = l.project(mneme::Project::kK, normed);
      v = l.project(mneme::Project::kV, normed);
    }
    k = sigma(cast(k, matrix.dtype()));
    v = cast(v, matrix.dtype());
    if (absent) {
      k = masked_fill(k, unsqueeze(absent, 3), 0.0);
      v = masked_fill(v, unsqueeze(absent, 3), 0.0);
    }
    if (is_delta_) v = v - squeeze(look_up(l, unsqueeze(k, 3)).values, 3);
    l.slot(matrix_) = matrix + einsum("bmgd,bmge->bgde", {k, v});
    l.slot(normaliser_) = normaliser + sum(k, 1);
  }

 private:
  struct Found {
    Tensor values;    // [B,m,G,n,d]
    Tensor is_empty;  // [B,m,G,n,1] bool: the normaliser is 0, and so are the values
  };
  // keys [B,m,G,n,d], n for each matrix: s M / (s . z).
  Found look_up(mneme::Layer& l, const Tensor& keys) const {
    const Tensor matrix = l.slot(matrix_), normaliser = l.slot(normaliser_);
    const Tensor total = unsqueeze(einsum("bmgnd,bgd->bmgn", {keys, normaliser}), 4);
    const Tensor is_empty = eq(total, 0.0);
    return {einsum("bmgnd,bgde->bmgne", {keys, matrix}) / masked_fill(total, is_empty, 1.0),
            is_empty};
  }

  bool is_delta_;
  int64_t groups_;          // G
  mneme::Slot matrix_;      // [B,G,d,d]
  mneme::Slot normaliser_;  // [B,G,d]
  mneme::Parameter beta_;
};

}  // namespace

MNEME_PLUGIN(Infini, "org.example.infini", "0.1.0")
