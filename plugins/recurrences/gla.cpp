// gla: gated linear attention in place of a layer's attention [Yang, Wang, Shen, Panda and Kim 2023].
#include "layer.hpp"

namespace recurrences {

class Gla : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "gated linear attention in place of attention: a matrix for each head that decays by a gate "
      "for each channel of its keys [Yang, Wang, Shen, Panda and Kim 2023]";
  static constexpr auto kOptions = mneme::options(
      mneme::integer("heads", 0, 0, 256, "heads; 0 = the model's").trained(),
      mneme::integer("key_width", 0, 0, 512,
                     "width of a head's queries and keys; 0 = half the model's heads'")
          .trained(),
      mneme::integer("value_width", 0, 0, 512, "width of a head's values; 0 = the model's heads'")
          .trained(),
      mneme::integer("gate_rank", 16, 1, 1024, "rank of the projection of the gates"),
      mneme::real("gate_divisor", 16.0, 1.0, 1000.0,
                  "divides the logarithms of the gates: larger = slower decay")
          .trained(),
      kRecurrenceOption);

  explicit Gla(mneme::Setup& s)
      : widths_(s, (s.head_width() + 1) / 2, s.head_width()),
        divisor_(s.real("gate_divisor")),
        projections_(s, {widths_.heads * widths_.keys, widths_.heads * widths_.keys,
                         widths_.heads * widths_.values, widths_.heads * widths_.values,
                         s.integer("gate_rank")}),
        state_(s, widths_),
        output_(s, widths_) {
    declare_layer(s);
    const int64_t gates = widths_.heads * widths_.keys;
    gate_weight_ =
        s.parameter("gate_weight", {gates, s.integer("gate_rank")}, mneme::fan_in_uniform());
    gate_bias_ = s.parameter("gate_bias", {gates});
    norm_weight_ = s.parameter("norm_weight", {widths_.values}, mneme::constant_value(1.0));
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    const mneme::DType dtype = state_.dtype(l);
    const std::vector<Tensor> parts = projections_.of(l, in.normed);
    const auto keys = [&](const Tensor& x) {
      return by_heads(cast(x, dtype), widths_.heads, widths_.keys);
    };
    const auto values = [&](const Tensor& x) {
      return by_heads(cast(x, dtype), widths_.heads, widths_.values);
    };
    const Tensor q = keys(parts[0]) * (1.0 / std::sqrt(static_cast<double>(widths_.keys)));
    // log(sigmoid(x)) = -softplus(-x).
    const Tensor gate =
        linear(cast(parts[4], dtype), l.parameter(gate_weight_), l.parameter(gate_bias_));
    const Tensor decay = softplus(-gate) * (-1.0 / divisor_);
    const Tensor out = state_.run(l, q, keys(parts[1]), values(parts[2]), keys(decay), {});
    return output_.of(l, rms_norm(out, l.parameter(norm_weight_)) * silu(values(parts[3])));
  }

 private:
  Widths widths_;
  double divisor_;
  Projections projections_;
  State state_;
  Output output_;
  mneme::Parameter gate_weight_, gate_bias_, norm_weight_;
};

}  // namespace recurrences

MNEME_PLUGIN_WITH_FEATURES(recurrences::Gla, "org.mneme.gla", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
