// Replaces the attention by the layer's normed input, and breaks one rule of a tier that does. Built
// with MNEME_TEST_CONTEXT it has the hook context, with MNEME_TEST_UNREAD no hook read.
#include <string>

#include "mneme/plugin.hpp"

namespace {

class Replacing : public mneme::Tier {
 public:
  static constexpr auto kOptions =
      mneme::options(mneme::text("fault", "none", "the rule that is broken"),
                     mneme::boolean("attends", false, "replaces nothing").at_evaluation());

  explicit Replacing(mneme::Setup& s) : fault_(s.text("fault")) {
    const auto is = [&](const char* fault) { return fault_ == fault; };
    if (!s.boolean("attends")) s.replaces_attention(is("negative width") ? -1 : 0);
    if (!is("riders")) s.has_no_riders();
    if (is("token bias")) s.emits_token_bias();
    if (is("both sites")) s.reads_at(MNEME_SITE_HEADS | MNEME_SITE_OUT);
    if (is("heads")) s.reads_at(MNEME_SITE_HEADS);
    if (is("read z")) s.wants(MNEME_WANT_READ_Z);
    if (is("read lse")) s.wants(MNEME_WANT_READ_LSE);
    if (is("read projected")) s.wants(MNEME_WANT_READ_PROJECTED);
    if (is("absorb mass")) s.wants(MNEME_WANT_ABSORB_MASS);
    s.wants(MNEME_WANT_READ_NORMED);
  }

  mneme::Riders begin(mneme::Segment&) override { return {}; }
  mneme::Tensor ride(mneme::Layer&, const mneme::Ride& in) override { return in.q; }
  void absorb(mneme::Layer&, const mneme::Rows&) override {}
#ifdef MNEME_TEST_CONTEXT
  void context(mneme::Layer&) override {}
#endif
#ifndef MNEME_TEST_UNREAD
  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    if (fault_ == "add") return mneme::add(in.normed);
    if (fault_ == "nothing") return nothing();
    if (fault_ == "project q") l.project(mneme::Project::kQ, in.normed);
    if (fault_ == "project o") l.project(mneme::Project::kO, in.normed);
    if (fault_ == "weight v") l.weight(mneme::Weight::kV);
    if (fault_ == "weight u") l.weight(mneme::Weight::kContentBias);
    if (fault_ == "positions") l.positions(0, 1);
    if (fault_ == "attention") {
      mneme::Attention call;
      call.q = call.k = call.v = mneme::unsqueeze(in.normed, 2);
      l.attention(call);
    }
    return mneme::replace(in.normed);
  }
#endif

 private:
  std::string fault_;
};

}  // namespace

MNEME_PLUGIN(Replacing, "test.replacing", "0.1.0")
