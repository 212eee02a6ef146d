// A memory with a slot of the run: the mean of the newest rows of all lanes together. Only one
// process can train it.
#include "mneme/plugin.hpp"

namespace {

using mneme::Tensor;

class RunSlot : public mneme::Tier {
 public:
  explicit RunSlot(mneme::Setup& s) { s.slot("mean", {s.width()}, mneme::zeros()); }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    const Tensor old = l.slot("mean");
    l.slot("mean") = mean(mean(cast(rows.hidden, old.dtype()), 1), 0);
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries& /*queries*/) override {
    const Tensor mean = l.slot("mean");
    return mneme::add(expand(unsqueeze(unsqueeze(cast(mean, l.compute_dtype()), 0), 0),
                             {l.lanes(), 1, mean.dim(0)}));
  }
};

}  // namespace

MNEME_PLUGIN(RunSlot, "test.run_slot", "0.1.0")
