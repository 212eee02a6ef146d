// Calls what no other test memory calls: a kernel with a backward, the host's threads, constants,
// named draws, probes, losses and metrics, counts, slots that start from a parameter or live for a
// segment, explicit distances, score biases, release, and finish. Site OUT.
#include <cmath>

#include "mneme/cpp/parallel.hpp"
#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

// y = scale * a * b, elementwise; keeps both inputs.
struct ScaledProduct {
  static constexpr const char* kName = "scaled_product";
  static constexpr uint32_t kInputs = 2;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint64_t kKeepInputs = 3;

  void infer(mneme::KernelPlan& plan) const { plan.output(0, plan.input(0)); }
  void forward_cpu(const mneme::KernelCall& call) const {
    each(call.raw().outputs[0], [&](auto* y, int64_t n) {
      using T = std::decay_t<decltype(*y)>;
      const auto* a = static_cast<const T*>(call.raw().inputs[0].data);
      const auto* b = static_cast<const T*>(call.raw().inputs[1].data);
      const T scale = static_cast<T>(call.raw().reals[0]);
      mneme::parallel_for(n, 2, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin; i < end; ++i) y[i] = scale * a[i] * b[i];
      });
    });
  }
  void backward_cpu(const mneme::KernelCall& call) const {
    for (int side = 0; side < 2; ++side) {
      if (call.raw().grad_inputs[side].data == nullptr) continue;
      each(call.raw().grad_inputs[side], [&](auto* out, int64_t n) {
        using T = std::decay_t<decltype(*out)>;
        const auto* other = static_cast<const T*>(call.raw().inputs[1 - side].data);
        const auto* dy = static_cast<const T*>(call.raw().grad_outputs[0].data);
        for (int64_t i = 0; i < n; ++i)
          out[i] = static_cast<T>(call.raw().reals[0]) * other[i] * dy[i];
      });
    }
  }

  template <typename F>
  static void each(const mneme_view& view, F f) {
    int64_t n = 1;
    for (int32_t d = 0; d < view.ndim; ++d) n *= view.shape[d];
    if (view.dtype_bits == 64) {
      f(static_cast<double*>(view.data), n);
    } else {
      f(static_cast<float*>(view.data), n);
    }
  }
};

class Everything : public mneme::Tier {
 public:
  static constexpr const char* kLosses = "size";
  static constexpr auto kOptions =
      mneme::options(mneme::real("scale", 0.5, 0.0, 8.0, "factor of the kernel").at_evaluation(),
                     mneme::boolean("before", false, "absorb before reading"));
  explicit Everything(mneme::Setup& s) : scale_(s.real("scale")) {
    start_ = s.parameter("start", {s.width()}, mneme::constant_value(0.25));
    mneme::ParameterSettings model;
    model.scope = mneme::Scope::kModel;
    shared_ = s.parameter("shared", {s.width()}, mneme::normal(0.0, 0.5), model);
    carried_ = s.slot("carried", {mneme::kLanes, s.width()}, start_);
    mneme::SlotSettings segment;
    segment.lifetime = mneme::Lifetime::kSegment;
    seen_ = s.slot("seen", {mneme::kLanes, s.width()}, mneme::zeros(), segment);
    mneme::SlotSettings count;
    count.scope = mneme::Scope::kModel;
    finished_ = s.slot("finished", {mneme::kLanes}, mneme::zeros(), count);
    mneme::QueueSettings places;
    places.attributes = MNEME_ATTRIBUTE_POSITION;
    places_ = s.queue("places", places);
    absorbed_ = s.counts("absorbed");
    kernel_ = s.kernel(product_);
    if (s.boolean("before")) s.absorbs_before_reading();
    s.releases();
    s.emits_token_bias();
    s.wants(MNEME_WANT_READ_PROJECTED | MNEME_WANT_READ_X | MNEME_WANT_FINISH_TOP |
            MNEME_WANT_FINISH_LAYERS | MNEME_WANT_FINISH_TARGETS | MNEME_WANT_FINISH_LOGP);
    s.context_rows(4);
  }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    const mneme::Tensor mean_row = cast(mean(rows.hidden, 1), l.slot(carried_).get().dtype());
    l.slot(carried_) = 0.5 * l.slot(carried_).get() + 0.5 * mean_row;
    l.slot(seen_) = mean_row;
    std::vector<int64_t> absorbed = l.counts(absorbed_).get();
    for (std::size_t b = 0; b < absorbed.size(); ++b)
      absorbed[b] += rows.counts != nullptr ? rows.counts[b] : rows.count;
    l.counts("absorbed").set(absorbed);
    mneme::Rows placed = rows;
    const mneme::Tensor first = from_data<int64_t>({l.lanes(), 1}, starts(l));
    placed.position =
        first + unsqueeze(arange(0.0, static_cast<double>(rows.count), 1.0, mneme::DType::kI64), 0);
    const auto queue = l.queue(places_);
    queue.append(placed);
    if (queue.size() > 4) l.release(queue.pop_oldest(queue.size() - 4));
  }

  // The queue at its true distances, a constant penalty on its scores, none on the tokens.
  void context(mneme::Layer& l) override {
    const auto queue = l.queue(places_);
    const mneme::Rows rows = queue.rows();
    if (rows.empty()) return;
    const mneme::Tensor now = from_data<int64_t>({l.lanes(), 1}, starts(l));
    mneme::BlockSettings settings;
    settings.position = MNEME_POSITION_EXPLICIT;
    settings.distance = now - rows.position;
    settings.bias = constant("penalty", {1, 1, 1, rows.count}, [&] {
      return std::vector<double>(static_cast<size_t>(rows.count), -1.0);
    });
    if (l.x().dtype() != mneme::DType::kF64)
      settings.bias = cast(settings.bias, mneme::DType::kF32);
    l.emit(queue.id(), settings);
    l.emit_token_bias(zeros_like(slice(slice(settings.bias, 3, 0, 1), 2, 0, 1)) +
                      full({1, 1, 1, l.offset() + l.length()}, 0.0, settings.bias.dtype()));
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    for (int64_t b = 0; l.is_open() && b < l.lanes(); ++b)
      mneme::require(l.valid_count(b) == l.length(), MNEME_E_STATE,
                     "read: in an open segment valid_count is that of the step");
    const mneme::Tensor product =
        l.call(kernel_,
               {expand(l.parameter(shared_), {l.lanes(), l.parameter(shared_).dim(0)}),
                l.slot(carried_).get()},
               {}, {scale_})[0];
    if (l.wants_probe("memory.read")) l.probe("memory.read", product);
    const mneme::Tensor noise = l.uniform("noise", {l.lanes(), 1}, product.dtype());
    l.metric("noise", mean(noise, 1));
    l.aux("size", mean(product * product, 1));
    return mneme::add(unsqueeze(cast(product, l.compute_dtype()), 1) +
                      0.0 * slice(in.projected, 1, 0, 1) + 0.0 * slice(l.x(), 1, 0, 1));
  }

  void finish(mneme::Segment& s, const mneme::Finish& in) override {
    mneme::require(in.layers.size() == static_cast<size_t>(s.layers()), MNEME_E_STATE,
                   "finish: all layers' outputs were wanted");
    mneme::require(static_cast<bool>(in.targets) == static_cast<bool>(in.logp), MNEME_E_STATE,
                   "finish: log-probabilities were wanted wherever there are targets");
    s.slot(finished_) =
        s.slot(finished_).get() + cast(mean(mean(in.top, 2), 1), s.slot(finished_).get().dtype());
    s.metric("top", mean(mean(in.top, 2), 1));
  }

 private:
  static std::vector<int64_t> starts(const mneme::Segment& s) {
    std::vector<int64_t> out;
    for (int64_t b = 0; b < s.lanes(); ++b) out.push_back(s.tokens(b));
    return out;
  }

  double scale_;
  ScaledProduct product_;
  mneme::Parameter start_, shared_;
  mneme::Slot carried_, seen_, finished_;
  mneme::Counts absorbed_;
  mneme::Queue places_;
  mneme::KernelId kernel_;
};

}  // namespace

MNEME_PLUGIN_WITH_FEATURES(Everything, "test.everything", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL " " MNEME_GROUP_RANDOM)
