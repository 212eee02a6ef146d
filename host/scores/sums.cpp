#include "host/scores/sums.hpp"

#include <bit>
#include <cmath>

namespace mneme::scores {
namespace {

double ratio(double sum, std::int64_t count) {
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

std::int64_t power_of_ten(std::size_t exponent) {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < exponent; ++i) out *= 10;
  return out;
}

}  // namespace

double Sums::loss() const { return ratio(nll, targets); }
double Sums::perplexity() const { return targets == 0 ? 0.0 : std::exp(loss()); }
double Sums::accuracy() const { return ratio(static_cast<double>(correct), judged()); }

std::string range_name(const Range& range) {
  return range.first == range.second ? str(range.first) : str(range.first, "-", range.second);
}

std::size_t power_of_two_bucket(std::int64_t value) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(value)) - 1);
}

Range power_of_two_range(std::size_t bucket) {
  const std::int64_t from = std::int64_t{1} << bucket;
  return {from, 2 * from - 1};
}

std::size_t frequency_bucket(std::int64_t occurrences) {
  std::size_t bucket = 0;
  for (; occurrences >= 1; occurrences /= 10) ++bucket;
  return bucket;
}

std::vector<Bucket> BucketSums::list_frequencies() const {
  std::vector<Bucket> out = list([](std::size_t bucket) {
    if (bucket == 0) return Range(0, 0);
    const std::int64_t from = power_of_ten(bucket - 1);
    return Range(from, 10 * from - 1);
  });
  if (!out.empty() && out.front().from == 0) out.front().name = "unseen";
  return out;
}

}  // namespace mneme::scores
