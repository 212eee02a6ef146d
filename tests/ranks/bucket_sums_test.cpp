// Compiled a second time under the thread sanitizer (CMakeLists.txt).
#include "host/ranks/bucket_sums.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <random>

#include "tests/ranks/thread_ranks.hpp"

namespace mneme::ranks {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BucketSums, SumsBucketsInTheirOrderWhateverBecomesReadyFirst) {
  std::mutex mutex;
  std::vector<std::size_t> summed;
  BucketSums sums({0, 0, 1, 2, 2}, [&](std::size_t bucket) {
    const std::lock_guard lock(mutex);
    summed.push_back(bucket);
  });
  EXPECT_EQ(sums.buckets(), 3u);
  for (int round = 0; round < 3; ++round) {
    summed.clear();
    sums.begin();
    for (const std::size_t i : {3u, 4u, 2u, 1u}) sums.ready(i);
    EXPECT_THAT(sums.missing(), ElementsAre(0u));
    EXPECT_THAT(sums.order(), ElementsAre(3u, 4u, 2u, 1u));
    sums.ready(0);
    sums.finish();
    EXPECT_THAT(summed, ElementsAre(0u, 1u, 2u));
  }
}

TEST(BucketSums, SumsACompleteBucketBeforeTheEnd) {
  std::atomic<int> summed = 0;
  BucketSums sums({0, 1}, [&](std::size_t) { ++summed; });
  sums.begin();
  sums.ready(0);
  while (summed == 0) std::this_thread::yield();
  EXPECT_THAT(sums.missing(), ElementsAre(1u));
  sums.finish();  // sums what is left, ready or not
  EXPECT_EQ(summed, 2);
}

TEST(BucketSums, PassesOnWhatASumThrewAndGoesOnAfterwards) {
  bool fails = true;
  int summed = 0;
  BucketSums sums({0, 1, 2}, [&](std::size_t bucket) {
    if (fails && bucket == 1) throw std::runtime_error("no network");
    ++summed;
  });
  sums.begin();
  EXPECT_THROW(sums.finish(), std::runtime_error);
  EXPECT_EQ(summed, 1);  // the third is passed over
  fails = false;
  sums.begin();
  sums.finish();
  EXPECT_EQ(summed, 4);
}

TEST(BucketSums, RefusesMistakes) {
  EXPECT_THROW(BucketSums({0, 2}, [](std::size_t) {}), std::logic_error);
  BucketSums sums({0, 0}, [](std::size_t) {});
  sums.begin();
  EXPECT_THROW(sums.begin(), std::logic_error);
  sums.ready(1);
  EXPECT_THROW(sums.ready(1), std::logic_error);
  sums.finish();
}

TEST(BucketSums, EndsWhileNothingIsSummed) {
  for (int i = 0; i < 20; ++i) {
    BucketSums sums({0}, [](std::size_t) {});
    if (i % 2 == 0) continue;
    sums.begin();
    sums.ready(0);
  }
}

// Four ranks, each in an order of its own, with parameters that never become ready on some: every
// rank gets the sums of all.
TEST(BucketSums, GivesTheSumsOfAllRanks) {
  constexpr int kRanks = 4, kRounds = 20;
  const std::vector<std::size_t> bucket_of = {0, 0, 0, 1, 2, 2, 3, 3, 3, 3};
  test::run_ranks(kRanks, [&](Communicator& ranks) {
    std::mt19937 random(static_cast<unsigned>(ranks.rank()));
    const std::unique_ptr<Communicator> own = ranks.duplicate();
    std::vector<std::vector<double>> buffers(4);
    for (const std::size_t bucket : bucket_of) buffers[bucket].push_back(0.0);
    BucketSums sums(bucket_of, [&](std::size_t bucket) {
      std::vector<double>& buffer = buffers[bucket];
      own->sum(buffer.data(), buffer.size(), Number::kF64, "test");
    });
    std::vector<std::size_t> place(bucket_of.size());
    for (std::size_t i = 1; i < place.size(); ++i)
      place[i] = bucket_of[i] == bucket_of[i - 1] ? place[i - 1] + 1 : 0;
    std::vector<std::size_t> order(bucket_of.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int round = 0; round < kRounds; ++round) {
      std::ranges::shuffle(order, random);
      sums.begin();
      for (const std::size_t i : order) {
        if (i == 4 && ranks.rank() == 1) continue;
        buffers[bucket_of[i]][place[i]] = static_cast<double>(10 * i) + ranks.rank() + round;
        sums.ready(i);
      }
      for (const std::size_t i : sums.missing()) {
        EXPECT_EQ(i, 4u);
        buffers[bucket_of[i]][place[i]] = 0.0;
        sums.ready(i);
      }
      double beside = ranks.rank();
      ranks.sum(&beside, 1, Number::kF64, "beside");  // on the other communicator
      EXPECT_EQ(beside, 6.0);
      sums.finish();
      for (std::size_t i = 0; i < bucket_of.size(); ++i) {
        double expected = 0.0;
        for (int rank = 0; rank < kRanks; ++rank) {
          if (i == 4 && rank == 1) continue;
          expected += static_cast<double>(10 * i) + rank + round;
        }
        EXPECT_EQ(buffers[bucket_of[i]][place[i]], expected) << i;
      }
    }
  });
}

}  // namespace
}  // namespace mneme::ranks
