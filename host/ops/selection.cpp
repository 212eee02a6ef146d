// Choosing elements by masks and limits, and changing how a tensor is stored.
#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
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

void add_where_op(OpList& list) {
  InputSchema a = optional_input("a");
  InputSchema b = optional_input("b");
  add_op(list,
         {.name = "where/1",
          .inputs = {mask_input("condition"), a, b},
          .outputs = {data_output()},
          .attrs = {optional_attr("a", AttrType::kReal, "", "stands for input a"),
                    optional_attr("b", AttrType::kReal, "", "stands for input b")},
          .dtypes = "any",
          .help = "a where condition is true, else b; broadcasts. The side that is not chosen has "
                  "gradient 0."},
         run_where);
}

}  // namespace

void add_selection_ops(OpList& list) {
  add_where_op(list);
  add_op(list,
         {.name = "clamp/1",
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = {optional_attr("min", AttrType::kReal, "", "lower limit; absent = none"),
                    optional_attr("max", AttrType::kReal, "", "upper limit; absent = none")},
          .dtypes = "number",
          .help = "x limited to [min, max]; gradient 0 outside, 1 on the limits."},
         run_clamp);
  add_op(list,
         {.name = "masked_fill/1",
          .inputs = {data_input("x"), mask_input("mask")},
          .outputs = {data_output()},
          .attrs = {required_attr("value", AttrType::kReal, "written where mask is true")},
          .dtypes = "any",
          .help = "x with value where mask is true; mask broadcasts to x, gradient 0 there."},
         run_masked_fill);
  add_op(list,
         {.name = "cast/1",
          .inputs = {data_input("x")},
          .outputs = {typed_output()},
          .attrs = {required_attr("dtype", AttrType::kInteger, "MNEME_F32 ... of the result")},
          .dtypes = "any",
          .help = "x in another dtype; towards integers rounds to zero, towards bool x != 0. "
                  "Gradients flow between float dtypes."},
         [](OpCall& c) { c.out() = c.in(0).to(c.dtype(0, 0)); });
  add_op(list,
         {.name = "detach/1",
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = {},
          .dtypes = "any",
          .is_differentiable = false,
          .help = "x without its gradient; shares x's memory."},
         [](OpCall& c) { c.out() = c.in(0).detach(); });
  add_op(list,
         {.name = "contiguous/1",
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = {},
          .dtypes = "any",
          .help = "x in row-major order; x itself when it is."},
         [](OpCall& c) { c.out() = c.in(0).contiguous(); });
}

}  // namespace mneme::ops
