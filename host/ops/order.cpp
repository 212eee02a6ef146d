// Running sums, sorting and searching.
#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

void run_cumsum(OpCall& c) {
  const at::Tensor& x = c.in(0);
  c.out() = at::cumsum(x, c.dim(0, x.dim(), 0), x.scalar_type());
}

// Stable, so that equal elements have one order on every device.
void run_sort(OpCall& c) {
  const int64_t dim = c.dim(0, c.in(0).dim(), -1);
  std::tie(c.out(0), c.out(1)) = at::sort(c.in(0), true, dim, c.flag(1, false));
}

void run_topk(OpCall& c) {
  const at::Tensor& x = c.in(0);
  const int64_t k = c.at_least(0, 0, 0);
  const int64_t dim = c.dim(1, x.dim(), -1);
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
  add_op(list,
         {.name = "cumsum/1",
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = {required_attr("dim", AttrType::kInteger, "dimension to add along")},
          .dtypes = "number",
          .help = "Running sum in x's dtype, each element included."},
         run_cumsum);
  add_op(list,
         {.name = "sort/1",
          .inputs = {data_input("x")},
          .outputs = {data_output("values"), index_output("indices")},
          .attrs = {optional_attr("dim", AttrType::kInteger, "-1", "dimension to sort along"),
                    optional_attr("descending", AttrType::kInteger, "0", "1: largest first")},
          .dtypes = "number",
          .help = "Sorted elements and where they stood. Equal elements keep their order; NaN is "
                  "larger than anything."},
         run_sort);
  add_op(list,
         {.name = "topk/1",
          .inputs = {data_input("x")},
          .outputs = {data_output("values"), index_output("indices")},
          .attrs = {required_attr("k", AttrType::kInteger, "how many"),
                    optional_attr("dim", AttrType::kInteger, "-1", "dimension to choose along"),
                    optional_attr("largest", AttrType::kInteger, "1", "0: the smallest"),
                    optional_attr("sorted", AttrType::kInteger, "1", "0: in any order")},
          .dtypes = "number",
          .help = "The k largest elements and where they stood. Which of equal elements is chosen "
                  "is not defined; sort/1 defines it."},
         run_topk);
  add_op(list,
         {.name = "searchsorted/1",
          .inputs = {data_input("sorted"), data_input("values")},
          .outputs = {index_output("indices")},
          .attrs = {optional_attr("right", AttrType::kInteger, "0",
                                  "0: count of elements < value, 1: <= value")},
          .dtypes = "number",
          .is_differentiable = false,
          .help = "Where each value would be put into the ascending last dimension of sorted. One "
                  "row [n] serves values of any shape; else [..., n] and [..., m] share their "
                  "leading dimensions."},
         run_searchsorted);
}

}  // namespace mneme::ops
