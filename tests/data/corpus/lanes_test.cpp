#include "host/data/corpus/lanes.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/data/data_files.hpp"
#include "tests/seed.hpp"

namespace mneme::data {
namespace {

using config::Reset;
using testing::ElementsAre;

std::unique_ptr<Stream> make(const std::vector<std::int64_t>& documents, Reset reset,
                             const StreamOptions& options) {
  return std::make_unique<LaneStream>(counting_corpus(documents), reset, options);
}

TEST(Lanes, MaskNamesTheDocumentOfEachTokenAndResetsNothing) {
  const std::vector<std::int64_t> documents = {4, 1, 6, 9};
  const StreamOptions options = {.lanes = 2, .segment = 4, .epochs = 1};
  const auto masked = read_all(*make(documents, Reset::kMask, options));
  const auto never = read_all(*make(documents, Reset::kNever, options));
  ASSERT_EQ(masked.size(), never.size());
  for (std::size_t i = 0; i < masked.size(); ++i) {
    EXPECT_EQ(masked[i].inputs, never[i].inputs);
    EXPECT_EQ(masked[i].targets, never[i].targets);
    EXPECT_EQ(masked[i].reset, never[i].reset);
    EXPECT_TRUE(never[i].documents.empty());
  }
  // Ten tokens a lane: documents of 4, 1 and 5 tokens, then of 1 and 9.
  EXPECT_THAT(masked[0].documents, ElementsAre(0, 0, 0, 0, 2, 3, 3, 3));
  EXPECT_THAT(masked[1].documents, ElementsAre(1, 2, 2, 2, 3, 3, 3, 3));
  EXPECT_THAT(masked[2].documents, ElementsAre(2, 3));
  EXPECT_THAT(masked[0].lanes_of(1, 1).documents, ElementsAre(2, 3, 3, 3));
}

TEST(Lanes, CutsAsTheOfficialIterator) {
  const auto stream = make({23}, Reset::kNever, {.lanes = 2, .segment = 4, .epochs = 1});
  const std::vector<TokenSegment> segments = read_all(*stream);
  ASSERT_EQ(segments.size(), 3U);  // n = 11: ten targets a lane; token 22 is dropped
  EXPECT_THAT(segments[0].inputs, ElementsAre(0, 1, 2, 3, 11, 12, 13, 14));
  EXPECT_THAT(segments[0].targets, ElementsAre(1, 2, 3, 4, 12, 13, 14, 15));
  EXPECT_THAT(segments[1].inputs, ElementsAre(4, 5, 6, 7, 15, 16, 17, 18));
  EXPECT_EQ(segments[2].length, 2);
  EXPECT_THAT(segments[2].inputs, ElementsAre(8, 9, 19, 20));
  EXPECT_THAT(segments[2].targets, ElementsAre(9, 10, 20, 21));
  EXPECT_THAT(segments[0].reset, ElementsAre(1, 1));
  EXPECT_THAT(segments[1].reset, ElementsAre(0, 0));
  EXPECT_THAT(segments[2].valid, ElementsAre(2, 2));
  EXPECT_THAT(segments[2].document, ElementsAre(0, 0));
  EXPECT_EQ(segments[2].index, 2);
  EXPECT_EQ(segments[2].target_count(), 4);
  EXPECT_TRUE(segments[0].source.empty());
  EXPECT_EQ(stream->segments_per_epoch(), 3);
  EXPECT_EQ(stream->targets_per_epoch(), 20);
}

// The distance from a document's start, wherever a lane begins; lane 1 begins inside document 1.
TEST(Lanes, KnowHowFarTheyAreIntoTheirDocument) {
  const auto stream = make({4, 9, 7}, Reset::kNever, {.lanes = 2, .segment = 3, .epochs = 1});
  std::vector<std::vector<std::int64_t>> offsets;
  for (const TokenSegment& segment : read_all(*stream)) offsets.push_back(segment.offset);
  EXPECT_THAT(offsets, ElementsAre(ElementsAre(0, 6), ElementsAre(3, 0), ElementsAre(2, 3)));
  const auto documents = make({2, 2, 2, 6}, Reset::kDocument, {.lanes = 2, .segment = 3});
  TokenSegment segment;
  ASSERT_TRUE(documents->next(segment));
  EXPECT_THAT(segment.offset, ElementsAre(0, 0));
  ASSERT_TRUE(documents->next(segment));
  EXPECT_THAT(segment.offset, ElementsAre(0, 3));
  ASSERT_TRUE(documents->next(segment));
  EXPECT_THAT(segment.offset, ElementsAre(0, -1));  // lane 1 waits at its end
}

TEST(Lanes, GivesEachRowOfIdsItsLane) {
  const auto stream = make({5, 5, 5}, Reset::kNever, {.lanes = 3, .segment = 4, .epochs = 1});
  const std::vector<TokenSegment> segments = read_all(*stream);
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_THAT(segments[0].inputs, ElementsAre(0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13));
  EXPECT_THAT(segments[0].document, ElementsAre(0, 1, 2));
}

TEST(Lanes, WrapsWithAResetOfAllLanes) {
  const auto stream = make({9}, Reset::kNever, {.lanes = 1, .segment = 4, .is_training = true});
  const std::vector<TokenSegment> segments = read_all(*stream, 5);
  ASSERT_EQ(segments.size(), 5U);
  EXPECT_EQ(segments[2].inputs, segments[0].inputs);
  std::vector<int> resets;
  std::vector<std::int64_t> epochs;
  for (const TokenSegment& segment : segments) {
    resets.push_back(segment.reset[0]);
    epochs.push_back(segment.epoch);
  }
  EXPECT_THAT(resets, ElementsAre(1, 0, 1, 0, 1));
  EXPECT_THAT(epochs, ElementsAre(0, 0, 1, 1, 2));
}

TEST(Lanes, EndsAfterItsEpochsOrSegments) {
  EXPECT_EQ(read_all(*make({9}, Reset::kNever, {.segment = 4, .epochs = 3})).size(), 6U);
  EXPECT_EQ(read_all(*make({9}, Reset::kNever, {.segment = 4, .max_segments = 5})).size(), 5U);
  const auto stream = make({9}, Reset::kNever, {.segment = 4, .epochs = 1});
  static_cast<void>(read_all(*stream));
  TokenSegment segment;
  EXPECT_FALSE(stream->next(segment));
  EXPECT_TRUE(segment.inputs.empty());
}

TEST(Lanes, ReadsEachDocumentAsIfAlone) {
  // One lane, documents 0-5, 6, 7-9; the one-token document has no target.
  const auto stream = make({6, 1, 3}, Reset::kDocument, {.segment = 3, .epochs = 1});
  const std::vector<TokenSegment> segments = read_all(*stream);
  ASSERT_EQ(segments.size(), 3U);
  EXPECT_THAT(segments[0].inputs, ElementsAre(0, 1, 2));
  EXPECT_THAT(segments[1].inputs, ElementsAre(3, 4));
  EXPECT_THAT(segments[1].targets, ElementsAre(4, 5));
  EXPECT_THAT(segments[2].inputs, ElementsAre(7, 8));
  EXPECT_THAT(segments[2].targets, ElementsAre(8, 9));
  EXPECT_EQ(segments[1].reset[0], 0);
  EXPECT_EQ(segments[2].reset[0], 1);
  EXPECT_EQ(segments[2].document[0], 2);
  EXPECT_EQ(stream->segments_per_epoch(), 3);
  EXPECT_EQ(stream->targets_per_epoch(), 7);
}

TEST(Lanes, PadsALaneThatEndsEarly) {
  // Lane 0: documents 0-2 and 3-9; lane 1: 10-19.
  const auto stream = make({3, 7, 10}, Reset::kDocument, {.lanes = 2, .segment = 4, .epochs = 1});
  const std::vector<TokenSegment> segments = read_all(*stream);
  ASSERT_EQ(segments.size(), 3U);
  EXPECT_THAT(segments[0].inputs, ElementsAre(0, 1, 0, 0, 10, 11, 12, 13));
  EXPECT_THAT(segments[0].targets, ElementsAre(1, 2, -1, -1, 11, 12, 13, 14));
  EXPECT_THAT(segments[0].valid, ElementsAre(2, 4));
  EXPECT_THAT(segments[1].inputs, ElementsAre(3, 4, 5, 6, 14, 15, 16, 17));
  EXPECT_THAT(segments[1].reset, ElementsAre(1, 0));
  EXPECT_THAT(segments[2].inputs, ElementsAre(7, 8, 18, 0));
  EXPECT_THAT(segments[2].valid, ElementsAre(2, 1));
  EXPECT_EQ(segments[2].length, 2);
}

TEST(Lanes, LetsALaneAtItsEndWaitForTheOthers) {
  // Lane 0 needs three segments, lane 1 one.
  const auto stream = make({2, 2, 2, 6}, Reset::kDocument, {.lanes = 2, .segment = 5, .epochs = 2});
  const std::vector<TokenSegment> segments = read_all(*stream);
  ASSERT_EQ(segments.size(), 6U);
  EXPECT_THAT(segments[0].valid, ElementsAre(1, 5));
  EXPECT_THAT(segments[1].valid, ElementsAre(1, 0));
  EXPECT_THAT(segments[1].document, ElementsAre(1, -1));
  EXPECT_THAT(segments[1].targets, ElementsAre(3, -1));
  EXPECT_THAT(segments[3].reset, ElementsAre(1, 1));
  EXPECT_THAT(segments[3].valid, ElementsAre(1, 5));
  EXPECT_EQ(segments[3].epoch, 1);
}

TEST(Lanes, ResetsAtTheNextSegmentStart) {
  // Boundaries at 5 (inside a segment) and 8 (at a segment's start).
  const auto stream = make({5, 3, 5}, Reset::kSegment, {.segment = 4, .epochs = 1});
  const std::vector<TokenSegment> segments = read_all(*stream);
  ASSERT_EQ(segments.size(), 3U);
  std::vector<int> resets;
  for (const TokenSegment& segment : segments) resets.push_back(segment.reset[0]);
  EXPECT_THAT(resets, ElementsAre(1, 0, 1));
  EXPECT_THAT(segments[1].inputs, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(segments[1].targets, ElementsAre(5, 6, 7, 8));

  const auto inside = read_all(*make({2, 11}, Reset::kSegment, {.segment = 4, .epochs = 1}));
  EXPECT_EQ(inside[1].reset[0], 1);
  EXPECT_EQ(inside[2].reset[0], 0);
  const auto never = read_all(*make({2, 11}, Reset::kNever, {.segment = 4, .epochs = 1}));
  EXPECT_EQ(never[1].reset[0], 0);
}

// Random documents, lanes and segments: what every stream must hold.
class LanesProperty : public testing::TestWithParam<Reset> {
 protected:
  struct Case {
    std::vector<std::int64_t> documents;
    StreamOptions options;
  };
  static Case draw(std::mt19937& random) {
    const auto between = [&](int low, int high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    Case drawn;
    for (std::int64_t count = between(1, 9); count > 0; --count) {
      drawn.documents.push_back(between(1, 30));
    }
    drawn.documents.push_back(between(20, 30));
    drawn.options = {.lanes = between(1, 4), .segment = between(1, 9), .epochs = 1};
    return drawn;
  }
};

TEST_P(LanesProperty, CoversEachTargetOnce) {
  std::mt19937 random(test::drawn_seed("lanes"));
  for (int round = 0; round < 200; ++round) {
    const Case drawn = draw(random);
    const auto corpus = counting_corpus(drawn.documents);
    LaneStream stream(corpus, GetParam(), drawn.options);
    const std::int64_t lane_tokens = corpus->size() / drawn.options.lanes;
    const auto document_of = [&](std::int64_t token) {
      const auto& starts = corpus->documents;
      return std::upper_bound(starts.begin(), starts.end(), token) - starts.begin() - 1;
    };
    std::vector<std::int64_t> expected;
    for (std::int64_t i = 0; i + 1 < drawn.options.lanes * lane_tokens; ++i) {
      const bool is_lane_end = i / lane_tokens != (i + 1) / lane_tokens;
      const bool is_crossing = document_of(i) != document_of(i + 1);
      if (!is_lane_end && !(is_crossing && GetParam() == Reset::kDocument)) expected.push_back(i);
    }
    std::vector<std::int64_t> inputs;
    const std::vector<TokenSegment> segments = read_all(stream);
    for (const TokenSegment& segment : segments) {
      EXPECT_EQ(segment.length, *std::max_element(segment.valid.begin(), segment.valid.end()));
      EXPECT_LE(segment.length, drawn.options.segment);
      for (std::int64_t b = 0; b < segment.lanes; ++b) {
        for (std::int64_t t = 0; t < segment.length; ++t) {
          const auto cell = static_cast<std::size_t>(b * segment.length + t);
          if (t >= segment.valid[static_cast<std::size_t>(b)]) {
            EXPECT_EQ(segment.targets[cell], kNoTarget);
            continue;
          }
          inputs.push_back(segment.inputs[cell]);
          EXPECT_EQ(segment.targets[cell], segment.inputs[cell] + 1);
        }
      }
    }
    std::sort(inputs.begin(), inputs.end());
    EXPECT_EQ(inputs, expected);
    EXPECT_EQ(stream.segments_per_epoch(), static_cast<std::int64_t>(segments.size()));
    EXPECT_EQ(stream.targets_per_epoch(), static_cast<std::int64_t>(expected.size()));
  }
}

TEST_P(LanesProperty, ResumesAnywhere) {
  std::mt19937 random(test::drawn_seed("lanes"));
  for (int round = 0; round < 30; ++round) {
    Case drawn = draw(random);
    drawn.options.epochs = 0;
    for (std::int64_t skip = 0; skip < 12; ++skip) {
      expect_resumes([&] { return make(drawn.documents, GetParam(), drawn.options); }, skip, 20);
    }
  }
}

TEST_P(LanesProperty, BoundsWhatIsReadBetweenResetsOfAllLanes) {
  std::mt19937 random(test::drawn_seed("lanes"));
  for (int round = 0; round < 200; ++round) {
    Case drawn = draw(random);
    drawn.options.epochs = 2;
    const auto stream = make(drawn.documents, GetParam(), drawn.options);
    const std::int64_t longest = longest_between_resets(read_all(*stream));
    const std::int64_t bound = stream->tokens_between_resets();
    EXPECT_LE(longest, bound);
    const bool is_alone = drawn.options.lanes == 1;
    if (GetParam() == Reset::kNever || (GetParam() == Reset::kDocument && is_alone)) {
      EXPECT_EQ(longest, bound);
    } else if (is_alone) {
      EXPECT_GE(longest + 2 * drawn.options.segment, bound);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Resets, LanesProperty,
                         testing::Values(Reset::kNever, Reset::kSegment, Reset::kDocument),
                         [](const auto& test) { return std::string(to_word(test.param)); });

// A lane reads its own tokens only: the same tokens as the only lane give the same segments.
TEST(Lanes, DoNotDependOnEachOther) {
  const auto together =
      read_all(*make({4, 8, 3, 9}, Reset::kDocument, {.lanes = 2, .segment = 3, .epochs = 1}));
  const auto alone = read_all(*make({4, 8}, Reset::kDocument, {.segment = 3, .epochs = 1}));
  std::size_t next = 0;
  for (const TokenSegment& segment : together) {
    if (segment.valid[0] == 0) continue;
    ASSERT_LT(next, alone.size());
    EXPECT_EQ(segment.valid[0], alone[next].valid[0]);
    EXPECT_EQ(segment.reset[0], alone[next].reset[0]);
    for (std::int64_t t = 0; t < segment.valid[0]; ++t) {
      const auto cell = static_cast<std::size_t>(t);
      EXPECT_EQ(segment.inputs[cell], alone[next].inputs[cell]);
    }
    ++next;
  }
  EXPECT_EQ(next, alone.size());
}

TEST(Lanes, SayHowLongATextMustBe) {
  const auto refuse = [](const std::vector<std::int64_t>& documents, const StreamOptions& options,
                         const std::vector<std::string>& parts) {
    expect_error(ErrorKind::kUsage, parts,
                 [&] { static_cast<void>(make(documents, Reset::kDocument, options)); });
  };
  refuse({35}, {.lanes = 4, .segment = 8, .is_training = true},
         {"data.train: counting.txt: the text is too short: expected at least 36 tokens (4 lanes * "
          "9 tokens), got 35",
          "lower train.lanes (4) or train.segment (8)", "data.train"});
  EXPECT_NO_THROW(static_cast<void>(
      make({36}, Reset::kDocument, {.lanes = 4, .segment = 8, .is_training = true})));
  refuse({7}, {.lanes = 4, .segment = 8},
         {"at least 8 tokens (4 lanes * 2 tokens), got 7", "lower eval.lanes (4)"});
  EXPECT_NO_THROW(static_cast<void>(make({8}, Reset::kDocument, {.lanes = 4, .segment = 8})));
  refuse({1, 1, 1, 1}, {.lanes = 1, .segment = 2},
         {"data.train: the text has no target", "4 documents with 4 tokens in all",
          "data.reset = \"never\""});
}

TEST(Lanes, RefuseBadOptions) {
  const auto refuse = [](const StreamOptions& options, const std::vector<std::string>& parts) {
    expect_error(ErrorKind::kUsage, parts,
                 [&] { static_cast<void>(make({99}, Reset::kNever, options)); });
  };
  refuse({.lanes = 0, .is_training = true}, {"train.lanes", "at least 1", "got 0"});
  refuse({.segment = 0}, {"eval.segment", "at least 1", "got 0"});
  refuse({.epochs = -1, .is_training = true}, {"train.epochs", "at least 0", "got -1"});
  refuse({.max_segments = -1}, {"eval.steps", "at least 0", "got -1"});
}

TEST(Lanes, RefuseAPlaceOfAnotherStream) {
  const StreamOptions options = {.lanes = 2, .segment = 4};
  const auto place = make({30, 10}, Reset::kNever, options)->position();
  const auto refuse = [&](const std::unique_ptr<Stream>& stream, std::vector<std::int64_t> stored,
                          const std::vector<std::string>& parts) {
    const auto before = stream->position();
    expect_error(ErrorKind::kRun, parts, [&] { stream->seek(stored); });
    EXPECT_EQ(stream->position(), before);
  };
  const auto same = [&] { return make({30, 10}, Reset::kNever, options); };
  refuse(make({30, 10}, Reset::kNever, {.lanes = 3, .segment = 4}), place,
         {"data position", "lanes", "expected 3, got 2", "resume with the experiment"});
  refuse(make({30, 10}, Reset::kNever, {.lanes = 2, .segment = 5}), place, {"segment", "got 4"});
  refuse(make({30, 11}, Reset::kNever, options), place, {"tokens: expected 41, got 40"});
  refuse(make({40}, Reset::kNever, options), place, {"documents: expected 1, got 2"});
  refuse(make({30, 10}, Reset::kSegment, options), place, {"reset"});
  refuse(same(), {2, 2}, {"kind of stream: expected 1, got 2"});
  refuse(same(), {}, {"count of integers", "got 0"});

  std::vector<std::int64_t> outside = place;
  outside[outside.size() - 2] = 5;
  refuse(same(), outside, {"lane 1 lies outside its text", "from 20 to 40", "got 5", "damaged"});
  std::vector<std::int64_t> negative = place;
  negative[6] = -3;
  refuse(same(), negative, {"negative count", "got -3", "damaged"});
}

TEST(TokenSegment, GivesSomeOfItsLanes) {
  TokenSegment whole;
  whole.prepare(3, 4, /*has_source=*/true);
  for (std::size_t i = 0; i < 12; ++i) {
    whole.inputs[i] = static_cast<std::int64_t>(i);
    whole.targets[i] = static_cast<std::int64_t>(100 + i);
    whole.source[i] = static_cast<std::uint8_t>(i % 3);
  }
  whole.valid = {4, 2, 0};
  whole.reset = {0, 1, 0};
  whole.document = {5, 6, -1};
  whole.offset = {50, 60, -1};
  whole.epoch = 2;
  whole.index = 9;
  const TokenSegment some = whole.lanes_of(1, 2);
  EXPECT_EQ(some.lanes, 2);
  EXPECT_EQ(some.length, 4);
  EXPECT_THAT(some.inputs, ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(some.targets, ElementsAre(104, 105, 106, 107, 108, 109, 110, 111));
  EXPECT_THAT(some.source, ElementsAre(1, 2, 0, 1, 2, 0, 1, 2));
  EXPECT_THAT(some.valid, ElementsAre(2, 0));
  EXPECT_THAT(some.reset, ElementsAre(1, 0));
  EXPECT_THAT(some.document, ElementsAre(6, -1));
  EXPECT_THAT(some.offset, ElementsAre(60, -1));
  EXPECT_TRUE(some.types.empty());
  EXPECT_EQ(some.epoch, 2);
  EXPECT_EQ(some.index, 9);
}

}  // namespace
}  // namespace mneme::data
