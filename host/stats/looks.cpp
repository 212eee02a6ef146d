#include "host/stats/looks.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/stats/distributions.hpp"

namespace mneme::stats {
namespace {

// t of n normal numbers is sqrt(n - 1) tan(angle), where the angle is that of their vector to the
// plane of mean 0. With U = sqrt(n) sin(angle), the sum over the root of the sum of squares, a
// further number turns U into U cos(turn) + sin(turn), and the turn does not depend on what was
// before: its density is that of the angle, in proportion to cos(turn)^(n - 2), n the new number.

constexpr std::size_t kCells = 64;  // of |angle| between 0 and the bound
constexpr double kLeastFactor = 1e-6;
constexpr int kFactorsPerDecade = 4;
constexpr int kFactors = 6 * kFactorsPerDecade + 1;

// Sine and cosine of an angle between -pi / 2 and 3 pi / 2.
struct Turn {
  double sine = 0;
  double cosine = 1;
};

// Probability that a Student's t with `degrees` degrees of freedom, over their root, is at most the
// tangent of an angle; those above a right one count as it [Abramowitz and Stegun 1964, 26.7.3,
// 26.7.4].
double turn_probability(const Turn& at, std::size_t degrees) {
  if (at.cosine <= 0) return 1;
  const double cosine2 = at.cosine * at.cosine;
  const bool is_odd = degrees % 2 == 1;
  double sum = 0;
  double term = is_odd ? at.cosine : 1.0;
  for (std::size_t k = is_odd ? 1 : 0; k + 2 <= degrees; k += 2) {
    sum += term;
    term *= cosine2 * static_cast<double>(k + 1) / static_cast<double>(k + 2);
  }
  const double inside =
      is_odd ? 2 / std::numbers::pi * (std::atan2(at.sine, at.cosine) + at.sine * sum)
             : at.sine * sum;
  return 0.5 + 0.5 * inside;
}

// Probability that the next U is above `bound` >= 0 after one of `u`; `degrees`: the new number of
// seeds less one.
double probability_above(double u, double bound, std::size_t degrees) {
  const double length = std::sqrt(1 + u * u);  // U of the next is length sin(turn + shift)
  const double sine = bound / length;
  if (sine >= 1) return 0;
  const double cosine = std::sqrt(1 - sine * sine);
  const Turn shift{u / length, 1 / length};
  const Turn low{sine * shift.cosine - cosine * shift.sine,
                 cosine * shift.cosine + sine * shift.sine};
  const Turn high{sine * shift.cosine + cosine * shift.sine,
                  sine * shift.sine - cosine * shift.cosine};
  return turn_probability(high, degrees) - turn_probability(low, degrees);
}

double probability_beyond(double u, double bound, std::size_t degrees) {
  return probability_above(u, bound, degrees) + probability_above(-u, bound, degrees);
}

}  // namespace

double look_probability(std::size_t first, std::size_t last, double factor) {
  struct Cell {
    double u = 0;
    double mass = 0;
  };
  std::vector<Cell> going_on;  // |U| of those whom no look has rejected
  double rejected = 0;
  for (std::size_t seeds = first; seeds <= last; ++seeds) {
    const auto n = static_cast<double>(seeds);
    const std::size_t degrees = seeds - 1;
    const double share = n / static_cast<double>(last);
    const double level = factor * share * share;
    if (level >= 1) return 1;
    const double bound = std::atan(t_quantile(1 - level / 2, n - 1) / std::sqrt(n - 1));
    const auto angle = [&](std::size_t edge) {  // finer towards the bound
      return bound * std::sin(std::numbers::pi / 2 * static_cast<double>(edge) / kCells);
    };
    const auto beyond = [&](double edge) {
      if (seeds == first)
        return 2 * (1 - turn_probability({std::sin(edge), std::cos(edge)}, degrees));
      double sum = 0;
      for (const Cell& cell : going_on) {
        sum += cell.mass * probability_beyond(cell.u, std::sqrt(n) * std::sin(edge), degrees);
      }
      return sum;
    };
    std::vector<Cell> next;
    double outer = beyond(bound);
    rejected += outer;
    for (std::size_t edge = kCells; edge-- > 0;) {
      const double inner = beyond(angle(edge));
      next.push_back({.u = std::sqrt(n) * std::sin(0.5 * (angle(edge) + angle(edge + 1))),
                      .mass = inner - outer});
      outer = inner;
    }
    going_on = std::move(next);
  }
  return rejected;
}

LookPlan::LookPlan(std::size_t max_seeds) : max_seeds_(max_seeds) {
  if (max_seeds < kFewestSeeds || max_seeds > kMostSeeds) {
    throw_usage({.where = "looks at a comparison",
                 .failed = "largest number of seeds out of range",
                 .expected = str(kFewestSeeds, " to ", kMostSeeds),
                 .got = str(max_seeds),
                 .hint = str("the first look is at ", kFewestSeeds, " seeds")});
  }
  ratios_.reserve(kFactors);
  for (int i = 0; i < kFactors; ++i) {
    const double factor = kLeastFactor * std::pow(10.0, static_cast<double>(i) / kFactorsPerDecade);
    ratios_.push_back(look_probability(first_look(), max_seeds, std::min(factor, 1.0)) / factor);
  }
}

std::size_t LookPlan::first_look_of(std::size_t max_seeds) {
  return std::max(kFewestSeeds, (max_seeds + 3) / 4);
}

double LookPlan::share2(std::size_t seeds) const {
  if (seeds < first_look() || seeds > max_seeds_) {
    throw_usage({.where = "looks at a comparison",
                 .failed = "number of seeds at which there is no look",
                 .expected = str(first_look(), " to ", max_seeds_),
                 .got = str(seeds)});
  }
  const double share = static_cast<double>(seeds) / static_cast<double>(max_seeds_);
  return share * share;
}

double LookPlan::probability(double factor) const {
  if (factor >= 1) return 1;
  const double place = std::max(0.0, std::log10(factor / kLeastFactor) * kFactorsPerDecade);
  const auto below = std::min(static_cast<std::size_t>(place), ratios_.size() - 2);
  const double rest = std::min(place - static_cast<double>(below), 1.0);
  return factor * ((1 - rest) * ratios_[below] + rest * ratios_[below + 1]);
}

double LookPlan::nominal_level(std::size_t seeds, double level) const {
  double low = 0;
  double high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (probability(middle) <= level ? low : high) = middle;
  }
  return low * share2(seeds);
}

double LookPlan::repeated_p(std::size_t seeds, double p) const {
  return std::clamp(probability(p / share2(seeds)), p, 1.0);
}

PairedResult compare_at_look(const PairedDifferences& differences, const LookPlan& plan,
                             const PairedOptions& options) {
  const std::size_t seeds = differences.sums.size();
  PairedOptions of_look = options;
  of_look.level = 1 - plan.nominal_level(seeds, 1 - options.level);
  PairedResult result = compare_paired(differences, of_look);
  result.p = plan.repeated_p(seeds, result.p);
  return result;
}

double repeated_one_sided_p(const LookPlan& plan, std::size_t seeds, double p) {
  return p < 0.5 ? plan.repeated_p(seeds, 2 * p) / 2 : p;
}

}  // namespace mneme::stats
