// Joining, repeating and padding.
#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

void check_same_shapes(const OpCall& c, int64_t free_dim) {
  const at::TensorList parts = c.list(0);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    bool fits = parts[i].dim() == parts[0].dim();
    for (int64_t d = 0; fits && d < parts[0].dim(); ++d) {
      fits = d == free_dim || parts[i].size(d) == parts[0].size(d);
    }
    if (fits) continue;
    const std::string but = free_dim < 0 ? "" : str(" outside dimension ", free_dim);
    c.fail_shape(str("the shape of ", c.input_name(0), but, ", ", shape_text(parts[0].sizes())),
                 str(shape_text(parts[i].sizes()), " for ", c.input_name(i)));
  }
}

void run_cat(OpCall& c) {
  const int64_t dim = c.dim(0, c.in(0).dim(), 0);
  check_same_shapes(c, dim);
  c.out() = at::cat(c.list(0), dim);
}

void run_stack(OpCall& c) {
  const int64_t dim = c.dim(0, c.in(0).dim() + 1, 0);
  check_same_shapes(c, -1);
  c.out() = at::stack(c.list(0), dim);
}

void check_not_negative(const OpCall& c, std::size_t attr) {
  for (const int64_t n : c.integers(attr)) {
    if (n < 0) c.fail_attr(attr, "no negative number", shape_text(c.integers(attr)));
  }
}

void run_repeat(OpCall& c) {
  check_not_negative(c, 0);
  if (static_cast<int64_t>(c.integers(0).size()) != c.in(0).dim()) {
    c.fail_attr(0, str("one number a dimension, ", c.in(0).dim()), shape_text(c.integers(0)));
  }
  c.out() = c.in(0).repeat(c.integers(0));
}

void run_repeat_interleave(OpCall& c) {
  const int64_t repeats = c.at_least(0, 0, 0);
  const int64_t dim = c.dim(1, c.in(0).dim(), 0);
  c.out() = at::repeat_interleave(c.in(0), repeats, dim);
}

void run_pad(OpCall& c) {
  check_not_negative(c, 0);
  const std::size_t count = c.integers(0).size();
  if (count % 2 != 0 || static_cast<int64_t>(count) > 2 * c.in(0).dim()) {
    c.fail_attr(0, str("pairs (before, after), last dimension first, at most ", c.in(0).dim()),
                shape_text(c.integers(0)));
  }
  const at::Scalar value = c.scalar(1, c.in(0).scalar_type(), 0.0);
  c.out() = at::constant_pad_nd(c.in(0), c.integers(0), value);
}

void add_join(OpList& list, const char* name, InputSchema input, std::vector<AttrSchema> attrs,
              const char* help, RunFunction run) {
  add_op(list,
         {.name = name,
          .inputs = {std::move(input)},
          .outputs = {data_output()},
          .attrs = std::move(attrs),
          .dtypes = "any",
          .help = help},
         run);
}

}  // namespace

void add_join_ops(OpList& list) {
  using enum AttrType;
  add_join(list, "cat/1", list_input("parts"),
           {required_attr("dim", kInteger, "dimension to join along")},
           "The parts one after the other along dim; their other extents are equal.", run_cat);
  add_join(list, "stack/1", list_input("parts"),
           {required_attr("dim", kInteger, "place of the new dimension")},
           "Parts of one shape along a new dimension.", run_stack);
  add_join(list, "repeat/1", data_input("x"),
           {required_attr("repeats", kIntegers, "how often, one number a dimension")},
           "x repeated as a whole along each dimension.", run_repeat);
  add_join(list, "repeat_interleave/1", data_input("x"),
           {required_attr("repeats", kInteger, "how often"),
            required_attr("dim", kInteger, "dimension")},
           "Each slice of x along dim repeated in place: a a b b.", run_repeat_interleave);
  add_join(list, "pad/1", data_input("x"),
           {required_attr("pads", kIntegers, "(before, after) pairs, last dimension first"),
            optional_attr("value", kReal, "0.0", "what the new places hold")},
           "x with constant places added at its ends.", run_pad);
}

}  // namespace mneme::ops
