#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "host/data/tasks/motif_stream.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

constexpr config::MotifConfig kMotif = {.alphabet = 32, .period_min = 8, .period_max = 56};

std::size_t motif_at(std::int64_t index) { return static_cast<std::size_t>(index); }

// One lane's episodes as they were read: tokens, targets, sources and where segments begin.
struct Episode {
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> targets;
  std::vector<Source> sources;
};

std::vector<Episode> episodes_of(const std::vector<TokenSegment>& segments, std::int64_t lane) {
  std::vector<Episode> episodes;
  for (const TokenSegment& segment : segments) {
    if (segment.reset[motif_at(lane)] != 0) episodes.emplace_back();
    Episode& episode = episodes.back();
    EXPECT_EQ(segment.offset[motif_at(lane)], static_cast<std::int64_t>(episode.inputs.size()));
    for (std::int64_t t = 0; t < segment.length; ++t) {
      const std::size_t cell = motif_at(lane * segment.length + t);
      episode.inputs.push_back(segment.inputs[cell]);
      episode.targets.push_back(segment.targets[cell]);
      episode.sources.push_back(static_cast<Source>(segment.source[cell]));
    }
  }
  return episodes;
}

TEST(Motif, TargetsAreTheNextInputs) {
  MotifStream stream(kMotif, 1, "train", {.lanes = 5, .segment = 32});
  const std::vector<TokenSegment> segments = read_all(stream, 40);
  for (std::int64_t lane = 0; lane < 5; ++lane) {
    for (const Episode& episode : episodes_of(segments, lane)) {
      for (std::size_t i = 0; i + 1 < episode.inputs.size(); ++i) {
        ASSERT_EQ(episode.targets[i], episode.inputs[i + 1]);
      }
    }
  }
}

// By brute force: the nearest place a multiple of the period before the target is sought among the
// tokens read so far.
TEST(Motif, FlagsWhereTheSourceLies) {
  for (const std::int64_t segment_tokens : {1, 7, 32, 64}) {
    MotifStream stream(kMotif, 3, "train", {.lanes = 6, .segment = segment_tokens});
    const std::vector<TokenSegment> segments = read_all(stream, 3 * stream.episode_segments());
    std::map<Source, int> seen;
    for (std::int64_t lane = 0; lane < 6; ++lane) {
      std::int64_t number = 0;
      for (const Episode& episode : episodes_of(segments, lane)) {
        const auto period = static_cast<std::int64_t>(stream.motif(lane, number++).size());
        const auto length = static_cast<std::int64_t>(episode.inputs.size());
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int64_t segment_begin = i / segment_tokens * segment_tokens;
          std::int64_t nearest_copy = -1;
          for (std::int64_t j = 0; j <= i; ++j) {
            if ((i + 1 - j) % period == 0) nearest_copy = j;
          }
          const Source expected = nearest_copy < 0               ? Source::kNone
                                  : nearest_copy < segment_begin ? Source::kOutside
                                                                 : Source::kInside;
          ASSERT_EQ(episode.sources[motif_at(i)], expected) << "lane " << lane << " token " << i;
          if (nearest_copy >= 0) {
            ASSERT_EQ(episode.targets[motif_at(i)], episode.inputs[motif_at(nearest_copy)]);
          }
          ++seen[expected];
        }
      }
    }
    EXPECT_GT(seen[Source::kNone], 0);
    EXPECT_GT(seen[Source::kOutside], 0);
    EXPECT_EQ(seen[Source::kInside] > 0, segment_tokens >= kMotif.period_min);
  }
}

// A period of 1: the source is the input itself, inside even in segments of one token.
TEST(Motif, WorksWithPeriodOne) {
  MotifStream stream({.alphabet = 4, .period_min = 1, .period_max = 1}, 3, "train", {.segment = 1});
  const std::vector<TokenSegment> segments = read_all(stream, 8);
  for (const TokenSegment& segment : segments) {
    EXPECT_EQ(static_cast<Source>(segment.source[0]), Source::kInside);
    EXPECT_EQ(segment.targets[0], segment.inputs[0]);
  }
}

TEST(Motif, SpreadsPeriodsOverTheRange) {
  const MotifStream stream(kMotif, 1, "train", {.lanes = 32, .segment = 32});
  for (std::int64_t episode = 0; episode < 20; ++episode) {
    std::set<std::size_t> periods;
    std::vector<int> sevenths(7);
    for (std::int64_t lane = 0; lane < 32; ++lane) {
      const std::size_t period = stream.motif(lane, episode).size();
      ASSERT_GE(period, 8U);
      ASSERT_LE(period, 56U);
      periods.insert(period);
      ++sevenths[(period - 8) / 7];
    }
    EXPECT_GE(periods.size(), 24U);
    for (const int count : sevenths) EXPECT_GE(count, 3);
  }
}

TEST(Motif, DrawsSymbolsUniformly) {
  const MotifStream stream(kMotif, 7, "train", {.lanes = 8, .segment = 32});
  std::vector<double> counts(32);
  double total = 0;
  for (std::int64_t episode = 0; episode < 500; ++episode) {
    for (std::int64_t lane = 0; lane < 8; ++lane) {
      for (const std::int64_t symbol : stream.motif(lane, episode)) {
        ASSERT_GE(symbol, 0);
        ASSERT_LT(symbol, 32);
        ++counts[motif_at(symbol)];
        ++total;
      }
    }
  }
  double chi_squared = 0;
  for (const double count : counts) chi_squared += std::pow(count - total / 32, 2) / (total / 32);
  EXPECT_LT(chi_squared, 70.0);  // 31 degrees of freedom: p < 1e-4, and the seed is fixed
}

TEST(Motif, GivesEpisodesMotifsOfTheirOwn) {
  const MotifStream stream(kMotif, 1, "train", {.lanes = 4, .segment = 32});
  std::set<std::vector<std::int64_t>> motifs;
  for (std::int64_t lane = 0; lane < 4; ++lane) {
    for (std::int64_t episode = 0; episode < 50; ++episode) {
      motifs.insert(stream.motif(lane, episode));
    }
  }
  EXPECT_EQ(motifs.size(), 200U);
}

TEST(Motif, DoesNotDependOnTheNumberOfLanes) {
  MotifStream few(kMotif, 1, "train", {.lanes = 3, .segment = 8});
  MotifStream many(kMotif, 1, "train", {.lanes = 11, .segment = 8});
  for (int i = 0; i < 60; ++i) {
    TokenSegment a;
    TokenSegment b;
    ASSERT_TRUE(few.next(a) && many.next(b));
    b.inputs.resize(a.inputs.size());
    b.targets.resize(a.targets.size());
    b.source.resize(a.source.size());
    b.reset.resize(a.reset.size());
    EXPECT_EQ(a.inputs, b.inputs);
    EXPECT_EQ(a.targets, b.targets);
    EXPECT_EQ(a.source, b.source);
    EXPECT_EQ(a.reset, b.reset);
  }
}

TEST(Motif, KeepsSplitsAndSeedsApart) {
  const StreamOptions options = {.lanes = 2, .segment = 32};
  StreamOptions other_seed = options;
  other_seed.seed = 5;
  const auto motif = MotifStream(kMotif, 1, "train", options).motif(0, 0);
  EXPECT_EQ(MotifStream(kMotif, 1, "train", options).motif(0, 0), motif);
  EXPECT_NE(MotifStream(kMotif, 1, "valid", options).motif(0, 0), motif);
  EXPECT_NE(MotifStream(kMotif, 2, "train", options).motif(0, 0), motif);
  EXPECT_NE(MotifStream(kMotif, 1, "train", other_seed).motif(0, 0), motif);
}

TEST(Motif, ResetsAtEachEpisodeAndStaggersThem) {
  MotifStream stream(kMotif, 1, "train", {.lanes = 10, .segment = 32}, 4);
  EXPECT_EQ(stream.episode_segments(), 4);
  const std::vector<TokenSegment> segments = read_all(stream, 12);
  for (std::int64_t b = 0; b < 10; ++b) {
    for (std::int64_t i = 0; i < 12; ++i) {
      const TokenSegment& segment = segments[motif_at(i)];
      EXPECT_EQ(segment.reset[motif_at(b)] != 0, i == 0 || (i + b) % 4 == 0);
      EXPECT_EQ(segment.document[motif_at(b)], (i + b % 4) / 4);
      EXPECT_EQ(segment.valid[motif_at(b)], 32);
    }
  }
}

TEST(Motif, MakesEpisodesLongEnoughByDefault) {
  const auto episode = [](std::int64_t segment) {
    return MotifStream(kMotif, 1, "train", {.segment = segment}).episode_segments();
  };
  EXPECT_EQ(episode(32), 8);
  EXPECT_EQ(episode(28), 8);
  EXPECT_EQ(episode(10), 23);
  EXPECT_EQ(episode(1), 224);
}

TEST(Motif, EndsAfterMaxSegments) {
  MotifStream stream(kMotif, 1, "valid", {.segment = 4, .max_segments = 3});
  EXPECT_EQ(read_all(stream).size(), 3U);
  EXPECT_EQ(stream.segments_per_epoch(), 0);
  EXPECT_EQ(stream.targets_per_epoch(), 0);
}

TEST(Motif, ResumesAnywhere) {
  for (std::int64_t skip = 0; skip < 30; ++skip) {
    expect_resumes(
        [] {
          return std::make_unique<MotifStream>(kMotif, 9, "train",
                                               StreamOptions{.lanes = 5, .segment = 16});
        },
        skip, 20);
  }
}

TEST(Motif, KnowsWhatOneLaneReadsBetweenResets) {
  MotifStream alone(kMotif, 1, "train", {.lanes = 1, .segment = 32});
  const std::int64_t longest =
      longest_between_resets(read_all(alone, 3 * alone.episode_segments()));
  EXPECT_EQ(alone.tokens_between_resets(), longest);
  // Episodes of several lanes begin in other segments.
  EXPECT_EQ(MotifStream(kMotif, 1, "train", {.lanes = 5}).tokens_between_resets(), 0);
}

TEST(Motif, RefusesAPlaceOfAnotherStream) {
  const StreamOptions options = {.lanes = 2, .segment = 32};
  MotifStream stream(kMotif, 1, "train", options);
  const auto refuse = [&](const std::vector<std::int64_t>& place, const std::string& part) {
    expect_error(ErrorKind::kRun, {"data position", part}, [&] { stream.seek(place); });
  };
  refuse(MotifStream(kMotif, 2, "train", options).position(), "data.seed: expected 1, got 2");
  refuse(MotifStream(kMotif, 1, "train", {.lanes = 3, .segment = 32}).position(), "lanes");
  refuse(MotifStream(kMotif, 1, "train", options, 9).position(), "segments of an episode");
  std::vector<std::int64_t> place = stream.position();
  place.back() = -1;
  refuse(place, "negative count of segments: expected at least 0, got -1");
  place.push_back(0);
  refuse(place, "count of integers");
}

TEST(Motif, RefusesBadSettings) {
  const auto refuse = [](const config::MotifConfig& motif, const std::vector<std::string>& parts) {
    expect_error(ErrorKind::kUsage, parts, [&] { MotifStream(motif, 1, "train", {.segment = 4}); });
  };
  refuse({.alphabet = 1}, {"data.alphabet", "no motif can be drawn", "2 to", "got 1"});
  refuse({.alphabet = 1 << 25}, {"data.alphabet", "got 33554432"});
  refuse({.period_min = 0}, {"data.period_min", "1 to", "got 0"});
  refuse({.period_min = 9, .period_max = 8}, {"data.period_max", "9 to", "got 8"});
  expect_error(ErrorKind::kUsage, {"eval.lanes", "at least 1"},
               [] { MotifStream(kMotif, 1, "valid", {.lanes = 0}); });
  expect_error(ErrorKind::kUsage, {"episode_segments", "got -2"},
               [] { MotifStream(kMotif, 1, "valid", {.lanes = 1}, -2); });
}

}  // namespace
}  // namespace mneme::data
