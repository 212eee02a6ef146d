// One text, cut into lanes and segments in several ways: which losses of a Transformer-XL cache
// must be equal.
//
// Segments. A token attends to the R cached rows and its segment up to itself. The cut of the text
// changes no loss as long as
//   - the cache has dropped no row (R >= the tokens before), or
//   - same_length limits every token to the distances 0 .. R-1, which the cache always covers;
// otherwise a token late in a long segment sees more than the same token early in a short one.
// Lanes. A lane starts with an empty memory, so that it gives the numbers of its piece of the text
// read alone, and none of the text before it. It gives those of the whole text
//   - as the first lane,
//   - after L (R - 1) tokens, from which on L layers with a window of R do not reach the cut,
//   - where lanes are cut at documents and documents reset the memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "host/base/random.hpp"
#include "host/data/corpus/lanes.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::eval {
namespace {

using test::small_experiment;
using test::xl_cache;

constexpr std::int64_t kTokens = 800;
constexpr std::int64_t kVocabulary = 8;
constexpr std::int64_t kLayers = 2;  // of small_experiment
constexpr double kEqual = 1e-11;     // f64, sums in another order
constexpr double kDifferent = 1e-4;
constexpr std::int64_t kSegments[] = {16, 64, 200};
constexpr std::int64_t kLanes[] = {1, 4, 16};

// kTokens random ids in documents of `document` tokens; 0 = one document.
std::shared_ptr<const data::Corpus> text(std::int64_t document = 0) {
  Random random(7, {"text"});
  std::vector<std::int64_t> ids(kTokens);
  for (std::int64_t& id : ids) id = random.between(0, kVocabulary - 1);
  auto corpus = std::make_shared<data::Corpus>();
  corpus->key = "data.valid";
  corpus->tokens = data::TokenArray(ids, 1);
  for (std::int64_t at = 0; at < kTokens; at += document == 0 ? kTokens : document) {
    corpus->documents.push_back(at);
  }
  return corpus;
}

// Tokens [from, from + count) as a text of their own.
std::shared_ptr<const data::Corpus> piece(const data::Corpus& whole, std::int64_t from,
                                          std::int64_t count) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  whole.tokens.copy(from, count, ids.data());
  auto corpus = std::make_shared<data::Corpus>();
  corpus->key = "data.valid";
  corpus->tokens = data::TokenArray(ids, 1);
  corpus->documents = {0};
  return corpus;
}

using Losses = std::map<std::int64_t, double>;  // nll by the target's place in the text

struct Cut {
  std::int64_t lanes = 1;
  std::int64_t segment = 64;
  config::Reset reset = config::Reset::kNever;
};

struct Read {
  Losses nll;
  Result result;
};

Read read(run::Runtime& runtime, const std::shared_ptr<const data::Corpus>& corpus,
          const Cut& cut) {
  data::LaneStream stream(corpus, cut.reset,
                          {.lanes = cut.lanes, .segment = cut.segment, .epochs = 1});
  Read out;
  Options options;
  options.lanes = cut.lanes;
  options.corpus = corpus;
  options.on_segment = [&](const data::TokenSegment& segment, const scores::SegmentLosses& scores) {
    for (std::int64_t b = 0; b < segment.lanes; ++b) {
      const auto lane = static_cast<std::size_t>(b);
      if (segment.valid[lane] == 0) continue;
      const auto document = static_cast<std::size_t>(segment.document[lane]);
      const std::int64_t first = corpus->documents[document] + segment.offset[lane];
      for (std::int64_t i = 0; i < segment.valid[lane]; ++i) {
        const auto cell = static_cast<std::size_t>(b * segment.length + i);
        const bool is_new = out.nll.emplace(first + i + 1, scores.nll[cell]).second;
        EXPECT_TRUE(is_new) << "token " << first + i + 1 << " was predicted twice";
      }
    }
  };
  out.result = evaluate_stream(runtime.model(), runtime.stack(), stream, options);
  EXPECT_EQ(out.result.total.targets, static_cast<std::int64_t>(out.nll.size()));
  return out;
}

// The largest difference over the tokens that both predict, from place `from` of `b` on, where
// place p of `b` is place p + shift of `a`.
double difference(const Losses& a, const Losses& b, std::int64_t shift = 0, std::int64_t from = 0) {
  double largest = 0.0;
  std::int64_t common = 0;
  for (const auto& [place, nll] : b) {
    const auto found = a.find(place + shift);
    if (place < from || found == a.end()) continue;
    largest = std::max(largest, std::abs(nll - found->second));
    ++common;
  }
  EXPECT_GT(common, 0);
  return largest;
}

std::unique_ptr<run::Runtime> model_with(std::int64_t rows, bool same_length = false) {
  return std::make_unique<run::Runtime>(
      small_experiment(xl_cache(rows), {str("model.same_length=", same_length)}),
      run::RuntimeOptions{});
}

TEST(CutsOfXlCache, SegmentsDoNotShowWhileNothingIsDropped) {
  const auto runtime = model_with(kTokens);
  const Read whole = read(*runtime, text(), {.segment = kTokens});
  EXPECT_EQ(whole.nll.size(), kTokens - 1);
  for (const std::int64_t segment : kSegments) {
    const Read cut = read(*runtime, text(), {.segment = segment});
    EXPECT_EQ(cut.nll.size(), whole.nll.size());
    EXPECT_LT(difference(whole.nll, cut.nll), kEqual) << "segment " << segment;
  }
}

TEST(CutsOfXlCache, SegmentsShowOnceRowsAreDropped) {
  constexpr std::int64_t kRows = 32;
  const auto runtime = model_with(kRows);
  const Read whole = read(*runtime, text(), {.segment = kTokens});
  std::vector<double> losses;
  for (const std::int64_t segment : kSegments) {
    const Read cut = read(*runtime, text(), {.segment = segment});
    EXPECT_GT(difference(whole.nll, cut.nll), kDifferent) << "segment " << segment;
    for (const double other : losses) EXPECT_GT(std::abs(cut.result.loss() - other), 1e-9);
    losses.push_back(cut.result.loss());
    // Equal while the cache fills: the first segment that meets a cache which dropped rows is the
    // first to differ.
    Losses filling;
    for (const auto& [place, nll] : cut.nll) {
      const std::int64_t before = (place - 1) / segment * segment;  // tokens of earlier segments
      if (before <= kRows) filling[place] = nll;
    }
    EXPECT_LT(difference(whole.nll, filling), kEqual) << "segment " << segment;
  }
}

TEST(CutsOfXlCache, SegmentsDoNotShowInAWindowNoLongerThanTheRows) {
  for (const std::int64_t rows : {8, 32, 100}) {
    const auto runtime = model_with(rows, true);
    const Read whole = read(*runtime, text(), {.segment = kTokens});
    for (const std::int64_t segment : kSegments) {
      const Read cut = read(*runtime, text(), {.segment = segment});
      EXPECT_LT(difference(whole.nll, cut.nll), kEqual) << rows << " rows, segment " << segment;
    }
  }
}

TEST(CutsOfXlCache, LanesAreTheirPiecesReadAlone) {
  for (const bool same_length : {false, true}) {
    const auto runtime = model_with(32, same_length);
    for (const std::int64_t lanes : kLanes) {
      for (const std::int64_t segment : kSegments) {
        const Read cut = read(*runtime, text(), {.lanes = lanes, .segment = segment});
        const std::int64_t length = kTokens / lanes;
        EXPECT_EQ(cut.result.total.targets, lanes * (length - 1));
        EXPECT_EQ(cut.result.protocol.lanes, lanes);
        for (std::int64_t b = 0; b < lanes; ++b) {
          const auto alone = piece(*text(), b * length, length);
          const Read lane = read(*runtime, alone, {.segment = segment});
          EXPECT_LT(difference(cut.nll, lane.nll, b * length), kEqual)
              << lanes << " lanes, segment " << segment << ", lane " << b;
        }
      }
    }
  }
}

TEST(CutsOfXlCache, LanesDoNotKnowTheTextBeforeThem) {
  const auto runtime = model_with(kTokens);
  const Read one = read(*runtime, text(), {.lanes = 1});
  for (const std::int64_t lanes : {4, 16}) {
    const Read cut = read(*runtime, text(), {.lanes = lanes});
    const std::int64_t length = kTokens / lanes;
    const auto of_lane = [&](std::int64_t b) {
      Losses nll;
      for (const auto& [place, value] : cut.nll) {
        if (place / length == b) nll[place] = value;
      }
      return nll;
    };
    EXPECT_LT(difference(one.nll, of_lane(0)), kEqual);
    for (std::int64_t b = 1; b < lanes; ++b) {
      EXPECT_GT(difference(one.nll, of_lane(b)), kDifferent) << lanes << " lanes, lane " << b;
    }
    EXPECT_GT(std::abs(one.result.loss() - cut.result.loss()), 1e-6);
  }
}

TEST(CutsOfXlCache, LanesForgetTheirStartBeyondTheReachOfTheirWindows) {
  constexpr std::int64_t kRows = 8;
  constexpr std::int64_t kReach = kLayers * (kRows - 1);
  const auto runtime = model_with(kRows, true);
  const Read one = read(*runtime, text(), {.lanes = 1, .segment = 64});
  for (const std::int64_t lanes : {4, 16}) {
    const std::int64_t length = kTokens / lanes;
    for (const std::int64_t segment : kSegments) {
      const Read cut = read(*runtime, text(), {.lanes = lanes, .segment = segment});
      Losses near, far;
      for (const auto& [place, nll] : cut.nll) {
        // The predicting token is the one before its target.
        const std::int64_t in_lane = (place - 1) % length;
        if (place - 1 < length) continue;  // the first lane, equal throughout
        (in_lane < kReach ? near : far)[place] = nll;
      }
      EXPECT_LT(difference(one.nll, far), kEqual) << lanes << " lanes, segment " << segment;
      EXPECT_GT(difference(one.nll, near), kDifferent) << lanes << " lanes, segment " << segment;
    }
  }
}

TEST(CutsOfXlCache, DocumentsThatResetGiveTheSameNumbersInAnyLane) {
  constexpr std::int64_t kDocument = kTokens / 16;
  const auto corpus = text(kDocument);
  for (const std::int64_t rows : {std::int64_t{8}, kDocument}) {
    const auto runtime = model_with(rows);
    for (const std::int64_t segment : kSegments) {
      const Cut one{.lanes = 1, .segment = segment, .reset = config::Reset::kDocument};
      const Read alone = read(*runtime, corpus, one);
      EXPECT_EQ(alone.result.total.targets, 16 * (kDocument - 1));
      for (const std::int64_t lanes : {4, 16}) {
        Cut cut = one;
        cut.lanes = lanes;
        const Read many = read(*runtime, corpus, cut);
        EXPECT_EQ(many.nll.size(), alone.nll.size());
        EXPECT_LT(difference(alone.nll, many.nll), kEqual)
            << rows << " rows, segment " << segment << ", " << lanes << " lanes";
        EXPECT_NEAR(many.result.loss(), alone.result.loss(), kEqual);
      }
    }
  }
  // Lanes that cut documents read the pieces as documents of their own: other numbers.
  const auto runtime = model_with(kDocument);
  const Cut cut{.lanes = 1, .segment = 64, .reset = config::Reset::kDocument};
  Cut seven = cut;
  seven.lanes = 7;
  EXPECT_GT(difference(read(*runtime, corpus, cut).nll, read(*runtime, corpus, seven).nll),
            kDifferent);
}

// The breakdown by distance counts from the document's true start, in whatever lane it is read.
TEST(CutsOfXlCache, DistancesDoNotDependOnTheCut) {
  const auto corpus = text(50);
  const auto runtime = model_with(kTokens);
  std::vector<std::int64_t> expected;  // targets at distances 1, 2-3, 4-7, ..., 32-49, 16 documents
  for (const std::int64_t count : {1, 2, 4, 8, 16, 18}) expected.push_back(16 * count);
  for (const config::Reset reset : {config::Reset::kDocument, config::Reset::kNever}) {
    for (const std::int64_t lanes : kLanes) {
      for (const std::int64_t segment : kSegments) {
        const Read cut =
            read(*runtime, corpus, {.lanes = lanes, .segment = segment, .reset = reset});
        std::vector<std::int64_t> tokens;
        for (const scores::Bucket& bucket : cut.result.breakdown.distance) {
          tokens.push_back(bucket.sums.targets);
        }
        EXPECT_EQ(tokens, expected) << lanes << " lanes, segment " << segment;
      }
    }
  }
}

}  // namespace
}  // namespace mneme::eval
