// kda: Kimi Delta Attention in place of a layer's attention [Kimi Team 2025].
#include "layer.hpp"

namespace recurrences {

class Kda : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "Kimi Delta Attention in place of attention: the delta rule with a decay for each channel of "
      "the keys [Kimi Team 2025]";
  static constexpr auto kOptions = mneme::options(
      mneme::integer("heads", 0, 0, 256, "heads; 0 = the model's").trained(),
      mneme::integer("key_width", 0, 0, 512,
                     "width of a head's queries and keys; 0 = the model's heads'")
          .trained(),
      mneme::integer("value_width", 0, 0, 512, "width of a head's values; 0 = the model's heads'")
          .trained(),
      mneme::integer("gate_rank", 0, 0, 1024,
                     "rank of the projections of decays and output gate; 0 = value_width"),
      mneme::boolean("negative_eigenvalues", false,
                     "corrections from 0 to 2 in place of 0 to 1, so that a state can change its "
                     "sign: tracking of states")
          .trained(),
      mneme::integer("convolution", 4, 2, 64, "inputs that the short convolution joins"),
      kRecurrenceOption);

  explicit Kda(mneme::Setup& s)
      : widths_(s, s.head_width(), s.head_width()),
        rank_(s.integer("gate_rank") > 0 ? s.integer("gate_rank") : widths_.values),
        correction_(s.boolean("negative_eigenvalues") ? 2.0 : 1.0),
        projections_(s, {channels(), rank_, rank_, widths_.heads}),
        convolution_(s, channels(), s.integer("convolution"), false),
        state_(s, widths_),
        output_(s, widths_) {
    declare_layer(s);
    const mneme::ParameterSettings plain = without_weight_decay();
    const int64_t keys = widths_.heads * widths_.keys, values = widths_.heads * widths_.values;
    decay_weight_ = s.parameter("decay_weight", {keys, rank_}, mneme::fan_in_uniform());
    step_bias_ = s.parameter("step_bias", {keys}, rates(), plain);
    rate_log_ = s.parameter("rate_log", {widths_.heads, 1}, mneme::uniform(0.0, 2.7725887), plain);
    gate_weight_ = s.parameter("gate_weight", {values, rank_}, mneme::fan_in_uniform());
    gate_bias_ = s.parameter("gate_bias", {values});
    norm_weight_ = s.parameter("norm_weight", {widths_.values}, mneme::constant_value(1.0));
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    const mneme::DType dtype = state_.dtype(l);
    const std::vector<Tensor> parts = projections_.of(l, in.normed);
    const Tensor mixed = convolution_.of(l, cast(parts[0], dtype));  // q, k, v
    const int64_t keys = widths_.heads * widths_.keys;
    const Tensor q = unit(by_heads(slice(mixed, 2, 0, keys), widths_.heads, widths_.keys)) *
                     (1.0 / std::sqrt(static_cast<double>(widths_.keys)));
    const Tensor k = unit(by_heads(slice(mixed, 2, keys, 2 * keys), widths_.heads, widths_.keys));
    const Tensor v = by_heads(slice(mixed, 2, 2 * keys), widths_.heads, widths_.values);
    const Tensor step = softplus(
        linear(cast(parts[1], dtype), l.parameter(decay_weight_), l.parameter(step_bias_)));
    const Tensor decay = by_heads(step, widths_.heads, widths_.keys) * -exp(l.parameter(rate_log_));
    const Tensor beta = sigmoid(cast(parts[3], dtype)) * correction_;
    const Tensor out = state_.run(l, q, k, v, decay, beta);
    const Tensor gate =
        sigmoid(linear(cast(parts[2], dtype), l.parameter(gate_weight_), l.parameter(gate_bias_)));
    return output_.of(l, rms_norm(out, l.parameter(norm_weight_)) *
                             by_heads(gate, widths_.heads, widths_.values));
  }

 private:
  // Of q, k and v.
  int64_t channels() const { return widths_.heads * (2 * widths_.keys + widths_.values); }

  Widths widths_;
  int64_t rank_;
  double correction_;
  Projections projections_;
  ShortConvolution convolution_;
  State state_;
  Output output_;
  mneme::Parameter decay_weight_, step_bias_, rate_log_, gate_weight_, gate_bias_, norm_weight_;
};

}  // namespace recurrences

MNEME_PLUGIN_WITH_FEATURES(recurrences::Kda, "org.mneme.kda", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
