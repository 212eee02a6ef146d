// gated_deltanet: the layer of Gated DeltaNet in place of a layer's attention [Yang, Kautz and
// Hatamizadeh 2024].
#include "layer.hpp"

namespace recurrences {

class GatedDeltaNet : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "Gated DeltaNet in place of attention: a matrix for each head that decays, and is corrected "
      "by the delta rule [Yang, Kautz and Hatamizadeh 2024]";
  static constexpr auto kOptions = mneme::options(
      mneme::integer("heads", 0, 0, 256, "heads; 0 = the model's").trained(),
      mneme::integer("key_width", 0, 0, 512,
                     "width of a head's queries and keys; 0 = three quarters of the model's heads'")
          .trained(),
      mneme::integer("value_width", 0, 0, 512, "width of a head's values; 0 = twice key_width")
          .trained(),
      mneme::boolean("negative_eigenvalues", false,
                     "corrections from 0 to 2 in place of 0 to 1, so that a state can change its "
                     "sign: tracking of states")
          .trained(),
      mneme::integer("convolution", 4, 2, 64, "inputs that the short convolution joins"),
      kRecurrenceOption);

  explicit GatedDeltaNet(mneme::Setup& s)
      : widths_(s, keys_of(s), 2 * keys_of(s)),
        correction_(s.boolean("negative_eigenvalues") ? 2.0 : 1.0),
        projections_(s, {channels(), widths_.heads * widths_.values, widths_.heads, widths_.heads}),
        convolution_(s, channels(), s.integer("convolution"), false),
        state_(s, widths_),
        output_(s, widths_) {
    declare_layer(s);
    const mneme::ParameterSettings plain = without_weight_decay();
    rate_log_ = s.parameter("rate_log", {widths_.heads}, mneme::uniform(0.0, 2.7725887), plain);
    step_bias_ = s.parameter("step_bias", {widths_.heads}, rates(), plain);
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
    const Tensor decay =
        softplus(cast(parts[2], dtype) + l.parameter(step_bias_)) * -exp(l.parameter(rate_log_));
    const Tensor beta = sigmoid(cast(parts[3], dtype)) * correction_;
    const Tensor out = state_.run(l, q, k, v, decay, beta);
    const Tensor gate = silu(by_heads(cast(parts[1], dtype), widths_.heads, widths_.values));
    return output_.of(l, rms_norm(out, l.parameter(norm_weight_)) * gate);
  }

 private:
  static int64_t keys_of(const mneme::Setup& s) {
    const int64_t given = s.integer("key_width");
    return given > 0 ? given : (3 * s.head_width() + 3) / 4;
  }
  // Of q, k and v.
  int64_t channels() const { return widths_.heads * (2 * widths_.keys + widths_.values); }

  Widths widths_;
  double correction_;
  Projections projections_;
  ShortConvolution convolution_;
  State state_;
  Output output_;
  mneme::Parameter rate_log_, step_bias_, norm_weight_;
};

}  // namespace recurrences

MNEME_PLUGIN_WITH_FEATURES(recurrences::GatedDeltaNet, "org.mneme.gated_deltanet", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
