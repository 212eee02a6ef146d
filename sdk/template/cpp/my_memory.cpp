// my_memory: the last row of the past, added through a learned gate. Replace it with a memory of
// your own.
#include "mneme/plugin.hpp"

namespace {

class MyMemory : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "keeps the last row of the past and adds it through a gate";
  static constexpr auto kOptions = mneme::options(
      mneme::real("scale", 1.0, 0.0, 10.0, "factor of what is read").at_evaluation());

  explicit MyMemory(mneme::Setup& s) : scale_(s.real("scale")) {
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
    const mneme::Tensor out = scale_ * (tanh(l.parameter("gate")) * l.slot("last"));
    return mneme::add(unsqueeze(cast(out, l.compute_dtype()), 1));
  }

 private:
  double scale_;
};

}  // namespace

// A memory with kernels or random draws of its own lists their groups: MNEME_PLUGIN_WITH_FEATURES.
MNEME_PLUGIN(MyMemory, "org.example.my_memory", "0.1.0")
