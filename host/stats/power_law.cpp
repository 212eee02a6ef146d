#include "host/stats/power_law.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/stats/distributions.hpp"

namespace mneme::stats {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeastExponent = 0.01, kMostExponent = 4.0;
constexpr int kGridPoints = 60;  // of exponents, before the search between two of them
constexpr int kSearchSteps = 60;
constexpr int kDraws = 2000;
constexpr double kOutside = 0.05;
constexpr std::uint64_t kSeed = 1;

// floor + factor u with weights 1 / y^2, both at least 0.
struct Line {
  double floor = 0, factor = 0, residual = 0;
};

double residual_of(std::span<const double> u, std::span<const double> y, double floor,
                   double factor) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double one = (floor + factor * u[i]) / y[i] - 1;
    sum += one * one;
  }
  return sum;
}

Line fit_line(std::span<const double> u, std::span<const double> y) {
  double w = 0, wu = 0, wuu = 0, wy = 0, wuy = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double weight = 1 / (y[i] * y[i]);
    w += weight;
    wu += weight * u[i];
    wuu += weight * u[i] * u[i];
    wy += weight * y[i];
    wuy += weight * u[i] * y[i];
  }
  const double determinant = w * wuu - wu * wu;
  Line line;
  if (determinant > 0) {
    line.floor = (wuu * wy - wu * wuy) / determinant;
    line.factor = (w * wuy - wu * wy) / determinant;
  }
  if (line.floor < 0 || determinant <= 0) line = {.floor = 0, .factor = wuy / wuu};
  if (line.factor < 0) line = {.floor = wy / w, .factor = 0};
  line.residual = residual_of(u, y, line.floor, line.factor);
  return line;
}

// The least squares line of log y over log x; both have as many values.
PowerLaw fit_slope(std::span<const double> x, std::span<const double> y) {
  const auto count = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += std::log(x[i]) / count;
    mean_y += std::log(y[i]) / count;
  }
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double from_mean = std::log(x[i]) - mean_x;
    xx += from_mean * from_mean;
    xy += from_mean * (std::log(y[i]) - mean_y);
  }
  const double slope = xy / xx;
  return {.exponent = -slope, .factor = std::exp(mean_y - slope * mean_x)};
}

// Variable projection: for an exponent floor and factor have a closed form, so that one number is
// searched for, on a grid of logarithms and then by golden section.
PowerLaw fit_with_floor(std::span<const double> x, std::span<const double> y) {
  const double scale = x.front();
  std::vector<double> u(x.size());
  const auto line_at = [&](double log_exponent) {
    for (std::size_t i = 0; i < x.size(); ++i)
      u[i] = std::pow(x[i] / scale, -std::exp(log_exponent));
    return fit_line(u, y);
  };
  const double first = std::log(kLeastExponent);
  const double step = (std::log(kMostExponent) - first) / (kGridPoints - 1);
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kGridPoints; ++i) {
    const double residual = line_at(first + i * step).residual;
    if (residual < least) {
      least = residual;
      best = i;
    }
  }
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double low = first + std::max(best - 1, 0) * step;
  double high = first + std::min(best + 1, kGridPoints - 1) * step;
  for (int i = 0; i < kSearchSteps; ++i) {
    const double left = high - ratio * (high - low), right = low + ratio * (high - low);
    const bool is_left = line_at(left).residual < line_at(right).residual;
    (is_left ? high : low) = is_left ? right : left;
  }
  const double exponent = std::exp(0.5 * (low + high));
  const Line line = line_at(0.5 * (low + high));
  return {.has_floor = true,
          .exponent = exponent,
          .factor = line.factor * std::pow(scale, exponent),
          .floor = line.floor};
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::vector<double> means_of(const LadderLosses& losses) {
  std::vector<double> out;
  for (const std::vector<double>& one : losses) out.push_back(mean_of(one));
  return out;
}

bool has_seeds(const LadderLosses& losses) {
  return std::ranges::all_of(losses, [](const auto& one) { return one.size() > 1; });
}

std::vector<std::size_t> draw_places(std::size_t count, Random& random) {
  std::vector<std::size_t> out(count);
  for (std::size_t& one : out)
    one = std::min(count - 1,
                   static_cast<std::size_t>(random.uniform() * static_cast<double>(count)));
  return out;
}

// By how much the distances of drawn means to the mean are lengthened besides sqrt(S / (S - 1)).
double length_of_tails(const LadderLosses& losses) {
  double degrees = 0;
  for (const auto& one : losses) degrees += static_cast<double>(one.size() - 1);
  return t_quantile(1 - kOutside / 2, degrees) / normal_quantile(1 - kOutside / 2);
}

// The mean of the drawn seeds, its distance to the mean of all lengthened.
double drawn_mean(const std::vector<double>& values, const std::vector<std::size_t>& places,
                  double tails) {
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const std::size_t place : places) sum += values[place];
  const double mean = mean_of(values);
  const double drawn = mean + tails * std::sqrt(count / (count - 1)) * (sum / count - mean);
  // A loss stays above 0, also with seeds that are far apart.
  return std::max(drawn, 1e-3 * mean);
}

SeedInterval percentiles(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {.low = at(kOutside / 2), .high = at(1 - kOutside / 2)};
}

// -1, 0, 1.
int sign_of(double value) { return (value > 0) - (value < 0); }

struct Zeros {
  std::optional<double> first;  // x
  std::size_t count = 0;
  int start = 0, end = 0;  // signs at the ends of the range; those of zeros are their neighbours'
};

// Of log(second / first), linear between sizes in log x.
Zeros zeros_of(std::span<const double> x, const std::vector<double>& first,
               const std::vector<double>& second) {
  Zeros out;
  double last_x = 0, last = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = std::log(second[i] / first[i]);
    if (value == 0) continue;
    const double at = std::log(x[i]);
    if (out.start == 0) out.start = sign_of(value);
    if (out.end != 0 && sign_of(value) != out.end) {
      if (!out.first) out.first = std::exp(last_x + (at - last_x) * last / (last - value));
      ++out.count;
    }
    out.end = sign_of(value);
    last_x = at;
    last = value;
  }
  return out;
}

}  // namespace

PowerLaw fit_power_law(std::span<const double> x, std::span<const double> y) {
  if (x.size() < kFitPoints || x.size() != y.size()) {
    throw_usage({.failed = "fit of a power law",
                 .expected = str(kFitPoints, " points or more"),
                 .got = str(x.size(), " of x, ", y.size(), " of y")});
  }
  return x.size() < kFloorPoints ? fit_slope(x, y) : fit_with_floor(x, y);
}

SeedInterval exponent_interval(std::span<const double> x, const LadderLosses& losses) {
  if (!has_seeds(losses)) return {kNone, kNone};
  Random random(kSeed, {"exponent"});
  const double tails = length_of_tails(losses);
  std::vector<double> exponents(kDraws);
  std::vector<double> y(losses.size());
  for (double& one : exponents) {
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = drawn_mean(losses[i], draw_places(losses[i].size(), random), tails);
    one = fit_power_law(x, y).exponent;
  }
  return percentiles(std::move(exponents));
}

Crossing find_crossing(std::span<const double> x, const LadderLosses& first,
                       const LadderLosses& second) {
  const Zeros zeros = zeros_of(x, means_of(first), means_of(second));
  Crossing out{.at = zeros.first,
               .is_second_below = zeros.start < 0,
               .count = zeros.count,
               .interval = {kNone, kNone},
               .share = kNone};
  if (!has_seeds(first) || !has_seeds(second)) return out;
  Random random(kSeed, {"crossing"});
  const double tails = length_of_tails(first);
  std::vector<double> places(kDraws), a(x.size()), b(x.size());
  int crossed = 0;
  for (double& place : places) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::vector<std::size_t> drawn = draw_places(first[i].size(), random);
      const bool are_paired = first[i].size() == second[i].size();
      a[i] = drawn_mean(first[i], drawn, tails);
      b[i] =
          drawn_mean(second[i], are_paired ? drawn : draw_places(second[i].size(), random), tails);
    }
    const Zeros drawn = zeros_of(x, a, b);
    crossed += drawn.first ? 1 : 0;
    place = drawn.first                  ? *drawn.first
            : drawn.start == zeros.start ? std::numeric_limits<double>::infinity()
                                         : 0.0;
  }
  out.interval = percentiles(std::move(places));
  out.share = static_cast<double>(crossed) / kDraws;
  return out;
}

}  // namespace mneme::stats
