// Ops of network layers: normalisation, convolution and pooling along one dimension, rotary
// positions, products of matrices, softmax and log-sum-exp.

#include <array>
#include <limits>

#include "host/ops/op_table.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/rows/rotary_turn.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

void check_vector(const OpCall& c, std::size_t input, std::int64_t extent) {
  if (!c.has_input(input)) return;
  if (c.in(input).dim() == 1 && c.in(input).size(0) == extent) return;
  c.fail_shape(str(c.input_name(input), " [", extent, ']'), shape_text(c.in(input).sizes()));
}

void run_layer_norm(OpCall& c) {
  c.check_rank_at_least(0, 1);
  const std::int64_t width = c.in(0).size(-1);
  check_vector(c, 1, width);
  check_vector(c, 2, width);
  const double eps = c.real(0, 1e-5);
  if (!(eps >= 0.0)) c.fail_attr(0, "at least 0", str(eps));
  const std::optional<at::Tensor> w = c.has_input(1) ? std::optional(c.in(1)) : std::nullopt;
  const std::optional<at::Tensor> b = c.has_input(2) ? std::optional(c.in(2)) : std::nullopt;
  c.out() = at::layer_norm(c.in(0), {width}, w, b, eps);
}

// A window of `kernel` taps, `dilation` apart, has to fit into the padded length.
void check_window(const OpCall& c, std::int64_t kernel, std::int64_t padding,
                  std::int64_t dilation) {
  const std::int64_t length = c.in(0).size(2) + 2 * padding;
  const std::int64_t covered = dilation * (kernel - 1) + 1;
  if (covered > length) {
    c.fail_shape(str("at least ", covered, " places along time, padding included"), str(length));
  }
}

void run_conv1d(OpCall& c) {
  c.check_rank(0, 3);
  c.check_rank(1, 3);
  const at::IntArrayRef x = c.in(0).sizes();
  const at::IntArrayRef w = c.in(1).sizes();
  const std::int64_t stride = c.at_least(0, 1, 1);
  const std::int64_t padding = c.at_least(1, 0, 0);
  const std::int64_t dilation = c.at_least(2, 1, 1);
  const std::int64_t groups = c.at_least(3, 1, 1);
  if (x[1] != w[1] * groups || w[0] % groups != 0 || w[2] < 1) {
    c.fail_shape(
        str("x [B, in, T] and w [out, in / groups, taps], groups ", groups, " dividing out"),
        str(shape_text(x), " and ", shape_text(w)));
  }
  check_vector(c, 2, w[0]);
  check_window(c, w[2], padding, dilation);
  const std::optional<at::Tensor> b = c.has_input(2) ? std::optional(c.in(2)) : std::nullopt;
  c.out() = at::conv1d(c.in(0), c.in(1), b, {stride}, {padding}, {dilation}, groups);
}

struct Pooling {
  std::int64_t kernel, stride, padding;
};

Pooling pooling_of(const OpCall& c, std::int64_t dilation) {
  c.check_rank(0, 3);
  Pooling p{};
  p.kernel = c.at_least(0, 1, 1);
  p.stride = c.at_least(1, 1, p.kernel);
  p.padding = c.at_least(2, 0, 0);
  if (p.padding > p.kernel / 2) {
    c.fail_attr(2, str("at most half the kernel, ", p.kernel / 2), str(p.padding));
  }
  check_window(c, p.kernel, p.padding, dilation);
  return p;
}

void run_max_pool1d(OpCall& c) {
  const std::int64_t dilation = c.at_least(3, 1, 1);
  const Pooling p = pooling_of(c, dilation);
  c.out() = at::max_pool1d(c.in(0), {p.kernel}, {p.stride}, {p.padding}, {dilation});
}

void run_avg_pool1d(OpCall& c) {
  const Pooling p = pooling_of(c, 1);
  c.out() = at::avg_pool1d(c.in(0), {p.kernel}, {p.stride}, {p.padding});
}

std::vector<AttrSchema> pooling_attrs() {
  using enum AttrType;
  return {required_attr("kernel", kInteger, "window"),
          optional_attr("stride", kInteger, "kernel", "step from window to window"),
          optional_attr("padding", kInteger, "0", "places at both ends, at most kernel / 2")};
}

void add_pooling_ops(OpList& list) {
  std::vector<AttrSchema> max_attrs = pooling_attrs();
  max_attrs.push_back(
      optional_attr("dilation", AttrType::kInteger, "1", "distance between a window's places"));
  add_op(list, "max_pool1d/1 (x) -> y  [float]",
         "Largest element of each window along T of x [B, C, T]; padding never wins. The first of "
         "equals gets the gradient.",
         run_max_pool1d, std::move(max_attrs));
  add_op(list, "avg_pool1d/1 (x) -> y  [float]",
         "Mean of each window along T of x [B, C, T]; padding counts as zeros.", run_avg_pool1d,
         pooling_attrs());
}

// Rotary positions, as the backbone turns its heads.
void run_rotate(OpCall& c) {
  c.check_rank(0, 4);
  c.check_rank(1, 2);
  const at::Tensor &x = c.in(0), &places = c.in(1);
  const std::int64_t half = x.size(3) / 2;
  const bool fits =
      places.size(1) == x.size(1) && (places.size(0) == x.size(0) || places.size(0) == 1);
  if (x.size(3) % 2 != 0 || !fits) {
    c.fail_shape("x [B, T, H, d] with d even and places [B, T] or [1, T]",
                 str(shape_text(x.sizes()), " and ", shape_text(places.sizes())));
  }
  const double base = c.real(0, 10000.0);
  if (!(base > 0.0)) c.fail_attr(0, "above 0", str(base));
  tensor::Turn turn;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor exponents =
        at::arange(half, x.options().dtype(at::kDouble).requires_grad(false)) *
        (-1.0 / static_cast<double>(half));
    const at::Tensor angles = places.to(at::kDouble).unsqueeze(-1) * at::pow(base, exponents);
    turn = {angles.cos().to(x.scalar_type()), angles.sin().to(x.scalar_type())};
  }
  c.out() = tensor::turned(x, turn.of_rows());
}

}  // namespace

void add_network_ops(OpList& list) {
  using enum AttrType;
  add_op(
      list, "rotate/1 (x, places:i64) -> y  [float]",
      "Rotary positions: heads x [B, T, H, d], d even, turn by places [B, T] or [1, T]. Numbers i "
      "and i + d/2 of a head are a point of a plane that turns by place * base^(-2i/d) radians, "
      "computed in f64.",
      run_rotate,
      {optional_attr("base", kReal, "10000", "above 0; the slowest turn is near 1/base")});
  add_op(list, "layer_norm/1 (x, w?, b?) -> y  [float]",
         "x less its mean over its standard deviation (divisor: the count) along the last "
         "dimension D, times w [D], plus b [D].",
         run_layer_norm, {optional_attr("eps", kReal, "1e-5", "added to the variance")});
  add_op(list, "conv1d/1 (x, w, b?) -> y  [float]",
         "Correlation of x [B, in, T] with w [out, in / groups, taps] along T, plus b [out].",
         run_conv1d,
         {optional_attr("stride", kInteger, "1", "step from window to window"),
          optional_attr("padding", kInteger, "0", "zeros at both ends"),
          optional_attr("dilation", kInteger, "1", "distance between taps"),
          optional_attr("groups", kInteger, "1", "channels in separate groups")});
  add_pooling_ops(list);
}

// --- Matrix products and einsum ---

namespace {

void run_matmul(OpCall& c) {
  c.check_rank_at_least(0, 1);
  c.check_rank_at_least(1, 1);
  const at::IntArrayRef a = c.in(0).sizes();
  const at::IntArrayRef b = c.in(1).sizes();
  bool fits = a.back() == (b.size() == 1 ? b[0] : b[b.size() - 2]);
  for (std::size_t i = 3; fits && i <= a.size() && i <= b.size(); ++i) {
    const std::int64_t m = a[a.size() - i];
    const std::int64_t n = b[b.size() - i];
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
  check_vector(c, 2, w.size(0));
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
  static constexpr std::int64_t kUnknown = -1;

  std::int64_t* extent() {
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
    std::int64_t dim = 0;
    for (std::int64_t* known = extent(); known != nullptr; ++at_, ++dim, known = extent()) {
      if (dim >= operand.dim()) continue;  // counted, reported below
      const std::int64_t size = operand.size(dim);
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
    for (std::int64_t* known = extent(); known != nullptr; ++at_, known = extent()) {
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
  std::array<std::int64_t, 52> extents_ = [] {
    std::array<std::int64_t, 52> all{};
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
  add_op(list, "matmul/1 (a, b) -> y  [float]",
         "[..., m, k] by [..., k, n] gives [..., m, n]; leading dimensions broadcast, a vector is "
         "a row in front and a column behind, without that dimension in y.",
         run_matmul);
  add_op(list, "linear/1 (x, w, b?) -> y  [float]",
         "x w^T + b: x [..., in], w [out, in], b [out] gives [..., out].", run_linear);
  add_op(list, "einsum/1 (operands*) -> y  [float]",
         "Product of the operands summed over every index that the output lacks. One letter a "
         "dimension, \"->\" required, equal letters need equal extents.",
         run_einsum, {required_attr("equation", AttrType::kText, "\"bhid,bhjd->bhij\"")});
}

// --- Softmax and log-sum-exp ---
// A row of -inf is a query without keys: its probabilities are 0, its log-sum-exp is -inf, and no
// gradient leaves it (LibTorch alone gives NaN).

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

bool needs_gradient(const at::Tensor& x) { return at::GradMode::is_enabled() && x.requires_grad(); }

void run_softmax(OpCall& c) {
  const at::Tensor& x = c.in(0);
  const std::int64_t dim = c.dim(0, x.dim(), -1);
  if (x.is_cpu()) {
    c.out() = at::softmax(x, dim);
    if (!tensor::may_have_nan_rows(c.out(), dim)) return;
  }
  c.out() = at::_safe_softmax(x, dim);
}

void run_log_softmax(OpCall& c) {
  const at::Tensor& x = c.in(0);
  const std::int64_t dim = c.dim(0, x.dim(), -1);
  if (x.is_cpu()) {
    c.out() = at::log_softmax(x, dim);
    if (!tensor::may_have_nan_rows(c.out(), dim)) return;
  }
  const at::Tensor is_absent = at::all(at::eq(x, kMinusInfinity), dim, true);
  const at::Tensor safe = at::masked_fill(x, is_absent, 0.0);
  c.out() = at::masked_fill(at::log_softmax(safe, dim), is_absent, kMinusInfinity);
}

void run_logsumexp(OpCall& c) {
  const at::Tensor& x = c.in(0);
  at::DimVector dims = c.dims(0, x.dim());
  if (!c.has(0)) {
    for (std::int64_t d = 0; d < x.dim(); ++d) dims.push_back(d);
  }
  const bool keepdim = c.flag(1, false);
  if (x.is_cpu() || !needs_gradient(x)) {
    c.out() = at::logsumexp(x, dims, keepdim);
    // Only the gradient of an infinite result is wrong.
    if (!needs_gradient(x) || !tensor::may_have_infinities(c.out())) return;
  }
  const at::Tensor is_absent = at::all(at::eq(x, kMinusInfinity), at::IntArrayRef(dims), true);
  const at::Tensor sum = at::logsumexp(at::masked_fill(x, is_absent, 0.0), dims, true);
  const at::Tensor result = at::masked_fill(sum, is_absent, kMinusInfinity);
  c.out() = keepdim || dims.empty() ? result : result.squeeze(at::IntArrayRef(dims));
}

}  // namespace

void add_softmax_ops(OpList& list) {
  const AttrSchema dim = optional_attr("dim", AttrType::kInteger, "-1", "dimension that sums to 1");
  add_op(list, "softmax/1 (x) -> y  [float]",
         "e^x over its sum; a row of -inf gives 0 everywhere and gradient 0.", run_softmax, {dim});
  add_op(list, "log_softmax/1 (x) -> y  [float]",
         "x minus its log-sum-exp; a row of -inf gives -inf everywhere and gradient 0.",
         run_log_softmax, {dim});
  add_op(list, "logsumexp/1 (x) -> y  [float]",
         "ln of the sum of e^x; -inf of nothing and of a row of -inf, with gradient 0.",
         run_logsumexp,
         {optional_attr("dims", AttrType::kIntegers, "", "absent = all"),
          optional_attr("keepdim", AttrType::kInteger, "0", "1: keep them, extent 1")});
}

}  // namespace mneme::ops
