// A memory without a summary, whose option has neither help nor default nor bounds.
#include "mneme/plugin.hpp"

namespace {

class Silent : public mneme::Tier {
 public:
  static constexpr auto kOptions = mneme::options(mneme::integer("size", mneme::kRequired, ""));
  explicit Silent(mneme::Setup& s) { static_cast<void>(s.integer("size")); }
  mneme::Riders begin(mneme::Segment& /*segment*/) override { return {}; }
};

}  // namespace

MNEME_PLUGIN(Silent, "test.silent", "0.1.0")
