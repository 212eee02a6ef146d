// Golden cases: unary and binary ops, selection.
#include <cmath>
#include <limits>

#include "tests/ops/op_case.hpp"

namespace mneme::memory::test {
namespace {

using Function = double (*)(double);
using Function2 = double (*)(double, double);

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; }
double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }
double gelu_tanh(double x) {
  const double inner = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}
double round_to_even(double x) {
  const double low = std::floor(x);
  const double rest = x - low;
  if (rest != 0.5) return rest < 0.5 ? low : low + 1.0;
  return std::fmod(low, 2.0) == 0.0 ? low : low + 1.0;
}

// Cases of every unary op: a matrix with a gradient, a scalar, an empty tensor, a strided vector's
// worth of odd length, and the edge values where they are defined.
void unary(CaseList& list, const char* op, Function f, double low, double high,
           const std::vector<double>& edges = {}, std::vector<Attr> attrs = {}) {
  const auto golden = [f](const Arrays& in) { return map(in[0], f); };
  list.add1(op, "matrix", {noise({2, 3}, 1, low, high)}, attrs, golden).slack = 4;
  list.add1(op, "scalar", {scalar(0.5 * (low + high) + 0.11)}, attrs, golden).slack = 4;
  list.add1(op, "odd length", {noise({41}, 2, low, high)}, attrs, golden).slack = 4;
  list.add1(op, "empty", {array({0, 3}, {})}, attrs, golden);
  if (edges.empty()) return;
  list.add1(op, "edges", {vector(edges)}, attrs, golden).has_gradient = false;
}

void whole_unary(CaseList& list, const char* op, Function f) {
  const auto golden = [f](const Arrays& in) { return map(in[0], f); };
  list.add1(op, "integers", {whole({3, 5}, 7, -9, 9)}, {}, golden).has_gradient = false;
}

void add_activation_cases(CaseList& list) {
  unary(list, "sigmoid/1", sigmoid, -3, 3, {-kInf, kInf, 0.0, -40.0});
  unary(list, "tanh/1", [](double x) { return std::tanh(x); }, -2, 2, {-kInf, kInf, 0.0});
  unary(list, "relu/1", [](double x) { return x > 0 ? x : 0.0; }, -2, 2, {0.0, -1.0, kInf});
  unary(list, "silu/1", [](double x) { return x * sigmoid(x); }, -3, 3, {0.0});
  unary(list, "gelu/1", [](double x) { return x * normal_cdf(x); }, -2, 2, {0.0});
  unary(list, "gelu/1", gelu_tanh, -2, 2, {0.0}, {text("approximate", "tanh")});
  unary(list, "softplus/1", softplus, -3, 3, {0.0, 21.0, -30.0});
  unary(list, "elu/1", [](double x) { return x > 0 ? x : std::expm1(x); }, -2, 2, {0.0, -kInf});
  unary(list, "elu/1", [](double x) { return x > 0 ? x : 0.25 * std::expm1(x); }, -2, 2, {},
        {real("alpha", 0.25)});
}

void add_exponential_cases(CaseList& list) {
  unary(list, "exp/1", [](double x) { return std::exp(x); }, -2, 2, {-kInf, 0.0, kInf});
  unary(list, "expm1/1", [](double x) { return std::expm1(x); }, -1, 1, {0.0, -kInf});
  unary(list, "log/1", [](double x) { return std::log(x); }, 0.2, 4, {0.0, 1.0, -1.0, kInf});
  unary(list, "log1p/1", [](double x) { return std::log1p(x); }, -0.5, 3, {0.0, -1.0});
  unary(list, "sqrt/1", [](double x) { return std::sqrt(x); }, 0.2, 4, {0.0, 4.0, -1.0});
  unary(list, "rsqrt/1", [](double x) { return 1.0 / std::sqrt(x); }, 0.2, 4, {0.0, 4.0});
  unary(list, "reciprocal/1", [](double x) { return 1.0 / x; }, 0.5, 3, {-2.0, 0.0, kInf});
}

Function2 sum_of() {
  return [](double a, double b) { return a + b; };
}

// Cases of every binary op: equal shapes, broadcasting both ways, a scalar on either side, empty.
// b is kept away from a, so that no comparison or maximum stands on a kink.
void binary(CaseList& list, const char* op, Function2 f, double low = -2, double high = 2) {
  const auto golden = [f](const Arrays& in) { return zip(in[0], in[1], f); };
  const Array a = noise({2, 3}, 3, low, high);
  list.add1(op, "matrices", {a, noise({2, 3}, 4, low, high)}, {}, golden).slack = 4;
  list.add1(op, "row and column", {noise({3}, 5, low, high), noise({2, 1}, 6, low, high)}, {},
            golden)
      .slack = 4;
  list.add1(op, "rank 0", {a, scalar(high * 0.7)}, {}, golden).slack = 4;
  list.add1(op, "empty", {array({0, 3}, {}), vector({1, 1, 1})}, {}, golden);
  const double s = high * 0.625;
  list.add1(op, "scalar right", {a, absent()}, {real("scalar", s)},
            [=](const Arrays& in) { return zip(in[0], scalar(s), f); })
      .slack = 4;
  list.add1(op, "scalar left", {absent(), a}, {real("scalar", s)},
            [=](const Arrays& in) { return zip(scalar(s), in[1], f); })
      .slack = 4;
}

void whole_binary(CaseList& list, const char* op, Function2 f, int64_t low, int64_t high,
                  double s) {
  const auto golden = [f](const Arrays& in) { return zip(in[0], in[1], f); };
  const Array a = whole({4, 3}, 8, low, high);
  list.add1(op, "integers", {a, whole({3}, 9, low, high)}, {}, golden).has_gradient = false;
  list.add1(op, "integer scalar right", {a}, {real("scalar", s)},
            [=](const Arrays& in) { return zip(in[0], scalar(s), f); })
      .has_gradient = false;
  list.add1(op, "integer scalar left", {absent(), a}, {real("scalar", s)},
            [=](const Arrays& in) { return zip(scalar(s), in[1], f); })
      .has_gradient = false;
}

double logaddexp(double a, double b) {
  const double high = std::max(a, b);
  return std::isinf(high) ? high : high + std::log(std::exp(a - high) + std::exp(b - high));
}

void add_arithmetic_cases(CaseList& list) {
  const Function2 sub = [](double a, double b) { return a - b; };
  const Function2 mul = [](double a, double b) { return a * b; };
  const Function2 high = [](double a, double b) { return a > b ? a : b; };
  const Function2 low = [](double a, double b) { return a < b ? a : b; };
  binary(list, "add/1", sum_of());
  binary(list, "sub/1", sub);
  binary(list, "mul/1", mul);
  binary(list, "maximum/1", high);
  binary(list, "minimum/1", low);
  whole_binary(list, "add/1", sum_of(), -9, 9, 3);
  whole_binary(list, "sub/1", sub, -9, 9, 3);
  whole_binary(list, "mul/1", mul, -9, 9, -3);
  whole_binary(list, "maximum/1", high, -9, 9, 2);
  whole_binary(list, "minimum/1", low, -9, 9, 2);
  binary(
      list, "div/1", [](double a, double b) { return a / b; }, 0.5, 3);
  binary(
      list, "pow/1", [](double a, double b) { return std::pow(a, b); }, 0.5, 2);
  binary(
      list, "fmod/1", [](double a, double b) { return std::fmod(a, b); }, 0.7, 2);
  list.add1("fmod/1", "sign of a", {vector({-5, 5, -5, 1}), vector({3, -3, -3, 0})}, {},
            [](const Arrays&) {
              return vector({-2, 2, -2, kNan});
            })
      .has_gradient = false;
  list.add1("div/1", "by zero", {vector({1, -1, 0})}, {real("scalar", 0.0)},
            [](const Arrays&) {
              return vector({kInf, -kInf, kNan});
            })
      .has_gradient = false;
  binary(list, "logaddexp/1", logaddexp);
  list.add1("logaddexp/1", "infinities",
            {vector({-kInf, -kInf, 1, kInf}), vector({-kInf, 2, -kInf, 0})}, {},
            [](const Arrays&) {
              return vector({-kInf, 2, 1, kInf});
            })
      .has_gradient = false;
  list.add1("maximum/1", "nan", {vector({kNan, 1}), vector({1, kNan})}, {},
            [](const Arrays&) {
              return vector({kNan, kNan});
            })
      .has_gradient = false;
}

void comparison(CaseList& list, const char* op, Function2 f) {
  binary(list, op, f);
  whole_binary(list, op, f, -2, 2, 1);
}

void logical(CaseList& list, const char* op, Function2 f) {
  list.add1(op, "table", {vector({0, 0, 1, 1}), vector({0, 1, 0, 1})}, {},
            [f](const Arrays& in) { return zip(in[0], in[1], f); });
  list.add1(op, "broadcast", {array({2, 1}, {0, 1}), vector({0, 1, 1})}, {},
            [f](const Arrays& in) { return zip(in[0], in[1], f); });
}

void add_comparison_cases(CaseList& list) {
  const Function2 eq = [](double a, double b) { return a == b ? 1.0 : 0.0; };
  const Function2 ne = [](double a, double b) { return a != b ? 1.0 : 0.0; };
  comparison(list, "eq/1", eq);
  comparison(list, "ne/1", ne);
  comparison(list, "lt/1", [](double a, double b) { return a < b ? 1.0 : 0.0; });
  comparison(list, "le/1", [](double a, double b) { return a <= b ? 1.0 : 0.0; });
  comparison(list, "gt/1", [](double a, double b) { return a > b ? 1.0 : 0.0; });
  comparison(list, "ge/1", [](double a, double b) { return a >= b ? 1.0 : 0.0; });
  logical(list, "eq/1", eq);
  logical(list, "ne/1", ne);
  logical(list, "logical_and/1", [](double a, double b) { return a * b; });
  logical(list, "logical_or/1", [](double a, double b) { return std::max(a, b); });
}

Array choose(const Array& condition, const Array& a, const Array& b) {
  const Index shape = broadcast_shape(condition.shape, broadcast_shape(a.shape, b.shape));
  return build(shape, [&](const Index& i) {
    return broadcast_at(condition, i) != 0.0 ? broadcast_at(a, i) : broadcast_at(b, i);
  });
}

void add_where_cases(CaseList& list) {
  const Array condition = array({2, 3}, {1, 0, 0, 0, 1, 1});
  const auto tensors = [](const Arrays& in) { return choose(in[0], in[1], in[2]); };
  list.add1("where/1", "tensors", {condition, noise({2, 3}, 1), noise({2, 3}, 2)}, {}, tensors);
  list.add1("where/1", "broadcast", {array({2, 1}, {0, 1}), noise({3}, 3), noise({4, 1, 1}, 4)}, {},
            tensors);
  list.add1("where/1", "bits", {condition, array({2, 3}, {1, 1, 0, 0, 1, 0}), scalar(1)}, {},
            tensors)
      .has_gradient = false;
  list.add1("where/1", "scalar b", {condition, whole({2, 3}, 5, 0, 1), absent()}, {real("b", 1)},
            [](const Arrays& in) { return choose(in[0], in[1], scalar(1)); });
  list.add1("where/1", "scalar a", {condition, absent(), noise({3}, 6)}, {real("a", -kInf)},
            [](const Arrays& in) { return choose(in[0], scalar(-kInf), in[2]); })
      .has_gradient = false;
  list.add1("where/1", "empty", {array({0}, {}), noise({1}, 7), noise({1}, 8)}, {}, tensors);
}

void add_fill_cases(CaseList& list) {
  const Array mask = array({1, 3}, {0, 1, 0});
  const auto fill = [](double value) {
    return [value](const Arrays& in) { return choose(in[1], scalar(value), in[0]); };
  };
  list.add1("masked_fill/1", "broadcast mask", {noise({2, 3}, 1), mask}, {real("value", 0.5)},
            fill(0.5));
  list.add1("masked_fill/1", "minus infinity", {noise({2, 3}, 1), mask}, {real("value", -kInf)},
            fill(-kInf))
      .has_gradient = false;
  list.add1("masked_fill/1", "bits", {whole({2, 3}, 2, 0, 1), mask}, {real("value", 1)}, fill(1));
}

void add_clamp_cases(CaseList& list) {
  const auto clamp = [](double low, double high) {
    return [=](const Arrays& in) {
      return map(in[0], [=](double v) { return v < low ? low : v > high ? high : v; });
    };
  };
  list.add1("clamp/1", "both", {noise({3, 3}, 1)}, {real("min", -0.5), real("max", 1)},
            clamp(-0.5, 1));
  list.add1("clamp/1", "min", {noise({3, 3}, 2)}, {real("min", 0.25)}, clamp(0.25, kInf));
  list.add1("clamp/1", "max", {noise({3, 3}, 3)}, {real("max", 0.25)}, clamp(-kInf, 0.25));
  list.add1("clamp/1", "integers", {whole({3, 3}, 4, -9, 9)}, {real("min", -3), real("max", 4)},
            clamp(-3, 4))
      .has_gradient = false;
}

}  // namespace

void add_unary_cases(CaseList& list) {
  unary(list, "neg/1", [](double x) { return -x; }, -2, 2, {kInf, kNan});
  unary(list, "abs/1", [](double x) { return std::fabs(x); }, -2, 2, {0.0, -kInf});
  unary(list, "sign/1", sign, -2, 2, {0.0, -kInf});
  unary(
      list, "square/1", [](double x) { return x * x; }, -2, 2);
  whole_unary(list, "neg/1", [](double x) { return -x; });
  whole_unary(list, "abs/1", [](double x) { return std::fabs(x); });
  whole_unary(list, "sign/1", sign);
  whole_unary(list, "square/1", [](double x) { return x * x; });
  unary(list, "sin/1", [](double x) { return std::sin(x); }, -3, 3, {0.0});
  unary(list, "cos/1", [](double x) { return std::cos(x); }, -3, 3, {0.0});
  unary(list, "erf/1", [](double x) { return std::erf(x); }, -2, 2, {0.0, kInf, -kInf});
  unary(list, "normal_cdf/1", normal_cdf, -3, 3, {0.0, kInf, -kInf});
  unary(list, "floor/1", [](double x) { return std::floor(x); }, -3, 3, {2.0, -2.0, -0.5});
  unary(list, "round/1", round_to_even, -3, 3, {0.5, 1.5, 2.5, -0.5, -1.5});
  unary(list, "isfinite/1", [](double x) { return std::isfinite(x) ? 1.0 : 0.0; }, -2, 2,
        {kInf, -kInf, kNan, 0.0});
  list.add1("logical_not/1", "bits", {array({2, 2}, {0, 1, 1, 0})}, {},
            [](const Arrays& in) { return map(in[0], [](double v) { return 1.0 - v; }); });
  add_exponential_cases(list);
  add_activation_cases(list);
}

void add_binary_cases(CaseList& list) {
  add_arithmetic_cases(list);
  add_comparison_cases(list);
}

void add_selection_cases(CaseList& list) {
  add_where_cases(list);
  add_fill_cases(list);
  add_clamp_cases(list);
  const auto same = [](const Arrays& in) { return in[0]; };
  for (const char* op : {"detach/1", "contiguous/1"}) {
    list.add1(op, "matrix", {noise({2, 3}, 1)}, {}, same);
    list.add1(op, "bits", {whole({2, 3}, 2, 0, 1)}, {}, same).has_gradient = false;
  }
  list.add1("cast/1", "to f64", {noise({2, 3}, 1)}, {integer("dtype", MNEME_F64)}, same);
  list.add1("cast/1", "bits to f32", {whole({2, 3}, 2, 0, 1)}, {integer("dtype", MNEME_F32)}, same)
      .has_gradient = false;
  list.add1("cast/1", "to i64", {vector({-1.75, 1.75, 0.5, 3})}, {integer("dtype", MNEME_I64)},
            [](const Arrays& in) { return map(in[0], [](double v) { return std::trunc(v); }); })
      .has_gradient = false;
  list.add1("cast/1", "to bool", {vector({-1.75, 0, 0.5})}, {integer("dtype", MNEME_BOOL)},
            [](const Arrays&) {
              return vector({1, 0, 1});
            })
      .has_gradient = false;
}

}  // namespace mneme::memory::test
