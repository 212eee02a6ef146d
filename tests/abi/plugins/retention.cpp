// Retention [Sun et al. 2023, eq. 6 and 7] in place of the attention, with rotary positions. By
// default the host projects queries, keys and values, with heads of widths of the tier's. With
// own = true the tier projects, behind a causal convolution of kTaps inputs, and reads at OUT.
#include <cmath>

#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

constexpr int64_t kTaps = 3;

class Retention : public mneme::Tier {
 public:
  static constexpr auto kOptions = mneme::options(
      mneme::boolean("own", false, "projects itself, behind a convolution"),
      mneme::boolean("sums", false, "keeps the sum of keys and values of each segment, too"),
      mneme::integer("key_width", 4, 2, 64, "numbers of a head of queries and keys"),
      mneme::integer("value_width", 3, 1, 64, "numbers of a head of values"));

  explicit Retention(mneme::Setup& s)
      : own_(s.boolean("own")),
        sums_(s.boolean("sums")),
        heads_(s.heads()),
        keys_(s.integer("key_width")),
        values_(s.integer("value_width")) {
    mneme::SlotSettings through, whole;
    through.gradient = mneme::Gradient::kThrough;
    whole.dtype = mneme::DType::kI64;
    matrix_ = s.slot("matrix", {mneme::kLanes, heads_, keys_, values_}, mneme::zeros(), through);
    place_ = s.slot("place", {mneme::kLanes, 1}, mneme::zeros(), whole);
    if (!own_) {
      s.replaces_attention(keys_, values_);
      s.reads_at(MNEME_SITE_HEADS);
      s.wants(MNEME_WANT_READ_Q | MNEME_WANT_READ_K | MNEME_WANT_READ_V);
      if (sums_) s.wants(MNEME_WANT_ABSORB_Q | MNEME_WANT_ABSORB_K | MNEME_WANT_ABSORB_V);
      if (sums_) sum_ = s.slot("sum", {mneme::kLanes, heads_, 2 * keys_ + values_});
      return;
    }
    const int64_t width = s.width();
    s.replaces_attention();
    s.wants(MNEME_WANT_READ_NORMED);
    last_ = s.slot("last", {mneme::kLanes, width, kTaps - 1}, mneme::zeros(), through);
    filter_ = s.parameter("filter", {width, 1, kTaps}, mneme::fan_in_uniform());
    query_ = s.parameter("query", {heads_ * keys_, width}, mneme::fan_in_uniform());
    key_ = s.parameter("key", {heads_ * keys_, width}, mneme::fan_in_uniform());
    value_ = s.parameter("value", {heads_ * values_, width}, mneme::fan_in_uniform());
    output_ = s.parameter("output", {width, heads_ * values_}, mneme::fan_in_uniform());
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    const mneme::DType dtype = l.slot(matrix_).get().dtype();
    if (!own_) {
      const mneme::Tensor out =
          retained(l, cast(in.q, dtype), cast(in.k, dtype), cast(in.v, dtype), l.scale());
      return mneme::replace(cast(out, l.compute_dtype()));
    }
    const mneme::Tensor x = convolved(l, cast(in.normed, dtype));
    const auto heads = [&](const mneme::Parameter& weight, int64_t width) {
      return reshape(linear(x, l.parameter(weight)), {l.lanes(), l.length(), heads_, width});
    };
    const mneme::Tensor out =
        retained(l, heads(query_, keys_), heads(key_, keys_), heads(value_, values_),
                 1.0 / std::sqrt(static_cast<double>(keys_)));
    return mneme::replace(linear(flatten(out, 2), l.parameter(output_)));
  }

  void absorb(mneme::Layer& l, const mneme::Rows&) override {
    if (!sums_ || own_) return;
    const mneme::DType dtype = l.slot(sum_).get().dtype();
    const mneme::Tensor rows = cat({l.local().q, l.local().k, l.local().v}, 3);
    l.slot(sum_) = cast(sum(rows, 1), dtype);
  }

 private:
  // The inputs before these tokens are state.
  mneme::Tensor convolved(mneme::Layer& l, const mneme::Tensor& x) {
    const mneme::Tensor all = cat({l.slot(last_), transpose(x, 1, 2)}, 2);  // [B,D,kTaps-1+T]
    l.slot(last_) = slice(all, 2, l.length());
    mneme::Conv1dSettings settings;
    settings.groups = x.shape()[2];
    return silu(transpose(conv1d(all, l.parameter(filter_), {}, settings), 1, 2));
  }

  // q, k [B,T,H,key_width], v [B,T,H,value_width]: the tokens' results, [B,T,H,value_width].
  mneme::Tensor retained(mneme::Layer& l, const mneme::Tensor& q_in, const mneme::Tensor& k_in,
                         const mneme::Tensor& v, double scale) {
    const int64_t tokens = l.length();
    const mneme::DType dtype = v.dtype();
    const mneme::Tensor places =
        l.slot(place_).get() + arange(0, static_cast<double>(tokens), 1, mneme::DType::kI64);
    l.slot(place_) = slice(places, 1, tokens - 1) + 1;
    const mneme::Tensor q = rotate(q_in, places) * scale, k = rotate(k_in, places);
    const mneme::Tensor log_decay =
        cast(constant("log_decay", {heads_},
                      [&] {
                        std::vector<double> out;
                        for (int64_t h = 0; h < heads_; ++h)
                          out.push_back(std::log(1 - std::exp2(-1.0 - static_cast<double>(h))));
                        return out;
                      }),
             dtype);
    const mneme::Tensor i = arange(0, static_cast<double>(tokens), 1, dtype);
    const mneme::Tensor steps = unsqueeze(i, 1) - i;  // [T,T]: query - key
    const mneme::Tensor decay = masked_fill(
        exp(reshape(log_decay, {heads_, 1, 1}) * clamp_min(steps, 0.0)), lt(steps, 0.0), 0.0);
    const mneme::Tensor state = l.slot(matrix_);
    const auto at = [&](const mneme::Tensor& distance) {  // [T] -> [T,H,1]
      return unsqueeze(exp(unsqueeze(distance, 1) * log_decay), 2);
    };
    const mneme::Tensor far = k * at(static_cast<double>(tokens - 1) - i);
    l.slot(matrix_) =
        state * reshape(exp(log_decay * static_cast<double>(tokens)), {heads_, 1, 1}) +
        einsum("bjhd,bjhe->bhde", {far, v});
    return einsum("bhij,bjhe->bihe", {einsum("bihd,bjhd->bhij", {q, k}) * decay, v}) +
           einsum("bihd,bhde->bihe", {q * at(i + 1.0), state});
  }

  bool own_, sums_;
  int64_t heads_, keys_, values_;
  mneme::Slot matrix_, place_, last_, sum_;
  mneme::Parameter filter_, query_, key_, value_, output_;
};

}  // namespace

MNEME_PLUGIN(Retention, "test.retention", "0.1.0")
