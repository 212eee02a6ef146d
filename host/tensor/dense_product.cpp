#include "host/tensor/dense_product.hpp"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "host/base/text.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/few_rows.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::tensor {
namespace {

// LibTorch reaches oneDNN's product of plain f32 tensors by this operator alone; it comes with the
// builds for x86 that have oneDNN.
using OneDnnLinear = at::Tensor(const at::Tensor&, const at::Tensor&,
                                const std::optional<at::Tensor>&, std::string_view,
                                c10::List<std::optional<at::Scalar>>,
                                std::optional<std::string_view>);

const std::optional<c10::TypedOperatorHandle<OneDnnLinear>>& onednn() {
  static const auto handle = []() -> std::optional<c10::TypedOperatorHandle<OneDnnLinear>> {
    const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!found || !found->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
    return found->typed<OneDnnLinear>();
  }();
  return handle;
}

// Below both limits oneDNN's 10 microseconds a call do not pay off. With few rows the time is that
// of reading the other factor, which oneDNN does faster too: 20 GB/s to MKL's 11 to 17, on the same
// EPYC.
constexpr std::int64_t kMinMultiplyAdds = 1 << 21;
constexpr std::int64_t kMinNumbers = 1 << 17;

bool pays(const at::Tensor& a, const at::Tensor& b, std::int64_t multiply_adds) {
  const bool is_large = multiply_adds >= kMinMultiplyAdds || b.numel() >= kMinNumbers;
  return is_large && is_cpu_f32(a) && is_cpu_f32(b) && onednn().has_value();
}

// oneDNN takes rows or columns that lie densely, one behind the other.
at::Tensor dense(const at::Tensor& t) {
  const bool by_rows = t.stride(1) == 1 && t.stride(0) >= t.size(1);
  const bool by_columns = t.stride(0) == 1 && t.stride(1) >= t.size(0);
  return by_rows || by_columns ? t : t.contiguous();
}

// a [m,k] b^T with b [n,k] -> [m,n].
at::Tensor product(const at::Tensor& a, const at::Tensor& b);

// a^T b with a [t,m], b [t,k] -> [m,k].
at::Tensor sum_of_rows(const at::Tensor& a, const at::Tensor& b);

// The product of above plus bias [n].
class Product : public torch::autograd::Function<Product> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& a,
                            const at::Tensor& b, const std::optional<at::Tensor>& bias) {
    ctx->save_for_backward({a, b});
    // The context cannot tell: an absent bias is no input of the graph.
    ctx->saved_data["needs"] = std::vector<bool>{a.requires_grad(), b.requires_grad(),
                                                 bias.has_value() && bias->requires_grad()};
    const at::Tensor x = dense(a), w = dense(b);
    const SignalShield shield;
    return onednn()->call(x, w, bias, "none", c10::List<std::optional<at::Scalar>>(), std::nullopt);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    torch::autograd::variable_list out(3);
    if (!grads[0].defined()) return out;
    const c10::List<bool> needs = ctx->saved_data["needs"].toBoolList();
    if (needs.get(0)) out[0] = product(grads[0], saved[1].t());
    if (needs.get(1)) out[1] = sum_of_rows(grads[0], saved[0]);
    if (needs.get(2)) out[2] = grads[0].sum(0);
    return out;
  }
};

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  if (!pays(a, b, a.numel() * b.size(0))) return at::matmul(a, b.t());
  return Product::apply(a, b, std::nullopt);
}

// oneDNN copies transposed factors: with this many rows at a time the copies stay small beside the
// activations.
constexpr std::int64_t kRowsAtOnce = 1024;

at::Tensor sum_of_rows(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor sum;
  for (std::int64_t from = 0; from < a.size(0); from += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, a.size(0) - from);
    const at::Tensor part = product(a.narrow(0, from, rows).t(), b.narrow(0, from, rows).t());
    if (!sum.defined()) {
      sum = part;
    } else if (at::GradMode::is_enabled()) {
      sum = sum + part;
    } else {
      sum.add_(part);
    }
  }
  return sum.defined() ? sum : at::zeros({a.size(1), b.size(1)}, a.options());
}

// a [n,m,k] is the same matrix for every b [n,k,p].
bool is_one_matrix(const at::Tensor& a, const at::Tensor& b) {
  return a.dim() == 3 && b.dim() == 3 && a.stride(0) == 0 && a.size(0) == b.size(0) &&
         a.size(0) > 0;
}

}  // namespace

at::Tensor dense_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = w.size(0);
  if (suits_few_rows(x, w)) {
    return few_rows_linear(x.reshape({-1, x.size(-1)}), w, bias).view(shape);
  }
  if (!pays(x, w, x.numel() * w.size(0))) return at::linear(x, w, optional_input(bias));
  return Product::apply(x.reshape({-1, x.size(-1)}), w, optional_input(bias)).view(shape);
}

at::Tensor onednn_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
  return Product::apply(x, w, optional_input(bias));
}

at::Tensor dense_matmul(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() == 2 && b.dim() == 2) {
    if (!pays(a, b, a.numel() * b.size(1))) return at::mm(a, b);
    return Product::apply(a, b.t(), std::nullopt);
  }
  if (is_one_matrix(a, b) && pays(a[0], b[0], a.size(1) * b[0].numel())) {
    const at::Tensor matrix = a[0];
    std::vector<at::Tensor> parts;
    for (const at::Tensor& part : b.unbind(0)) parts.push_back(product(matrix, part.t()));
    return at::stack(parts);
  }
  return at::matmul(a, b);
}

bool has_bf16_units() {
#if defined(__x86_64__)
  // Leaf 7: subleaf 1 has AVX512_BF16 in bit 5 of eax, subleaf 0 AMX_BF16 in bit 22 of edx.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 5 & 1U) != 0) return true;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx >> 22 & 1U) != 0;
#else
  return true;
#endif
}

namespace {

// Seconds of the fastest of `repeats` calls; one more comes first, which makes code and memory
// ready.
template <typename Multiply>
double fastest(int repeats, c10::Device device, const Multiply& multiply) {
  multiply();
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    multiply();
    synchronize(device);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    least = std::min(least, taken.count());
  }
  return least;
}

}  // namespace

double bf16_time_ratio() {
  constexpr std::int64_t kRows = 128, kWidth = 512;
  constexpr int kRepeats = 3;
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::ones({kRows, kWidth}, at::kFloat);
  const at::Tensor w = at::ones({kWidth, kWidth}, at::kFloat);
  const at::Tensor low_x = x.to(at::kBFloat16), low_w = w.to(at::kBFloat16);
  const double low =
      fastest(kRepeats, at::kCPU, [&] { static_cast<void>(at::linear(low_x, low_w)); });
  return low / fastest(kRepeats, at::kCPU, [&] { static_cast<void>(dense_linear(x, w, {})); });
}

double product_rate(c10::Device device, config::Precision precision) {
  const bool is_f64 = precision == config::Precision::kF64;
  const std::int64_t rows = device.is_cpu() ? 512 : is_f64 ? 2048 : 4096;
  constexpr int kRepeats = 5;
  const at::NoGradGuard no_grad;
  const at::ScalarType type = is_f64                                  ? at::kDouble
                              : precision == config::Precision::kBf16 ? at::kBFloat16
                                                                      : at::kFloat;
  const at::Tensor ones = at::ones({rows, rows}, at::TensorOptions(type).device(device));
  const double operations = 2.0 * std::pow(static_cast<double>(rows), 3.0);
  return operations /
         fastest(kRepeats, device, [&] { static_cast<void>(dense_linear(ones, ones, {})); });
}

double copy_rate(c10::Device device) {
  // Every generation with --json waits for it: no more than what the CPU's cache does not hold.
  constexpr int kRepeats = 3;
  const at::NoGradGuard no_grad;
  const std::int64_t bytes = (device.is_cpu() ? 64 : 256) * std::int64_t{1 << 20};
  const at::Tensor from = at::ones({bytes}, at::TensorOptions(at::kByte).device(device));
  at::Tensor to = at::empty_like(from);
  return 2.0 * static_cast<double>(bytes) / fastest(kRepeats, device, [&] { to.copy_(from); });
}

bool is_slow_bf16(config::Precision precision, c10::Device device, bool has_units) {
  return precision == config::Precision::kBf16 && !device.is_meta() && !has_units;
}

std::string slow_bf16_text(double time_ratio) {
  std::ostringstream ratio;
  ratio << std::fixed << std::setprecision(1) << time_ratio;
  return "precision \"bf16\": this processor has no instructions for it (AVX512_BF16, AMX_BF16): a "
         "product takes " +
         ratio.str() +
         " times as long as in f32 (measured now); --set train.precision=auto takes f32 here, for "
         "evaluations --set eval.precision=auto";
}

std::string slow_bf16_text_of_gpu(std::int64_t capability) {
  return str("precision \"bf16\": this GPU has no instructions for it (compute capability ",
             capability / 10, '.', capability % 10,
             ", from 8.0 on); --set train.precision=auto takes f32 here, for evaluations --set "
             "eval.precision=auto");
}

}  // namespace mneme::tensor
