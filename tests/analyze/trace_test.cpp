#include "host/analyze/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::mneme::test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// B lanes of T tokens with ids 100 * lane + place.
data::TokenSegment segment_of(std::int64_t lanes, std::int64_t length, std::int64_t first,
                              bool is_reset = false) {
  data::TokenSegment segment;
  segment.prepare(lanes, length, false);
  for (std::int64_t b = 0; b < lanes; ++b) {
    for (std::int64_t t = 0; t < length; ++t) {
      segment.inputs[static_cast<std::size_t>(b * length + t)] = 100 * b + first + t;
    }
  }
  segment.valid.assign(static_cast<std::size_t>(lanes), length);
  segment.reset.assign(static_cast<std::size_t>(lanes), is_reset ? 1 : 0);
  return segment;
}

using Probes = std::map<std::string, at::Tensor>;

std::string key(const std::string& name) { return "1.org.example.wave.3.memory." + name; }

at::Tensor row(const std::vector<double>& values) {
  return torch::tensor(values, at::kDouble).unsqueeze(0);
}
at::Tensor written(std::int64_t rows, bool is_first_write) {
  return torch::tensor({rows, is_first_write ? std::int64_t{1} : std::int64_t{0}}).unsqueeze(0);
}

// What follow() shows, copied.
struct Seen {
  TierLayer where;
  std::vector<std::int64_t> tokens;
  std::int64_t lane, new_tokens, end_token, first_query;
  bool is_first_write;
  std::vector<std::vector<Density>> heads;
};
std::vector<Seen> follow(Trace& trace, const data::TokenSegment& segment, const Probes& probes) {
  std::vector<Seen> seen;
  trace.follow(segment, probes, [&](const LaneView& v) {
    seen.push_back({v.where, v.space.tokens(), v.lane, v.new_tokens, v.end_token, v.first_query,
                    v.is_first_write, v.heads});
  });
  return seen;
}

TEST(Trace, FollowsWritesAndReadsOfALane) {
  Trace trace;
  EXPECT_TRUE(follow(trace, segment_of(1, 2, 0, true), {}).empty());
  std::vector<Seen> seen = follow(trace, segment_of(1, 2, 2),
                                  {{key("written"), written(2, true)},
                                   {key("places"), row({0.25, 0.75})},
                                   {key("density.mean"), torch::full({1, 1, 2}, 0.5)},
                                   {key("density.variance"), torch::full({1, 1, 2}, 0.25)}});
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].where.tier, "1.org.example.wave");
  EXPECT_EQ(seen[0].where.layer, 3);
  EXPECT_THAT(seen[0].tokens, ElementsAre(0, 1));
  EXPECT_TRUE(seen[0].is_first_write);
  EXPECT_EQ(seen[0].new_tokens, 2);
  EXPECT_EQ(seen[0].end_token, 2);
  EXPECT_EQ(seen[0].first_query, 2);
  ASSERT_EQ(seen[0].heads.size(), 1U);
  ASSERT_EQ(seen[0].heads[0].size(), 2U);
  EXPECT_DOUBLE_EQ(seen[0].heads[0][1].deviation, 0.5);
  // Even samples at 1/2 and 1 are both of token 1.
  seen = follow(trace, segment_of(1, 2, 4),
                {{key("written"), written(2, false)}, {key("places"), row({0.25, 0.5, 0.75, 1})}});
  EXPECT_THAT(seen.at(0).tokens, ElementsAre(1, 1, 2, 3));
  // Chosen samples, both of token 3.
  seen = follow(trace, segment_of(1, 2, 6),
                {{key("written"), written(2, false)},
                 {key("samples"), row({0.9, 1.0})},
                 {key("places"), row({0.25, 0.5, 0.75, 1})}});
  EXPECT_THAT(seen.at(0).tokens, ElementsAre(3, 3, 4, 5));
  EXPECT_EQ(seen.at(0).end_token, 6);
  EXPECT_THAT(trace.history(0), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Trace, AResetBeginsWithItsOwnTokens) {
  Trace trace;
  const Probes first = {{key("written"), written(2, true)}, {key("places"), row({0.25, 0.75})}};
  follow(trace, segment_of(1, 2, 0, true), {});
  follow(trace, segment_of(1, 2, 2), first);
  EXPECT_TRUE(follow(trace, segment_of(1, 2, 4, true), {}).empty());
  const std::vector<Seen> seen = follow(trace, segment_of(1, 2, 6), first);
  EXPECT_THAT(seen.at(0).tokens, ElementsAre(4, 5));
  // A memory that was emptied continues with the next token.
  EXPECT_THAT(follow(trace, segment_of(1, 2, 8), first).at(0).tokens, ElementsAre(6, 7));
}

TEST(Trace, LeavesOutPaddingAndLanesWithoutAMemory) {
  Trace trace;
  follow(trace, segment_of(2, 2, 0, true), {});
  data::TokenSegment segment = segment_of(2, 2, 2);
  segment.valid = {1, 2};
  const Probes probes = {{key("written"), torch::tensor({2, 1, 0, 0}).view({2, 2})},
                         {key("places"), torch::tensor({0.2, 0.7, 0.2, 0.7}).view({2, 2})},
                         {key("density.mean"), torch::full({2, 1, 2}, 0.5)},
                         {key("density.variance"), torch::full({2, 1, 2}, 0.25)}};
  std::vector<Seen> seen = follow(trace, segment, probes);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].lane, 0);
  EXPECT_EQ(seen[0].heads[0].size(), 1U);
  EXPECT_THAT(trace.history(0), ElementsAre(0, 1, 2));
  // A read without a write: lane 1 is still empty.
  const Probes read = {{key("density.mean"), torch::full({2, 1, 2}, 0.5)},
                       {key("density.variance"), torch::full({2, 1, 2}, 0.25)}};
  EXPECT_EQ(follow(trace, segment_of(2, 2, 4), read).size(), 1U);
}

TEST(Trace, AMemoryThatOnlyReadsHasNoMap) {
  Trace trace;
  const std::vector<Seen> seen =
      follow(trace, segment_of(1, 2, 0, true),
             {{key("density.mean"), torch::full({1, 2, 2}, 0.5)},
              {key("density.variance"), torch::full({1, 2, 2}, 0.25)},
              {"0.org.example.wave.model.memory.density.mean", torch::zeros({1})},
              {"memory.density.mean", torch::zeros({1})}});
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_TRUE(seen[0].tokens.empty());
  EXPECT_EQ(seen[0].heads.size(), 2U);
}

std::string refusal(const Probes& probes, std::int64_t tokens = 4) {
  return error_of([&] {
    Trace trace;
    follow(trace, segment_of(1, tokens, 0, true), probes);
  });
}

TEST(Trace, RefusesProbesThatDoNotFit) {
  const std::string where = "1: tier 1.org.example.wave, layer 3, probe memory.";
  EXPECT_THAT(refusal({{key("written"), written(2, true)}}),
              HasSubstr(where + "places: was not published with a write: expected the places of "
                                "its rows, got nothing; lanes that are written differently"));
  EXPECT_THAT(refusal({{key("written"), written(6, true)}, {key("places"), torch::rand({1, 6})}}),
              HasSubstr(where + "written: the memory took in more rows than the lane has tokens: "
                                "expected at most 4, got 6"));
  EXPECT_THAT(refusal({{key("written"), written(2, true)}, {key("places"), row({0.1, 0.2, 0.3})}}),
              HasSubstr("another number of points"));
  EXPECT_THAT(refusal({{key("written"), torch::zeros({1, 3})}}),
              HasSubstr(where + "written: has the wrong shape: expected [lanes, 2], got [1, 3]"));
  EXPECT_THAT(refusal({{key("density.mean"), torch::zeros({1, 1, 4})}}),
              HasSubstr(where + "density.variance: does not go with memory.density.mean: expected "
                                "the same shape, got nothing"));
  EXPECT_THAT(refusal({{key("density.mean"), torch::zeros({1, 1, 4})},
                       {key("density.variance"), torch::zeros({1, 1, 4})}}),
              HasSubstr("is no density's at head 0, query 0: expected a finite mean and a variance "
                        "above 0, got mean 0, variance 0"));
}

}  // namespace
}  // namespace mneme::analyze
