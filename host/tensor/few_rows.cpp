#include "host/tensor/few_rows.hpp"

#include <algorithm>
#include <vector>

#include "host/kernel/linear.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

// More rows pay for packing the weight, unless they are short: as columns, which are read anew for
// every few outputs, they have to stay in the second cache.
constexpr std::int64_t kMaxRows = 96, kMaxShortRows = 512;
constexpr std::int64_t kMaxNumbers = 160'000;

}  // namespace

bool suits_few_rows(const at::Tensor& x, const at::Tensor& w) {
  if (!uses_host_kernels(x) || x.numel() == 0 || w.dim() != 2 || w.stride(1) != 1) return false;
  const std::int64_t rows = x.numel() / x.size(-1);
  const auto both_are = [&](auto is) { return is(x) && is(w); };
  const bool are_few = rows <= kMaxRows || (rows <= kMaxShortRows && x.numel() <= kMaxNumbers);
  return (both_are(is_cpu_f32) && are_few) ||
         (both_are([](const at::Tensor& t) { return t.scalar_type() == at::kBFloat16; }) &&
          rows <= kernel::kLinearDotRows && w.size(1) >= kernel::kLinearDotInputs);
}

namespace {

// y = x w^T + bias, of f32 but for the weight, which may be bf16.
void multiply_few_rows(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                       const at::Tensor& y) {
  kernel::LinearArgs args;
  args.rows = x.size(0);
  args.inputs = x.size(1);
  args.outputs = w.size(0);
  args.x = x.const_data_ptr<float>();
  args.x_row = x.stride(0);
  if (w.scalar_type() == at::kBFloat16) {
    args.w_bf16 = reinterpret_cast<const std::uint16_t*>(w.const_data_ptr<at::BFloat16>());
  } else {
    args.w = w.const_data_ptr<float>();
  }
  args.w_row = w.stride(0);
  args.bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  args.y = y.mutable_data_ptr<float>();
  args.y_row = y.size(1);
  const auto& kernels = fastest_kernels<kernel::LinearKernels>();
  const at::Tensor prepared =
      at::empty({static_cast<std::int64_t>(kernels.prepared_bytes(args))}, at::kByte);
  // body(begin, end) of so many outputs or inputs. A thread's work should be worth waking it: it
  // has at least `least` of what a unit has `of_unit` of.
  const auto share = [](std::int64_t count, std::int64_t unit, std::int64_t least,
                        std::int64_t of_unit, const auto& body) {
    parallel_for((count + unit - 1) / unit, least / of_unit + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   body(begin * unit, std::min(end * unit, count));
                 });
  };
  constexpr std::int64_t kCopies = 1 << 14, kMultiplyAdds = 1 << 17;
  share(args.inputs, kernel::kLinearInputUnit, kCopies, args.rows * kernel::kLinearInputUnit,
        [&](std::int64_t begin, std::int64_t end) {
          kernels.prepare(args, prepared.data_ptr(), begin, end);
        });
  share(args.outputs, kernel::kLinearUnit, kMultiplyAdds,
        args.rows * args.inputs * kernel::kLinearUnit, [&](std::int64_t begin, std::int64_t end) {
          kernels.multiply(args, prepared.const_data_ptr(), begin, end);
        });
}

}  // namespace

at::Tensor few_rows_linear(const at::Tensor& given, const at::Tensor& w, const at::Tensor& bias) {
  const at::Tensor wide = given.to(at::kFloat);
  const at::Tensor x = wide.stride(1) == 1 ? wide : wide.contiguous();
  const at::Tensor shift = bias.defined() ? bias.to(at::kFloat).contiguous() : bias;
  const at::Tensor y = at::empty({x.size(0), w.size(0)}, x.options());
  run_traced("few rows", {x, w, shift}, {y}, [](const std::vector<at::Tensor>& t, std::int64_t) {
    multiply_few_rows(t[0], t[1], t[2], t[3]);
  });
  return y.to(w.scalar_type());
}

}  // namespace mneme::tensor
