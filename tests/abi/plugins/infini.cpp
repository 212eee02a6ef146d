// Infini-attention with the linear update (Munkhdalai et al. 2024): a compressive matrix per head,
// gradients through the state. Sums run in the slots' dtype, whatever the layer computes in.
#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

class Infini : public mneme::Tier {
 public:
  explicit Infini(mneme::Setup& s) {
    mneme::SlotSettings through;
    through.gradient = mneme::Gradient::kThrough;
    matrix_ = s.slot("matrix", {mneme::kLanes, s.heads(), s.head_width(), s.head_width()},
                     mneme::zeros(), through);
    normaliser_ =
        s.slot("normaliser", {mneme::kLanes, s.heads(), s.head_width()}, mneme::zeros(), through);
    beta_ = s.parameter("beta", {s.heads()}, mneme::constant_value(0.5));
    s.reads_at(MNEME_SITE_HEADS);
    s.wants(MNEME_WANT_READ_Q | MNEME_WANT_ABSORB_K | MNEME_WANT_ABSORB_V);
  }

  // Reads the state before this segment's update: a = sigmoid(beta), 0 in lanes that hold nothing
  // yet.
  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    const mneme::Tensor sum = l.slot(normaliser_);
    const mneme::Tensor q = elu(cast(in.q, sum.dtype())) + 1.0;
    const mneme::Tensor total = unsqueeze(einsum("bthd,bhd->bth", {q, sum}), 3);
    const mneme::Tensor is_empty = eq(total, 0.0);
    const mneme::Tensor out =
        einsum("bthd,bhde->bthe", {q, l.slot(matrix_)}) / masked_fill(total, is_empty, 1.0);
    const mneme::Tensor gate = reshape(sigmoid(l.parameter(beta_)), {1, 1, -1, 1});
    return mneme::gate(out, masked_fill(expand(gate, total.shape()), is_empty, 0.0));
  }

  void absorb(mneme::Layer& l, const mneme::Rows&) override {
    const mneme::DType dtype = l.slot(matrix_).get().dtype();
    mneme::Tensor k = elu(cast(l.local().k, dtype)) + 1.0;
    if (l.valid()) k = masked_fill(k, unsqueeze(unsqueeze(logical_not(l.valid()), 2), 3), 0.0);
    l.slot(matrix_) =
        l.slot(matrix_).get() + einsum("bthd,bthe->bhde", {k, cast(l.local().v, dtype)});
    l.slot(normaliser_) = l.slot(normaliser_).get() + sum(k, 1);
  }

 private:
  mneme::Slot matrix_;
  mneme::Slot normaliser_;
  mneme::Parameter beta_;
};

}  // namespace

MNEME_PLUGIN(Infini, "test.infini", "0.1.0")
