#include "host/tensor/padded_product.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "host/tensor/torch_function.hpp"

namespace mneme::tensor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local bool pads_on_cpu = false;

constexpr std::int64_t kRoom = kPaddedTo - 1;  // behind the last row

bool is_padded(std::int64_t n) { return n == padded_size(n); }

std::vector<std::int64_t> padded_sizes(at::IntArrayRef sizes) {
  std::vector<std::int64_t> out = sizes.vec();
  for (std::int64_t& n : out) n = padded_size(n);
  return out;
}

// The first of all rows, and of their numbers, that a tensor with more of both has.
at::Tensor own_part(at::Tensor whole, at::IntArrayRef sizes) {
  for (std::size_t d = 0; d < sizes.size(); ++d)
    whole = whole.narrow(static_cast<std::int64_t>(d), 0, sizes[d]);
  return whole;
}

// Whether `sizes` numbers lie in t's memory from its first one on, by aligned rows.
bool has_room(const at::Tensor& t, at::IntArrayRef sizes) {
  const bool is_matrix = t.dim() == 2;
  if (t.stride(-1) != 1) return false;
  if (is_matrix && (t.stride(0) < sizes[1] || !is_padded(t.stride(0)))) return false;
  const std::int64_t end =
      t.storage_offset() + (is_matrix ? (sizes[0] - 1) * t.stride(0) : 0) + sizes.back();
  return end <= static_cast<std::int64_t>(t.storage().nbytes()) / t.element_size();
}

class PaddedLinear : public torch::autograd::Function<PaddedLinear> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& w,
                            const std::optional<at::Tensor>& bias) {
    const at::Tensor rows = padded_rows(x), factor = padded(w).t();
    ctx->save_for_backward({rows, w});
    ctx->saved_data["inputs"] = x.size(1);
    ctx->saved_data["has_bias"] = bias.has_value();
    const at::Tensor out = bias ? at::addmm(padded(*bias), rows, factor) : at::mm(rows, factor);
    return out.narrow(1, 0, w.size(0)).detach();
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &rows = saved[0], &w = saved[1];
    variable_list out(3);
    if (!grads[0].defined()) return out;
    const at::Tensor grad = padded_rows(grads[0]);
    if (ctx->needs_input_grad(0)) {
      out[0] = at::mm(grad, padded(w)).narrow(1, 0, ctx->saved_data["inputs"].toInt());
    }
    if (ctx->needs_input_grad(1)) out[1] = own_part(at::mm(grad.t(), rows), w.sizes());
    if (ctx->saved_data["has_bias"].toBool() && ctx->needs_input_grad(2)) out[2] = grads[0].sum(0);
    return out;
  }
};

}  // namespace

bool pads_products(at::Device device, at::ScalarType type, at::IntArrayRef weight) {
  return type == at::kBFloat16 && (device.is_cuda() || (pads_on_cpu && device.is_cpu())) &&
         !std::ranges::all_of(weight, is_padded);
}

WithPaddedProducts::WithPaddedProducts() : before_(std::exchange(pads_on_cpu, true)) {}
WithPaddedProducts::~WithPaddedProducts() { pads_on_cpu = before_; }

at::Tensor copy_with_room(const at::Tensor& t, at::ScalarType type) {
  std::vector<std::int64_t> sizes = t.sizes().vec();
  if (t.dim() == 2) sizes[1] = padded_size(sizes[1]);
  sizes[0] += kRoom;
  const at::Tensor whole = at::zeros(sizes, t.options().dtype(type).requires_grad(false));
  return own_part(whole, t.sizes()).copy_(t);
}

at::Tensor padded(const at::Tensor& t) {
  const std::vector<std::int64_t> sizes = padded_sizes(t.sizes());
  const at::Tensor own = t.detach();
  if (own.sizes() == sizes) return own;
  if (has_room(own, sizes)) return own.as_strided(sizes, own.strides());
  const at::Tensor whole = at::zeros(sizes, own.options());
  own_part(whole, own.sizes()).copy_(own);
  return whole;
}

at::Tensor padded_rows(const at::Tensor& rows) {
  const std::int64_t width = rows.size(1), wide = padded_size(width);
  if (width == wide) return rows;
  const at::Tensor out = at::empty({rows.size(0), wide}, rows.options().requires_grad(false));
  out.narrow(1, 0, width).copy_(rows);
  out.narrow(1, width, wide - width).zero_();
  return out;
}

at::Tensor padded_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
  return PaddedLinear::apply(x, w, optional_input(bias));
}

}  // namespace mneme::tensor
