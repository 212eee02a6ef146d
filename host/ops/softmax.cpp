// Softmax and log-sum-exp. A row of -inf is a query without keys: its probabilities are 0, its
// log-sum-exp is -inf, and no gradient leaves it (LibTorch alone gives NaN).
#include <limits>

#include "host/ops/cpu_scan.hpp"
#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

bool needs_gradient(const at::Tensor& x) { return at::GradMode::is_enabled() && x.requires_grad(); }

void run_softmax(OpCall& c) {
  const at::Tensor& x = c.in(0);
  const int64_t dim = c.dim(0, x.dim(), -1);
  if (x.is_cpu()) {
    c.out() = at::softmax(x, dim);
    if (!may_have_nan_rows(c.out(), dim)) return;
  }
  c.out() = at::_safe_softmax(x, dim);
}

void run_log_softmax(OpCall& c) {
  const at::Tensor& x = c.in(0);
  const int64_t dim = c.dim(0, x.dim(), -1);
  if (x.is_cpu()) {
    c.out() = at::log_softmax(x, dim);
    if (!may_have_nan_rows(c.out(), dim)) return;
  }
  const at::Tensor is_absent = at::all(at::eq(x, kMinusInfinity), dim, true);
  const at::Tensor safe = at::masked_fill(x, is_absent, 0.0);
  c.out() = at::masked_fill(at::log_softmax(safe, dim), is_absent, kMinusInfinity);
}

void run_logsumexp(OpCall& c) {
  const at::Tensor& x = c.in(0);
  at::DimVector dims = c.dims(0, x.dim());
  if (!c.has(0)) {
    for (int64_t d = 0; d < x.dim(); ++d) dims.push_back(d);
  }
  const bool keepdim = c.flag(1, false);
  if (x.is_cpu() || !needs_gradient(x)) {
    c.out() = at::logsumexp(x, dims, keepdim);
    // Only the gradient of an infinite result is wrong.
    if (!needs_gradient(x) || !may_have_infinities(c.out())) return;
  }
  const at::Tensor is_absent = at::all(at::eq(x, kMinusInfinity), at::IntArrayRef(dims), true);
  const at::Tensor sum = at::logsumexp(at::masked_fill(x, is_absent, 0.0), dims, true);
  const at::Tensor result = at::masked_fill(sum, is_absent, kMinusInfinity);
  c.out() = keepdim || dims.empty() ? result : result.squeeze(at::IntArrayRef(dims));
}

void add_softmax(OpList& list, const char* name, const char* help, RunFunction run) {
  add_op(list,
         {.name = name,
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = {optional_attr("dim", AttrType::kInteger, "-1", "dimension that sums to 1")},
          .dtypes = "float",
          .help = help},
         run);
}

}  // namespace

void add_softmax_ops(OpList& list) {
  add_softmax(list, "softmax/1",
              "e^x over its sum; a row of -inf gives 0 everywhere and gradient 0.", run_softmax);
  add_softmax(list, "log_softmax/1",
              "x minus its log-sum-exp; a row of -inf gives -inf everywhere and gradient 0.",
              run_log_softmax);
  add_op(list,
         {.name = "logsumexp/1",
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = {optional_attr("dims", AttrType::kIntegers, "", "absent = all"),
                    optional_attr("keepdim", AttrType::kInteger, "0", "1: keep them, extent 1")},
          .dtypes = "float",
          .help = "ln of the sum of e^x; -inf of nothing and of a row of -inf, with gradient 0."},
         run_logsumexp);
}

}  // namespace mneme::ops
