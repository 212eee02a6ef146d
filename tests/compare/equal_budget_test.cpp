#include "host/compare/planning/equal_budget.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/base/log_capture.hpp"
#include "tests/base/tiny_motif.hpp"
#include "tests/compare/memory_files.hpp"

namespace mneme::compare {
namespace {

using test::error_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kOneLayer = test::tiny_experiment();

class EqualBudget : public MemoryFiles {
 protected:
  std::string none() const { return folder_.write("none.toml", "[memory]\n").string(); }

  Equalized equalized(const std::vector<std::string>& memories, Budget budget) {
    std::vector<ArmRequest> requests;
    for (const std::string& file : memories) requests.push_back(parse_arm(file));
    arms_ = read_arms(folder_.write("tiny.toml", kOneLayer), requests, {}, {}, loader_);
    return equalize(arms_, budget, {.loader = {std::shared_ptr<void>(), &loader_}});
  }
  std::string error(const std::vector<std::string>& memories, Budget budget) {
    return error_of([&] { static_cast<void>(equalized(memories, budget)); });
  }
  [[nodiscard]] std::int64_t option(std::size_t arm, const std::string& key) const {
    return arms_.at(arm).experiment.memory.tiers.at(0).options.find(key)->as_integer();
  }

  std::vector<ArmSetup> arms_;
};

TEST_F(EqualBudget, OfStateIsThatOfTheFirstArmThatHasAny) {
  const Equalized sizes =
      equalized({none(), cache("small.toml", 16), cache("large.toml", 40)}, Budget::kState);
  EXPECT_EQ(sizes.reference, "small");
  EXPECT_EQ(option(2, "rows"), 16);
  EXPECT_THAT(
      text_of(sizes, Budget::kState),
      AllOf(HasSubstr(
                str("equal budgets: ", sizes.budget, " bytes of state a lane, those of small\n")),
            HasSubstr("large: memory.tier.0.rows = 16 in place of 40"),
            HasSubstr("none: has no size to choose, and stays as it is"), Not(HasSubstr("%"))));
}

TEST_F(EqualBudget, OfAttentionCountsRows) {
  const Equalized sizes =
      equalized({cache("small.toml", 16), cache("large.toml", 40)}, Budget::kAttention);
  EXPECT_EQ(sizes.budget, 16);
  EXPECT_EQ(option(1, "rows"), 16);
  EXPECT_THAT(text_of(sizes, Budget::kAttention),
              HasSubstr("16 rows that a token may attend to, those of small"));
}

#ifdef MNEME_HAS_GLA
// A column of its two matrices has the bytes of a row of the cache. Its attention has no rows.
TEST_F(EqualBudget, IsReachedByAWidthThatTheFileGives) {
  const std::string file = memory("gla.toml", "gla", "key_width = 3");
  const Equalized sizes = equalized({cache("a.toml", 6), file}, Budget::kState);
  EXPECT_EQ(option(1, "key_width"), 6);
  EXPECT_EQ(sizes.sizes.at(0).budget_after, sizes.budget);
  const auto text = [&](const std::string& arm, Budget budget) {
    return text_of(equalized({cache("a.toml", 6), arm}, budget), budget);
  };
  const std::string fixed = ": has no size to choose, and stays as it is";
  EXPECT_THAT(text(file, Budget::kAttention), HasSubstr("gla" + fixed));
  EXPECT_THAT(text(file + ",tier.0.key_width=5", Budget::kState),
              HasSubstr("gla,key_width=5" + fixed));
  EXPECT_THAT(text(memory("default.toml", "gla", ""), Budget::kState),
              HasSubstr("default" + fixed));
}
#endif

#ifdef MNEME_HAS_CONTINUOUS_LTM
// A row of basis functions is read by every token, however many there are.
TEST_F(EqualBudget, LeavesASizeThatDoesNotChangeTheCost) {
  const Equalized sizes =
      equalized({cache("a.toml", 64),
                 memory("ltm.toml", "continuous_ltm", "basis = 16\nwidths = [0.05, 0.1]")},
                Budget::kAttention);
  EXPECT_EQ(option(1, "basis"), 16);
  EXPECT_THAT(text_of(sizes, Budget::kAttention),
              HasSubstr("ltm: its cost does not depend on memory.tier.0.basis, and stays"));
}

// The memory logs its spectral radius when it is made, also in sizes that are tried alone.
TEST_F(EqualBudget, IsChosenInSilence) {
  const test::LogCapture log;
  static_cast<void>(equalized({cache("a.toml", 15), memory("ltm.toml", "continuous_ltm",
                                                           "basis = 16\nwidths = [0.05, 0.1]")},
                              Budget::kState));
  EXPECT_EQ(log.text(), "");
}

// With two widths the number of basis functions is even.
TEST_F(EqualBudget, PassesOverSizesThatTheMemoryRefuses) {
  for (const int rows : {15, 31}) {
    const Equalized sizes =
        equalized({cache("a.toml", rows),
                   memory("ltm.toml", "continuous_ltm", "basis = 16\nwidths = [0.05, 0.1]")},
                  Budget::kState);
    ASSERT_EQ(sizes.sizes.size(), 1U);
    const ChosenSize& size = sizes.sizes.front();
    EXPECT_EQ(size.after % 2, 0);
    // The other even sizes are no nearer.
    const double each = static_cast<double>(size.budget_before) / 16.0;
    const double miss = static_cast<double>(size.budget_after - sizes.budget);
    EXPECT_LE(std::abs(miss), each + 1.0) << rows;
    EXPECT_EQ(option(1, "basis"), size.after);
  }
}
#endif

#ifdef MNEME_HAS_COMPRESSIVE
// Twice 0 is 0.
TEST_F(EqualBudget, IsReachedFromSizeZero) {
  const Equalized sizes = equalized({cache("a.toml", 64), memory("compressive.toml", "compressive",
                                                                 "rows = 0\ncompressed_rows = 8")},
                                    Budget::kAttention);
  EXPECT_EQ(option(1, "rows"), 56);
  EXPECT_EQ(sizes.sizes.front().budget_after, 64);
}

// What is compressed costs more than the budget already.
TEST_F(EqualBudget, SaysHowFarTheTargetIsMissed) {
  const Equalized sizes = equalized({cache("a.toml", 4), memory("compressive.toml", "compressive",
                                                                "rows = 8\ncompressed_rows = 32")},
                                    Budget::kState);
  EXPECT_THAT(text_of(sizes, Budget::kState),
              AllOf(HasSubstr(" % above the budget, the nearest that it can have"),
                    HasSubstr("; with memory.tier.0.rows = 0 this part of the memory is empty")));
}
#endif

TEST_F(EqualBudget, OfParametersIsReachedByTheFeedForwardWidth) {
  const Equalized sizes =
      equalized({none() + ",model.ff=50", cache("small.toml", 8)}, Budget::kParameters);
  EXPECT_EQ(arms_[1].experiment.model.ff, 50);
  EXPECT_EQ(sizes.sizes.front().budget_after, sizes.budget);
}

// With few hidden units to give up, or many to get, the arm is another model.
TEST_F(EqualBudget, OfParametersWarnsOfAnotherModel) {
  const auto warnings = [&](const std::string& first, const std::string& second) {
    const test::LogCapture log;
    static_cast<void>(equalized(
        {none() + ",model.layers=" + first, cache("cache.toml", 16) + ",model.layers=" + second},
        Budget::kParameters));
    return log.warnings();
  };
  EXPECT_THAT(warnings("1", "3"),
              ElementsAre(AllOf(HasSubstr("cache,layers=3: --equal parameters chose model.ff = "),
                                HasSubstr(" in place of "))));
  EXPECT_THAT(warnings("3", "1"), ElementsAre(HasSubstr("cache,layers=1: ")));
  EXPECT_THAT(warnings("1", "1"), ElementsAre());
}

// The arm's name would say a value that it has not.
TEST_F(EqualBudget, RefusesAnArmThatGivesTheKey) {
  const std::string file = cache("cache.toml", 16);
  EXPECT_EQ(error({file + ",tier.0.rows=8", file + ",tier.0.rows=24"}, Budget::kState),
            "2: cache,rows=24: --equal state chooses memory.tier.0.rows, which a --sweep or a "
            "setting of the arm gives, too: expected one of the two, got memory.tier.0.rows=24; "
            "leave out --equal, or the --sweep or setting of memory.tier.0.rows");
  EXPECT_THAT(error({file, file + ",model.ff=24"}, Budget::kParameters),
              HasSubstr("--equal parameters chooses model.ff"));
  // That of the arm that is the measure stays.
  EXPECT_EQ(error({file + ",tier.0.rows=8", file}, Budget::kState), "no error");
  EXPECT_EQ(option(1, "rows"), 8);
}

TEST_F(EqualBudget, NeedsAMemoryAsTheMeasure) {
  EXPECT_THAT(error({none(), none()}, Budget::kState),
              HasSubstr("2: --equal state: no arm has a memory that could be the measure: expected "
                        "a memory with state among the arms"));
  EXPECT_THAT(error({none()}, Budget::kAttention), HasSubstr("2: --equal attention: no arm has"));
}

TEST_F(EqualBudget, RefusesASizeOfEvaluationsAlone) {
  const std::string file = memory("own.toml", "xl_cache", "rows = 8\neval_rows = 16");
  EXPECT_THAT(
      error({cache("a.toml", 8), file}, Budget::kState),
      HasSubstr("2: own: --equal state chooses rows: the memory file gives evaluations a size of "
                "their own: expected no eval_rows; remove it from " +
                file));
}

TEST_F(EqualBudget, NeedsStateOfKnownBytes) {
  EXPECT_THAT(error({memory("open.toml", "test_faulty", "")}, Budget::kState),
              HasSubstr("2: open: --equal state: the memory does not declare how many bytes its "
                        "state has; mneme plugins describe --in FILE shows which slot or queue"));
}

TEST(Budgets, HaveWords) {
  EXPECT_EQ(parse_budget("attention"), Budget::kAttention);
  EXPECT_THAT(error_of([] { static_cast<void>(parse_budget("bytes")); }),
              HasSubstr("2: --equal: there is no such budget: expected parameters, state, "
                        "attention, got bytes"));
}

}  // namespace
}  // namespace mneme::compare
