#include "host/analyze/measures/cell_share.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/analyze/measures/token_cells.hpp"
#include "tests/analyze/views.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::mneme::test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A memory of two tokens a write with two even samples, each write at .25, .5, .75, 1: see
// token_cells_test.cpp for the first two writes.
class Writes {
 public:
  const TokenCells& next() {
    if (space_.is_empty()) {
      space_.begin(std::vector<double>{0.25, 0.75}, 0);
    } else {
      space_.update(even_samples(2), std::vector<double>{0.25, 0.5, 0.75, 1.0}, tokens_);
    }
    tokens_ += 2;
    return space_;
  }

 private:
  TokenCells space_;
  std::int64_t tokens_ = 0;
};

// After write 1: tokens 0, 1 half each. After write 2: token 1 .625, 2 .25, 3 .125: by age in
// stretches of two .375 and .625.
TEST(ShareByAge, AveragesTheSharesOfStretches) {
  Writes writes;
  ShareByAge by_age(2);
  by_age.add(writing(writes.next(), 2, 2, true));
  by_age.add(reading(writes.next(), {{narrow(0.5)}}));  // nothing written: not counted
  EXPECT_EQ(by_age.shares().at(kPlace).writes, 1);
  by_age = ShareByAge(2);
  Writes again;
  by_age.add(writing(again.next(), 2, 2, true));
  by_age.add(writing(again.next(), 4, 2));
  const ShareByAge::Shares shares = by_age.shares().at(kPlace);
  EXPECT_THAT(shares.share, ElementsAre((1.0 + 0.375) / 2, 0.625 / 2));
  EXPECT_THAT(shares.remaining, ElementsAre(2.0, 0.5));
}

// Write 3 samples write 2's cells at .5 and 1: token 1 at .25 (cell [0, .375]; .5 lies in token
// 1's second cell), token 3 at .5.
TEST(ShareAfterUpdates, FollowsTheWordsOfASegment) {
  Writes writes;
  ShareAfterUpdates after(0, 2);
  EXPECT_TRUE(after.followed().empty());
  after.add(writing(writes.next(), 2, 2, true));
  after.add(writing(writes.next(), 4, 2));
  EXPECT_TRUE(after.followed().empty());
  after.add(writing(writes.next(), 6, 2));
  after.add(writing(writes.next(), 8, 2));  // beyond what was asked for
  const ShareAfterUpdates::Followed followed = after.followed().at(kPlace);
  ASSERT_EQ(followed.size(), 3U);
  const auto shares = [&](std::size_t k) {
    std::vector<double> out;
    for (const ShareAfterUpdates::Word& word : followed[k]) out.push_back(word.share);
    return out;
  };
  EXPECT_THAT(shares(0), ElementsAre(0.5, 0.5));
  EXPECT_THAT(shares(1), ElementsAre(0.0, 0.625, 0.25, 0.125));
  EXPECT_THAT(shares(2), ElementsAre(0.0, 0.375, 0.0, 0.25, 0.25, 0.125));
  std::vector<std::int64_t> tokens, at;
  for (const ShareAfterUpdates::Word& word : followed[2]) {
    tokens.push_back(word.token);
    at.push_back(word.write);
  }
  EXPECT_THAT(tokens, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(at, ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST(ShareAfterUpdates, StartsAgainWhenTheMemoryDoes) {
  Writes first, second;
  ShareAfterUpdates after(1, 1);
  after.add(writing(first.next(), 2, 2, true));
  after.add(writing(first.next(), 4, 2));         // followed, not updated
  after.add(writing(second.next(), 6, 2, true));  // followed in its place
  after.add(writing(second.next(), 8, 2));
  const auto followed = after.followed().at(kPlace);
  ASSERT_EQ(followed.size(), 2U);
  EXPECT_EQ(followed[0].front().token, 0);  // the numbers that `second` gave
  EXPECT_EQ(followed[0].size(), 4U);        // its own two and tokens 4 and 5, which were written
}

TEST(ShareAfterUpdates, RefusesNegativeNumbers) {
  EXPECT_THAT(error_of([] { ShareAfterUpdates after(-1, 0); }), HasSubstr("at least 0, got -1"));
  EXPECT_THAT(error_of([] { ShareAfterUpdates after(0, -2); }), HasSubstr("at least 0, got -2"));
  EXPECT_THAT(error_of([] { ShareByAge by_age(0); }), HasSubstr("at least 1 token, got 0"));
}

}  // namespace
}  // namespace mneme::analyze
