// A memory of one hook a layer and segment: a number of small operations on a learned row.
#include "mneme/plugin.hpp"

namespace {

class SmallOps : public mneme::Tier {
 public:
  static constexpr auto kOptions = mneme::options(
      mneme::integer("ops", 0, 0, 1000, "operations of the hook; 0 = an empty hook"));

  explicit SmallOps(mneme::Setup& s) : ops_(s.integer("ops")) {
    start_ = s.parameter("start", {1, 1, s.width()}, mneme::constant_value(1.0));
  }
  mneme::Read read(mneme::Layer& l, const mneme::Queries&) override {
    if (ops_ == 0) return mneme::nothing();
    mneme::Tensor x = l.parameter(start_);
    for (int64_t i = 0; i < ops_ / 2; ++i) x = x * 0.5 + 1.0;
    return mneme::add(x);
  }

 private:
  int64_t ops_;
  mneme::Parameter start_;
};

}  // namespace

MNEME_PLUGIN(SmallOps, "bench.small_ops", "0.1.0")
