#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "host/eval/result.hpp"

namespace mneme::eval {
namespace {

using testing::ElementsAre;

std::vector<std::string> names_of(const std::vector<scores::Bucket>& buckets) {
  std::vector<std::string> names;
  for (const scores::Bucket& bucket : buckets) names.push_back(bucket.name);
  return names;
}

TEST(ResultSums, WritesMeansAndSums) {
  const Json json = to_json(scores::Sums{.targets = 4, .nll = 2.0, .correct = 1});
  EXPECT_EQ(json.at("tokens"), 4);
  EXPECT_EQ(json.at("nll"), 2.0);
  EXPECT_EQ(json.at("correct"), 1);
  EXPECT_EQ(json.at("loss"), 0.5);
  EXPECT_EQ(json.at("accuracy"), 0.25);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(to_json(scores::Sums{.targets = 1, .nll = infinity}).at("nll").is_null());
}

TEST(Breakdown, SortsTargetsIntoBuckets) {
  BreakdownSums sums({0, 1, 9, 10, 99, 100, 12345, 5}, 7);
  const auto add = [&](std::int64_t place, std::int64_t distance, std::int64_t id, double nll) {
    sums.add(place, distance, id, nll, id == 1);
  };
  add(0, 1, 0, 1.0);    // unseen
  add(1, 2, 1, 2.0);    // once
  add(2, 3, 2, 4.0);    // 9 times
  add(0, 4, 3, 8.0);    // 10
  add(1, 1000, 4, 16);  // 99
  add(2, 0, 5, 32);     // 100; begins a document
  add(4, -5, 6, 64);    // 12345; document unknown
  add(4, 7, 7, 128);    // <unk>, whatever its count
  add(4, 8, 99, 256);   // an id beyond the counts: unseen
  const Breakdown out = sums.breakdown();
  EXPECT_THAT(names_of(out.place), ElementsAre("0", "1", "2", "4"));
  EXPECT_EQ(out.place[0].sums.nll, 9.0);
  EXPECT_EQ(out.place[1].sums.correct, 1);
  EXPECT_EQ(out.place[3].from, 4);
  EXPECT_THAT(names_of(out.distance), ElementsAre("1", "2-3", "4-7", "8-15", "512-1023"));
  EXPECT_EQ(out.distance[1].sums.nll, 6.0);
  EXPECT_EQ(out.distance[2].sums.nll, 136.0);
  EXPECT_EQ(out.distance[4].from, 512);
  EXPECT_THAT(names_of(out.frequency),
              ElementsAre("<unk>", "unseen", "1-9", "10-99", "100-999", "10000-99999"));
  const std::vector<double> nll = {128, 257, 6, 24, 32, 64};
  const std::vector<std::int64_t> from = {-1, 0, 1, 10, 100, 10000};
  for (std::size_t i = 0; i < nll.size(); ++i) {
    EXPECT_EQ(out.frequency[i].sums.nll, nll[i]) << i;
    EXPECT_EQ(out.frequency[i].from, from[i]) << i;
  }
}

TEST(Breakdown, LeavesOutWhatIsNotKnown) {
  BreakdownSums sums;
  sums.add(3, 0, 5, 1.0, false);
  const Breakdown out = sums.breakdown();
  EXPECT_TRUE(out.distance.empty());
  EXPECT_TRUE(out.frequency.empty());
  const Json json = to_json(out);
  EXPECT_FALSE(json.contains("distance"));
  EXPECT_FALSE(json.contains("frequency"));
  EXPECT_EQ(json.at("position").at("name"), Json::array({"3"}));
  EXPECT_EQ(json.at("position").at("from"), Json::array({3}));
  EXPECT_EQ(json.at("position").at("tokens"), Json::array({1}));
  EXPECT_EQ(json.at("position").at("nll"), Json::array({1.0}));
  EXPECT_EQ(json.at("position").at("correct"), Json::array({0}));
}

}  // namespace
}  // namespace mneme::eval
