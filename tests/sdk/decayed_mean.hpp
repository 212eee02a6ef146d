// The one-page memory of docs and architecture, word for word.
#pragma once

#include "mneme/plugin.hpp"

class DecayedMean : public mneme::Tier {
 public:
  static constexpr auto kOptions =
      mneme::options(mneme::real("decay", 0.9, 0.0, 1.0, "weight of the past"));
  explicit DecayedMean(mneme::Setup& s) : decay_(s.real("decay")) {
    s.parameter("gate", {s.width()}, mneme::zeros());
    s.slot("mean", {mneme::kLanes, s.width()}, mneme::zeros());
  }
  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {  // rows [B, m, D]
    l.slot("mean") = decay_ * l.slot("mean") + (1 - decay_) * mean(rows.hidden, 1);
  }
  mneme::Read read(mneme::Layer& l, const mneme::Queries&) override {
    return mneme::add(unsqueeze(sigmoid(l.parameter("gate")) * l.slot("mean"), 1));
  }

 private:
  double decay_;
};
