#include "host/compare/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

namespace mneme::compare {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

eval::Score score(std::int64_t tokens, double nll, std::int64_t correct) {
  return {.tokens = tokens, .nll = nll, .correct = correct};
}

// 100 targets: 20 without source, 50 inside, 30 outside.
eval::Result result(double loss, std::int64_t outside_correct) {
  eval::Result out;
  out.total = score(100, 100 * loss, 45 + outside_correct);
  out.by_source = {score(20, 20 * loss, 0), score(50, 50 * loss, 45),
                   score(30, 30 * loss, outside_correct)};
  out.lanes = 4;
  out.seconds = 2.0;
  out.state_bytes = 4096;
  return out;
}

Arm arm(const std::string& name, const std::vector<double>& losses, std::int64_t outside_correct) {
  Arm out{.name = name, .file = name + ".toml", .backbone_parameters = 1000};
  std::uint64_t seed = 1;
  for (const double loss : losses) {
    SeedResult run{
        .seed = seed++, .initial_sha256 = "abc", .steps = 10, .tokens = 500, .seconds = 5};
    run.splits.push_back({.result = result(loss, outside_correct),
                          .lanes = {{100 * loss}, {100}},
                          .segments = {{60 * loss, 40 * loss}, {60, 40}}});
    out.seeds.push_back(run);
  }
  return out;
}

Comparison comparison(const std::vector<double>& first, const std::vector<double>& second) {
  Comparison out;
  out.alphabet = 32;
  out.arms = {arm("none", first, 1), arm("cache", second, 27)};
  memory::TierIdentity& plugin = out.arms[1].plugins.emplace_back();
  plugin.id = "org.example.cache";
  plugin.version = "1.2.3";
  plugin.sha256 = "f00";
  out.arms[1].seeds[0].seconds = 10;
  return out;
}

const Metric& find(const std::vector<Metric>& lines, const std::string& name) {
  for (const Metric& line : lines) {
    if (line.name == name) return line;
  }
  throw std::runtime_error("no metric " + name);
}

TEST(Spread, IsTheSampleStandardDeviation) {
  EXPECT_EQ(spread({3.0}).mean, 3.0);
  EXPECT_EQ(spread({3.0}).deviation, 0.0);
  const Spread two = spread({1.0, 3.0});
  EXPECT_DOUBLE_EQ(two.mean, 2.0);
  EXPECT_DOUBLE_EQ(two.deviation, std::sqrt(2.0));
  EXPECT_TRUE(std::isnan(spread({}).mean));
}

TEST(Metrics, ComeFromTheResults) {
  const auto lines = metrics(comparison({3.0}, {1.0}));
  EXPECT_DOUBLE_EQ(find(lines, "valid loss, nats a token").values[1][0], 1.0);
  EXPECT_DOUBLE_EQ(find(lines, "valid perplexity").values[0][0], std::exp(3.0));
  EXPECT_DOUBLE_EQ(find(lines, "valid accuracy, source inside the segment").values[0][0], 0.9);
  EXPECT_DOUBLE_EQ(find(lines, "valid accuracy, source outside the segment").values[1][0], 0.9);
  EXPECT_DOUBLE_EQ(find(lines, "state bytes a lane").values[1][0], 1024);
  EXPECT_DOUBLE_EQ(find(lines, "training tokens/s").values[0][0], 100);
  EXPECT_DOUBLE_EQ(find(lines, "evaluation tokens/s").values[0][0], 50);
  EXPECT_DOUBLE_EQ(find(lines, "parameters of the backbone").values[0][0], 1000);
}

TEST(Metrics, LeaveOutWhatNobodyKnows) {
  for (const Metric& line : metrics(comparison({3.0}, {1.0}))) {
    EXPECT_THAT(line.name, Not(HasSubstr("bits")));
    EXPECT_THAT(line.name, Not(HasSubstr("test")));
  }
}

TEST(Metrics, DifferencesArePairedBySeed) {
  const auto lines = metrics(comparison({3.0, 5.0}, {2.0, 4.5}));
  const auto difference = against_first(find(lines, "valid loss, nats a token"), 1);
  EXPECT_THAT(difference, ::testing::ElementsAre(-1.0, -0.5));
  EXPECT_DOUBLE_EQ(against_first(find(lines, "training tokens/s"), 1)[0], 0.5);
}

TEST(TableText, SetsArmsAgainstTheFirst) {
  const std::string text = table_text(comparison({3.0}, {1.0}));
  EXPECT_THAT(text, HasSubstr("cache against none"));
  EXPECT_THAT(text, HasSubstr("org.example.cache@1.2.3"));
  EXPECT_THAT(text, HasSubstr("-2.0000\n"));
  EXPECT_THAT(text, HasSubstr("x 0.50\n"));
  EXPECT_THAT(text, HasSubstr("chance: 0.0312 (one of 32 symbols)\n"));
  EXPECT_THAT(text, HasSubstr("one seed: no interval"));
}

// Long ids stand below the table, so that they widen no column; lines keep to the width.
TEST(TableText, KeepsToTheWidthWithFiveMemories) {
  Comparison five = comparison({3.0, 5.0}, {2.0, 4.5});
  for (const char* const name : {"compressive", "continuous_ltm_sticky", "lamemo"}) {
    Arm& added = five.arms.emplace_back(five.arms[1]);
    added.name = name;
    added.plugins.push_back(added.plugins.front());
    added.plugins.back().id = "org.example.a_memory_behind_the_cache";
  }
  std::istringstream in(table_text(five, 80));
  std::string text;
  for (std::string line; std::getline(in, line); text += line + '\n') {
    EXPECT_LE(line.size(), 80U) << line;
  }
  EXPECT_THAT(text,
              HasSubstr("plugins of none: no tier\nplugins of cache: org.example.cache@1.2.3\n"));
  EXPECT_THAT(text, HasSubstr("plugins of lamemo: org.example.cache@1.2.3 +\n  "
                              "org.example.a_memory_behind_the_cache@1.2.3\n"));
}

TEST(TableText, TellsTwoBuildsOfOnePluginApart) {
  Comparison builds = comparison({3.0}, {1.0});
  memory::TierIdentity other = builds.arms[1].plugins[0];
  other.sha256 = "abcdef0123456789";
  builds.arms[0].plugins = {other};
  const std::string text = table_text(builds);
  EXPECT_THAT(text, HasSubstr("org.example.cache@1.2.3 [abcdef01]"));
  EXPECT_THAT(text, HasSubstr("org.example.cache@1.2.3 [f00]"));
  builds.arms[0].plugins[0].version = "1.2.4";
  EXPECT_THAT(table_text(builds), Not(HasSubstr("[f00]")));
}

TEST(TableText, GivesSpreadsOverSeeds) {
  const std::string text = table_text(comparison({3.0, 5.0}, {2.0, 4.5}));
  EXPECT_THAT(text, HasSubstr("4.0000 +- 1.4142"));
  EXPECT_THAT(text, HasSubstr("-0.7500 +- 0.3536"));
  EXPECT_THAT(text, HasSubstr("2 seeds: mean +- standard deviation"));
  EXPECT_THAT(text, Not(HasSubstr("no interval")));
}

// The second seed of the second arm failed in its training.
Comparison with_a_failure() {
  Comparison out = comparison({3.0, 5.0}, {2.0, 9.0});
  SeedResult& seed = out.arms[1].seeds[1];
  seed = {.seed = 2, .steps = 3, .folder = "runs/cache-seed2"};
  seed.error = Error(ErrorKind::kRun, "step 4: it diverged");
  return out;
}

TEST(Spread, LeavesOutWhatIsNotKnown) {
  const Spread of = spread({1.0, std::nan(""), 3.0});
  EXPECT_DOUBLE_EQ(of.mean, 2.0);
  EXPECT_DOUBLE_EQ(of.deviation, std::sqrt(2.0));
  EXPECT_TRUE(std::isnan(spread({std::nan("")}).mean));
}

TEST(TableText, SaysWhichSeedsFailedAndWhy) {
  const std::string text = table_text(with_a_failure());
  EXPECT_THAT(text, HasSubstr("failed: cache (seed 2): step 4: it diverged\n"));
  EXPECT_THAT(text, HasSubstr("2.0000"));   // of the other seed
  EXPECT_THAT(text, HasSubstr("-1.0000"));  // the same seed of both
  EXPECT_THAT(text, HasSubstr("over its seeds that have them"));
  std::istringstream narrow(table_text(with_a_failure(), 50));
  for (std::string line; std::getline(narrow, line);) {
    EXPECT_LE(line.size(), 50U) << line;
  }
  EXPECT_THAT(table_text(comparison({3.0}, {1.0})), Not(HasSubstr("fail")));
}

TEST(TableText, ShowsArmsThatFailedAltogether) {
  Comparison all = with_a_failure();
  all.arms[1].seeds.erase(all.arms[1].seeds.begin());
  const std::string text = table_text(all);
  EXPECT_THAT(text, HasSubstr("failed  "));  // in a column
  EXPECT_THAT(text, Not(HasSubstr("over its seeds")));
}

TEST(Metrics, KnowNoSpeedOfATrainingThatFailed) {
  Comparison out = comparison({3.0}, {1.0});
  out.arms[1].seeds[0].splits.clear();
  EXPECT_TRUE(std::isnan(find(metrics(out), "training tokens/s").values[1][0]));
}

TEST(ComparisonJson, HoldsFailures) {
  const Json json = to_json(with_a_failure());
  const Json& seed = json.at("arms").at(1).at("seeds").at(1);
  EXPECT_EQ(seed.at("error").at("message"), "step 4: it diverged");
  EXPECT_EQ(seed.at("error").at("exit_code"), 1);
  EXPECT_EQ(seed.at("run"), "runs/cache-seed2");
  EXPECT_FALSE(json.at("arms").at(1).at("seeds").at(0).contains("error"));
  EXPECT_FALSE(json.at("interrupted").get<bool>());
  EXPECT_TRUE(json.at("table").at(0).at("arms").at("cache").at("values").at(1).is_null());
}

// The table's losses follow from the JSON's parts alone.
TEST(ComparisonJson, HoldsWhatTheTableNeeds) {
  const Json json = Json::parse(to_json(comparison({3.0}, {1.0})).dump());
  EXPECT_DOUBLE_EQ(json.at("chance").get<double>(), 1.0 / 32);
  const Json& cache = json.at("arms").at(1);
  EXPECT_EQ(cache.at("plugins").at(0).at("sha256"), "f00");
  const Json& split = cache.at("seeds").at(0).at("splits").at("valid");
  double nll = 0.0;
  std::int64_t targets = 0;
  for (const auto& part : split.at("segments").at("nll")) nll += part.get<double>();
  for (const auto& part : split.at("segments").at("targets")) targets += part.get<std::int64_t>();
  const Json& loss = json.at("table").at(0);
  EXPECT_EQ(loss.at("name"), "valid loss, nats a token");
  EXPECT_DOUBLE_EQ(loss.at("arms").at("cache").at("mean").get<double>(),
                   nll / static_cast<double>(targets));
  EXPECT_DOUBLE_EQ(loss.at("arms").at("cache").at("difference_to_first").at(0).get<double>(), -2.0);
}

}  // namespace
}  // namespace mneme::compare
