// gated_delta: a recurrent matrix for each head, written by the gated delta rule [Yang, Kautz and
// Hatamizadeh 2024] and read beside local attention.
#include <cmath>

#include "delta_rule.hpp"
#include "mneme/plugin.hpp"

namespace gated_delta {

using mneme::Tensor;

// The official code's: finite for rows of zeros, and so is the gradient.
Tensor unit(const Tensor& x) { return x * rsqrt(sum(square(x), -1, true) + 1e-6); }

// Start value of a bias whose sigmoid is to be `share`.
mneme::Init logit(double share) { return mneme::constant_value(std::log(share / (1 - share))); }

class GatedDelta : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "a matrix for each head that forgets, corrects and recalls token by token [Yang, Kautz and "
      "Hatamizadeh 2024]";
  static constexpr auto kOptions = mneme::options(
      mneme::real("retention", 0.98, 0.001, 0.999, "alpha at the start: what a token leaves"),
      mneme::real("step", 0.5, 0.001, 0.999, "beta at the start: how far a token corrects"),
      mneme::real("scale", 1.0, 0.0, 100.0, "factor of what is read, at the start"));

  explicit GatedDelta(mneme::Setup& s) : rule_id_(s.kernel(rule_)) {
    const int64_t heads = s.heads(), width = s.width(), d = s.head_width();
    alpha_weight_ = s.parameter("alpha_weight", {heads, width}, mneme::fan_in_uniform());
    alpha_bias_ = s.parameter("alpha_bias", {heads}, logit(s.real("retention")));
    beta_weight_ = s.parameter("beta_weight", {heads, width}, mneme::fan_in_uniform());
    beta_bias_ = s.parameter("beta_bias", {heads}, logit(s.real("step")));
    scale_ = s.parameter("scale", {heads}, mneme::constant_value(s.real("scale")));
    mneme::SlotSettings through;
    through.gradient = mneme::Gradient::kThrough;
    state_ = s.slot("state", {mneme::kLanes, heads, d, d}, mneme::zeros(), through);
    s.reads_at(MNEME_SITE_HEADS);
    s.wants(MNEME_WANT_READ_Q | MNEME_WANT_READ_K | MNEME_WANT_READ_V | MNEME_WANT_READ_X);
  }

  // Stage 6 reads and writes: the slot goes from the state before these tokens to that behind them.
  // In an open segment that is one step's tokens, so that a step costs its own tokens alone.
  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    const Tensor state = l.slot(state_);
    const mneme::DType dtype = state.dtype();
    const Tensor x = cast(l.norm(l.x()), dtype);
    Tensor alpha = sigmoid(linear(x, l.parameter(alpha_weight_), l.parameter(alpha_bias_)));
    Tensor beta = sigmoid(linear(x, l.parameter(beta_weight_), l.parameter(beta_bias_)));
    // The newest tokens: in an open segment k and v hold those of earlier steps as well.
    Tensor k = unit(cast(slice(in.k, 1, l.offset()), dtype));
    Tensor v = cast(slice(in.v, 1, l.offset()), dtype);
    if (l.valid()) {  // padding leaves the state as it is, whatever it holds
      const Tensor absent = unsqueeze(logical_not(l.valid()), 2);  // [B,T,1]
      alpha = masked_fill(alpha, absent, 1.0);
      beta = masked_fill(beta, absent, 0.0);
      k = masked_fill(k, unsqueeze(absent, 3), 0.0);
      v = masked_fill(v, unsqueeze(absent, 3), 0.0);
    }
    const std::vector<Tensor> result =
        l.call(rule_id_, {unit(cast(in.q, dtype)), k, v, alpha, beta, state});
    l.slot(state_) = result[1];
    const Tensor out = result[0] * reshape(l.parameter(scale_), {1, 1, -1, 1});
    return mneme::add(cast(out, l.compute_dtype()));
  }

 private:
  DeltaRule rule_;
  mneme::KernelId rule_id_;
  mneme::Parameter alpha_weight_, alpha_bias_, beta_weight_, beta_bias_, scale_;
  mneme::Slot state_;
};

}  // namespace gated_delta

MNEME_PLUGIN_WITH_FEATURES(gated_delta::GatedDelta, "org.example.gated_delta", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
