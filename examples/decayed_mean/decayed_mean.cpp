// decayed_mean: a decayed mean of past rows, read through a learned gate. The memory of
// examples/decayed_mean_c on a page.
#include "mneme/plugin.hpp"

namespace {

using mneme::Tensor;

class DecayedMean : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "a decayed mean of past rows, read through a learned gate; an example in C++";
  static constexpr auto kOptions =
      mneme::options(mneme::real("decay", 0.9, 0.0, 1.0, "weight of the past"));

  explicit DecayedMean(mneme::Setup& s) : decay_(s.real("decay")) {
    s.parameter("gate", {s.width()}, mneme::zeros());
    s.slot("mean", {mneme::kLanes, s.width()}, mneme::zeros());
  }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    const Tensor old = l.slot("mean");
    const Tensor hidden = cast(rows.hidden, old.dtype());  // [B,m,D]
    if (!rows.valid) {
      l.slot("mean") = decay_ * old + (1 - decay_) * mean(hidden, 1);
      return;
    }
    const Tensor valid = unsqueeze(cast(rows.valid, old.dtype()), 2);  // [B,m,1]
    const Tensor count = sum(valid, 1);                                // [B,1]
    const Tensor average = sum(hidden * valid, 1) / maximum(count, 1.0);
    l.slot("mean") = old + (1 - decay_) * minimum(count, 1.0) * (average - old);
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries& /*queries*/) override {
    const Tensor out = sigmoid(l.parameter("gate")) * l.slot("mean");
    return mneme::add(unsqueeze(cast(out, l.compute_dtype()), 1));  // [B,1,D]
  }

 private:
  double decay_;
};

}  // namespace

MNEME_PLUGIN(DecayedMean, "org.example.decayed_mean", "0.1.0")
