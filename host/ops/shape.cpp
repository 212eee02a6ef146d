// Ops that change a tensor's shape or order, whose results share x's memory where that is possible;
// and ops that create tensors from attributes or like another tensor.

#include <cmath>
#include <limits>

#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

void run_reshape(OpCall& c) {
  const at::IntArrayRef shape = c.integers(0);
  const std::int64_t elements = c.in(0).numel();
  std::int64_t known = 1;
  std::int64_t inferred = 0;
  bool is_legal = true;
  for (const std::int64_t n : shape) {
    inferred += n == -1 ? 1 : 0;
    is_legal = is_legal && n >= -1 && !(n > 0 && __builtin_mul_overflow(known, n, &known));
    if (n == 0) known = 0;
  }
  is_legal = is_legal && inferred <= 1;
  const bool fits = inferred == 0 ? known == elements : known != 0 && elements % known == 0;
  if (!is_legal || !fits) {
    c.fail_shape(str("a shape of ", elements, " elements, at most one extent -1"),
                 shape_text(shape));
  }
  c.out() = c.in(0).reshape(shape);
}

void run_permute(OpCall& c) {
  const std::int64_t rank = c.in(0).dim();
  if (static_cast<std::int64_t>(c.integers(0).size()) != rank) {
    c.fail_attr(0, str(rank, " dimensions"), shape_text(c.integers(0)));
  }
  if (rank == 0) {
    c.out() = c.in(0).permute({});
    return;
  }
  c.out() = c.in(0).permute(c.dims(0, rank));
}

void run_transpose(OpCall& c) {
  const std::int64_t rank = c.in(0).dim();
  c.out() = c.in(0).transpose(c.dim(0, rank, 0), c.dim(1, rank, 0));
}

void run_squeeze(OpCall& c) {
  const std::int64_t dim = c.dim(0, c.in(0).dim(), 0);
  if (c.in(0).size(dim) != 1) {
    c.fail_shape(str("extent 1 in dimension ", dim), shape_text(c.in(0).sizes()));
  }
  c.out() = c.in(0).squeeze(dim);
}

void run_expand(OpCall& c) {
  const at::IntArrayRef from = c.in(0).sizes();
  const at::IntArrayRef to = c.integers(0);
  bool fits = to.size() >= from.size();
  for (std::size_t i = 0; fits && i < to.size(); ++i) {
    const bool is_new = i < to.size() - from.size();
    const std::int64_t extent = is_new ? 1 : from[i - (to.size() - from.size())];
    fits = (to[i] >= 0 && (is_new || extent == 1 || to[i] == extent)) || (to[i] == -1 && !is_new);
  }
  if (!fits) {
    c.fail_shape(str("a shape that ", shape_text(from), " broadcasts to, -1 = as it is"),
                 shape_text(to));
  }
  c.out() = c.in(0).expand(to);
}

void run_flatten(OpCall& c) {
  const at::Tensor& x = c.in(0);
  if (x.dim() == 0) {
    c.out() = x.reshape({1});
    return;
  }
  const std::int64_t first = c.dim(0, x.dim(), 0);
  const std::int64_t last = c.dim(1, x.dim(), -1);
  if (first > last) c.fail_attr(0, str("at most end, ", last), str(first));
  c.out() = at::flatten(x, first, last);
}

void run_slice(OpCall& c) {
  const std::int64_t dim = c.dim(0, c.in(0).dim(), 0);
  const std::int64_t end = c.integer(2, std::numeric_limits<std::int64_t>::max());
  c.out() = at::slice(c.in(0), dim, c.integer(1, 0), end, c.at_least(3, 1, 1));
}

void run_flip(OpCall& c) { c.out() = at::flip(c.in(0), c.dims(0, c.in(0).dim())); }

void run_roll(OpCall& c) {
  const at::DimVector dims = c.dims(1, c.in(0).dim());
  if (c.integers(0).size() != dims.size()) {
    c.fail_attr(0, str("as many as dims, ", dims.size()), shape_text(c.integers(0)));
  }
  c.out() = at::roll(c.in(0), c.integers(0), dims);
}

template <at::Tensor (*kFunction)(const at::Tensor&, std::int64_t)>
void run_triangle(OpCall& c) {
  c.check_rank_at_least(0, 2);
  c.out() = kFunction(c.in(0), c.integer(0, 0));
}

void add_shape(OpList& list, const char* name, std::vector<AttrSchema> attrs, const char* help,
               RunFunction run) {
  add_op(list, str(name, " (x) -> y  [any]"), help, run, std::move(attrs));
}

void add_view_ops(OpList& list) {
  using enum AttrType;
  add_shape(list, "reshape/1",
            {required_attr("shape", kIntegers, "one extent may be -1: what is left over")},
            "x's elements in row-major order in another shape.", run_reshape);
  add_shape(list, "permute/1", {required_attr("dims", kIntegers, "x's dimensions in new order")},
            "x with its dimensions in another order.", run_permute);
  add_shape(list, "transpose/1",
            {required_attr("dim0", kInteger, "a dimension"),
             required_attr("dim1", kInteger, "the one to swap it with")},
            "x with two dimensions swapped.", run_transpose);
  add_shape(list, "unsqueeze/1",
            {required_attr("dim", kInteger, "place of the new dimension, -rank - 1 .. rank")},
            "x with one more dimension, of extent 1.",
            [](OpCall& c) { c.out() = c.in(0).unsqueeze(c.dim(0, c.in(0).dim() + 1, 0)); });
  add_shape(list, "squeeze/1", {required_attr("dim", kInteger, "a dimension of extent 1")},
            "x without a dimension of extent 1; another extent is an error.", run_squeeze);
  add_shape(list, "expand/1",
            {required_attr("shape", kIntegers, "new extents, aligned at the end; -1 = as it is")},
            "x repeated along new dimensions and those of extent 1, without a copy.", run_expand);
  add_shape(list, "flatten/1",
            {optional_attr("start", kInteger, "0", "first dimension to join"),
             optional_attr("end", kInteger, "-1", "last dimension to join")},
            "Dimensions start .. end as one; a scalar gets one of extent 1.", run_flatten);
  add_shape(
      list, "slice/1",
      {optional_attr("dim", kInteger, "0", "dimension"),
       optional_attr("start", kInteger, "0", "first index, negative = from the end"),
       optional_attr("end", kInteger, "the extent", "behind the last, negative = from the end"),
       optional_attr("step", kInteger, "1", "at least 1")},
      "A view of x: indices start, start + step, ... before end, limited to what is there.",
      run_slice);
}

}  // namespace

void add_shape_ops(OpList& list) {
  using enum AttrType;
  add_view_ops(list);
  add_shape(list, "flip/1", {required_attr("dims", kIntegers, "dimensions to reverse")},
            "x in reverse order along dims.", run_flip);
  add_shape(list, "roll/1",
            {required_attr("shifts", kIntegers, "places towards larger indices, one a dimension"),
             required_attr("dims", kIntegers, "dimensions")},
            "x shifted along dims; what leaves at the end comes in at the start.", run_roll);
  add_shape(list, "tril/1", {optional_attr("diagonal", kInteger, "0", "the last one kept")},
            "x with 0 above a diagonal of its last two dimensions.", run_triangle<at::tril>);
  add_shape(list, "triu/1", {optional_attr("diagonal", kInteger, "0", "the first one kept")},
            "x with 0 below a diagonal of its last two dimensions.", run_triangle<at::triu>);
}

// --- Tensors made from attributes alone, on the segment's device, and like another tensor ---

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
  const std::int64_t steps = c.at_least(2, 0, 0);
  c.out() = at::linspace(c.real(0, 0.0), c.real(1, 0.0), steps, options_of(c, type));
}

void run_full(OpCall& c) {
  const at::ScalarType type = c.dtype(2, MNEME_F32);
  for (const std::int64_t n : c.integers(0)) {
    if (n < 0) c.fail_attr(0, "no negative extent", shape_text(c.integers(0)));
  }
  c.out() = at::full(c.integers(0), c.scalar(1, type, 0.0), options_of(c, type));
}

void run_eye(OpCall& c) {
  const std::int64_t n = c.at_least(0, 0, 0);
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
  add_op(list, str(name, " () -> y:dtype  [", dtypes, ", no gradient]"), help, run,
         std::move(attrs));
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
  add_op(list, "zeros_like/1 (x) -> y  [any, no gradient]",
         "0 in x's shape and dtype; without a gradient.",
         [](OpCall& c) { c.out() = at::zeros(c.in(0).sizes(), c.in(0).options()); });
  add_op(list, "full_like/1 (x) -> y  [any, no gradient]",
         "A value in x's shape and dtype; without a gradient.", run_full_like,
         {required_attr("value", kReal, "of every element")});
}

}  // namespace mneme::ops
