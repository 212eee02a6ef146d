#include "host/stats/distributions.hpp"

#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace mneme::stats {
namespace {

namespace bm = boost::math;

// Doubles are not promoted to long double: 1e-13 is enough here and several times faster.
using Policy = bm::policies::policy<bm::policies::promote_double<false>>;
using Normal = bm::normal_distribution<double, Policy>;
using StudentsT = bm::students_t_distribution<double, Policy>;
using ChiSquared = bm::chi_squared_distribution<double, Policy>;
using NoncentralT = bm::non_central_t_distribution<double, Policy>;

// The root of an increasing function between two ends where its signs differ.
template <typename F>
double increasing_root(const F& function, double low, double high) {
  std::uintmax_t evaluations = 100;
  const auto [a, b] = bm::tools::toms748_solve(function, low, high,
                                               bm::tools::eps_tolerance<double>(40), evaluations);
  return 0.5 * (a + b);
}

}  // namespace

double normal_quantile(double probability) { return bm::quantile(Normal(), probability); }

double normal_probability(double value) { return 0.5 * std::erfc(-value / std::numbers::sqrt2); }

double t_quantile(double probability, double degrees) {
  return bm::quantile(StudentsT(degrees), probability);
}

double t_power(double shift, double degrees, double critical) {
  const NoncentralT t(degrees, shift);
  return bm::cdf(bm::complement(t, critical)) + bm::cdf(t, -critical);
}

double t_shift_for_power(double power, double degrees, double critical) {
  // Far out T is shift / sqrt(chi^2 / degrees), whose numerator's noise no longer counts; the
  // series of noncentral t ends where shift^2 / 2 no longer fits into an int.
  constexpr double kFar = 1e4;
  if (critical > kFar) {
    return critical * std::sqrt(chi_squared_quantile(power, degrees) / degrees);
  }
  double high = critical + 1;
  while (t_power(high, degrees, critical) < power) high *= 1.5;
  return increasing_root([&](double shift) { return t_power(shift, degrees, critical) - power; },
                         0.0, high);
}

double chi_squared_quantile(double probability, double degrees) {
  return bm::quantile(ChiSquared(degrees), probability);
}

}  // namespace mneme::stats
