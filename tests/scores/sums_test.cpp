// Sums over targets, and their buckets.
#include "host/scores/sums.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace mneme::scores {
namespace {

using testing::ElementsAre;

TEST(Sums, AverageOverTargets) {
  Sums sums{.targets = 3, .nll = 6.0, .correct = 1};
  sums.add({.targets = 1, .nll = 1.0, .correct = 0});
  sums.add(1.0, true);
  EXPECT_EQ(sums, (Sums{.targets = 5, .nll = 8.0, .correct = 2}));
  EXPECT_DOUBLE_EQ(sums.loss(), 1.6);
  EXPECT_DOUBLE_EQ(sums.perplexity(), std::exp(1.6));
  EXPECT_DOUBLE_EQ(sums.accuracy(), 0.4);
  EXPECT_EQ(Sums{}.loss(), 0.0);
  EXPECT_EQ(Sums{}.perplexity(), 0.0);
  EXPECT_EQ(Sums{}.accuracy(), 0.0);
}

TEST(Buckets, OfPowersHoldTheirRanges) {
  for (std::int64_t value = 1; value < 5000; ++value) {
    const Range two = power_of_two_range(power_of_two_bucket(value));
    EXPECT_TRUE(two.first <= value && value <= two.second && two.second == 2 * two.first - 1);
  }
  EXPECT_EQ(power_of_two_bucket(std::int64_t{1} << 40), 40u);
}

TEST(Buckets, OfFrequenciesArePowersOfTenAndUnseen) {
  BucketSums sums;
  for (const std::int64_t occurrences : {0, 1, 9, 10, 4000}) {
    sums.add(frequency_bucket(occurrences), 1.0, false);
  }
  EXPECT_EQ(frequency_bucket(999), 3u);
  EXPECT_EQ(frequency_bucket(1000), 4u);
  EXPECT_EQ(frequency_bucket(1'000'000'000'000), 13u);
  std::vector<std::string> names;
  std::vector<std::int64_t> from, targets;
  for (const Bucket& bucket : sums.list_frequencies()) {
    names.push_back(bucket.name);
    from.push_back(bucket.from);
    targets.push_back(bucket.sums.targets);
  }
  EXPECT_THAT(names, ElementsAre("unseen", "1-9", "10-99", "1000-9999"));
  EXPECT_THAT(from, ElementsAre(0, 1, 10, 1000));
  EXPECT_THAT(targets, ElementsAre(1, 2, 1, 1));
}

TEST(Buckets, ListThoseThatHoldATarget) {
  BucketSums sums;
  for (const std::int64_t value : {1, 5, 6, 40}) {
    sums.add(power_of_two_bucket(value), 0.5, value == 5);
  }
  const std::vector<Bucket> list = sums.list(power_of_two_range);
  std::vector<std::string> names;
  for (const Bucket& bucket : list) names.push_back(bucket.name);
  EXPECT_THAT(names, ElementsAre("1", "4-7", "32-63"));
  EXPECT_EQ(list[1].from, 4);
  EXPECT_EQ(list[1].sums, (Sums{.targets = 2, .nll = 1.0, .correct = 1}));
}

}  // namespace
}  // namespace mneme::scores
