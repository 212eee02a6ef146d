// Where utterances look in their document.
#include "host/analyze/measures/utterances.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyze/views.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::mneme::test::error_of;
using ::testing::HasSubstr;

constexpr data::DialogueIds kMarks = {.bos = 20,
                                      .eos = 11,
                                      .pad = 21,
                                      .speaker1 = 13,
                                      .speaker2 = 12,
                                      .doc = 10,
                                      .vocabulary_size = 22};

data::TokenSegment dialogue_segment(const std::vector<std::int64_t>& ids, bool resets) {
  data::TokenSegment segment;
  segment.prepare(1, static_cast<std::int64_t>(ids.size()), false);
  segment.inputs = ids;
  segment.valid = {segment.length};
  segment.reset = {static_cast<std::uint8_t>(resets ? 1 : 0)};
  segment.document = {3};
  return segment;
}

// <doc> and four words are tokens 0 to 4, <eos> token 5: six even cells.
TokenCells document_space(std::int64_t first) {
  TokenCells space;
  space.begin(std::vector<double>{1 / 12.0, 3 / 12.0, 5 / 12.0, 7 / 12.0, 9 / 12.0, 11 / 12.0},
              first);
  return space;
}

TEST(DocumentAttention, GivesPassagesOfEachUtterance) {
  DocumentAttention attention(kMarks, 2);
  const std::vector<std::int64_t> document = {10, 0, 1, 2, 3, 11};
  const std::vector<std::int64_t> turns = {12, 5, 6, 13, 7};
  std::int64_t first = 0;
  for (int dialogue = 0; dialogue < 2; ++dialogue) {  // the second after a reset
    attention.begin(dialogue_segment(document, true));
    attention.begin(dialogue_segment(turns, false));
    const TokenCells space = document_space(first);
    // Of <speaker2>, "5", "6", <speaker1>, "7"; the marks' own queries do not count, nor does what
    // looks at <doc> or <eos>.
    attention.add(
        reading(space,
                {{narrow(0.9), narrow(3 / 12.0), narrow(9 / 12.0), narrow(0.9), narrow(11 / 12.0)},
                 {narrow(0.9), narrow(3 / 12.0), narrow(5 / 12.0), narrow(0.9), narrow(7 / 12.0)}},
                first + 6));
    first += 11;
  }
  const std::vector<Utterance> all = attention.utterances(5);
  ASSERT_EQ(all.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].turn, static_cast<std::int64_t>(i % 2));
    EXPECT_EQ(all[i].dialogue, 3);
    EXPECT_EQ(all[i].document, i < 2 ? 1 : 12);
  }
  // Four densities: three at the first two words, one at the last two.
  EXPECT_EQ(all[0].begin, 7);
  EXPECT_EQ(all[0].end, 9);
  ASSERT_EQ(all[0].passages.size(), 2U);
  EXPECT_EQ(all[0].passages[0].from, 0);
  EXPECT_EQ(all[0].passages[0].to, 2);
  EXPECT_NEAR(all[0].passages[0].mass, 0.75, 1e-9);
  EXPECT_NEAR(all[0].passages[0].share, 0.75, 1e-9);
  EXPECT_NEAR(all[0].passages[1].share, 0.25, 1e-9);
  // One of two densities lies on <eos>.
  EXPECT_EQ(all[1].begin, 10);
  EXPECT_EQ(all[1].passages.at(0).from, 2);
  EXPECT_NEAR(all[1].passages[0].mass, 0.5, 1e-9);
  EXPECT_NEAR(all[1].passages[0].share, 1.0, 1e-9);
  EXPECT_EQ(attention.utterances(1)[0].passages.size(), 1U);
}

TEST(DocumentAttention, HasNothingWithoutADocument) {
  DocumentAttention attention(kMarks, 4);
  attention.begin(dialogue_segment({12, 5, 13, 7}, true));
  attention.add(
      reading(document_space(0), {{narrow(0.1), narrow(0.2), narrow(0.3), narrow(0.4)}}, 0));
  EXPECT_TRUE(attention.utterances(3).empty());
  EXPECT_THAT(error_of([] { DocumentAttention(kMarks, 0); }), HasSubstr("expected at least 1"));
}

}  // namespace
}  // namespace mneme::analyze
