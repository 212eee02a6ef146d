// A memory of two hooks a layer and segment: a decayed mean of past rows, read through a learned
// gate.
#include "mneme/plugin.hpp"

namespace {

class DecayedMean : public mneme::Tier {
 public:
  explicit DecayedMean(mneme::Setup& s) {
    gate_ = s.parameter("gate", {s.width()}, mneme::constant_value(0.5));
    mean_ = s.slot("mean", {mneme::kLanes, s.width()});
  }
  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    l.slot(mean_) = 0.9 * l.slot(mean_).get() + 0.1 * mean(rows.hidden, 1);
  }
  mneme::Read read(mneme::Layer& l, const mneme::Queries&) override {
    return mneme::add(unsqueeze(sigmoid(l.parameter(gate_)) * l.slot(mean_).get(), 1));
  }

 private:
  mneme::Parameter gate_;
  mneme::Slot mean_;
};

}  // namespace

MNEME_PLUGIN(DecayedMean, "bench.decayed_mean", "0.1.0")
