// my_memory: the last row of the past, added through a learned gate that a kernel of its own
// computes. Replace it with a memory of your own.
#include "gated_row.hpp"
#include "mneme/plugin.hpp"

namespace my_memory {

class MyMemory : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "keeps the last row of the past and adds it through a gate";
  static constexpr auto kOptions = mneme::options(
      mneme::real("scale", 1.0, 0.0, 10.0, "factor of what is read").at_evaluation());

  explicit MyMemory(mneme::Setup& s)
      : scale_(s.real("scale")), gated_row_id_(s.kernel(gated_row_)) {
    s.parameter("gate", {s.width()}, mneme::zeros());
    s.slot("last", {mneme::kLanes, s.width()}, mneme::zeros());
  }

  // After the segment: rows.hidden [B,m,D] are the layer's inputs. Slots hold f32 (f64 in f64 runs)
  // while rows come in the layer's compute dtype, so the cast is explicit.
  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    const mneme::Tensor last = l.slot("last");
    mneme::Tensor row = cast(squeeze(slice(rows.hidden, 1, -1), 1), last.dtype());
    // A lane may lack the row, as behind a cache, or where it has ended: valid [B,m] says so.
    if (rows.valid) row = where(slice(rows.valid, 1, -1), row, last);
    l.slot("last") = row;
  }

  // While reading: [B,1,D] is added to the attention's projected result [B,T,D].
  mneme::Read read(mneme::Layer& l, const mneme::Queries& /*queries*/) override {
    const mneme::Tensor last = l.slot("last");
    const mneme::Tensor out = scale_ * l.call(gated_row_id_, {l.parameter("gate"), last})[0];
    return mneme::add(unsqueeze(cast(out, l.compute_dtype()), 1));
  }

 private:
  double scale_;
  GatedRow gated_row_;
  mneme::KernelId gated_row_id_;
};

}  // namespace my_memory

MNEME_PLUGIN_WITH_FEATURES(my_memory::MyMemory, "org.example.my_memory", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
