#include <cstring>
#include <memory>
#include <vector>

#include "host/data/stream/stream.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

TEST(TokenArray, TakesAsFewBytesAsTheVocabularyNeeds) {
  EXPECT_EQ(token_width(1), 1);
  EXPECT_EQ(token_width(256), 1);
  EXPECT_EQ(token_width(257), 2);
  EXPECT_EQ(token_width(65536), 2);
  EXPECT_EQ(token_width(65537), 4);
  EXPECT_EQ(token_width((std::int64_t{1} << 31) - 1), 4);
}

TEST(TokenArray, GivesBackTheLargestIdsOfEachWidth) {
  for (const int width : {1, 2, 4, 8}) {
    const std::int64_t largest =
        width == 8 ? (std::int64_t{1} << 40) : (std::int64_t{1} << (8 * width)) - 1;
    const TokenArray ids(std::vector<std::int64_t>{0, largest, 1, largest - 1}, width);
    EXPECT_EQ(ids.size(), 4);
    EXPECT_EQ(ids.width(), width);
    ASSERT_EQ(ids.pieces().size(), 1U);
    EXPECT_EQ(ids.pieces()[0].size(), 4U * static_cast<std::size_t>(width));
    EXPECT_EQ(ids[1], largest);
    std::vector<std::int64_t> out(3);
    ids.copy(1, 3, out.data());
    EXPECT_THAT(out, ElementsAre(largest, 1, largest - 1));
  }
}

TEST(TokenArray, ReadsForeignBytesWhereverTheyLie) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(
      std::vector<std::byte>{std::byte{9}, std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}});
  const TokenArray ids(owner, owner->data() + 1, 2, 2);  // an odd address
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_EQ(ids[0], 0x0201);
  EXPECT_EQ(ids[1], 0x0403);
  EXPECT_EQ(ids.pieces().front().data(), owner->data() + 1);  // borrowed, not copied
}

TEST(TokenArray, IsEmptyByDefault) {
  const TokenArray ids;
  EXPECT_TRUE(ids.empty());
  EXPECT_EQ(ids.size(), 0);
  EXPECT_TRUE(ids.pieces().empty());
}

// Parts of 3, 1, 0 and 4 ids, read over every border.
TEST(TokenArray, JoinsParts) {
  for (const int width : {1, 2, 4, 8}) {
    using Ids = std::vector<std::int64_t>;
    const TokenArray ids(std::vector{TokenArray(Ids{0, 1, 2}, width), TokenArray(Ids{3}, width),
                                     TokenArray(Ids{}, width), TokenArray(Ids{4, 5, 6, 7}, width)});
    EXPECT_EQ(ids.size(), 8);
    EXPECT_EQ(ids.width(), width);
    for (std::int64_t first = 0; first < 8; ++first) {
      EXPECT_EQ(ids[first], first);
      for (std::int64_t count = 0; first + count <= 8; ++count) {
        Ids out(10, -1);
        ids.copy(first, count, out.data() + 1);
        Ids expected(10, -1);
        for (std::int64_t i = 0; i < count; ++i) expected[at(1 + i)] = first + i;
        EXPECT_EQ(out, expected);
      }
    }
    ids.copy(8, 0, nullptr);
    ASSERT_EQ(ids.pieces().size(), 3U);
    EXPECT_EQ(ids.pieces()[2].size(), 4U * static_cast<std::size_t>(width));
    const TokenArray twice(std::vector{ids, ids});
    EXPECT_EQ(twice[11], 3);
    EXPECT_EQ(twice.pieces().size(), 6U);
  }
}

TEST(TokenArray, OutlivesItsParts) {
  TokenArray ids;
  {
    const TokenArray part(std::vector<std::int64_t>{1, 2}, 2);
    ids = TokenArray(std::vector{part, part});
  }
  const TokenArray copy = ids;
  ids = {};
  EXPECT_THAT(ids_of(copy), ElementsAre(1, 2, 1, 2));
  const TokenArray none{std::vector<TokenArray>{}};
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(none.pieces().empty());
}

TEST(TokenBuffer, KeepsMoreIdsThanItGathersAtOnce) {
  TokenBuffer buffer(2);
  std::vector<std::int64_t> expected;
  for (std::int32_t i = 0; i < 20'000; ++i) {
    buffer.push(i * 3);
    expected.push_back(i * 3);
  }
  EXPECT_EQ(buffer.count(), 20'000);
  const TokenArray ids = buffer.take();
  EXPECT_EQ(ids.width(), 2);
  EXPECT_THAT(ids_of(ids), ElementsAreArray(expected));
}

// Few ids and many, in turn.
TEST(TokenBuffer, KeepsTheOrderOfIdsAndLists) {
  TokenBuffer buffer(1);
  const std::vector<std::int32_t> more = {3, 4};
  buffer.push(2);
  buffer.append(more);
  EXPECT_EQ(buffer.count(), 3);
  buffer.push(5);
  EXPECT_THAT(ids_of(buffer.take()), ElementsAre(2, 3, 4, 5));
}

}  // namespace
}  // namespace mneme::data
