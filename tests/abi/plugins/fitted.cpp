// A decayed mean whose trained gain is valid only with some of its options (trained options). It
// reports losses and metrics only for lanes that hold something.
#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

class Fitted : public mneme::Tier {
 public:
  static constexpr const char* kLosses = "gain";
  static constexpr auto kOptions = mneme::options(
      mneme::real("tau", 0.5, 0.0, 1.0, "weight of the past").trained(),
      mneme::reals("widths", "[0.5, 1]", "factors of what is read").trained(),
      mneme::choice("unit", "mean", "mean|sum", "what a segment's rows become").trained(),
      mneme::real("scale", 1.0, "another factor").at_evaluation(),
      mneme::boolean("spare", false, "nothing"));
  explicit Fitted(mneme::Setup& s) : tau_(s.real("tau")), scale_(s.real("scale")) {
    for (const double width : s.reals("widths")) scale_ *= width;
    is_sum_ = s.text("unit") == "sum";
    gain_ = s.parameter("gain", {1}, mneme::constant_value(1.0));
    past_ = s.slot("past", {mneme::kLanes, s.width()}, mneme::zeros());
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries&) override {
    const mneme::Tensor gain = l.parameter(gain_);
    const mneme::Tensor out = scale_ * gain * l.slot(past_).get();
    if (holds_something(l)) {
      l.aux("gain", expand(gain, {l.lanes()}));
      l.metric("scale", full({l.lanes()}, scale_, gain.dtype()));
    }
    return mneme::add(unsqueeze(cast(out, l.compute_dtype()), 1));
  }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    const mneme::DType dtype = l.slot(past_).get().dtype();
    const mneme::Tensor now = cast(is_sum_ ? sum(rows.hidden, 1) : mean(rows.hidden, 1), dtype);
    l.slot(past_) = tau_ * l.slot(past_).get() + (1.0 - tau_) * now;
  }

 private:
  static bool holds_something(const mneme::Segment& s) {
    for (int64_t b = 0; b < s.lanes(); ++b) {
      if (s.tokens(b) > 0) return true;
    }
    return false;
  }

  double tau_, scale_;
  bool is_sum_ = false;
  mneme::Parameter gain_;
  mneme::Slot past_;
};

}  // namespace

MNEME_PLUGIN(Fitted, "test.fitted", "0.1.0")
