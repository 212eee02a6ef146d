// Tensors made from attributes alone, on the segment's device, and like another tensor.
#include <cmath>

#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

constexpr double kMaxElements = 0x1p40;  // beyond any memory; keeps ceil() exact

at::TensorOptions options_of(const OpCall& c, at::ScalarType type) {
  return at::TensorOptions().dtype(type).device(c.device());
}

void run_arange(OpCall& c) {
  const at::ScalarType type = c.dtype(3, MNEME_F32);
  const double start = c.real(0, 0.0);
  const double end = c.real(1, 0.0);
  const double step = c.real(2, 1.0);
  if (step == 0.0 || !std::isfinite(step))
    c.fail_attr(2, "a finite number other than 0", str(step));
  const double count = (end - start) / step;
  if (!(count >= 0.0 && count <= kMaxElements)) {
    c.fail(MNEME_E_INVALID_ARGUMENT, "no range from start to end by step",
           "an end that start reaches by step", str(start, " .. ", end, " by ", step));
  }
  c.out() = at::arange(c.scalar(0, type, 0.0), c.scalar(1, type, 0.0), c.scalar(2, type, 1.0),
                       options_of(c, type));
}

void run_linspace(OpCall& c) {
  const at::ScalarType type = c.dtype(3, MNEME_F32);
  const int64_t steps = c.at_least(2, 0, 0);
  c.out() = at::linspace(c.real(0, 0.0), c.real(1, 0.0), steps, options_of(c, type));
}

void run_full(OpCall& c) {
  const at::ScalarType type = c.dtype(2, MNEME_F32);
  for (const int64_t n : c.integers(0)) {
    if (n < 0) c.fail_attr(0, "no negative extent", shape_text(c.integers(0)));
  }
  c.out() = at::full(c.integers(0), c.scalar(1, type, 0.0), options_of(c, type));
}

void run_eye(OpCall& c) {
  const int64_t n = c.at_least(0, 0, 0);
  c.out() = at::eye(n, options_of(c, c.dtype(1, MNEME_F32)));
}

void run_full_like(OpCall& c) {
  const at::Tensor& x = c.in(0);
  c.out() = at::full(x.sizes(), c.scalar(0, x.scalar_type(), 0.0), x.options());
}

void add_creator(OpList& list, const char* name, const char* dtypes, std::vector<AttrSchema> attrs,
                 const char* help, RunFunction run) {
  attrs.push_back(
      optional_attr("dtype", AttrType::kInteger, "MNEME_F32", "MNEME_F32 ... of the result"));
  add_op(list,
         {.name = name,
          .inputs = {},
          .outputs = {typed_output()},
          .attrs = std::move(attrs),
          .dtypes = dtypes,
          .is_differentiable = false,
          .help = help},
         run);
}

void add_like(OpList& list, const char* name, std::vector<AttrSchema> attrs, const char* help,
              RunFunction run) {
  add_op(list,
         {.name = name,
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = std::move(attrs),
          .dtypes = "any",
          .is_differentiable = false,
          .help = help},
         run);
}

}  // namespace

void add_creation_ops(OpList& list) {
  using enum AttrType;
  add_creator(list, "arange/1", "number",
              {optional_attr("start", kReal, "0.0", "first element"),
               required_attr("end", kReal, "behind the last element"),
               optional_attr("step", kReal, "1.0", "difference, not 0")},
              "[ceil((end - start) / step)]: start, start + step, ... before end.", run_arange);
  add_creator(
      list, "linspace/1", "float",
      {required_attr("start", kReal, "first element"), required_attr("end", kReal, "last element"),
       required_attr("steps", kInteger, "how many elements")},
      "[steps] evenly spaced numbers, both ends included.", run_linspace);
  add_creator(list, "full/1", "any",
              {required_attr("shape", kIntegers, "extents"),
               optional_attr("value", kReal, "0.0", "of every element")},
              "A tensor of one value.", run_full);
  add_creator(list, "eye/1", "any", {required_attr("n", kInteger, "rows and columns")},
              "[n, n] with 1 on the diagonal and 0 elsewhere.", run_eye);
  add_like(list, "zeros_like/1", {}, "0 in x's shape and dtype; without a gradient.",
           [](OpCall& c) { c.out() = at::zeros(c.in(0).sizes(), c.in(0).options()); });
  add_like(list, "full_like/1", {required_attr("value", kReal, "of every element")},
           "A value in x's shape and dtype; without a gradient.", run_full_like);
}

}  // namespace mneme::ops
