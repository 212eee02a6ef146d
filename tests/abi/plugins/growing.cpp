// Open segments that are refused: one longer than the tier serves, and a context that changes
// between steps while the attention mass is wanted.
#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

class Growing : public mneme::Tier {
 public:
  static constexpr auto kOptions =
      mneme::options(mneme::integer("longest", 8, 1, 4096, "tokens of a segment, at most"),
                     mneme::boolean("grows", false, "one more context row a step"));
  explicit Growing(mneme::Setup& s) : grows_(s.boolean("grows")) {
    s.max_segment(s.integer("longest"));
    s.wants(MNEME_WANT_ABSORB_MASS);
    s.context_rows(s.integer("longest"));
  }

  void context(mneme::Layer& l) override {
    const int64_t rows = grows_ ? 1 + l.offset() : 1;
    l.emit(mneme::Rows::of_hidden(
        zeros_like(expand(slice(l.x(), 1, 0, 1), {l.lanes(), rows, l.x().dim(2)}))));
  }

  void absorb(mneme::Layer&, const mneme::Rows&) override {}

 private:
  bool grows_;
};

}  // namespace

MNEME_PLUGIN(Growing, "test.growing", "0.1.0")
