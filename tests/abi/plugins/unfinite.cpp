// Gives numbers that are not finite, one kind of tensor at a time, in one layer from one segment
// on.
#include <cmath>
#include <cstring>

#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

class Unfinite : public mneme::Tier {
 public:
  static constexpr const char* kLosses = "size|constant";
  static constexpr auto kOptions = mneme::options(
      mneme::choice(
          "gives", "none",
          "none|read|gate|lse|rows|bias|token_bias|slot|queue|riders|ride|kernel|gradient|"
          "aux|constant_aux|released",
          "which tensor holds NaN"),
      mneme::integer("layer", 1, 0, 64, "in which layer"),
      mneme::integer("from", 0, 0, 1 << 20, "from which segment on"),
      mneme::boolean("idle", false, "declares a parameter that nothing depends on"));

  // Passes its input on; as the option says, its output or its gradient is NaN.
  struct Pass {
    static constexpr const char* kName = "pass";
    static constexpr uint32_t kInputs = 1;
    static constexpr uint32_t kOutputs = 1;
    void infer(mneme::KernelPlan& plan) const { plan.output(0, plan.input(0)); }
    void forward_cpu(const mneme::KernelCall& call) const {
      copy(call.input(0), call.output(0), call.integer(0) == 1);
    }
    void backward_cpu(const mneme::KernelCall& call) const {
      copy(call.grad_output(0), call.grad_input(0), call.integer(0) == 2);
    }
    static void copy(const mneme::View& from, const mneme::View& to, bool spoils) {
      const int64_t bytes = to.elements() * to.element_size();
      std::memcpy(to.data<void>(), from.data<void>(), static_cast<std::size_t>(bytes));
      if (spoils) std::memset(to.data<void>(), 0xFF, static_cast<std::size_t>(to.element_size()));
    }
  };

  explicit Unfinite(mneme::Setup& s)
      : gives_(s.text("gives")),
        layer_(s.integer("layer")),
        from_(s.integer("from")),
        width_(s.width()) {
    s.parameter("scale", {s.width()}, mneme::constant_value(0.5));
    if (s.boolean("idle")) s.parameter("idle", {s.width()});
    s.slot("mean", {mneme::kLanes, s.width()});
    s.queue("kept");
    kernel_ = s.kernel(pass_);
    s.reads_at(gives_ == "lse" || gives_ == "gate" ? MNEME_SITE_HEADS : MNEME_SITE_OUT);
    s.wants(MNEME_WANT_READ_X | MNEME_WANT_READ_Z | MNEME_WANT_READ_LSE);
    s.context_rows(2);
    s.emits_token_bias();
    s.releases();
    if (gives_ != "riders" && gives_ != "ride") s.has_no_riders();
  }

  mneme::Riders begin(mneme::Segment& s) override {
    if (gives_ != "riders" && gives_ != "ride") return {};
    const double value = gives_ == "riders" && s.index() >= from_ ? NAN : 0.5;
    return {full({s.lanes(), 1, width_}, value, s.compute_dtype()), {}};
  }

  mneme::Tensor ride(mneme::Layer& l, const mneme::Ride& in) override {
    return spoilt(l, "ride", in.q);
  }

  void context(mneme::Layer& l) override {
    mneme::BlockSettings settings;
    const mneme::Tensor rows = zeros_like(slice(l.x(), 1, 0, 1));
    settings.bias = spoilt(l, "bias", full({1, 1, 1, 1}, 0.0, l.x().dtype()));
    l.emit(mneme::Rows::of_hidden(spoilt(l, "rows", rows)), settings);
    if (l.queue("kept").size() > 0) l.emit("kept");
    if (does(l, "token_bias"))
      l.emit_token_bias(full({1, 1, 1, l.offset() + l.length()}, NAN, l.x().dtype()));
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    if (gives_ == "lse") return mneme::lse(in.z, spoilt(l, "lse", in.lse));
    if (gives_ == "gate")
      return mneme::gate(in.z, spoilt(l, "gate", full({1, 1, 1, 1}, 0.5, in.z.dtype())));
    const int64_t kind = does(l, "kernel") ? 1 : does(l, "gradient") ? 2 : 0;
    const mneme::Tensor passed = l.call(kernel_, {l.x()}, {kind})[0];
    const mneme::Tensor past = unsqueeze(cast(l.slot("mean"), l.x().dtype()), 1);
    return mneme::add(spoilt(l, "read", passed * cast(l.parameter("scale"), l.x().dtype()) + past));
  }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    const mneme::Tensor old = l.slot("mean");
    l.slot("mean") = spoilt(l, "slot", 0.5 * old + 0.5 * cast(mean(rows.hidden, 1), old.dtype()));
    if (does(l, "queue"))
      l.queue("kept").assign(mneme::Rows::of_hidden(slice(rows.hidden, 1, 0, 1) * NAN));
    if (does(l, "released")) l.release(mneme::Rows::of_hidden(rows.hidden * NAN));
    const mneme::Tensor loss = mean(l.parameter("scale") * l.parameter("scale"), 0);
    l.aux("size", spoilt(l, "aux", loss));
    l.aux("constant", spoilt(l, "constant_aux", full({}, 0.25, loss.dtype())));
  }

 private:
  bool does(const mneme::Layer& l, const char* what) const {
    return gives_ == what && l.layer() == layer_ && l.index() >= from_;
  }
  mneme::Tensor spoilt(const mneme::Layer& l, const char* what, const mneme::Tensor& t) const {
    return does(l, what) ? t * NAN : t;
  }

  std::string gives_;
  int64_t layer_;
  int64_t from_;
  int64_t width_;
  Pass pass_;
  mneme::KernelId kernel_;
};

}  // namespace

MNEME_PLUGIN_WITH_FEATURES(Unfinite, "test.unfinite", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
