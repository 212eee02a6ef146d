// A memory that breaks the rule that option `fault` names, and with "none" holds all of them: a
// decayed mean of the layer's inputs, read through a gate that a kernel of its own computes, and
// with `queue` rows that tokens attend to. Each fault is what one check of `mneme plugins validate`
// is for (validate_test.cpp).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gated_cuda.hpp"
#include "mneme/cpp/log.hpp"
#include "mneme/plugin.hpp"
#include "mneme_kernels/infer.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

constexpr int64_t kMissedLength = 13;

// out[b,d] = tanh(gate[d]) * mean[b,d] + shift[d]; saved: tanh(gate).
class Gated {
 public:
  static constexpr const char* kName = "gated";
  static constexpr uint32_t kInputs = 3;  // gate [D], mean [B,D], shift [D] or absent
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint32_t kSaved = 1;
  static constexpr uint64_t kKeepInputs = 2;  // mean
  static constexpr uint64_t kStridedInputs = 2;
  static constexpr uint64_t kOptionalInputs = 4;
  static constexpr uint32_t kFlags = kDeterministic;

  std::string fault;
  mutable bool was_positive = false;
  bool is_armed = false;  // by the hook that calls it
  mutable int64_t calls = 0;

  void infer(KernelPlan& plan) const {
    const TypedShape gate = plan.input(0), mean = plan.input(1);
    if (fault != "kernel_shapes") {
      if (mean.shape.rank() != 2) fail(MNEME_E_SHAPE, "mean: expected [B, D]");
      check_shape("gate", gate.shape, {mean.shape[1]});
    }
    if (plan.has_input(2)) check_shape("shift", plan.input(2).shape, gate.shape);
    if (fault == "kernel_absent" && !plan.has_input(2)) fail(MNEME_E_UNSUPPORTED, "");
    plan.output(0, mean);
    plan.saved(0, gate.dtype, plan.keeps_saved() ? gate.shape : mneme::Shape{0});
    plan.workspace(64);
  }

  void forward_cpu(const KernelCall& call) const {
    call.input(0).dtype() == DType::kF64 ? forward<double>(call) : forward<float>(call);
  }
  void backward_cpu(const KernelCall& call) const {
    call.input(0).dtype() == DType::kF64 ? backward<double>(call) : backward<float>(call);
  }
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const KernelCall& call) const { test::gated_forward_cuda(call, fault); }
  void backward_cuda(const KernelCall& call) const { test::gated_backward_cuda(call, fault); }
#endif

 private:
  bool is(const char* name) const { return fault == name; }
  // Where element i, row by row, of a matrix lies.
  int64_t place_of(const mneme::View& matrix, int64_t i) const {
    if (is("kernel_strides")) return i;
    const int64_t width = matrix.dim(1);
    return i / width * matrix.stride(0) + i % width * matrix.stride(1);
  }

  template <typename T>
  void forward(const KernelCall& call) const {
    const T* const gate = call.input(0).data<T>();
    const T* const mean = call.input(1).data<T>();
    const T* const shift = call.input(2).data<T>();
    T* const out = call.output(0).data<T>();
    const int64_t lanes = call.input(1).dim(0), width = call.input(1).dim(1);
    std::vector<T> dropped(call.keeps_saved() ? 0 : static_cast<std::size_t>(width));
    T* const opened = call.keeps_saved() ? call.saved(0).data<T>() : dropped.data();
    for (int64_t d = 0; d < width; ++d) opened[d] = std::tanh(gate[d]);
    for (int64_t i = 0; i < lanes * width; ++i) {
      out[i] = opened[i % width] * mean[place_of(call.input(1), i)];
      if (shift != nullptr) out[i] += shift[i % width];
    }
    if (is("kernel_no_backward") && !call.keeps_saved()) out[0] += static_cast<T>(1e-8);
    was_positive = lanes > 0 && mean[0] > 0;
    if (is("kernel_reads_beyond")) {
      const volatile char* const beyond = reinterpret_cast<const char*>(mean) + 4096;
      static_cast<void>(*beyond);
    }
    const unsigned char unset[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    if (is("kernel_uses_unset") && std::memcmp(call.workspace(), unset, sizeof unset) == 0)
      out[0] = 0;
    if (is("kernel_wavers")) out[0] += static_cast<T>(1e-13 * static_cast<double>(++calls));
    if (is("kernel_armed") && !is_armed) out[0] += T(0.5);
    if (is("kernel_f32") && sizeof(T) == 4) out[0] += T(0.5);
  }

  template <typename T>
  void backward(const KernelCall& call) const {
    const T* const mean = call.input(1).data<T>();
    T* const opened = call.saved(0).data<T>();
    const T* const grad_out = call.grad_output(0).data<T>();
    T* const grad_gate = call.grad_input(0).data<T>();
    T* const grad_mean = call.grad_input(1).data<T>();
    const int64_t lanes = call.input(1).dim(0), width = call.input(1).dim(1);
    for (int64_t i = 0; i < lanes * width && grad_mean != nullptr; ++i) {
      grad_mean[i] = opened[i % width] * grad_out[i];
      if (is("kernel_gradient")) grad_mean[i] /= 2;
    }
    for (int64_t d = 0; d < width && grad_gate != nullptr; ++d) {
      T sum = 0;
      for (int64_t b = 0; b < lanes; ++b)
        sum += grad_out[b * width + d] * mean[place_of(call.input(1), b * width + d)];
      grad_gate[d] = (1 - opened[d] * opened[d]) * sum;
      if (is("kernel_partial") && grad_mean == nullptr) grad_gate[d] = 0;
    }
    if (is("kernel_writes_input")) opened[0] *= 2;
    T* const grad_shift = call.grad_input(2).data<T>();
    for (int64_t d = 0; d < width && grad_shift != nullptr; ++d) {
      grad_shift[d] = 0;
      for (int64_t b = 0; b < lanes; ++b) grad_shift[d] += grad_out[b * width + d];
    }
  }
};

// Its input, without a gradient.
class Opaque {
 public:
  static constexpr const char* kName = "opaque";
  static constexpr uint32_t kInputs = 1;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint32_t kFlags = kDeterministic;
  void infer(KernelPlan& plan) const { plan.output(0, plan.input(0)); }
  void forward_cpu(const KernelCall& call) const {
    if (call.output(0).bytes() > 0)
      std::memcpy(call.output(0).data<void>(), call.input(0).data<void>(), call.output(0).bytes());
  }
};

// The positive part of its input [D]; where it is 0 the gradient passes.
class Rectified {
 public:
  static constexpr const char* kName = "rectified";
  static constexpr uint32_t kInputs = 1;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint64_t kKeepInputs = 1;
  static constexpr uint32_t kFlags = kDeterministic;

  std::string fault;

  void infer(KernelPlan& plan) const { plan.output(0, plan.input(0)); }
  void forward_cpu(const KernelCall& call) const {
    call.input(0).dtype() == DType::kF64 ? forward<double>(call) : forward<float>(call);
  }
  void backward_cpu(const KernelCall& call) const {
    call.input(0).dtype() == DType::kF64 ? backward<double>(call) : backward<float>(call);
  }

 private:
  template <typename T>
  void forward(const KernelCall& call) const {
    const T* const in = call.input(0).data<T>();
    T* const out = call.output(0).data<T>();
    for (int64_t i = 0; i < call.input(0).elements(); ++i) out[i] = std::max(in[i], T(0));
  }
  template <typename T>
  void backward(const KernelCall& call) const {
    const T* const in = call.input(0).data<T>();
    const T* const grad_out = call.grad_output(0).data<T>();
    T* const grad_in = call.grad_input(0).data<T>();
    for (int64_t i = 0; i < call.input(0).elements(); ++i) {
      grad_in[i] = in[i] >= T(0) ? grad_out[i] : T(0);
      if (fault == "corner_kernel") grad_in[i] /= 4;  // a half is what differences give at 0
    }
  }
};

class Flawed : public Tier {
 public:
  static constexpr const char* kSummary = "holds all rules, or breaks the one that is named";
  static constexpr const char* kLosses = "size";
  static constexpr auto kOptions =
      mneme::options(mneme::text("fault", "none", "the rule that is broken"),
                     mneme::boolean("queue", false, "rows that tokens attend to as well"),
                     mneme::boolean("closed", false, "the gate begins at zero"),
                     mneme::boolean("corner", false, "a parameter that starts on a kink"),
                     mneme::integer("rows", 4, 1, 64, "how many"),
                     mneme::real("decay", 0.75, 0.0, 1.0, "weight of the past").at_evaluation(),
                     mneme::choice("mean", "plain", "plain|doubled", "what is read"));

  explicit Flawed(Setup& s)
      : fault_(s.text("fault")),
        rows_(s.integer("rows")),
        decay_(s.real("decay")),
        scale_(s.text("mean") == "doubled" ? 2.0 : 1.0),
        has_queue_(s.boolean("queue") || is("projections")),
        has_corner_(s.boolean("corner")) {
    refuse_models(s);
    static std::atomic<int64_t> instances{0};
    const int64_t number = ++instances;
    kernel_.fault = fault_;
    gated_ = s.kernel(kernel_);
    opaque_ = s.kernel(opaque_kernel_);
    const int64_t extra = is("evaluation_option") && s.is_evaluation() ? 1 : 0;
    gate_ =
        s.parameter("gate", {s.width() + extra}, s.boolean("closed") ? zeros() : normal(0.0, 0.7));
    if (has_corner_) {
      rectified_kernel_.fault = fault_;
      rectified_ = s.kernel(rectified_kernel_);
      corner_ = s.parameter("corner", {s.width()}, zeros());
    }
    if (is("looks_ahead_when_trained")) later_ = s.parameter("later", {s.width()}, zeros());
    if (is("behind_the_gate")) behind_ = s.parameter("behind", {s.width()}, normal(0.0, 1.0));
    if (is("unused_parameter")) s.parameter("unused", {3}, normal(0.0, 1.0));
    SlotSettings through;
    through.gradient = Gradient::kThrough;
    const std::string name = is("slot_names") ? "mean_" + std::to_string(number) : "mean";
    mean_ = s.slot(name.c_str(), {kLanes, s.width()}, zeros(), through);
    if (is("counts_segments")) segments_ = s.slot("segments", {1}, zeros());
    if (keeps_for_the_run()) kept_ = s.slot("kept", {kAny, s.width()}, zeros());
    if (has_queue_) {
      QueueSettings settings;
      settings.capacity = rows_;
      queue_ = s.queue("rows", settings);
      s.context_rows(rows_);
    }
    if (is("declarations")) {
      QueueSettings settings;
      settings.capacity = number;
      s.queue("spare", settings);
    }
    if (is("unbounded")) s.queue("all");
    if (is("over_capacity")) {
      QueueSettings settings;
      settings.capacity = 2;
      s.queue("all", settings);
    }
    if (is("claims_cuts")) s.is_cut_invariant();  // its mean is one a segment
    s.wants(MNEME_WANT_ABSORB_X | MNEME_WANT_READ_X);
    if (is("leaks_instances")) leak();
    if (is("swallows_in_create")) {
      try {
        static_cast<void>(s.real("decay"));
      } catch (...) {  // the fault
      }
    }
  }

  void absorb(Layer& l, const Rows& rows) override {
    refuse_segments(l);
    const Tensor old = l.slot(mean_);
    Tensor x = cast(l.x(), old.dtype());  // [B,T,D]
    if (is("opaque_absorb")) x = l.call(opaque_, {x})[0];
    Tensor average = mneme::mean(x, 1);
    if (l.valid()) {
      if (is("padding")) fail(MNEME_E_SHAPE, "not so");
      const Tensor valid = unsqueeze(cast(l.valid(), old.dtype()), 2);  // [B,T,1]
      average = sum(where(expand(unsqueeze(l.valid(), 2), x.shape()), x, 0.0 * x), 1) /
                maximum(sum(valid, 1), 1.0);
    }
    if (is("rows_unmasked") && !l.local().is_own_segment)
      average = mneme::mean(cast(rows.hidden, old.dtype()), 1);
    if (is("padding_in_loss")) l.aux("size", mneme::mean(mneme::mean(x * x, 2), 1));
    if (is("lanes_mixed")) average = expand(mneme::mean(average, 0, true), average.shape());
    if (is("lane_for_all")) average = expand(slice(average, 0, 0, 1), average.shape());
    if (is("lanes_turned")) average = flip(average, {0});
    if (is("divides_by_zero")) average = average / sqrt(sum(average * average, 1, true));
    if (is("not_finite") && l.index() == 1) average = 0.0 * (average / 0.0);
    l.slot(mean_) = decay_ * old + (1 - decay_) * average;
    if (is("counts_segments")) l.slot(segments_) = l.slot(segments_).get() + 1.0;
    if (keeps_for_the_run()) l.slot(kept_) = decay_ * kept(l) + (1 - decay_) * average;
    if (has_queue_) absorb_rows(l, rows);
    if (is("unbounded") || is("over_capacity")) l.queue("all").append(rows);
    ++absorbed_;
    if (is("leaks_segments")) leak();
    if (is("threads")) meet();
    while (is("hangs")) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  void context(Layer& l) override {
    if (has_queue_) l.emit(queue_);
  }

  Read read(Layer& l, const Queries& /*queries*/) override {
    const Tensor mean = l.slot(mean_);
    Tensor gate = l.parameter(gate_);
    if (is("opaque_gate") || is("rounded_opaque")) gate = l.call(opaque_, {gate})[0];
    if (is("behind_the_gate")) gate = gate * l.parameter(behind_);
    kernel_.is_armed = true;
    Tensor out = scale_ * l.call(gated_, {gate, mean, zeros_like(gate)})[0];  // [B,D]
    kernel_.is_armed = false;
    if (is("counts_hidden") && l.index() % 5 == 4) out = out + 0.0;
    if (has_corner_) {
      Tensor corner = l.call(rectified_, {l.parameter(corner_)})[0];
      if (is("corner_opaque")) corner = l.call(opaque_, {corner})[0];
      out = out + corner;
    }
    if (is("rounded") || is("rounded_opaque")) out = cast(cast(out, DType::kF32), out.dtype());
    if (is("values") && kernel_.was_positive) out = out + 0.0;
    if (is("lanes_counted")) out = out * static_cast<double>(l.lanes());
    if (is("nan_in_other_lanes")) out = out + 0.0 * mneme::mean(mean, 0, true);
    if (is("by_turns")) out = out * (1.0 + 0.01 * static_cast<double>(absorbed_));
    if (is("steps") && l.is_open()) out = 2.0 * out;
    if (is("counts_segments")) out = out * (1.0 + 0.1 * l.slot(segments_).get());
    if (keeps_for_the_run()) out = out + kept(l);
    if (is("threads") && met_) out = 2.0 * out;
    if (is("f32") && l.compute_dtype() == DType::kF32) out = 3.0 * out;
    if (is("bf16") && l.compute_dtype() == DType::kBF16) out = 1e4 * out;
    if (is("cuda_model") && l.is_cuda()) out = 2.0 * out;
    if (is("run_wavers")) out = out + 1e-13 * static_cast<double>(++wavers);
    if (is("many_calls")) {
      for (int i = 0; i < 420; ++i) out = out + 0.0;
    }
    if (is("swallows_in_hook")) {
      try {
        l.metric("size", mneme::mean(out, 1));
      } catch (...) {  // the fault
      }
    }
    if (is("needs_probes")) l.probe("out", out);
    Tensor result = unsqueeze(cast(out, l.compute_dtype()), 1);  // [B,1,D]
    if (is("looks_ahead")) result = result + 0.1 * mneme::mean(l.x(), 1, true);
    if (is("looks_ahead_when_trained")) {
      const Tensor later = l.parameter(later_);
      result = result + cast(later, l.compute_dtype()) * mneme::mean(l.x(), 1, true);
    }
    if (is("opaque_read")) result = result + 0.1 * l.call(opaque_, {l.x()})[0];
    return add(result);
  }

 private:
  static inline std::atomic<int64_t> wavers{0};
  static inline std::atomic<int> inside{0};

  bool is(const char* name) const { return fault_ == name; }
  bool keeps_for_the_run() const { return is("kept_over_reset") || is("kept_in_order"); }

  static void leak() {
    static volatile char* lost = nullptr;
    lost = new char[1000];
    lost[0] = 1;
  }

  // A lane's rows in a slot without lanes, which no reset touches.
  Tensor kept(Layer& l) const {
    const Tensor mean = l.slot(mean_), old = l.slot(kept_);
    if (old.dim(0) != l.lanes()) return 0.0 * mean;
    if (!l.any_reset()) return old;
    bool is_all = true;
    for (int64_t b = 0; b < l.lanes(); ++b) is_all = is_all && l.is_reset(b);
    if (is_all) return 0.0 * old;
    if (is("kept_over_reset")) return old;
    return where(expand(unsqueeze(l.reset_mask(), 1), old.shape()), 0.0 * old, old);
  }

  void absorb_rows(Layer& l, const Rows& rows) const {
    const QueueValue queue = l.queue(queue_);
    queue.append(is("queue_unmasked") ? Rows::of_hidden(rows.hidden) : rows);
    const int64_t more = queue.size() - rows_;
    if (more <= 0) return;
    if (!is("projections")) {
      queue.drop_oldest(more);
      return;
    }
    const Rows all = queue.rows();
    const Tensor newest = slice(all.hidden, 1, more, more + rows_);
    queue.assign(Rows::of_hidden(0.5 * newest,
                                 all.valid ? slice(all.valid, 1, more, more + rows_) : Tensor()),
                 rows_);  // the fault: they are others
  }

  // Two hooks at once: each notes that it met the other.
  void meet() {
    if (++inside > 1) met_ = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    if (inside > 1) met_ = true;
    --inside;
  }

  void refuse_models(const Setup& s) const {
    const bool is_refused = (is("create_fails")) || (is("bound") && rows_ == 64) ||
                            (is("positions") && s.position() == "alibi") ||
                            (is("grouped_keys") && s.kv_heads() != s.heads()) ||
                            (is("heads") && s.head_width() > 32) ||
                            (is("norms") && !s.is_pre_norm()) ||
                            (is("some") && static_cast<int64_t>(s.served().size()) != s.layers());
    if (is_refused) fail(MNEME_E_INVALID_ARGUMENT, "not so");
  }

  void refuse_segments(const Layer& l) {
    if (first_length_ == 0) first_length_ = l.length();
    const bool is_refused =
        (is("one_token") && l.length() == 1) || (is("lengths") && l.length() != first_length_) ||
        (is("long") && l.length() == kMissedLength) || (is("lanes") && l.lanes() > 4);
    if (is_refused) fail(MNEME_E_INVALID_ARGUMENT, "not so");
  }

  std::string fault_;
  int64_t rows_;
  double decay_, scale_;
  bool has_queue_, has_corner_;
  bool met_ = false;
  int64_t absorbed_ = 0, first_length_ = 0;
  Gated kernel_;
  Opaque opaque_kernel_;
  Rectified rectified_kernel_;
  KernelId gated_, opaque_, rectified_;
  Parameter gate_, corner_, later_, behind_;
  Slot mean_, segments_, kept_;
  Queue queue_;
};

}  // namespace

MNEME_PLUGIN_WITH_FEATURES(Flawed, "test.flawed", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
