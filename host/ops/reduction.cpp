// Reductions over dimensions, running sums, sorting and searching.

#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

constexpr std::size_t kDims = 0;
constexpr std::size_t kKeepdim = 1;

// The dimensions as LibTorch takes them: none = all.
at::OptionalIntArrayRef all_if_empty(const at::DimVector& dims) {
  if (dims.empty()) return std::nullopt;
  return at::IntArrayRef(dims);
}

// Number of elements that go into one result.
std::int64_t reduced_count(const at::Tensor& x, const at::DimVector& dims) {
  if (dims.empty()) return x.numel();
  std::int64_t count = 1;
  for (const std::int64_t d : dims) count *= x.size(d);
  return count;
}

void check_not_empty(const OpCall& c, const at::DimVector& dims) {
  if (reduced_count(c.in(0), dims) > 0) return;
  c.fail_shape("at least one element along the reduced dimensions", shape_text(c.in(0).sizes()),
               "the result of an empty reduction is not defined");
}

using Reduction = at::Tensor (*)(const at::Tensor&, at::OptionalIntArrayRef dims, bool keepdim);

template <Reduction kFunction, bool kNeedsElements = false>
void run_reduction(OpCall& c) {
  const at::DimVector dims = c.dims(kDims, c.in(0).dim());
  const bool keepdim = c.flag(kKeepdim, false);
  if (kNeedsElements) check_not_empty(c, dims);
  c.out() = kFunction(c.in(0), all_if_empty(dims), keepdim);
}

at::Tensor sum(const at::Tensor& x, at::OptionalIntArrayRef dims, bool keepdim) {
  return at::sum(x, dims, keepdim, x.scalar_type());
}
at::Tensor mean(const at::Tensor& x, at::OptionalIntArrayRef dims, bool keepdim) {
  return at::mean(x, dims, keepdim);
}
at::Tensor amax(const at::Tensor& x, at::OptionalIntArrayRef dims, bool keepdim) {
  return at::amax(x, dims.value_or(at::IntArrayRef()), keepdim);
}
at::Tensor amin(const at::Tensor& x, at::OptionalIntArrayRef dims, bool keepdim) {
  return at::amin(x, dims.value_or(at::IntArrayRef()), keepdim);
}
at::Tensor norm2(const at::Tensor& x, at::OptionalIntArrayRef dims, bool keepdim) {
  return at::linalg_vector_norm(x, 2, dims, keepdim);
}

void run_var(OpCall& c) {
  const at::DimVector dims = c.dims(kDims, c.in(0).dim());
  const std::int64_t correction = c.at_least(2, 0, 1);
  const std::int64_t count = reduced_count(c.in(0), dims);
  if (count <= correction) {
    c.fail_shape(str("more than ", correction, " elements along the reduced dimensions"),
                 str(count));
  }
  c.out() = at::var(c.in(0), all_if_empty(dims), correction, c.flag(kKeepdim, false));
}

std::vector<AttrSchema> dims_and_keepdim() {
  return {optional_attr("dims", AttrType::kIntegers, "", "dimensions to reduce; absent = all"),
          optional_attr("keepdim", AttrType::kInteger, "0", "1: keep them with extent 1")};
}

void add_reduction(OpList& list, const char* name, const char* data, const char* help,
                   RunFunction run) {
  add_op(list, str(name, " (x) -> y  [", data, ']'), help, run, dims_and_keepdim());
}

// Reductions over one dimension, or over all elements without one.
using SingleReduction = at::Tensor (*)(const at::Tensor&, std::optional<std::int64_t> dim,
                                       bool keepdim);

template <SingleReduction kFunction, bool kNeedsElements>
void run_single(OpCall& c) {
  const at::Tensor& x = c.in(0);
  const bool keepdim = c.flag(kKeepdim, false);
  at::DimVector dims;
  if (c.has(0)) dims.push_back(c.dim(0, x.dim(), 0));
  if (kNeedsElements) check_not_empty(c, dims);
  if (!dims.empty()) {
    c.out() = kFunction(x, dims[0], keepdim);
    return;
  }
  const at::Tensor result = kFunction(x, std::nullopt, false);
  c.out() = keepdim ? result.reshape(at::DimVector(x.dim(), 1)) : result;
}

at::Tensor prod(const at::Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  return dim ? at::prod(x, *dim, keepdim, x.scalar_type()) : at::prod(x, x.scalar_type());
}

void add_single(OpList& list, const char* signature, const char* help, RunFunction run) {
  add_op(list, signature, help, run,
         {optional_attr("dim", AttrType::kInteger, "", "dimension; absent = all elements"),
          optional_attr("keepdim", AttrType::kInteger, "0", "1: keep it with extent 1")});
}

void add_var_op(OpList& list) {
  std::vector<AttrSchema> attrs = dims_and_keepdim();
  attrs.push_back(
      optional_attr("correction", AttrType::kInteger, "1", "divisor is the count minus this"));
  add_op(list, "var/1 (x) -> y  [float]", "Variance; the count has to exceed correction.", run_var,
         std::move(attrs));
}

}  // namespace

void add_reduction_ops(OpList& list) {
  add_reduction(list, "sum/1", "number", "Sum in x's dtype; 0 of nothing.", run_reduction<sum>);
  add_reduction(list, "mean/1", "float", "Mean; an empty one is an error.",
                run_reduction<mean, true>);
  add_reduction(list, "amax/1", "number",
                "Largest element; equal ones share the gradient. An empty one is an error.",
                run_reduction<amax, true>);
  add_reduction(list, "amin/1", "number",
                "Smallest element; equal ones share the gradient. An empty one is an error.",
                run_reduction<amin, true>);
  add_reduction(list, "norm2/1", "float", "Square root of the sum of squares; gradient 0 at 0.",
                run_reduction<norm2>);
  add_reduction(list, "any/1", "bool, no gradient", "True where any is true; false of nothing.",
                run_reduction<at::any>);
  add_reduction(list, "all/1", "bool, no gradient", "True where all are true; true of nothing.",
                run_reduction<at::all>);
  add_var_op(list);
  add_single(list, "prod/1 (x) -> y  [number]", "Product in x's dtype; 1 of nothing.",
             run_single<prod, false>);
  add_single(list, "argmax/1 (x) -> y:i64  [number, no gradient]",
             "Index of the largest element, the first of equals; over all elements in row-major "
             "order.",
             run_single<at::argmax, true>);
  add_single(list, "argmin/1 (x) -> y:i64  [number, no gradient]",
             "Index of the smallest element, the first of equals; over all elements in row-major "
             "order.",
             run_single<at::argmin, true>);
}

// --- Running sums, sorting and searching ---

namespace {

void run_cumsum(OpCall& c) {
  const at::Tensor& x = c.in(0);
  c.out() = at::cumsum(x, c.dim(0, x.dim(), 0), x.scalar_type());
}

// Stable, so that equal elements have one order on every device.
void run_sort(OpCall& c) {
  const std::int64_t dim = c.dim(0, c.in(0).dim(), -1);
  std::tie(c.out(0), c.out(1)) = at::sort(c.in(0), true, dim, c.flag(1, false));
}

void run_topk(OpCall& c) {
  const at::Tensor& x = c.in(0);
  const std::int64_t k = c.at_least(0, 0, 0);
  const std::int64_t dim = c.dim(1, x.dim(), -1);
  if (k > x.size(dim)) c.fail_attr(0, str("at most the extent, ", x.size(dim)), str(k));
  std::tie(c.out(0), c.out(1)) = at::topk(x, k, dim, c.flag(2, true), c.flag(3, true));
}

void run_searchsorted(OpCall& c) {
  c.check_rank_at_least(0, 1);
  const at::IntArrayRef sorted = c.in(0).sizes();
  const at::IntArrayRef values = c.in(1).sizes();
  const bool is_shared = sorted.size() == 1;
  if (!is_shared && (sorted.size() != values.size() ||
                     sorted.slice(0, sorted.size() - 1) != values.slice(0, values.size() - 1))) {
    c.fail_shape("sorted [n] and values of any shape, or [..., n] and [..., m]",
                 str(shape_text(sorted), " and ", shape_text(values)));
  }
  // LibTorch warns on stderr about strided arguments, which it would copy as well.
  c.out() = at::searchsorted(c.in(0).contiguous(), c.in(1).contiguous(), false, c.flag(0, false));
}

}  // namespace

void add_order_ops(OpList& list) {
  using enum AttrType;
  add_op(list, "cumsum/1 (x) -> y  [number]", "Running sum in x's dtype, each element included.",
         run_cumsum, {required_attr("dim", kInteger, "dimension to add along")});
  add_op(list, "sort/1 (x) -> values, indices:i64  [number]",
         "Sorted elements and where they stood. Equal elements keep their order; NaN is larger "
         "than anything.",
         run_sort,
         {optional_attr("dim", kInteger, "-1", "dimension to sort along"),
          optional_attr("descending", kInteger, "0", "1: largest first")});
  add_op(list, "topk/1 (x) -> values, indices:i64  [number]",
         "The k largest elements and where they stood. Which of equal elements is chosen is not "
         "defined; sort/1 defines it.",
         run_topk,
         {required_attr("k", kInteger, "how many"),
          optional_attr("dim", kInteger, "-1", "dimension to choose along"),
          optional_attr("largest", kInteger, "1", "0: the smallest"),
          optional_attr("sorted", kInteger, "1", "0: in any order")});
  add_op(list, "searchsorted/1 (sorted, values) -> indices:i64  [number, no gradient]",
         "Where each value would be put into the ascending last dimension of sorted. One row [n] "
         "serves values of any shape; else [..., n] and [..., m] share their leading dimensions.",
         run_searchsorted,
         {optional_attr("right", kInteger, "0", "0: count of elements < value, 1: <= value")});
}

}  // namespace mneme::ops
