// Ops that choose or place elements: by index, by mask and limit; conversions of dtype and layout;
// joining, repeating and padding.

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
void check_within(const OpCall& c, std::size_t index, std::size_t target, std::int64_t skipped) {
  for (std::int64_t d = 0; d < c.in(index).dim(); ++d) {
    if (d == skipped || c.in(index).size(d) <= c.in(target).size(d)) continue;
    c.fail_shape(str('"', c.input_name(index), "\" no longer than \"", c.input_name(target),
                     "\" in dimension ", d, ", ", c.in(target).size(d)),
                 str(c.in(index).size(d)));
  }
}

void run_gather(OpCall& c) {
  const std::int64_t dim = c.dim(0, c.in(0).dim(), 0);
  check_same_rank(c, 1, 0);
  check_within(c, 1, 0, dim);
  c.out() = at::gather(c.in(0), dim, c.in(1));
}

void run_take_along_dim(OpCall& c) {
  const std::int64_t dim = c.dim(0, c.in(0).dim(), 0);
  check_same_rank(c, 1, 0);
  for (std::int64_t d = 0; d < c.in(0).dim(); ++d) {
    const std::int64_t m = c.in(0).size(d);
    const std::int64_t n = c.in(1).size(d);
    if (d == dim || m == n || m == 1 || n == 1) continue;
    c.fail_shape(str("\"x\" and \"index\" that broadcast outside dimension ", dim),
                 str(shape_text(c.in(0).sizes()), " and ", shape_text(c.in(1).sizes())));
  }
  c.out() = at::take_along_dim(c.in(0), c.in(1), dim);
}

void run_index_select(OpCall& c) {
  const std::int64_t dim = c.dim(0, c.in(0).dim(), 0);
  c.check_rank(1, 1);
  c.out() = at::index_select(c.in(0), dim, c.in(1));
}

void run_scatter_add(OpCall& c) {
  const std::int64_t dim = c.dim(0, c.in(0).dim(), 0);
  check_same_rank(c, 1, 0);
  check_same_rank(c, 2, 0);
  check_within(c, 1, 2, -1);
  check_within(c, 1, 0, dim);
  c.out() = at::scatter_add(c.in(0), dim, c.in(1), c.in(2));
}

// By comparison: LibTorch's own one_hot reads the indices back on the CPU to check them.
void run_one_hot(OpCall& c) {
  const std::int64_t classes = c.at_least(0, 1, 1);
  const at::ScalarType type = c.dtype(1, MNEME_I64);
  const at::Tensor& index = c.in(0);
  const at::Tensor all = at::arange(classes, index.options());
  c.out() = at::eq(index.unsqueeze(-1), all).to(type);
}

}  // namespace

void add_index_ops(OpList& list) {
  using enum AttrType;
  const char* const out_of_range =
      " An index out of range is an error on the CPU and ends the run on CUDA.";
  const AttrSchema dim = required_attr("dim", kInteger, "dimension that index counts in");
  add_op(list, "gather/1 (x, index:i64) -> y  [any]",
         str("y[i][j][k] = x[i][index[i][j][k]][k] for dim 1; y has index's shape, which exceeds "
             "x's in no other dimension.",
             out_of_range),
         run_gather, {dim});
  add_op(list, "take_along_dim/1 (x, index:i64) -> y  [any]",
         str("gather/1 with x and index broadcast in the other dimensions.", out_of_range),
         run_take_along_dim, {dim});
  add_op(list, "index_select/1 (x, index:i64) -> y  [any]",
         str("The slices of x along dim that index [n] names, in its order.", out_of_range),
         run_index_select, {dim});
  add_op(list, "scatter_add/1 (x, index:i64, src) -> y  [number]",
         str("x plus src[i][j] at [i][index[i][j]] for dim 1; the order of additions is not "
             "defined on CUDA.",
             out_of_range),
         run_scatter_add, {dim});
  add_op(list, "one_hot/1 (index:i64) -> y:dtype  [any, no gradient]",
         "1 at [..., index[...]], 0 elsewhere; an index out of range gives a row of 0.",
         run_one_hot,
         {required_attr("classes", kInteger, "extent of the new dimension"),
          optional_attr("dtype", kInteger, "MNEME_I64", "of the result")});
}

// --- Choosing elements by masks and limits, and changing how a tensor is stored ---

namespace {

void check_operand(const OpCall& c, std::size_t input, std::size_t attr) {
  if (c.has_input(input) != c.has(attr)) return;
  c.fail(MNEME_E_INVALID_ARGUMENT, "wrong operands",
         str("either input \"", c.input_name(input), "\" or attribute \"", c.attr_name(attr), '"'));
}

void run_where(OpCall& c) {
  check_operand(c, 1, 0);
  check_operand(c, 2, 1);
  const bool has_a = c.has_input(1);
  const bool has_b = c.has_input(2);
  if (!has_a && !has_b) {
    c.fail(MNEME_E_INVALID_ARGUMENT, "wrong operands", "a tensor for \"a\" or for \"b\"");
  }
  if (has_a) c.check_broadcast(0, 1);
  if (has_b) c.check_broadcast(0, 2);
  if (has_a && has_b) {
    c.check_broadcast(1, 2);
    c.out() = at::where(c.in(0), c.in(1), c.in(2));
  } else if (has_a) {
    c.out() = at::where(c.in(0), c.in(1), c.scalar(1, c.in(1).scalar_type(), 0.0));
  } else {
    c.out() = at::where(c.in(0), c.scalar(0, c.in(2).scalar_type(), 0.0), c.in(2));
  }
}

void run_clamp(OpCall& c) {
  if (!c.has(0) && !c.has(1)) {
    c.fail(MNEME_E_INVALID_ARGUMENT, "no limit", "attribute \"min\", \"max\" or both");
  }
  const at::ScalarType type = c.in(0).scalar_type();
  std::optional<at::Scalar> low;
  std::optional<at::Scalar> high;
  if (c.has(0)) low = c.scalar(0, type, 0.0);
  if (c.has(1)) high = c.scalar(1, type, 0.0);
  if (low && high && !(c.real(0, 0.0) <= c.real(1, 0.0))) {
    c.fail_attr(0, str("at most max, ", c.real(1, 0.0)), str(c.real(0, 0.0)));
  }
  c.out() = at::clamp(c.in(0), low, high);
}

void run_masked_fill(OpCall& c) {
  c.check_broadcasts_to(1, 0);
  c.out() = at::masked_fill(c.in(0), c.in(1), c.scalar(0, c.in(0).scalar_type(), 0.0));
}

}  // namespace

void add_selection_ops(OpList& list) {
  using enum AttrType;
  add_op(list, "where/1 (condition:bool, a?, b?) -> y  [any]",
         "a where condition is true, else b; broadcasts. The side that is not chosen has gradient "
         "0.",
         run_where,
         {optional_attr("a", kReal, "", "stands for input a"),
          optional_attr("b", kReal, "", "stands for input b")});
  add_op(list, "clamp/1 (x) -> y  [number]",
         "x limited to [min, max]; gradient 0 outside, 1 on the limits.", run_clamp,
         {optional_attr("min", kReal, "", "lower limit; absent = none"),
          optional_attr("max", kReal, "", "upper limit; absent = none")});
  add_op(list, "masked_fill/1 (x, mask:bool) -> y  [any]",
         "x with value where mask is true; mask broadcasts to x, gradient 0 there.",
         run_masked_fill, {required_attr("value", kReal, "written where mask is true")});
  add_op(list, "cast/1 (x) -> y:dtype  [any]",
         "x in another dtype; towards integers rounds to zero, towards bool x != 0. Gradients flow "
         "between float dtypes.",
         [](OpCall& c) { c.out() = c.in(0).to(c.dtype(0, 0)); },
         {required_attr("dtype", kInteger, "MNEME_F32 ... of the result")});
  add_op(list, "detach/1 (x) -> y  [any, no gradient]",
         "x without its gradient; shares x's memory.",
         [](OpCall& c) { c.out() = c.in(0).detach(); });
  add_op(list, "contiguous/1 (x) -> y  [any]", "x in row-major order; x itself when it is.",
         [](OpCall& c) { c.out() = c.in(0).contiguous(); });
}

// --- Joining, repeating and padding ---

namespace {

void check_same_shapes(const OpCall& c, std::int64_t free_dim) {
  const at::TensorList parts = c.list(0);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    bool fits = parts[i].dim() == parts[0].dim();
    for (std::int64_t d = 0; fits && d < parts[0].dim(); ++d) {
      fits = d == free_dim || parts[i].size(d) == parts[0].size(d);
    }
    if (fits) continue;
    const std::string but = free_dim < 0 ? "" : str(" outside dimension ", free_dim);
    c.fail_shape(str("the shape of ", c.input_name(0), but, ", ", shape_text(parts[0].sizes())),
                 str(shape_text(parts[i].sizes()), " for ", c.input_name(i)));
  }
}

void run_cat(OpCall& c) {
  const std::int64_t dim = c.dim(0, c.in(0).dim(), 0);
  check_same_shapes(c, dim);
  c.out() = at::cat(c.list(0), dim);
}

void run_stack(OpCall& c) {
  const std::int64_t dim = c.dim(0, c.in(0).dim() + 1, 0);
  check_same_shapes(c, -1);
  c.out() = at::stack(c.list(0), dim);
}

void check_not_negative(const OpCall& c, std::size_t attr) {
  for (const std::int64_t n : c.integers(attr)) {
    if (n < 0) c.fail_attr(attr, "no negative number", shape_text(c.integers(attr)));
  }
}

void run_repeat(OpCall& c) {
  check_not_negative(c, 0);
  if (static_cast<std::int64_t>(c.integers(0).size()) != c.in(0).dim()) {
    c.fail_attr(0, str("one number a dimension, ", c.in(0).dim()), shape_text(c.integers(0)));
  }
  c.out() = c.in(0).repeat(c.integers(0));
}

void run_repeat_interleave(OpCall& c) {
  const std::int64_t repeats = c.at_least(0, 0, 0);
  const std::int64_t dim = c.dim(1, c.in(0).dim(), 0);
  c.out() = at::repeat_interleave(c.in(0), repeats, dim);
}

void run_pad(OpCall& c) {
  check_not_negative(c, 0);
  const std::size_t count = c.integers(0).size();
  if (count % 2 != 0 || static_cast<std::int64_t>(count) > 2 * c.in(0).dim()) {
    c.fail_attr(0, str("pairs (before, after), last dimension first, at most ", c.in(0).dim()),
                shape_text(c.integers(0)));
  }
  const at::Scalar value = c.scalar(1, c.in(0).scalar_type(), 0.0);
  c.out() = at::constant_pad_nd(c.in(0), c.integers(0), value);
}

}  // namespace

void add_join_ops(OpList& list) {
  using enum AttrType;
  add_op(list, "cat/1 (parts*) -> y  [any]",
         "The parts one after the other along dim; their other extents are equal.", run_cat,
         {required_attr("dim", kInteger, "dimension to join along")});
  add_op(list, "stack/1 (parts*) -> y  [any]", "Parts of one shape along a new dimension.",
         run_stack, {required_attr("dim", kInteger, "place of the new dimension")});
  add_op(list, "repeat/1 (x) -> y  [any]", "x repeated as a whole along each dimension.",
         run_repeat, {required_attr("repeats", kIntegers, "how often, one number a dimension")});
  add_op(list, "repeat_interleave/1 (x) -> y  [any]",
         "Each slice of x along dim repeated in place: a a b b.", run_repeat_interleave,
         {required_attr("repeats", kInteger, "how often"),
          required_attr("dim", kInteger, "dimension")});
  add_op(list, "pad/1 (x) -> y  [any]", "x with constant places added at its ends.", run_pad,
         {required_attr("pads", kIntegers, "(before, after) pairs, last dimension first"),
          optional_attr("value", kReal, "0.0", "what the new places hold")});
}

}  // namespace mneme::ops
