// A memory of which tests make as many builds as they need: they write other text behind the mark
// (rebuilt_plugin.hpp). "0.50" is the weight of the past in its mean, and a word behind it what the
// build does besides.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

// Not const: the compiler must not look into it.
char g_build[] = "MNEME_TEST_BUILD=0.50                            ";
constexpr std::size_t kMark = sizeof("MNEME_TEST_BUILD=") - 1;

bool does(const char* deed) { return std::string(g_build + kMark).find(deed) != std::string::npos; }

[[noreturn]] void hang() {
  for (;;) ::pause();
}

class Rebuilt : public mneme::Tier {
 public:
  static constexpr auto kOptions = mneme::options();

  explicit Rebuilt(mneme::Setup& s) : past_(std::atof(g_build + kMark)), width_(s.width()) {
    if (does("create_fault")) std::raise(SIGSEGV);
    if (does("create_hang")) hang();
    if (does("create_exit")) std::exit(0);
    if (does("create__exit")) ::_exit(0);
    if (does("create_fails")) mneme::fail(MNEME_E_NUMERIC, "no basis of this width");
    s.parameter("gate", {does("wide") ? 2 * s.width() : s.width()}, mneme::constant_value(0.5));
    s.slot(name(), {mneme::kLanes, s.width()});
  }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    const mneme::Tensor old = l.slot(name());
    l.slot(name()) = past_ * old + (1.0 - past_) * cast(mean(rows.hidden, 1), old.dtype());
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries& /*queries*/) override {
    if (l.index() >= 3 && does("late_fails")) {
      mneme::fail(MNEME_E_NUMERIC, "the basis has no inverse");
    }
    const mneme::Tensor gate = slice(l.parameter("gate"), 0, 0, width_);
    const mneme::Tensor past = l.slot(name());
    const mneme::Tensor out = cast(gate, past.dtype()) * past;
    return mneme::add(unsqueeze(cast(out, l.compute_dtype()), 1));
  }

 private:
  static const char* name() { return does("renamed") ? "average" : "mean"; }

  double past_;
  int64_t width_;
};

}  // namespace

MNEME_PLUGIN(Rebuilt, "test.rebuilt", "0.1.0")
