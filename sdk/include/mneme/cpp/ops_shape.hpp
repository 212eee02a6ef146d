// Ops that move elements: views, joins, indexing, and new tensors.
#pragma once

#include "mneme/cpp/op_call.hpp"
#include "mneme/cpp/ops_macros.hpp"

namespace mneme {
inline namespace sdk_0_1 {

MNEME_SDK_OP(reshape)
// One extent may be -1: it follows from the others.
template <typename Use = void>
Tensor reshape(const Operand& x, const Shape& shape) {
  return detail::run<detail::op::reshape, Use>(x.site(), {x.raw()}, {detail::attr("shape", shape)});
}
MNEME_SDK_OP(permute)
template <typename Use = void>
Tensor permute(const Operand& x, const Dims& dims) {
  return detail::run<detail::op::permute, Use>(x.site(), {x.raw()}, {detail::attr("dims", dims)});
}
MNEME_SDK_OP(transpose)
template <typename Use = void>
Tensor transpose(const Operand& x, int64_t dim0, int64_t dim1) {
  return detail::run<detail::op::transpose, Use>(
      x.site(), {x.raw()}, {detail::attr("dim0", dim0), detail::attr("dim1", dim1)});
}
MNEME_SDK_OP(unsqueeze)
template <typename Use = void>
Tensor unsqueeze(const Operand& x, int64_t dim) {
  return detail::run<detail::op::unsqueeze, Use>(x.site(), {x.raw()}, {detail::attr("dim", dim)});
}
MNEME_SDK_OP(squeeze)
template <typename Use = void>
Tensor squeeze(const Operand& x, int64_t dim) {
  return detail::run<detail::op::squeeze, Use>(x.site(), {x.raw()}, {detail::attr("dim", dim)});
}
MNEME_SDK_OP(expand)
template <typename Use = void>
Tensor expand(const Operand& x, const Shape& shape) {
  return detail::run<detail::op::expand, Use>(x.site(), {x.raw()}, {detail::attr("shape", shape)});
}
MNEME_SDK_OP(flatten)
template <typename Use = void>
Tensor flatten(const Operand& x, int64_t start = 0, int64_t end = -1) {
  return detail::run<detail::op::flatten, Use>(
      x.site(), {x.raw()}, {detail::attr("start", start), detail::attr("end", end)});
}
MNEME_SDK_OP(slice)
// Indices start, start + step, ... before end along dim, as a view; a negative index counts from
// the end.
template <typename Use = void>
Tensor slice(const Operand& x, int64_t dim, int64_t start, int64_t end = INT64_MAX,
             int64_t step = 1) {
  return detail::run<detail::op::slice, Use>(
      x.site(), {x.raw()},
      {detail::attr("dim", dim), detail::attr("start", start), detail::attr("end", end),
       detail::attr("step", step)});
}
MNEME_SDK_OP(flip)
template <typename Use = void>
Tensor flip(const Operand& x, const Dims& dims) {
  return detail::run<detail::op::flip, Use>(x.site(), {x.raw()}, {detail::attr("dims", dims)});
}
MNEME_SDK_OP(roll)
template <typename Use = void>
Tensor roll(const Operand& x, const Dims& shifts, const Dims& dims) {
  return detail::run<detail::op::roll, Use>(
      x.site(), {x.raw()}, {detail::attr("shifts", shifts), detail::attr("dims", dims)});
}
MNEME_SDK_OP(tril)
template <typename Use = void>
Tensor tril(const Operand& x, int64_t diagonal = 0) {
  return detail::run<detail::op::tril, Use>(x.site(), {x.raw()},
                                            {detail::attr("diagonal", diagonal)});
}
MNEME_SDK_OP(triu)
template <typename Use = void>
Tensor triu(const Operand& x, int64_t diagonal = 0) {
  return detail::run<detail::op::triu, Use>(x.site(), {x.raw()},
                                            {detail::attr("diagonal", diagonal)});
}

MNEME_SDK_OP(cat)
template <typename Use = void>
Tensor cat(const std::vector<Tensor>& parts, int64_t dim, CallSite site = CallSite::here()) {
  return detail::run_list<detail::op::cat, Use>(parts, {detail::attr("dim", dim)}, site);
}
MNEME_SDK_OP(stack)
template <typename Use = void>
Tensor stack(const std::vector<Tensor>& parts, int64_t dim, CallSite site = CallSite::here()) {
  return detail::run_list<detail::op::stack, Use>(parts, {detail::attr("dim", dim)}, site);
}
MNEME_SDK_OP(repeat)
template <typename Use = void>
Tensor repeat(const Operand& x, const Shape& repeats) {
  return detail::run<detail::op::repeat, Use>(x.site(), {x.raw()},
                                              {detail::attr("repeats", repeats)});
}
MNEME_SDK_OP(repeat_interleave)
template <typename Use = void>
Tensor repeat_interleave(const Operand& x, int64_t repeats, int64_t dim) {
  return detail::run<detail::op::repeat_interleave, Use>(
      x.site(), {x.raw()}, {detail::attr("repeats", repeats), detail::attr("dim", dim)});
}
MNEME_SDK_OP(pad)
// pads: (before, after) pairs, last dimension first.
template <typename Use = void>
Tensor pad(const Operand& x, const Shape& pads, double value = 0.0) {
  return detail::run<detail::op::pad, Use>(
      x.site(), {x.raw()}, {detail::attr("pads", pads), detail::attr("value", value)});
}

// index is i64 in all of these; `mneme abi ops` says how its shape relates to that of x.
MNEME_SDK_OP(gather)
template <typename Use = void>
Tensor gather(const Operand& x, const Operand& index, int64_t dim) {
  return detail::run<detail::op::gather, Use>(x.site(), {x.raw(), index.raw()},
                                              {detail::attr("dim", dim)});
}
MNEME_SDK_OP(take_along_dim)
template <typename Use = void>
Tensor take_along_dim(const Operand& x, const Operand& index, int64_t dim) {
  return detail::run<detail::op::take_along_dim, Use>(x.site(), {x.raw(), index.raw()},
                                                      {detail::attr("dim", dim)});
}
MNEME_SDK_OP(index_select)
template <typename Use = void>
Tensor index_select(const Operand& x, const Operand& index, int64_t dim) {
  return detail::run<detail::op::index_select, Use>(x.site(), {x.raw(), index.raw()},
                                                    {detail::attr("dim", dim)});
}
MNEME_SDK_OP(scatter_add)
template <typename Use = void>
Tensor scatter_add(const Operand& x, const Operand& index, const Operand& src, int64_t dim) {
  return detail::run<detail::op::scatter_add, Use>(x.site(), {x.raw(), index.raw(), src.raw()},
                                                   {detail::attr("dim", dim)});
}
MNEME_SDK_OP(one_hot)
template <typename Use = void>
Tensor one_hot(const Operand& index, int64_t classes, DType dtype = DType::kI64) {
  return detail::run<detail::op::one_hot, Use>(
      index.site(), {index.raw()},
      {detail::attr("classes", classes), detail::attr("dtype", dtype)});
}

MNEME_SDK_OP(full)
template <typename Use = void>
Tensor full(const Shape& shape, double value, DType dtype = DType::kF32,
            CallSite site = CallSite::here()) {
  return detail::run<detail::op::full, Use>(
      site, {},
      {detail::attr("shape", shape), detail::attr("value", value), detail::attr("dtype", dtype)});
}
MNEME_SDK_OP(arange)
template <typename Use = void>
Tensor arange(double start, double end, double step = 1.0, DType dtype = DType::kF32,
              CallSite site = CallSite::here()) {
  return detail::run<detail::op::arange, Use>(
      site, {},
      {detail::attr("start", start), detail::attr("end", end), detail::attr("step", step),
       detail::attr("dtype", dtype)});
}
MNEME_SDK_OP(linspace)
template <typename Use = void>
Tensor linspace(double start, double end, int64_t steps, DType dtype = DType::kF32,
                CallSite site = CallSite::here()) {
  return detail::run<detail::op::linspace, Use>(
      site, {},
      {detail::attr("start", start), detail::attr("end", end), detail::attr("steps", steps),
       detail::attr("dtype", dtype)});
}
MNEME_SDK_OP(eye)
template <typename Use = void>
Tensor eye(int64_t n, DType dtype = DType::kF32, CallSite site = CallSite::here()) {
  return detail::run<detail::op::eye, Use>(site, {},
                                           {detail::attr("n", n), detail::attr("dtype", dtype)});
}
MNEME_SDK_UNARY(zeros_like)
MNEME_SDK_OP(full_like)
template <typename Use = void>
Tensor full_like(const Operand& x, double value) {
  return detail::run<detail::op::full_like, Use>(x.site(), {x.raw()},
                                                 {detail::attr("value", value)});
}

}  // namespace sdk_0_1
}  // namespace mneme

#include "mneme/cpp/ops_undefine.hpp"
