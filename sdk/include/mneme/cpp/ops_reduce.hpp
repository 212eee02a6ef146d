// Ops that reduce, normalise and order.
#pragma once

#include "mneme/cpp/op_call.hpp"
#include "mneme/cpp/ops_macros.hpp"

namespace mneme {
inline namespace sdk_0_1 {

MNEME_SDK_REDUCTION(sum)
MNEME_SDK_REDUCTION(mean)
MNEME_SDK_REDUCTION(amax)
MNEME_SDK_REDUCTION(amin)
MNEME_SDK_REDUCTION(norm2)
MNEME_SDK_REDUCTION(any)
MNEME_SDK_REDUCTION(all)
MNEME_SDK_REDUCTION(logsumexp)
MNEME_SDK_SINGLE_REDUCTION(prod)
MNEME_SDK_SINGLE_REDUCTION(argmax)
MNEME_SDK_SINGLE_REDUCTION(argmin)
MNEME_SDK_OP(var)
// The divisor is the number of elements less `correction`.
template <typename Use = void>
Tensor var(const Operand& x, const Dims& dims, bool keepdim = false, int64_t correction = 1) {
  return detail::run<detail::op::var, Use>(
      x.site(), {x.raw()},
      {detail::attr("dims", dims), detail::attr("keepdim", keepdim),
       detail::attr("correction", correction)});
}

MNEME_SDK_OP(softmax)
template <typename Use = void>
Tensor softmax(const Operand& x, int64_t dim = -1) {
  return detail::run<detail::op::softmax, Use>(x.site(), {x.raw()}, {detail::attr("dim", dim)});
}
MNEME_SDK_OP(log_softmax)
template <typename Use = void>
Tensor log_softmax(const Operand& x, int64_t dim = -1) {
  return detail::run<detail::op::log_softmax, Use>(x.site(), {x.raw()}, {detail::attr("dim", dim)});
}
MNEME_SDK_OP(cumsum)
template <typename Use = void>
Tensor cumsum(const Operand& x, int64_t dim) {
  return detail::run<detail::op::cumsum, Use>(x.site(), {x.raw()}, {detail::attr("dim", dim)});
}

// Elements in order, and the index (i64) of each along the dimension.
struct Ordered {
  Tensor values;
  Tensor indices;
};
MNEME_SDK_OP(sort)
template <typename Use = void>
Ordered sort(const Operand& x, int64_t dim = -1, bool descending = false) {
  auto out = detail::run_many<detail::op::sort, Use, 2>(
      x.site(), {x.raw()}, {detail::attr("dim", dim), detail::attr("descending", descending)});
  return {std::move(out[0]), std::move(out[1])};
}
MNEME_SDK_OP(topk)
template <typename Use = void>
Ordered topk(const Operand& x, int64_t k, int64_t dim = -1, bool largest = true,
             bool sorted = true) {
  auto out = detail::run_many<detail::op::topk, Use, 2>(
      x.site(), {x.raw()},
      {detail::attr("k", k), detail::attr("dim", dim), detail::attr("largest", largest),
       detail::attr("sorted", sorted)});
  return {std::move(out[0]), std::move(out[1])};
}
MNEME_SDK_OP(searchsorted)
// For each value the number of elements of `sorted` that are less than it; with `right`, less or
// equal.
template <typename Use = void>
Tensor searchsorted(const Operand& sorted, const Operand& values, bool right = false) {
  return detail::run<detail::op::searchsorted, Use>(sorted.site(), {sorted.raw(), values.raw()},
                                                    {detail::attr("right", right)});
}

}  // namespace sdk_0_1
}  // namespace mneme

#include "mneme/cpp/ops_undefine.hpp"
