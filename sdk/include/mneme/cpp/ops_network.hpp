// Products and the building blocks of networks.
#pragma once

#include "mneme/cpp/op_call.hpp"
#include "mneme/cpp/ops_macros.hpp"

namespace mneme {
inline namespace sdk_0_1 {

MNEME_SDK_OP(matmul)
template <typename Use = void>
Tensor matmul(const Operand& a, const Operand& b) {
  return detail::run<detail::op::matmul, Use>(a.site(), {a.raw(), b.raw()});
}
MNEME_SDK_OP(linear)
// x [..., in], w [out, in], b [out] or empty.
template <typename Use = void>
Tensor linear(const Operand& x, const Operand& w, const Operand& b = {}) {
  return detail::run<detail::op::linear, Use>(x.site(), {x.raw(), w.raw(), b.raw()});
}
MNEME_SDK_OP(einsum)
template <typename Use = void>
Tensor einsum(const char* equation, const std::vector<Tensor>& operands,
              CallSite site = CallSite::here()) {
  return detail::run_list<detail::op::einsum, Use>(operands, {detail::attr("equation", equation)},
                                                   site);
}
MNEME_SDK_OP(layer_norm)
// Over the last dimension; w and b may be empty.
template <typename Use = void>
Tensor layer_norm(const Operand& x, const Operand& w = {}, const Operand& b = {},
                  double eps = 1e-5) {
  return detail::run<detail::op::layer_norm, Use>(x.site(), {x.raw(), w.raw(), b.raw()},
                                                  {detail::attr("eps", eps)});
}

struct Conv1dSettings {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
};
MNEME_SDK_OP(conv1d)
// x [B, in, T], w [out, in / groups, taps], b [out] or empty.
template <typename Use = void>
Tensor conv1d(const Operand& x, const Operand& w, const Operand& b = {},
              const Conv1dSettings& settings = {}) {
  return detail::run<detail::op::conv1d, Use>(
      x.site(), {x.raw(), w.raw(), b.raw()},
      {detail::attr("stride", settings.stride), detail::attr("padding", settings.padding),
       detail::attr("dilation", settings.dilation), detail::attr("groups", settings.groups)});
}

MNEME_SDK_OP(rotate)
// Rotary positions: heads x [B,T,H,d] turned by places [B,T] or [1,T], i64; gradients flow into x.
template <typename Use = void>
Tensor rotate(const Operand& x, const Operand& places, double base = 10000.0) {
  return detail::run<detail::op::rotate, Use>(x.site(), {x.raw(), places.raw()},
                                              {detail::attr("base", base)});
}

// stride 0 = the window itself.
MNEME_SDK_OP(max_pool1d)
template <typename Use = void>
Tensor max_pool1d(const Operand& x, int64_t kernel, int64_t stride = 0, int64_t padding = 0,
                  int64_t dilation = 1) {
  return detail::run<detail::op::max_pool1d, Use>(
      x.site(), {x.raw()},
      {detail::attr("kernel", kernel), detail::attr("stride", stride == 0 ? kernel : stride),
       detail::attr("padding", padding), detail::attr("dilation", dilation)});
}
MNEME_SDK_OP(avg_pool1d)
template <typename Use = void>
Tensor avg_pool1d(const Operand& x, int64_t kernel, int64_t stride = 0, int64_t padding = 0) {
  return detail::run<detail::op::avg_pool1d, Use>(
      x.site(), {x.raw()},
      {detail::attr("kernel", kernel), detail::attr("stride", stride == 0 ? kernel : stride),
       detail::attr("padding", padding)});
}

}  // namespace sdk_0_1
}  // namespace mneme

#include "mneme/cpp/ops_undefine.hpp"
