// Ops that work element by element: two operands (one may be the attribute `scalar`), one operand,
// and activation functions.

#include <cmath>
#include <cstring>

#include "host/ops/op_table.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

constexpr std::size_t kScalar = 0;

// A scalar as a tensor of the other operand's dtype, where LibTorch has no overload for scalars.
at::Tensor as_tensor(const at::Scalar& s, const at::Tensor& like) {
  return at::scalar_tensor(s, like.options());
}

// An op of two operands: kRight takes a tensor on the right or a scalar, kLeft a scalar on the left.
template <auto kRight, auto kLeft>
struct Binary {
  static at::Tensor of(const at::Tensor& a, const at::Tensor& b) { return kRight(a, b); }
  static at::Tensor right(const at::Tensor& a, const at::Scalar& s) { return kRight(a, s); }
  static at::Tensor left(const at::Scalar& s, const at::Tensor& b) { return kLeft(s, b); }
};

constexpr auto kAdd = [](const at::Tensor& a, const auto& b) { return at::add(a, b); };
constexpr auto kSub = [](const at::Tensor& a, const auto& b) { return at::sub(a, b); };
constexpr auto kMul = [](const at::Tensor& a, const auto& b) { return at::mul(a, b); };
constexpr auto kDiv = [](const at::Tensor& a, const auto& b) { return at::div(a, b); };
constexpr auto kPow = [](const auto& a, const auto& b) { return at::pow(a, b); };
constexpr auto kFmod = [](const at::Tensor& a, const auto& b) { return at::fmod(a, b); };
constexpr auto kReverseSub = [](const at::Scalar& s, const at::Tensor& b) {
  return at::rsub(b, s);
};
template <auto kFunction>
constexpr auto kSwapped = [](const at::Scalar& s, const at::Tensor& b) { return kFunction(b, s); };
template <auto kFunction>
constexpr auto kOfTensor =
    [](const at::Scalar& s, const at::Tensor& b) { return kFunction(as_tensor(s, b), b); };

template <at::Tensor (*kFunction)(const at::Tensor&, const at::Tensor&)>
struct Symmetric {
  static at::Tensor of(const at::Tensor& a, const at::Tensor& b) { return kFunction(a, b); }
  static at::Tensor right(const at::Tensor& a, const at::Scalar& s) {
    return kFunction(a, as_tensor(s, a));
  }
  static at::Tensor left(const at::Scalar& s, const at::Tensor& b) { return right(b, s); }
};

using TensorCompare = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
using ScalarCompare = at::Tensor (*)(const at::Tensor&, const at::Scalar&);
// kMirrored: what holds for (b, s) when the comparison holds for (s, b).
template <TensorCompare kTensors, ScalarCompare kRight, ScalarCompare kMirrored>
struct Compare {
  static at::Tensor of(const at::Tensor& a, const at::Tensor& b) { return kTensors(a, b); }
  static at::Tensor right(const at::Tensor& a, const at::Scalar& s) { return kRight(a, s); }
  static at::Tensor left(const at::Scalar& s, const at::Tensor& b) { return kMirrored(b, s); }
};

// ln(e^a + e^b). LibTorch's gradient is NaN where both are -inf or both +inf; an empty memory's
// log-sum-exp is -inf, so it has to be 0 there.
at::Tensor logaddexp(const at::Tensor& a, const at::Tensor& b) {
  if (!at::GradMode::is_enabled() || !(a.requires_grad() || b.requires_grad())) {
    return at::logaddexp(a, b);
  }
  if (a.is_cpu()) {
    const at::Tensor result = at::logaddexp(a, b);
    if (!tensor::may_have_infinities(result)) return result;
  }
  const at::Tensor largest = at::maximum(a, b);
  const at::Tensor is_infinite = at::isinf(largest);
  const at::Tensor safe_a = at::masked_fill(at::broadcast_to(a, largest.sizes()), is_infinite, 0);
  const at::Tensor safe_b = at::masked_fill(at::broadcast_to(b, largest.sizes()), is_infinite, 0);
  return at::where(is_infinite, largest.detach(), at::logaddexp(safe_a, safe_b));
}

template <typename F>
void run_binary(OpCall& c) {
  const bool has_a = c.has_input(0);
  const bool has_b = c.has_input(1);
  const bool has_scalar = c.has(kScalar);
  if (has_a && has_b && !has_scalar) {
    c.check_broadcast(0, 1);
    c.out() = F::of(c.in(0), c.in(1));
    return;
  }
  if (has_a == has_b || !has_scalar) {
    c.fail(MNEME_E_INVALID_ARGUMENT, "wrong operands",
           "inputs a and b, or one of them and attribute \"scalar\"");
  }
  const at::Tensor& given = c.in(has_a ? 0 : 1);
  const at::Scalar scalar = c.scalar(kScalar, given.scalar_type(), 0.0);
  c.out() = has_a ? F::right(given, scalar) : F::left(scalar, given);
}

AttrSchema scalar_attr() {
  return optional_attr("scalar", AttrType::kReal, "",
                       "stands for the input that is absent, in its dtype");
}

template <typename F>
void add_binary(OpList& list, const char* name, const char* dtypes, const char* help) {
  add_op(list, str(name, " (a?, b?) -> y  [", dtypes, ']'), help, run_binary<F>, {scalar_attr()});
}

template <TensorCompare kTensors, ScalarCompare kRight, ScalarCompare kMirrored>
void add_comparison(OpList& list, const char* name, const char* dtypes, const char* help) {
  add_op(list, str(name, " (a?, b?) -> y:bool  [", dtypes, ", no gradient]"), help,
         run_binary<Compare<kTensors, kRight, kMirrored>>, {scalar_attr()});
}

template <TensorCompare kFunction>
void add_logical(OpList& list, const char* name, const char* help) {
  add_op(list, str(name, " (a, b) -> y:bool  [bool, no gradient]"), help, [](OpCall& c) {
    c.check_broadcast(0, 1);
    c.out() = kFunction(c.in(0), c.in(1));
  });
}

void add_comparisons(OpList& list) {
  add_comparison<at::eq, at::eq, at::eq>(list, "eq/1", "any", "a == b; broadcasts.");
  add_comparison<at::ne, at::ne, at::ne>(list, "ne/1", "any", "a != b; broadcasts.");
  add_comparison<at::lt, at::lt, at::gt>(list, "lt/1", "number", "a < b; broadcasts.");
  add_comparison<at::le, at::le, at::ge>(list, "le/1", "number", "a <= b; broadcasts.");
  add_comparison<at::gt, at::gt, at::lt>(list, "gt/1", "number", "a > b; broadcasts.");
  add_comparison<at::ge, at::ge, at::le>(list, "ge/1", "number", "a >= b; broadcasts.");
}

}  // namespace

void add_binary_ops(OpList& list) {
  add_binary<Binary<kAdd, kSwapped<kAdd>>>(list, "add/1", "number", "a + b; broadcasts.");
  add_binary<Binary<kSub, kReverseSub>>(list, "sub/1", "number", "a - b; broadcasts.");
  add_binary<Binary<kMul, kSwapped<kMul>>>(list, "mul/1", "number", "a * b; broadcasts.");
  add_binary<Binary<kDiv, kOfTensor<kDiv>>>(list, "div/1", "float", "a / b; broadcasts.");
  add_binary<Binary<kPow, kPow>>(list, "pow/1", "float", "a to the power of b; broadcasts.");
  add_binary<Symmetric<at::maximum>>(
      list, "maximum/1", "number",
      "The larger of a and b, NaN if one is; broadcasts. Equal operands share the gradient.");
  add_binary<Symmetric<at::minimum>>(
      list, "minimum/1", "number",
      "The smaller of a and b, NaN if one is; broadcasts. Equal operands share the gradient.");
  add_binary<Symmetric<logaddexp>>(
      list, "logaddexp/1", "float",
      "ln(e^a + e^b); broadcasts. -inf where both are -inf; gradient 0 where the result is "
      "infinite.");
  add_binary<Binary<kFmod, kOfTensor<kFmod>>>(
      list, "fmod/1", "float",
      "Remainder of a / b with the sign of a; broadcasts. NaN where b is 0.");
  add_comparisons(list);
  add_logical<at::logical_and>(list, "logical_and/1", "a and b; broadcasts.");
  add_logical<at::logical_or>(list, "logical_or/1", "a or b; broadcasts.");
}

// --- One operand ---

namespace {

using Unary = at::Tensor (*)(const at::Tensor&);

template <Unary kFunction>
void run_unary(OpCall& c) {
  c.out() = kFunction(c.in(0));
}

template <Unary kFunction>
void add_unary(OpList& list, const char* name, const char* dtypes, const char* help) {
  add_op(list, str(name, " (x) -> y  [", dtypes, ']'), help, run_unary<kFunction>);
}

template <Unary kFunction>
void add_test(OpList& list, const char* name, const char* dtypes, const char* help) {
  add_op(list, str(name, " (x) -> y:bool  [", dtypes, ", no gradient]"), help,
         run_unary<kFunction>);
}

// 1/2 erfc(-x / sqrt 2) keeps its relative precision in the lower tail, where 1 + erf cancels. The
// argument's rounding error is multiplied by x^2 there, so half precisions go through f32.
at::Tensor normal_cdf(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  if (type == at::kDouble || type == at::kFloat) return at::erfc(x * -M_SQRT1_2) * 0.5;
  return (at::erfc(x.to(at::kFloat) * -M_SQRT1_2) * 0.5).to(type);
}

}  // namespace

void add_unary_ops(OpList& list) {
  add_unary<at::neg>(list, "neg/1", "number", "-x.");
  add_unary<at::abs>(list, "abs/1", "number", "|x|; gradient 0 at 0.");
  add_unary<at::sign>(list, "sign/1", "number", "-1, 0 or 1; gradient 0.");
  add_unary<at::exp>(list, "exp/1", "float", "e^x.");
  add_unary<at::expm1>(list, "expm1/1", "float", "e^x - 1, exact near 0.");
  add_unary<at::log>(list, "log/1", "float", "Natural logarithm; -inf at 0, NaN below.");
  add_unary<at::log1p>(list, "log1p/1", "float", "ln(1 + x), exact near 0.");
  add_unary<at::sqrt>(list, "sqrt/1", "float", "Square root; NaN below 0.");
  add_unary<at::rsqrt>(list, "rsqrt/1", "float", "1 / sqrt(x); inf at 0.");
  add_unary<at::square>(list, "square/1", "number", "x * x.");
  add_unary<at::reciprocal>(list, "reciprocal/1", "float", "1 / x; inf at 0.");
  add_unary<at::sin>(list, "sin/1", "float", "Sine of x in radians.");
  add_unary<at::cos>(list, "cos/1", "float", "Cosine of x in radians.");
  add_unary<at::erf>(list, "erf/1", "float", "Error function.");
  add_unary<normal_cdf>(list, "normal_cdf/1", "float",
                        "Standard normal distribution function, precise in the lower tail.");
  add_unary<at::floor>(list, "floor/1", "float", "Largest integer at most x; gradient 0.");
  add_unary<at::round>(list, "round/1", "float", "Nearest integer, halves to even; gradient 0.");
  add_test<at::isfinite>(list, "isfinite/1", "float", "True where x is neither inf nor NaN.");
  add_test<at::logical_not>(list, "logical_not/1", "bool", "True where x is false.");
}

// --- Activation functions ---

namespace {

void run_gelu(OpCall& c) {
  const char* approximate = c.text(0, "none");
  if (std::strcmp(approximate, "none") != 0 && std::strcmp(approximate, "tanh") != 0) {
    c.fail_attr(0, R"("none" | "tanh")", str('"', approximate, '"'));
  }
  c.out() = at::gelu(c.in(0), approximate);
}

}  // namespace

void add_activation_ops(OpList& list) {
  add_unary<at::sigmoid>(list, "sigmoid/1", "float", "1 / (1 + e^-x).");
  add_unary<at::tanh>(list, "tanh/1", "float", "Hyperbolic tangent.");
  add_unary<at::relu>(list, "relu/1", "float", "max(x, 0); gradient 0 at 0.");
  add_unary<at::silu>(list, "silu/1", "float", "x * sigmoid(x).");
  add_op(list, "gelu/1 (x) -> y  [float]", "x * normal_cdf(x), or its tanh approximation.",
         run_gelu, {optional_attr("approximate", AttrType::kText, "none", "\"none\" | \"tanh\"")});
  add_op(list, "softplus/1 (x) -> y  [float]", "ln(1 + e^x); x itself above 20.",
         [](OpCall& c) { c.out() = at::softplus(c.in(0)); });
  add_op(list, "elu/1 (x) -> y  [float]", "x above 0, alpha * (e^x - 1) elsewhere.",
         [](OpCall& c) { c.out() = at::elu(c.in(0), c.real(0, 1.0)); },
         {optional_attr("alpha", AttrType::kReal, "1.0", "scale of the negative branch")});
}

}  // namespace mneme::ops
