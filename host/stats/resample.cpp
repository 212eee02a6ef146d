#include "host/stats/resample.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <functional>

#include "host/base/random.hpp"

namespace mneme::stats {
namespace {

double total_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

// |t| of differences whose signs are flipped, from two sums over the flipped differences. The sum
// of squares of the residuals, weighted by a_j = 1 / (1 - n_j / N), opens into sum a d^2 - 2 mean
// (sum a n d) + mean^2 (sum a n^2), of which the first and last are constant.
class StudentisedMean {
 public:
  StudentisedMean(std::span<const double> differences, std::span<const double> targets)
      : total_(total_of(targets)) {
    weighted_.reserve(targets.size());
    for (std::size_t j = 0; j < targets.size(); ++j) {
      const double weight = 1 / (1 - targets[j] / total_);
      weighted_.push_back(weight * targets[j] * differences[j]);
      squares_ += weight * differences[j] * differences[j];
      squared_targets_ += weight * targets[j] * targets[j];
    }
  }

  // a_j n_j d_j of each unit.
  [[nodiscard]] std::span<const double> weighted() const { return weighted_; }

  [[nodiscard]] double absolute(double sum, double weighted_sum) const {
    const double mean = sum / total_;
    const double residual = squares_ - 2 * mean * weighted_sum + mean * mean * squared_targets_;
    // Rounding may leave nothing, or less, where all differences per target are equal.
    const double smallest = squares_ * 1e-14;
    if (squares_ == 0) return 0;
    return std::abs(sum) / std::sqrt(std::max(residual, smallest));
  }

 private:
  double total_;
  double squares_ = 0;
  double squared_targets_ = 0;
  std::vector<double> weighted_;
};

// All flips but for a common sign, in the order of a Gray code: one unit changes at a time.
std::vector<double> all_flips(const StudentisedMean& t, std::vector<double> sign_times_difference,
                              std::vector<double> sign_times_weighted) {
  const std::size_t units = sign_times_difference.size();
  const std::uint64_t count = std::uint64_t{1} << (units - 1);
  double sum = total_of(sign_times_difference);
  double weighted_sum = total_of(sign_times_weighted);
  std::vector<double> values{t.absolute(sum, weighted_sum)};
  values.reserve(count);
  for (std::uint64_t code = 1; code < count; ++code) {
    const auto j = static_cast<std::size_t>(std::countr_zero(code));
    sign_times_difference[j] = -sign_times_difference[j];
    sign_times_weighted[j] = -sign_times_weighted[j];
    sum += 2 * sign_times_difference[j];
    weighted_sum += 2 * sign_times_weighted[j];
    if (code % 1024 == 0) {  // so that rounding errors of the running sums do not build up
      sum = total_of(sign_times_difference);
      weighted_sum = total_of(sign_times_weighted);
    }
    values.push_back(t.absolute(sum, weighted_sum));
  }
  return values;
}

std::vector<double> drawn_flips(const StudentisedMean& t, std::span<const double> differences,
                                int draws, std::uint64_t seed) {
  const std::span<const double> weighted = t.weighted();
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(draws));
  Random random(seed, {"sign flips"});
  for (int draw = 0; draw < draws; ++draw) {
    double sum = 0;
    double weighted_sum = 0;
    for (std::size_t begin = 0; begin < differences.size(); begin += 32) {
      std::uint32_t bits = random.next32();
      const std::size_t end = std::min(differences.size(), begin + 32);
      for (std::size_t j = begin; j < end; ++j, bits >>= 1) {
        const double sign = 1.0 - 2.0 * static_cast<double>(bits & 1);
        sum += sign * differences[j];
        weighted_sum += sign * weighted[j];
      }
    }
    values.push_back(t.absolute(sum, weighted_sum));
  }
  return values;
}

}  // namespace

double quantile_of(std::vector<double>& values, double probability) {
  const double place = probability * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), values.begin() + below, values.end());
  const double lower = values[static_cast<std::size_t>(below)];
  const double share = place - static_cast<double>(below);
  if (share == 0) return lower;
  const double upper = *std::min_element(values.begin() + below + 1, values.end());
  return lower + share * (upper - lower);
}

UnitVariance unit_variance(std::span<const double> differences, std::span<const double> targets) {
  const double total = total_of(targets);
  const double mean = total_of(differences) / total;
  double squares = 0;
  for (std::size_t j = 0; j < targets.size(); ++j) {
    const double residual = differences[j] - targets[j] * mean;
    squares += residual * residual / (1 - targets[j] / total);
  }
  return {mean, squares / (total * total)};
}

Tails bootstrap_tails(std::span<const std::vector<double>> sums, std::span<const double> targets,
                      double tail, int draws, std::uint64_t seed) {
  const std::size_t seeds = sums.size();
  const std::size_t units = targets.size();
  const double total = total_of(targets);
  // Residuals by unit, then seed, so that one drawn unit is read at one place.
  std::vector<double> residuals(seeds * units);
  for (std::size_t s = 0; s < seeds; ++s) {
    const double mean = total_of(sums[s]) / total;
    for (std::size_t j = 0; j < units; ++j) {
      residuals[j * seeds + s] = (sums[s][j] - targets[j] * mean) / static_cast<double>(seeds);
    }
  }
  const double correction = static_cast<double>(units) / static_cast<double>(units - 1);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(draws));
  std::vector<double> weights(seeds, 1.0);
  Random random(seed, {"bootstrap"});
  for (int draw = 0; draw < draws; ++draw) {
    if (seeds > 1) {
      std::fill(weights.begin(), weights.end(), 0.0);
      for (std::size_t s = 0; s < seeds; ++s) {
        weights[static_cast<std::size_t>(random.below(seeds))] += 1;
      }
    }
    double e1 = 0;
    double n1 = 0;
    double e2 = 0;
    double en = 0;
    double n2 = 0;
    for (std::size_t k = 0; k < units; ++k) {
      // Units below 2^32 / 1000 are drawn equally often within 0.1 % of their probability.
      const auto j = static_cast<std::size_t>((std::uint64_t{random.next32()} * units) >> 32);
      double e = 0;
      for (std::size_t s = 0; s < seeds; ++s) e += weights[s] * residuals[j * seeds + s];
      const double n = targets[j];
      e1 += e;
      n1 += n;
      e2 += e * e;
      en += e * n;
      n2 += n * n;
    }
    const double shift = e1 / n1;
    const double squares = e2 - 2 * shift * en + shift * shift * n2;
    // A draw of one unit alone, or of equal ones, has no standard error but rounding errors, and
    // counts as one without deviation.
    const bool has_error = squares > 1e-12 * e2;
    values.push_back(has_error ? e1 / std::sqrt(correction * squares) : 0.0);
  }
  const double lower = quantile_of(values, tail);
  return {lower, quantile_of(values, 1 - tail)};
}

double SignFlips::tail(double threshold) const {
  // Equal values may differ by rounding.
  const double edge = threshold * (1 - 1e-9);
  const auto end = std::upper_bound(values.begin(), values.end(), edge, std::greater<>());
  const auto count = static_cast<double>(end - values.begin());
  const auto all = static_cast<double>(values.size());
  return is_exact ? count / all : (1 + count) / (1 + all);
}

double SignFlips::smallest_tail() const {
  const auto all = static_cast<double>(values.size());
  return is_exact ? 1 / all : 1 / (1 + all);
}

SignFlips sign_flips(std::span<const double> differences, std::span<const double> targets,
                     int exact_units, int draws, std::uint64_t seed) {
  const StudentisedMean t(differences, targets);
  const std::vector<double> signed_differences(differences.begin(), differences.end());
  const std::vector<double> signed_weighted(t.weighted().begin(), t.weighted().end());
  SignFlips flips;
  flips.observed = t.absolute(total_of(differences), total_of(signed_weighted));
  flips.is_exact = differences.size() <= static_cast<std::size_t>(exact_units);
  flips.values = flips.is_exact ? all_flips(t, signed_differences, signed_weighted)
                                : drawn_flips(t, differences, draws, seed);
  std::sort(flips.values.begin(), flips.values.end(), std::greater<>());
  return flips;
}

}  // namespace mneme::stats
