// Matrix products and einsum.
#include <array>

#include "host/tensor/dense_product.hpp"
#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

void run_matmul(OpCall& c) {
  c.check_rank_at_least(0, 1);
  c.check_rank_at_least(1, 1);
  const at::IntArrayRef a = c.in(0).sizes();
  const at::IntArrayRef b = c.in(1).sizes();
  bool fits = a.back() == (b.size() == 1 ? b[0] : b[b.size() - 2]);
  for (std::size_t i = 3; fits && i <= a.size() && i <= b.size(); ++i) {
    const int64_t m = a[a.size() - i];
    const int64_t n = b[b.size() - i];
    fits = m == n || m == 1 || n == 1;
  }
  if (!fits) {
    c.fail_shape("a [..., m, k] and b [..., k, n] with leading dimensions that broadcast",
                 str(shape_text(a), " and ", shape_text(b)));
  }
  c.out() = tensor::dense_matmul(c.in(0), c.in(1));
}

void run_linear(OpCall& c) {
  c.check_rank_at_least(0, 1);
  c.check_rank(1, 2);
  const at::Tensor& w = c.in(1);
  if (c.in(0).size(-1) != w.size(1)) {
    c.fail_shape("x [..., in] and w [out, in]",
                 str(shape_text(c.in(0).sizes()), " and ", shape_text(w.sizes())));
  }
  if (!c.has_input(2)) {
    c.out() = tensor::dense_linear(c.in(0), w, {});
    return;
  }
  if (c.in(2).dim() != 1 || c.in(2).size(0) != w.size(0)) {
    c.fail_shape(str("b [", w.size(0), ']'), shape_text(c.in(2).sizes()));
  }
  c.out() = tensor::dense_linear(c.in(0), w, c.in(2));
}

// Reads "ab,bc->ac": every index is a letter that stands for one extent, and the output is
// explicit, so that an equation has one meaning.
class EquationCheck {
 public:
  EquationCheck(const OpCall& call, const char* equation) : call_(call), at_(equation) {}

  void run(at::TensorList operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (i > 0) expect(',', str("',' between ", operands.size(), " operands"));
      read_operand(operands[i], i);
    }
    expect('-', str("\"->\" after ", operands.size(), " operands"));
    expect('>', "\"->\"");
    read_output();
  }

 private:
  static constexpr int64_t kUnknown = -1;

  int64_t* extent() {
    skip_spaces();
    if (*at_ >= 'a' && *at_ <= 'z') return &extents_[static_cast<std::size_t>(*at_ - 'a')];
    if (*at_ >= 'A' && *at_ <= 'Z') return &extents_[static_cast<std::size_t>(*at_ - 'A' + 26)];
    return nullptr;
  }

  void skip_spaces() {
    while (*at_ == ' ') ++at_;
  }

  void expect(char character, const std::string& expected) {
    skip_spaces();
    if (*at_ != character) fail(expected, rest());
    ++at_;
  }

  void read_operand(const at::Tensor& operand, std::size_t place) {
    int64_t dim = 0;
    for (int64_t* known = extent(); known != nullptr; ++at_, ++dim, known = extent()) {
      if (dim >= operand.dim()) continue;  // counted, reported below
      const int64_t size = operand.size(dim);
      if (*known != kUnknown && *known != size) {
        call_.fail_shape(str("extent ", *known, " for index '", *at_, "' in ", name(place)),
                         str(size));
      }
      *known = size;
    }
    if (dim != operand.dim()) {
      call_.fail_shape(
          str(operand.dim(), " indices for ", name(place), ", ", shape_text(operand.sizes())),
          str(dim, " in the equation"));
    }
  }

  void read_output() {
    std::array<bool, 52> used{};
    for (int64_t* known = extent(); known != nullptr; ++at_, known = extent()) {
      if (*known == kUnknown) fail("output indices that an operand has", std::string(1, *at_));
      bool& is_used = used[static_cast<std::size_t>(known - extents_.data())];
      if (is_used) fail("distinct output indices", std::string(1, *at_));
      is_used = true;
    }
    if (*at_ != '\0') fail("letters after \"->\"", rest());
  }

  std::string rest() const {
    return *at_ == '\0' ? std::string("the equation's end") : str('"', at_, '"');
  }
  std::string name(std::size_t place) const { return str("operand ", place + 1); }

  [[noreturn]] void fail(const std::string& expected, const std::string& got) const {
    call_.fail(MNEME_E_INVALID_ARGUMENT, "attribute \"equation\" is malformed", expected, got);
  }

  const OpCall& call_;
  const char* at_;
  std::array<int64_t, 52> extents_ = [] {
    std::array<int64_t, 52> all{};
    all.fill(kUnknown);
    return all;
  }();
};

void run_einsum(OpCall& c) {
  const at::TensorList operands = c.list(0);
  const char* equation = c.text(0, "");
  EquationCheck(c, equation).run(operands);
  c.out() = at::einsum(equation, operands);
}

}  // namespace

void add_product_ops(OpList& list) {
  add_op(list,
         {.name = "matmul/1",
          .inputs = {data_input("a"), data_input("b")},
          .outputs = {data_output()},
          .attrs = {},
          .dtypes = "float",
          .help = "[..., m, k] by [..., k, n] gives [..., m, n]; leading dimensions broadcast, a "
                  "vector is a row in front and a column behind, without that dimension in y."},
         run_matmul);
  add_op(list,
         {.name = "linear/1",
          .inputs = {data_input("x"), data_input("w"), optional_input("b")},
          .outputs = {data_output()},
          .attrs = {},
          .dtypes = "float",
          .help = "x w^T + b: x [..., in], w [out, in], b [out] gives [..., out]."},
         run_linear);
  add_op(list,
         {.name = "einsum/1",
          .inputs = {list_input("operands")},
          .outputs = {data_output()},
          .attrs = {required_attr("equation", AttrType::kText, "\"bhid,bhjd->bhij\"")},
          .dtypes = "float",
          .help = "Product of the operands summed over every index that the output lacks. One "
                  "letter a dimension, \"->\" required, equal letters need equal extents."},
         run_einsum);
}

}  // namespace mneme::ops
