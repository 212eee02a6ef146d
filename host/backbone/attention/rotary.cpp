#include "host/backbone/attention/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include "host/backbone/rows/rows.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/torch.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::backbone {
namespace {

using config::RotaryConfig;
using config::RotaryScaling;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The pair that turns `turns` times in the original context, as a real index.
double pair_of_turns(const RotaryConfig& config, double width, double turns) {
  const double context = static_cast<double>(config.original_positions);
  return width * std::log(context / (turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(config.base));
}

// The share of pair i that keeps its frequency.
double kept_share(const RotaryConfig& config, std::int64_t width, std::int64_t i) {
  const auto d = static_cast<double>(width);
  double low = pair_of_turns(config, d, config.beta_fast);
  double high = pair_of_turns(config, d, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, d - 1.0);
  if (low == high) high += 0.001;
  return 1.0 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
}

double llama3_frequency(const RotaryConfig& config, double frequency) {
  const auto context = static_cast<double>(config.original_positions);
  const double period = 2.0 * std::numbers::pi / frequency;
  if (period < context / config.high_factor) return frequency;
  if (period > context / config.low_factor) return frequency / config.factor;
  const double share =
      (context / period - config.low_factor) / (config.high_factor - config.low_factor);
  return (1.0 - share) * frequency / config.factor + share * frequency;
}

// The kernels that turn heads x [.., .., .., d]; null where LibTorch's operations do.
const kernel::RowKernels* turn_kernels(const at::Tensor& x, const Turn& turn) {
  const kernel::RowKernels* const kernels = row_kernels(x);
  if (kernels == nullptr || x.dim() != 4 || turn.cos.scalar_type() != x.scalar_type()) {
    return nullptr;
  }
  const std::int64_t half = x.size(3) / 2;
  const bool is_whole =
      turn.cos.size(-1) == half &&
      at::is_expandable_to(turn.cos.sizes(), {x.size(0), x.size(1), x.size(2), half});
  return is_whole ? kernels : nullptr;
}

// With its last dimension side by side.
at::Tensor with_dense_heads(const at::Tensor& t) { return t.stride(-1) == 1 ? t : t.contiguous(); }

// Of x, cos, sin and the result.
kernel::TurnRows turn_rows(const std::vector<at::Tensor>& t, bool is_back) {
  const at::Tensor &x = t[0], &cos = t[1], &out = t[3];
  kernel::TurnRows a;
  a.element = row_element(x.scalar_type());
  a.is_back = is_back;
  a.width = x.size(-1);
  a.x = x.const_data_ptr();
  a.cos = cos.const_data_ptr();
  a.sin = t[2].const_data_ptr();
  const std::int64_t missing = x.dim() - cos.dim();
  for (std::int64_t d = 0; d < 3; ++d) {
    const std::int64_t own = d - missing;
    a.sizes[d] = x.size(d);
    a.x_strides[d] = x.stride(d);
    a.angle_strides[d] = own < 0 || cos.size(own) == 1 ? 0 : cos.stride(own);
    a.out_strides[d] = out.stride(d);
  }
  return a;
}

// Turns heads x into `out`, and gives it.
at::Tensor turned_into(const at::Tensor& out, const kernel::RowKernels* kernels, bool is_back,
                       const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  tensor::run_traced(is_back ? "rotary turn, backward" : "rotary turn", {x, cos, sin}, {out},
                     [kernels, is_back](const std::vector<at::Tensor>& t, std::int64_t) {
                       const c10::DeviceGuard current(t[0].device());
                       check_rows(kernels->turn(turn_rows(t, is_back), t[3].mutable_data_ptr(),
                                                tensor::stream_of(t[0].device())));
                     });
  return out;
}

struct KeptTurn {
  const kernel::RowKernels* kernels;
  std::vector<std::int64_t> strides;  // of the gradient: x's order of dimensions, without gaps
};

class TurnFunction : public torch::autograd::Function<TurnFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin, const std::shared_ptr<KeptTurn>& kept) {
    ctx->save_for_backward({cos, sin});
    tensor::keep_pointer(ctx, kept);
    return turned_into(at::empty(x.sizes(), x.options()), kept->kernels, false, x, cos, sin);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto kept = tensor::kept_pointer<KeptTurn>(ctx);
    const at::Tensor arriving = with_dense_heads(grads[0]);
    const at::Tensor out = at::empty_strided(arriving.sizes(), kept->strides, arriving.options());
    return {turned_into(out, kept->kernels, true, arriving, saved[0], saved[1]), {}, {}, {}};
  }
};

at::Tensor turned_by(const kernel::RowKernels* kernels, const at::Tensor& x, const Turn& turn) {
  const at::Tensor cos = with_dense_heads(turn.cos), sin = with_dense_heads(turn.sin);
  if (!at::GradMode::is_enabled()) {
    return turned_into(at::empty(x.sizes(), x.options()), kernels, false, x, cos, sin);
  }
  const auto kept = std::make_shared<KeptTurn>(
      KeptTurn{kernels, at::infer_dense_strides(x.sizes(), x.strides())});
  return TurnFunction::apply(x, cos, sin, kept);
}

}  // namespace

std::vector<double> rotary_frequencies(const RotaryConfig& config, std::int64_t width) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(width);
    const double plain = std::pow(config.base, -exponent);
    switch (config.scaling) {
      case RotaryScaling::kNone:
      case RotaryScaling::kDynamic:  // contexts that it would lower are refused
        out.push_back(plain);
        break;
      case RotaryScaling::kLinear:
        out.push_back(plain / config.factor);
        break;
      case RotaryScaling::kLlama3:
        out.push_back(llama3_frequency(config, plain));
        break;
      case RotaryScaling::kYarn: {
        const double kept = kept_share(config, width, i);
        out.push_back(plain * kept + plain / config.factor * (1.0 - kept));
      }
    }
  }
  return out;
}

double rotary_factor(const RotaryConfig& config) {
  if (config.scaling != RotaryScaling::kYarn) return 1.0;
  if (config.attention_factor > 0.0) return config.attention_factor;
  return 0.1 * std::log(config.factor) + 1.0;
}

Turn Turn::of_rows() const { return {cos.unsqueeze(-2), sin.unsqueeze(-2)}; }

at::Tensor turned(const at::Tensor& x, const Turn& turn) {
  if (const kernel::RowKernels* const kernels = turn_kernels(x, turn)) {
    return turned_by(kernels, with_dense_heads(x), turn);
  }
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return at::cat({a * turn.cos - b * turn.sin, b * turn.cos + a * turn.sin}, -1);
}

RotaryTables::RotaryTables(const RotaryConfig& config, std::int64_t head_width, at::Device device)
    : frequencies_(at::tensor(rotary_frequencies(config, head_width), at::kDouble).to(device)),
      factor_(rotary_factor(config)) {}

Turn RotaryTables::at(const at::Tensor& places, at::ScalarType dtype) const {
  const at::NoGradGuard no_grad;
  const at::Tensor angle = places.to(at::kDouble).unsqueeze(-1) * frequencies_;
  return {(angle.cos() * factor_).to(dtype), (angle.sin() * factor_).to(dtype)};
}

Turn RotaryTables::range(std::int64_t first, std::int64_t count, at::ScalarType dtype) {
  const bool has_any = kept_.cos.defined() && kept_.cos.scalar_type() == dtype;
  std::int64_t begin = has_any ? first_ : first, end = has_any ? first_ + kept_.cos.size(0) : first;
  // A growing context asks for a place more at a time: half as many again are computed ahead.
  const std::int64_t spare = count / 2;
  const bool grows_left = first<begin, grows_right = first + count> end;
  if (grows_left) begin = first - spare;
  if (grows_right) end = first + count + spare;
  if (grows_left || grows_right) {
    kept_ = at(at::arange(begin, end, frequencies_.options().dtype(at::kLong)), dtype);
    first_ = begin;
  }
  return {kept_.cos.narrow(0, first - first_, count), kept_.sin.narrow(0, first - first_, count)};
}

}  // namespace mneme::backbone
