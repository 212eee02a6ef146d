// Ops element by element: operators, functions, comparisons, selection, dtypes.
#pragma once

#include <optional>

#include "mneme/cpp/op_call.hpp"
#include "mneme/cpp/ops_macros.hpp"

namespace mneme {
inline namespace sdk_0_1 {

MNEME_SDK_OPERATOR(+, add)
MNEME_SDK_OPERATOR(-, sub)
MNEME_SDK_OPERATOR(*, mul)
MNEME_SDK_OPERATOR(/, div)
MNEME_SDK_UNARY(neg)
template <typename Use = void>
Tensor operator-(const Operand& x) {
  return neg<Use>(x);
}

MNEME_SDK_BINARY(pow)
MNEME_SDK_BINARY(maximum)
MNEME_SDK_BINARY(minimum)
MNEME_SDK_BINARY(logaddexp)
MNEME_SDK_BINARY(fmod)

// Comparisons give bool tensors.
MNEME_SDK_BINARY(eq)
MNEME_SDK_BINARY(ne)
MNEME_SDK_BINARY(lt)
MNEME_SDK_BINARY(le)
MNEME_SDK_BINARY(gt)
MNEME_SDK_BINARY(ge)
MNEME_SDK_OP(logical_and)
template <typename Use = void>
Tensor logical_and(const Operand& a, const Operand& b) {
  return detail::run<detail::op::logical_and, Use>(a.site(), {a.raw(), b.raw()});
}
MNEME_SDK_OP(logical_or)
template <typename Use = void>
Tensor logical_or(const Operand& a, const Operand& b) {
  return detail::run<detail::op::logical_or, Use>(a.site(), {a.raw(), b.raw()});
}
MNEME_SDK_UNARY(logical_not)
MNEME_SDK_UNARY(isfinite)

MNEME_SDK_UNARY(abs)
MNEME_SDK_UNARY(sign)
MNEME_SDK_UNARY(exp)
MNEME_SDK_UNARY(expm1)
MNEME_SDK_UNARY(log)
MNEME_SDK_UNARY(log1p)
MNEME_SDK_UNARY(sqrt)
MNEME_SDK_UNARY(rsqrt)
MNEME_SDK_UNARY(square)
MNEME_SDK_UNARY(reciprocal)
MNEME_SDK_UNARY(sin)
MNEME_SDK_UNARY(cos)
MNEME_SDK_UNARY(erf)
MNEME_SDK_UNARY(normal_cdf)
MNEME_SDK_UNARY(floor)
MNEME_SDK_UNARY(round)

MNEME_SDK_UNARY(sigmoid)
MNEME_SDK_UNARY(tanh)
MNEME_SDK_UNARY(relu)
MNEME_SDK_UNARY(silu)
MNEME_SDK_UNARY(softplus)
MNEME_SDK_OP(gelu)
// approximate: "none" or "tanh".
template <typename Use = void>
Tensor gelu(const Operand& x, const char* approximate = "none") {
  return detail::run<detail::op::gelu, Use>(x.site(), {x.raw()},
                                            {detail::attr("approximate", approximate)});
}
MNEME_SDK_OP(elu)
template <typename Use = void>
Tensor elu(const Operand& x, double alpha = 1.0) {
  return detail::run<detail::op::elu, Use>(x.site(), {x.raw()}, {detail::attr("alpha", alpha)});
}

// a where the condition is true, else b.
MNEME_SDK_OP(where)
template <typename Use = void>
Tensor where(const Operand& condition, const Operand& a, const Operand& b) {
  return detail::run<detail::op::where, Use>(condition.site(), {condition.raw(), a.raw(), b.raw()});
}
template <typename Use = void>
Tensor where(const Operand& condition, const Operand& a, double b) {
  return detail::run<detail::op::where, Use>(condition.site(), {condition.raw(), a.raw(), 0},
                                             {detail::attr("b", b)});
}
template <typename Use = void>
Tensor where(const Operand& condition, double a, const Operand& b) {
  return detail::run<detail::op::where, Use>(condition.site(), {condition.raw(), 0, b.raw()},
                                             {detail::attr("a", a)});
}
MNEME_SDK_OP(masked_fill)
template <typename Use = void>
Tensor masked_fill(const Operand& x, const Operand& mask, double value) {
  return detail::run<detail::op::masked_fill, Use>(x.site(), {x.raw(), mask.raw()},
                                                   {detail::attr("value", value)});
}
MNEME_SDK_OP(clamp)
template <typename Use = void>
Tensor clamp(const Operand& x, double min, double max) {
  return detail::run<detail::op::clamp, Use>(x.site(), {x.raw()},
                                             {detail::attr("min", min), detail::attr("max", max)});
}
template <typename Use = void>
Tensor clamp_min(const Operand& x, double min) {
  return detail::run<detail::op::clamp, Use>(x.site(), {x.raw()}, {detail::attr("min", min)});
}
template <typename Use = void>
Tensor clamp_max(const Operand& x, double max) {
  return detail::run<detail::op::clamp, Use>(x.site(), {x.raw()}, {detail::attr("max", max)});
}

MNEME_SDK_OP(cast)
template <typename Use = void>
Tensor cast(const Operand& x, DType dtype) {
  return detail::run<detail::op::cast, Use>(x.site(), {x.raw()}, {detail::attr("dtype", dtype)});
}
MNEME_SDK_UNARY(detach)
MNEME_SDK_UNARY(contiguous)

}  // namespace sdk_0_1
}  // namespace mneme

#include "mneme/cpp/ops_undefine.hpp"
