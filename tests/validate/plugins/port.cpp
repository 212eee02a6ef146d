// A decayed mean as a port of one: `wrong` says what the port got wrong, which `mneme plugins same`
// finds (same_test.cpp).
#include <string>

#include "mneme/plugin.hpp"

namespace {

using mneme::Tensor;

class Port : public mneme::Tier {
 public:
  static constexpr const char* kSummary = "a decayed mean of past rows, for a test";
  static constexpr auto kOptions = mneme::options(
      mneme::choice("wrong", "nothing", "nothing|sign|reset|dtype|name", "what is not as it was"));

  explicit Port(mneme::Setup& s) : wrong_(s.text("wrong")) {
    s.parameter(gate(), {s.width()}, mneme::zeros());
    s.slot("mean", {mneme::kLanes, s.width()}, mneme::zeros(),
           {.dtype = wrong_ == "dtype" ? mneme::DType::kBF16 : mneme::DType::kF32});
  }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    const Tensor held = l.slot("mean");
    Tensor old = cast(held, l.compute_dtype());
    // The host has set the slot of a lane that starts afresh to zeros; this forgets all lanes.
    if (wrong_ == "reset" && l.any_reset()) old = old * 0.0;
    const Tensor hidden = cast(rows.hidden, old.dtype());  // [B,m,D]
    Tensor average = mean(hidden, 1);
    Tensor share = mneme::full({1, 1}, 0.1, old.dtype());
    if (rows.valid) {
      const Tensor valid = unsqueeze(cast(rows.valid, old.dtype()), 2);  // [B,m,1]
      const Tensor count = sum(valid, 1);                                // [B,1]
      average = sum(hidden * valid, 1) / maximum(count, 1.0);
      share = 0.1 * minimum(count, 1.0);
    }
    l.slot("mean") = cast(old + share * (average - old), held.dtype());
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries& /*queries*/) override {
    const Tensor open = cast(sigmoid(l.parameter(gate())), l.compute_dtype());
    const Tensor out = open * cast(Tensor(l.slot("mean")), l.compute_dtype());
    return mneme::add(unsqueeze(wrong_ == "sign" ? -out : out, 1));  // [B,1,D]
  }

 private:
  [[nodiscard]] const char* gate() const { return wrong_ == "name" ? "door" : "gate"; }

  std::string wrong_;
};

}  // namespace

MNEME_PLUGIN(Port, "org.mneme.test.port", "1.0.0")
