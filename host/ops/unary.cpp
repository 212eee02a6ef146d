// Element by element, one input.
#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

using Unary = at::Tensor (*)(const at::Tensor&);

template <Unary kFunction>
void run_unary(OpCall& c) {
  c.out() = kFunction(c.in(0));
}

template <Unary kFunction>
void add_unary(OpList& list, const char* name, const char* dtypes, const char* help) {
  add_op(list,
         {.name = name,
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = {},
          .dtypes = dtypes,
          .help = help},
         run_unary<kFunction>);
}

template <Unary kFunction>
void add_test(OpList& list, const char* name, const char* dtypes, const char* help) {
  add_op(list,
         {.name = name,
          .inputs = {data_input("x")},
          .outputs = {mask_output()},
          .attrs = {},
          .dtypes = dtypes,
          .is_differentiable = false,
          .help = help},
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

}  // namespace mneme::ops
