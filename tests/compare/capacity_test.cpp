// Memories at equal bytes of state.
#include "host/compare/planning/capacity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/train/trainer.hpp"
#include "tests/base/tiny_motif.hpp"
#include "tests/compare/memory_files.hpp"

namespace mneme::compare {
namespace {

using test::error_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class Capacity : public MemoryFiles {
 protected:
  std::vector<CapacityPoint> points(const std::vector<std::string>& memories,
                                    const std::vector<double>& multiples,
                                    const std::vector<std::string>& sweeps = {}) {
    std::vector<ArmRequest> requests;
    for (const std::string& file : memories) requests.push_back(parse_arm(file));
    std::vector<Sweep> swept;
    for (const std::string& word : sweeps) swept.push_back(parse_sweep(word));
    const std::vector<ArmSetup> arms = read_arms(
        folder_.write("tiny.toml", test::tiny_experiment()), requests, {}, swept, loader_);
    return capacity_points(arms, multiples, {.loader = {std::shared_ptr<void>(), &loader_}});
  }
  std::string error(const std::vector<std::string>& memories,
                    const std::vector<std::string>& sweeps = {}) {
    return error_of([&] { static_cast<void>(points(memories, {1.0, 2.0}, sweeps)); });
  }
};

// A row of the cache is 16 numbers of 4 bytes in one layer.
TEST_F(Capacity, GivesEveryMemoryTheBytesOfThePoint) {
  const auto all = points({cache("a.toml", 8), cache("b.toml", 100)}, {1.0, 2.0, 8.0});
  ASSERT_EQ(all.size(), 3U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int rows = i == 0 ? 8 : i == 1 ? 16 : 64;
    EXPECT_EQ(all[i].bytes, rows * 16 * 4);
    ASSERT_EQ(all[i].arms.size(), 2U);
    for (const CapacityArm& arm : all[i].arms) {
      EXPECT_EQ(arm.bytes, all[i].bytes);
      EXPECT_EQ(arm.setting, str("memory.tier.0.rows=", rows));
      EXPECT_THAT(arm.setup.settings, ElementsAre(arm.setting));
      EXPECT_EQ(arm.setup.experiment.memory.tiers[0].options.find("rows")->as_integer(), rows);
    }
    EXPECT_EQ(all[i].arms[1].setup.name, "b");
    EXPECT_THAT(all[i].left_out, IsEmpty());
  }
  EXPECT_THAT(text_of(all),
              StartsWith("bytes of state a lane:\n  1x, 512: a memory.tier.0.rows=8 (512), b "
                         "memory.tier.0.rows=8 (512)\n  2x, 1024: "));
}

// The tensors of the second point would take 64 GB.
TEST_F(Capacity, CountsBytesOfAnySizeWithoutAllocatingThem) {
  const auto all = points({cache("a.toml", 1000)}, {1.0, 1e6});
  ASSERT_EQ(all[1].arms.size(), 1U);
  EXPECT_EQ(all[1].arms[0].setting, "memory.tier.0.rows=1000000000");
  EXPECT_EQ(all[1].arms[0].bytes, 64'000'000'000);
}

#ifdef MNEME_HAS_COMPRESSIVE
// 32 compressed rows are more than the first point has; the second has 0 rows beside them.
TEST_F(Capacity, LeavesOutAMemoryThatDoesNotComeNear) {
  const auto all = points(
      {cache("a.toml", 16), memory("large.toml", "compressive", "rows = 8\ncompressed_rows = 32")},
      {1.0, 4.0});
  ASSERT_EQ(all[0].arms.size(), 1U);
  EXPECT_EQ(all[0].arms[0].setup.name, "a");
  EXPECT_THAT(all[0].left_out,
              ElementsAre("large: memory.tier.0.rows = 0 has 2048 bytes of state, 100 % above, and "
                          "no size comes nearer"));
  ASSERT_EQ(all[1].arms.size(), 2U);
  EXPECT_EQ(all[1].arms[1].setting, "memory.tier.0.rows=32");
  EXPECT_THAT(text_of(all), HasSubstr("\n    left out: large: memory.tier.0.rows = 0 has 2048"));
}
#endif

#ifdef MNEME_HAS_CONTINUOUS_LTM
// Sizes are even with two widths: no two of them are more than the threshold from the bytes.
TEST_F(Capacity, IsNearWhereSizesAreCoarse) {
  const auto all = points({cache("a.toml", 61), memory("ltm.toml", "continuous_ltm",
                                                       "basis = 16\nwidths = [0.05, 0.1]")},
                          {1.0, 3.0});
  for (const CapacityPoint& point : all) {
    ASSERT_EQ(point.arms.size(), 2U) << text_of(all);
    const double share =
        static_cast<double>(point.arms[1].bytes - point.bytes) / static_cast<double>(point.bytes);
    EXPECT_LE(std::abs(share), kNearShare);
  }
}
#endif

#ifdef MNEME_HAS_LAMEMO
// What its rows have attended to lies in slots of no declared length: as many rows as tokens may
// attend to. A full memory is measured to hold just these bytes.
TEST_F(Capacity, CountsTheDeclaredRowsOfSlotsThatGrow) {
  const auto all = points({memory("lamemo.toml", "lamemo", "rows = 5") +
                           ",model.position=disentangled,model.layers=2,eval.steps=8"},
                          {1.0, 3.0});
  ASSERT_EQ(all.size(), 2U);
  for (const CapacityPoint& point : all) {
    ASSERT_EQ(point.arms.size(), 1U) << text_of(all);
    train::Trainer trainer(point.arms[0].setup.experiment);
    const eval::Result result = trainer.evaluate_split(data::Split::kValid);
    EXPECT_EQ(point.arms[0].bytes, result.state_bytes / result.lanes);
  }
  EXPECT_EQ(all[1].arms[0].setting, "memory.tier.0.rows=15");
}
#endif

#ifdef MNEME_HAS_GLA
// A matrix of key_width x 8 for each of two heads: one more key has the bytes of a row of the cache.
TEST_F(Capacity, IsReachedByTheFirstGivenOptionThatBytesGrowWith) {
  const std::string file = cache("a.toml", 6);
  const auto chosen = [&](const std::string& options) {
    std::vector<std::string> settings;
    for (const CapacityPoint& point :
         points({file, memory("gla.toml", "gla", options)}, {1.0, 2.0, 8.0})) {
      for (const CapacityArm& arm : point.arms) EXPECT_EQ(arm.bytes, point.bytes);
      settings.push_back(point.arms.at(1).setting);
    }
    return settings;
  };
  EXPECT_THAT(chosen("gate_rank = 4\nkey_width = 3"),
              ElementsAre("memory.tier.0.key_width=6", "memory.tier.0.key_width=12",
                          "memory.tier.0.key_width=48"));
  EXPECT_THAT(chosen("value_width = 3\nkey_width = 8"),
              ElementsAre("memory.tier.0.value_width=6", "memory.tier.0.value_width=12",
                          "memory.tier.0.value_width=48"));
}

// What a setting gives is fixed. A key_width of 0 is half the heads' 8, more than the 2 tried next.
TEST_F(Capacity, NeedsAnOptionThatTheFileGives) {
  for (const char* const options : {"", "gate_rank = 4", "key_width = 0"}) {
    EXPECT_THAT(error({cache("a.toml", 6), memory("gla.toml", "gla", options)}),
                StartsWith("2: gla: --capacity finds no size that changes the bytes"))
        << options;
  }
  const std::string file = memory("gla.toml", "gla", "key_width = 3\nvalue_width = 8");
  EXPECT_THAT(error({cache("a.toml", 6), memory("b.toml", "gla", "") + ",tier.0.key_width=3"}),
              StartsWith("2: b,key_width=3: --capacity finds no size"));
  const auto all = points({cache("a.toml", 6), file + ",tier.0.key_width=6"}, {1.0, 2.0});
  EXPECT_EQ(all.at(1).arms.at(1).setting, "memory.tier.0.value_width=16");
}
#endif

#if defined(MNEME_HAS_COMPRESSIVE) && defined(MNEME_HAS_CONTINUOUS_LTM) && \
    defined(MNEME_HAS_LAMEMO) && defined(MNEME_HAS_GLA) && defined(MNEME_HAS_GATED_DELTANET)
// The commands of configs/capacity leave out no memory at any of their points.
TEST_F(Capacity, FilesOfItsFiguresReachEveryPoint) {
  const std::filesystem::path folder = MNEME_SOURCE_DIR "/configs/capacity";
  std::vector<ArmRequest> requests;
  for (const char* const name :
       {"xl_cache", "compressive", "continuous_ltm", "lamemo", "gla", "gated_deltanet"})
    requests.push_back({.memory = folder / "memory" / str(name, ".toml")});
  const std::vector<config::Override> plugins = {
      config::parse_override(str("memory.plugins=[\"", MNEME_PLUGIN_DIR, "\"]"))};
  const auto all =
      capacity_points(read_arms(folder / "mqar.toml", requests, plugins, {}, loader_),
                      {1.0, 2.0, 4.0, 8.0, 16.0}, {.loader = {std::shared_ptr<void>(), &loader_}});
  for (const CapacityPoint& point : all) EXPECT_THAT(point.left_out, IsEmpty()) << text_of(all);
  EXPECT_EQ(all.back().arms.front().setting, "memory.tier.0.rows=96");
  EXPECT_EQ(all.back().arms.at(4).setting, "memory.tier.0.key_width=96");
  EXPECT_EQ(all.back().arms.at(5).setting, "memory.tier.0.key_width=94");
}
#endif

TEST_F(Capacity, NamesAMemoryWithoutASize) {
  EXPECT_EQ(error({cache("a.toml", 8), folder_.write("none.toml", "[memory]\n").string()}),
            "2: none: --capacity finds no size that changes the bytes of this memory's state: "
            "expected a memory with state whose bytes grow with its size: the first integer "
            "option without a default, such as rows, or one that its file gives; leave it out; "
            "mneme compare without --capacity trains it as it is");
}

TEST_F(Capacity, RefusesASizeThatIsGivenTwice) {
  const std::string file = cache("a.toml", 8);
  EXPECT_THAT(error({file, file + ",tier.0.rows=4"}),
              AllOf(HasSubstr("a,rows=4: --capacity chooses memory.tier.0.rows, which a --sweep or "
                              "a setting of the arm gives, too"),
                    HasSubstr("leave out --capacity, or the --sweep or setting of")));
  EXPECT_THAT(error({file}, {"tier.0.rows=4,8"}), HasSubstr("--capacity chooses"));
  const auto all = points({file}, {1.0, 2.0}, {"train.lr=1e-3,3e-3"});
  EXPECT_EQ(all[1].arms.size(), 2U) << "a sweep of another key";
  EXPECT_THAT(error({file, memory("own.toml", "xl_cache", "rows = 8\neval_rows = 16")}),
              HasSubstr("2: own: --capacity chooses rows: the memory file gives evaluations"));
}

// 1.04 of 8 rows is 8 rows, and so is 1.04 of 100; 1.04 of 48 is 50.
TEST_F(Capacity, RefusesPointsOfOneSize) {
  const std::string file = cache("a.toml", 8);
  const auto error = [&](const std::vector<std::string>& memories) {
    return error_of([&] { static_cast<void>(points(memories, {1.0, 1.04, 2.0})); });
  };
  EXPECT_EQ(error({file, cache("b.toml", 100)}),
            "2: --capacity: every memory has one size at the points 1 and 1.04: expected points "
            "that are farther apart, got a memory.tier.0.rows=8 at both");
  EXPECT_EQ(error({cache("c.toml", 48), file}), "no error");
}

TEST(Multiples, AreRead) {
  EXPECT_THAT(parse_multiples("1,2,4.5", "--capacity", 2), ElementsAre(1.0, 2.0, 4.5));
  EXPECT_THAT(parse_multiples("2, 16", "--capacity", 2), ElementsAre(2.0, 16.0));
  const auto error = [](const std::string& text, std::size_t least = 2) {
    return error_of([&] { static_cast<void>(parse_multiples(text, "--capacity", least)); });
  };
  EXPECT_EQ(error("1,x"),
            "2: --capacity: is no list of numbers: expected 2 or more rising numbers of at least "
            "1, such as 1,2,4,8, got x");
  for (const char* text : {"1,,2", "1,2,", "", "1;2", "nan,1", "1,inf"})
    EXPECT_THAT(error(text), HasSubstr("is no list of numbers")) << text;
  for (const char* text : {"0.5,1", "0,1", "-1,2"})
    EXPECT_THAT(error(text), HasSubstr("a point is below 1")) << text;
  EXPECT_THAT(error("1,2e6"), HasSubstr("a point is above 1,000,000"));
  for (const char* text : {"1,1", "2,1", "1,2,2.0"})
    EXPECT_THAT(error(text), HasSubstr(str("points do not rise: expected 2 or more rising numbers "
                                           "of at least 1, such as 1,2,4,8, got ",
                                           text)));
  EXPECT_THAT(error("2"), HasSubstr("--capacity: 1 point is given"));
  EXPECT_THAT(error("1,2", 3), HasSubstr("2 points are given: expected 3 or more"));
}

}  // namespace
}  // namespace mneme::compare
