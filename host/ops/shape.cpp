// Changing a tensor's shape or order. Results share x's memory where that is possible.
#include <limits>

#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

void run_reshape(OpCall& c) {
  const at::IntArrayRef shape = c.integers(0);
  const int64_t elements = c.in(0).numel();
  int64_t known = 1;
  int64_t inferred = 0;
  bool is_legal = true;
  for (const int64_t n : shape) {
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
  const int64_t rank = c.in(0).dim();
  if (static_cast<int64_t>(c.integers(0).size()) != rank) {
    c.fail_attr(0, str(rank, " dimensions"), shape_text(c.integers(0)));
  }
  if (rank == 0) {
    c.out() = c.in(0).permute({});
    return;
  }
  c.out() = c.in(0).permute(c.dims(0, rank));
}

void run_transpose(OpCall& c) {
  const int64_t rank = c.in(0).dim();
  c.out() = c.in(0).transpose(c.dim(0, rank, 0), c.dim(1, rank, 0));
}

void run_squeeze(OpCall& c) {
  const int64_t dim = c.dim(0, c.in(0).dim(), 0);
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
    const int64_t extent = is_new ? 1 : from[i - (to.size() - from.size())];
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
  const int64_t first = c.dim(0, x.dim(), 0);
  const int64_t last = c.dim(1, x.dim(), -1);
  if (first > last) c.fail_attr(0, str("at most end, ", last), str(first));
  c.out() = at::flatten(x, first, last);
}

void run_slice(OpCall& c) {
  const int64_t dim = c.dim(0, c.in(0).dim(), 0);
  const int64_t end = c.integer(2, std::numeric_limits<int64_t>::max());
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

template <at::Tensor (*kFunction)(const at::Tensor&, int64_t)>
void run_triangle(OpCall& c) {
  c.check_rank_at_least(0, 2);
  c.out() = kFunction(c.in(0), c.integer(0, 0));
}

void add_shape(OpList& list, const char* name, std::vector<AttrSchema> attrs, const char* help,
               RunFunction run) {
  add_op(list,
         {.name = name,
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = std::move(attrs),
          .dtypes = "any",
          .help = help},
         run);
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

}  // namespace mneme::ops
