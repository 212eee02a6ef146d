// Reading and adding by index.
#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

void check_same_rank(const OpCall& c, std::size_t input, std::size_t other) {
  if (c.in(input).dim() == c.in(other).dim()) return;
  c.fail_shape(str('"', c.input_name(input), "\" with as many dimensions as \"",
                   c.input_name(other), "\", ", c.in(other).dim()),
               shape_text(c.in(input).sizes()));
}

// `index` may reach no farther than `target` in any dimension but `skipped` (-1 = in none).
void check_within(const OpCall& c, std::size_t index, std::size_t target, int64_t skipped) {
  for (int64_t d = 0; d < c.in(index).dim(); ++d) {
    if (d == skipped || c.in(index).size(d) <= c.in(target).size(d)) continue;
    c.fail_shape(str('"', c.input_name(index), "\" no longer than \"", c.input_name(target),
                     "\" in dimension ", d, ", ", c.in(target).size(d)),
                 str(c.in(index).size(d)));
  }
}

void run_gather(OpCall& c) {
  const int64_t dim = c.dim(0, c.in(0).dim(), 0);
  check_same_rank(c, 1, 0);
  check_within(c, 1, 0, dim);
  c.out() = at::gather(c.in(0), dim, c.in(1));
}

void run_take_along_dim(OpCall& c) {
  const int64_t dim = c.dim(0, c.in(0).dim(), 0);
  check_same_rank(c, 1, 0);
  for (int64_t d = 0; d < c.in(0).dim(); ++d) {
    const int64_t m = c.in(0).size(d);
    const int64_t n = c.in(1).size(d);
    if (d == dim || m == n || m == 1 || n == 1) continue;
    c.fail_shape(str("\"x\" and \"index\" that broadcast outside dimension ", dim),
                 str(shape_text(c.in(0).sizes()), " and ", shape_text(c.in(1).sizes())));
  }
  c.out() = at::take_along_dim(c.in(0), c.in(1), dim);
}

void run_index_select(OpCall& c) {
  const int64_t dim = c.dim(0, c.in(0).dim(), 0);
  c.check_rank(1, 1);
  c.out() = at::index_select(c.in(0), dim, c.in(1));
}

void run_scatter_add(OpCall& c) {
  const int64_t dim = c.dim(0, c.in(0).dim(), 0);
  check_same_rank(c, 1, 0);
  check_same_rank(c, 2, 0);
  check_within(c, 1, 2, -1);
  check_within(c, 1, 0, dim);
  c.out() = at::scatter_add(c.in(0), dim, c.in(1), c.in(2));
}

// By comparison: LibTorch's own one_hot reads the indices back on the CPU to check them.
void run_one_hot(OpCall& c) {
  const int64_t classes = c.at_least(0, 1, 1);
  const at::ScalarType type = c.dtype(1, MNEME_I64);
  const at::Tensor& index = c.in(0);
  const at::Tensor all = at::arange(classes, index.options());
  c.out() = at::eq(index.unsqueeze(-1), all).to(type);
}

AttrSchema dim_attr(const char* help) { return required_attr("dim", AttrType::kInteger, help); }

void add_one_hot_op(OpList& list) {
  add_op(list,
         {.name = "one_hot/1",
          .inputs = {index_input("index")},
          .outputs = {typed_output()},
          .attrs = {required_attr("classes", AttrType::kInteger, "extent of the new dimension"),
                    optional_attr("dtype", AttrType::kInteger, "MNEME_I64", "of the result")},
          .dtypes = "any",
          .is_differentiable = false,
          .help = "1 at [..., index[...]], 0 elsewhere; an index out of range gives a row of 0."},
         run_one_hot);
}

}  // namespace

void add_index_ops(OpList& list) {
  const char* const out_of_range =
      " An index out of range is an error on the CPU and ends the run on CUDA.";
  add_op(list,
         {.name = "gather/1",
          .inputs = {data_input("x"), index_input("index")},
          .outputs = {data_output()},
          .attrs = {dim_attr("dimension that index counts in")},
          .dtypes = "any",
          .help = str("y[i][j][k] = x[i][index[i][j][k]][k] for dim 1; y has index's shape, which "
                      "exceeds x's in no other dimension.",
                      out_of_range)},
         run_gather);
  add_op(
      list,
      {.name = "take_along_dim/1",
       .inputs = {data_input("x"), index_input("index")},
       .outputs = {data_output()},
       .attrs = {dim_attr("dimension that index counts in")},
       .dtypes = "any",
       .help = str("gather/1 with x and index broadcast in the other dimensions.", out_of_range)},
      run_take_along_dim);
  add_op(
      list,
      {.name = "index_select/1",
       .inputs = {data_input("x"), index_input("index")},
       .outputs = {data_output()},
       .attrs = {dim_attr("dimension that index counts in")},
       .dtypes = "any",
       .help = str("The slices of x along dim that index [n] names, in its order.", out_of_range)},
      run_index_select);
  add_op(list,
         {.name = "scatter_add/1",
          .inputs = {data_input("x"), index_input("index"), data_input("src")},
          .outputs = {data_output()},
          .attrs = {dim_attr("dimension that index counts in")},
          .dtypes = "number",
          .help = str("x plus src[i][j] at [i][index[i][j]] for dim 1; the order of additions is "
                      "not defined on CUDA.",
                      out_of_range)},
         run_scatter_add);
  add_one_hot_op(list);
}

}  // namespace mneme::ops
