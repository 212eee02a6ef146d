// What the layers of this folder have in common: their widths, one product for all projections, the
// recurrence with its state, the short convolution and norms. Names of shapes: B lanes, T tokens, D
// the model's width, H heads, K and V widths of a head's keys and values.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/recurrence.hpp"
#include "mneme/plugin.hpp"
#include "operations.hpp"

namespace recurrences {

// How a tier computes its recurrence.
inline constexpr mneme::Option kRecurrenceOption =
    mneme::choice(
        "recurrence", "auto", "auto|operations",
        "auto: by the kernel, and by operations of the host on a GPU for which the plugin "
        "was built without CUDA; operations: by these everywhere")
        .at_evaluation();

struct Widths {
  int64_t heads, keys, values;  // H, K, V

  // The options `heads`, `key_width` and `value_width`, of which 0 is the model's heads, and these.
  Widths(const mneme::Setup& s, int64_t default_keys, int64_t default_values)
      : heads(given(s, "heads", s.heads())),
        keys(given(s, "key_width", default_keys)),
        values(given(s, "value_width", default_values)) {}

 private:
  static int64_t given(const mneme::Setup& s, const char* key, int64_t otherwise) {
    const int64_t value = s.integer(key);
    return value > 0 ? value : otherwise;
  }
};

// Parts of one product x W^T: of x [B,T,D] the results [B,T,width] of each part, in their order.
class Projections {
 public:
  Projections(mneme::Setup& s, std::vector<int64_t> widths) : widths_(std::move(widths)) {
    int64_t sum = 0;
    for (const int64_t width : widths_) sum += width;
    weight_ = s.parameter("in_weight", {sum, s.width()}, mneme::fan_in_uniform());
  }
  // In the compute dtype. Padding is read as zeros: it may hold anything, and later tokens of its
  // chunk are multiplied with earlier ones.
  std::vector<Tensor> of(const mneme::Layer& l, Tensor x) const {
    if (l.valid()) x = masked_fill(x, unsqueeze(logical_not(l.valid()), 2), 0.0);
    const Tensor all = linear(x, cast(l.parameter(weight_), l.compute_dtype()));
    std::vector<Tensor> parts;
    int64_t first = 0;
    for (const int64_t width : widths_) {
      parts.push_back(slice(all, 2, first, first + width));
      first += width;
    }
    return parts;
  }

 private:
  std::vector<int64_t> widths_;
  mneme::Parameter weight_;
};

// The recurrence with its state, f64 in f64 runs and f32 otherwise.
class State {
 public:
  State(mneme::Setup& s, const Widths& widths)
      : kernel_id_(s.kernel(kernel_)), has_kernel_(s.text("recurrence") == "auto") {
    mneme::SlotSettings through;
    through.gradient = mneme::Gradient::kThrough;
    slot_ = s.slot("state", {mneme::kLanes, widths.heads, widths.keys, widths.values},
                   mneme::zeros(), through);
  }
  mneme::DType dtype(const mneme::Layer& l) const { return l.slot(slot_).get().dtype(); }

  // out [B,T,H,V] of the step's tokens, whose writes go into the state (Recurrence). All in
  // dtype(); beta may be empty.
  Tensor run(const mneme::Layer& l, const Tensor& q, const Tensor& k, const Tensor& v,
             const Tensor& decay, const Tensor& beta) const {
    if (!has_kernel_ || (l.is_cuda() && !Recurrence::kServesCuda)) {
      const RecurrenceResult result = by_operations(q, k, v, decay, l.slot(slot_), beta);
      l.slot(slot_) = result.state;
      return result.out;
    }
    const std::vector<Tensor> result =
        l.call(kernel_id_, {q, k, v, decay, l.slot(slot_), beta}, {kChunk});
    l.slot(slot_) = result[1];
    return result[0];
  }

 private:
  static constexpr int64_t kChunk = 64;
  Recurrence kernel_;
  mneme::KernelId kernel_id_;
  bool has_kernel_;
  mneme::Slot slot_;
};

// A causal convolution of each channel with its last inputs, then SiLU; the inputs of the tokens
// before are state.
class ShortConvolution {
 public:
  // `taps` of at least 2.
  ShortConvolution(mneme::Setup& s, int64_t channels, int64_t taps, bool has_bias)
      : taps_(taps), has_bias_(has_bias) {
    // Three dimensions, so that Muon leaves it to Adam: a filter for each channel is no matrix.
    weight_ = s.parameter("convolution_weight", {taps, 1, channels}, mneme::fan_in_uniform(taps));
    if (has_bias) {
      bias_ = s.parameter("convolution_bias", {channels}, mneme::fan_in_uniform(taps));
    }
    mneme::SlotSettings through;
    through.gradient = mneme::Gradient::kThrough;
    slot_ = s.slot("convolution", {mneme::kLanes, taps - 1, channels}, mneme::zeros(), through);
  }
  // x [B,T,channels] in the state's dtype; so is the result. T is the length of the step.
  Tensor of(const mneme::Layer& l, const Tensor& x) const {
    const int64_t length = l.length();
    const Tensor rows = mneme::cat({l.slot(slot_), x}, 1);  // [B,taps-1+T,channels]
    const Tensor weight = l.parameter(weight_);
    Tensor sum = x * slice(weight, 0, taps_ - 1, taps_);
    for (int64_t i = 0; i + 1 < taps_; ++i) {
      sum = sum + slice(rows, 1, i, i + length) * slice(weight, 0, i, i + 1);
    }
    if (has_bias_) sum = sum + l.parameter(bias_);
    l.slot(slot_) = contiguous(slice(rows, 1, length));
    return silu(sum);
  }

 private:
  int64_t taps_;
  bool has_bias_;
  mneme::Parameter weight_, bias_;
  mneme::Slot slot_;
};

// [B,T,heads*width] -> [B,T,heads,width].
inline Tensor by_heads(const Tensor& x, int64_t heads, int64_t width) {
  return reshape(x, {x.dim(0), x.dim(1), heads, width});
}
// Rows of length 1; finite for rows of zeros, and so is the gradient.
inline Tensor unit(const Tensor& x) { return x * rsqrt(sum(square(x), -1, true) + 1e-6); }
// Over the last dimension.
inline Tensor rms_norm(const Tensor& x, const Tensor& weight) {
  return x * rsqrt(mean(square(x), -1, true) + 1e-5) * weight;
}

// The output projection [D,H*V] of rows [B,T,H,V] or [B,T,H*V], in the compute dtype.
class Output {
 public:
  Output(mneme::Setup& s, const Widths& widths)
      : width_(widths.heads * widths.values),
        weight_(s.parameter("out_weight", {s.width(), width_}, mneme::fan_in_uniform())) {}
  mneme::Read of(const mneme::Layer& l, const Tensor& rows) const {
    const mneme::DType dtype = l.compute_dtype();
    const Tensor x = cast(reshape(rows, {rows.dim(0), rows.dim(1), width_}), dtype);
    return mneme::replace(linear(x, cast(l.parameter(weight_), dtype)));
  }

 private:
  int64_t width_;
  mneme::Parameter weight_;
};

// What each of the layers is to the host.
inline void declare_layer(mneme::Setup& s) {
  s.replaces_attention();
  s.reads_at(MNEME_SITE_OUT);
  s.wants(MNEME_WANT_READ_NORMED);
  s.is_cut_invariant();
}

// Start values of a rate whose softplus lies between 0.001 and 0.1, each power of ten as often.
inline mneme::Init rates() { return mneme::uniform(-6.9072552, -2.2521685); }

// Parameters of decays, without weight decay.
inline mneme::ParameterSettings without_weight_decay() {
  mneme::ParameterSettings settings;
  settings.group = "none";
  return settings;
}

}  // namespace recurrences
