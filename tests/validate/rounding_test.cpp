// The rounding of a function that is found from its values, where it is known.
#include "host/validate/rounding.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "host/validate/kink.hpp"

namespace mneme::validate {
namespace {

double smooth(double x) { return 2.0 + std::sin(3.0 * x) + x * x * x; }

// Sums whose rounding is uniform: numbers of f32 between 2 and 4 are 2^-22 apart.
double in_f32(double x) { return static_cast<double>(static_cast<float>(smooth(x))); }
const double kDeviation = std::ldexp(1.0, -22) / std::sqrt(12.0);

TEST(Rounding, OfF64IsItsLastDigits) { EXPECT_LT(rounding_of(smooth), 1e-15); }

TEST(Rounding, OfF32IsFoundWithinAFactorOfFour) {
  EXPECT_GT(rounding_of(in_f32), kDeviation / 4);
  EXPECT_LT(rounding_of(in_f32), kDeviation * 4);
}

TEST(Rounding, IsNoBend) {
  const auto bent = [](double x) { return smooth(x) + std::abs(x); };
  EXPECT_LT(rounding_of(bent), 1e-15);
  EXPECT_TRUE(is_kink(bent));
  EXPECT_FALSE(is_kink(smooth));
  EXPECT_FALSE(is_kink(in_f32));
  EXPECT_TRUE(is_kink([](double x) { return in_f32(x) + std::abs(x); }));
}

}  // namespace
}  // namespace mneme::validate
