// Summaries of rows of logits of each instruction set against plain loops.
#include "host/kernel/logits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace mneme::kernel {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Expected {
  double log_sum, highest;
  int64_t best;
};
template <typename T>
Expected expected(const T* x, int64_t count) {
  Expected out{0.0, -kInfinity, 0};
  for (int64_t i = 0; i < count; ++i) {
    const bool is_higher = std::isnan(x[i]) ? !std::isnan(out.highest) : x[i] > out.highest;
    if (is_higher) out = {0.0, static_cast<double>(x[i]), i};
  }
  if (!std::isfinite(out.highest)) return {out.highest, out.highest, out.best};
  long double sum = 0.0L;  // of many equal numbers
  for (int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<double>(x[i]) - out.highest);
  out.log_sum = out.highest + static_cast<double>(std::log(sum));
  return out;
}

void expect_near(double got, double wanted, double tolerance) {
  if (std::isnan(wanted)) {
    EXPECT_TRUE(std::isnan(got)) << got;
  } else if (std::isinf(wanted)) {
    EXPECT_EQ(got, wanted);
  } else {
    EXPECT_NEAR(got, wanted, tolerance * std::max(1.0, std::abs(wanted)));
  }
}

template <typename T>
auto function_of(const LogitKernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.summarize_f32;
  } else {
    return kernels.summarize_f64;
  }
}

template <typename T>
class LogitKernel : public testing::Test {
 protected:
  static constexpr double kTolerance = std::is_same_v<T, float> ? 1e-6 : 1e-14;
  static constexpr int64_t kGap = 3;  // behind each row

  // Rows of `ids` numbers, one after the other in `x`.
  static void check(const std::vector<T>& x, int64_t ids) {
    const int64_t rows = std::ssize(x) / ids;
    std::vector<T> apart(static_cast<size_t>(rows * (ids + kGap)), T{1000});
    for (int64_t i = 0; i < rows * ids; ++i) {
      apart[static_cast<size_t>(i / ids * (ids + kGap) + i % ids)] = x[static_cast<size_t>(i)];
    }
    for (const cpu::InstructionSet set : cpu::usable_instruction_sets()) {
      SCOPED_TRACE(cpu::name_of(set));
      const auto summarize = function_of<T>(cpu::kernels<LogitKernels>(set));
      std::vector<T> log_sum(static_cast<size_t>(rows)), highest(log_sum), alone(log_sum);
      std::vector<int64_t> best(static_cast<size_t>(rows));
      LogitRows<T> args{apart.data(), ids + kGap, ids, log_sum.data(), highest.data(), best.data()};
      for (int64_t r = 0; r < rows; r += 2) summarize(args, r, std::min(r + 2, rows));
      args.log_sum = alone.data();
      args.highest = nullptr;
      args.best = nullptr;
      summarize(args, 0, rows);
      for (int64_t r = 0; r < rows; ++r) {
        SCOPED_TRACE(r);
        const auto at = static_cast<size_t>(r);
        const Expected wanted = expected(x.data() + r * ids, ids);
        expect_near(log_sum[at], wanted.log_sum, kTolerance);
        expect_near(alone[at], log_sum[at], 0.0);
        expect_near(highest[at], wanted.highest, 0.0);
        EXPECT_EQ(best[at], wanted.best);
      }
    }
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(LogitKernel, Types);

TYPED_TEST(LogitKernel, AgreesWithDoubleLoops) {
  std::mt19937 random(5);
  for (const int64_t ids : {1, 2, 7, 16, 63, 64, 65, 1000, 4095, 4096, 4097, 20'003}) {
    SCOPED_TRACE(ids);
    for (const double spread : {0.1, 5.0, 300.0}) {
      std::normal_distribution<TypeParam> draw(TypeParam{3}, static_cast<TypeParam>(spread));
      std::vector<TypeParam> x(static_cast<size_t>(3 * ids));
      for (TypeParam& number : x) number = draw(random);
      this->check(x, ids);
    }
  }
}

TYPED_TEST(LogitKernel, GivesTheFirstOfEqualNumbers) {
  std::vector<TypeParam> x(100, TypeParam{-2});
  this->check(x, 100);
  x[37] = x[38] = x[99] = TypeParam{4};
  this->check(x, 100);
}

TYPED_TEST(LogitKernel, PassesOnWhatIsNotFinite) {
  for (const double odd : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const size_t place : {0U, 17U, 63U, 64U, 98U}) {
      std::vector<TypeParam> x(99, TypeParam{1});
      x[place] = static_cast<TypeParam>(odd);
      this->check(x, 99);
      x[98] = static_cast<TypeParam>(kInfinity);  // and beside another one
      this->check(x, 99);
    }
    this->check(std::vector<TypeParam>(99, static_cast<TypeParam>(odd)), 99);
  }
}

// exp(-1000) is 0 beside 1, and a sum of many tiny numbers is not lost.
TYPED_TEST(LogitKernel, AddsUpManyAndTinyNumbers) {
  std::vector<TypeParam> x(200'000, TypeParam{-8});
  this->check(x, 200'000);
  x[5] = TypeParam{0};
  this->check(x, 200'000);
  x.assign(50, TypeParam{-1000});
  x[49] = TypeParam{2};
  this->check(x, 50);
}

}  // namespace
}  // namespace mneme::kernel
