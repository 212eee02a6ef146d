#include "host/stats/seeds.hpp"

#include <cmath>
#include <limits>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/stats/distributions.hpp"

namespace mneme::stats {

SeedSummary summarise_seeds(std::span<const double> values, double level) {
  if (!(level > 0 && level < 1)) {
    throw_usage({.failed = "level of an interval", .expected = "0 < level < 1", .got = str(level)});
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  SeedSummary summary{values.size(), kNone, kNone, kNone, kNone};
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      throw_run({.where = str("value of seed number ", i + 1),
                 .failed = "mean over seeds",
                 .expected = "a finite number",
                 .got = str(values[i])});
    }
    sum += values[i];
  }
  if (values.empty()) return summary;
  const auto count = static_cast<double>(values.size());
  summary.mean = sum / count;
  if (values.size() < 2) return summary;
  double squares = 0;
  for (const double value : values) squares += (value - summary.mean) * (value - summary.mean);
  summary.deviation = std::sqrt(squares / (count - 1));
  const double half = t_quantile(0.5 + level / 2, count - 1) * summary.deviation / std::sqrt(count);
  summary.low = summary.mean - half;
  summary.high = summary.mean + half;
  return summary;
}

}  // namespace mneme::stats
