// mamba2: the state-space layer of Mamba-2 in place of a layer's attention [Dao and Gu 2024].
#include "layer.hpp"

namespace recurrences {

class Mamba2 : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "Mamba-2's state space in place of attention: a matrix for each head that decays by one "
      "number, behind a short convolution [Dao and Gu 2024]";
  static constexpr auto kOptions = mneme::options(
      mneme::integer("heads", 0, 0, 256, "heads; 0 = the model's").trained(),
      mneme::integer("key_width", 64, 0, 512,
                     "width N of the state: of B and C; 0 = the model's heads'")
          .trained(),
      mneme::integer("value_width", 0, 0, 512,
                     "width P of a head's inputs; 0 = twice the model's heads'")
          .trained(),
      mneme::integer("groups", 1, 1, 256, "groups of heads with B and C of their own").trained(),
      mneme::integer("convolution", 4, 2, 64, "inputs that the short convolution joins"),
      kRecurrenceOption);

  explicit Mamba2(mneme::Setup& s)
      : widths_(s, s.head_width(), 2 * s.head_width()),
        groups_(groups_of(s, widths_)),
        projections_(s, {widths_.heads * widths_.values, channels(), widths_.heads}),
        convolution_(s, channels(), s.integer("convolution"), true),
        state_(s, widths_),
        output_(s, widths_) {
    declare_layer(s);
    const mneme::ParameterSettings plain = without_weight_decay();
    rate_log_ = s.parameter("rate_log", {widths_.heads}, mneme::uniform(0.0, 2.7725887), plain);
    step_bias_ = s.parameter("step_bias", {widths_.heads}, rates(), plain);
    skip_ = s.parameter("skip", {widths_.heads}, mneme::constant_value(1.0), plain);
    norm_weight_ =
        s.parameter("norm_weight", {widths_.heads * widths_.values}, mneme::constant_value(1.0));
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    const mneme::DType dtype = state_.dtype(l);
    const std::vector<Tensor> parts = projections_.of(l, in.normed);
    const Tensor mixed = convolution_.of(l, cast(parts[1], dtype));  // x, B, C
    const int64_t inner = widths_.heads * widths_.values, keys = groups_ * widths_.keys;
    const Tensor x = by_heads(slice(mixed, 2, 0, inner), widths_.heads, widths_.values);
    const Tensor k = by_heads(slice(mixed, 2, inner, inner + keys), groups_, widths_.keys);
    const Tensor q = by_heads(slice(mixed, 2, inner + keys), groups_, widths_.keys);
    const Tensor step = softplus(cast(parts[2], dtype) + l.parameter(step_bias_));  // [B,T,H]
    const Tensor decay = step * -exp(l.parameter(rate_log_));
    const Tensor skipped = x * reshape(l.parameter(skip_), {1, 1, -1, 1});
    const Tensor out = state_.run(l, q, k, x * unsqueeze(step, 3), decay, {}) + skipped;
    // The norm is over the channels of each group.
    const auto by_groups = [&](const Tensor& rows) {
      return reshape(rows, {out.dim(0), out.dim(1), groups_, inner / groups_});
    };
    const Tensor weight = reshape(l.parameter(norm_weight_), {groups_, inner / groups_});
    const Tensor gated = by_groups(out) * by_groups(silu(cast(parts[0], dtype)));
    return output_.of(l, rms_norm(gated, weight));
  }

 private:
  static int64_t groups_of(const mneme::Setup& s, const Widths& widths) {
    const int64_t groups = s.integer("groups");
    if (widths.heads % groups != 0) {
      mneme::fail(MNEME_E_INVALID_ARGUMENT,
                  "groups = " + std::to_string(groups) + " does not divide the " +
                      std::to_string(widths.heads) +
                      " heads; give groups, or heads, of which one divides the other");
    }
    return groups;
  }
  // Of x, B and C.
  int64_t channels() const { return widths_.heads * widths_.values + 2 * groups_ * widths_.keys; }

  Widths widths_;
  int64_t groups_;
  Projections projections_;
  ShortConvolution convolution_;
  State state_;
  Output output_;
  mneme::Parameter rate_log_, step_bias_, skip_, norm_weight_;
};

}  // namespace recurrences

MNEME_PLUGIN_WITH_FEATURES(recurrences::Mamba2, "org.mneme.mamba2", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
