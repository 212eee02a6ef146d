// The checks of a run's memory, with test plugins that break a rule each (tests/validate/plugins).
#include "host/checks/memory_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "host/base/text.hpp"
#include "host/scores/memory_checks.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::checks {
namespace {

using scores::CheckResult;
using scores::MemoryCheck;
using scores::MemoryChecks;
using testing::HasSubstr;

constexpr const char* kModel = R"(
[model]
layers = 2
heads = 2
head_width = 8
width = 16
ff = 24
dropout = 0.1
[data]
task = "motif"
alphabet = 8
period_min = 3
period_max = 11
[train]
segment = 6
lanes = 4
steps = 8
)";

config::Experiment experiment(const std::string& tier, const std::string& more = "") {
  return config::parse_experiment_text(
      str(kModel, more, "[memory]\nplugins = [\"", MNEME_PLUGIN_DIR, "\", \"", MNEME_BINARY_DIR,
          "/tests/flawed_plugins\"]\n", tier),
      "arm.toml", ".", {});
}

std::string flawed(const std::string& fault) {
  return str("[[memory.tier]]\nplugin = \"test_flawed\"\nfault = \"", fault, "\"\n");
}

const MemoryCheck& of(const MemoryChecks& checks, const std::string& name) {
  const auto found = std::ranges::find(checks.checks, name, &MemoryCheck::name);
  EXPECT_NE(found, checks.checks.end()) << name;
  return *found;
}

void expect_all_hold(const MemoryChecks& checks) {
  EXPECT_TRUE(checks.is_complete());
  EXPECT_FALSE(checks.has_failed());
  for (const MemoryCheck& one : checks.checks) {
    EXPECT_EQ(one.result, CheckResult::kHolds) << one.name << ": " << one.text;
  }
}

TEST(CheckUntrained, HoldsOfMemoriesThatBreakNoRule) {
  expect_all_hold(check_untrained(experiment("")));
  expect_all_hold(check_untrained(experiment(flawed("none"))));
#ifdef MNEME_HAS_XL_CACHE
  expect_all_hold(
      check_untrained(experiment("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 16\n")));
#endif
#ifdef MNEME_HAS_COMPRESSIVE
  expect_all_hold(check_untrained(
      experiment("[[memory.tier]]\nplugin = \"compressive\"\nrows = 8\ncompressed_rows = 6\n")));
#endif
#ifdef MNEME_HAS_CONTINUOUS_LTM
  expect_all_hold(check_untrained(
      experiment("[[memory.tier]]\nplugin = \"continuous_ltm\"\nbasis = 8\nsticky = true\n")));
#endif
#ifdef MNEME_HAS_LAMEMO
  expect_all_hold(check_untrained(
      experiment("[[memory.tier]]\nplugin = \"lamemo\"\nrows = 8\nsigned_ablation = true\n")));
#endif
}

struct Fault {
  const char* name;
  const char* check;
  const char* words;
};

// One memory breaks one rule: the others hold.
TEST(CheckUntrained, NamesTheRuleThatAMemoryBreaks) {
  for (const Fault& fault :
       {Fault{"looks_ahead", "causality", "not causal"},
        Fault{"kept_over_reset", "reset", "keeps state over a reset"},
        Fault{"lanes_mixed", "lanes", "lanes touch"}, Fault{"lane_for_all", "lanes", "lanes touch"},
        Fault{"lanes_turned", "lanes", "lanes touch"}}) {
    SCOPED_TRACE(fault.name);
    const MemoryChecks checks = check_untrained(experiment(flawed(fault.name)));
    EXPECT_TRUE(checks.is_complete());
    EXPECT_THAT(checks.faults(), HasSubstr(fault.words));
    EXPECT_EQ(of(checks, fault.check).result, CheckResult::kFails);
    EXPECT_THAT(of(checks, fault.check).text, HasSubstr("in training"));
    // Lanes that touch break the reset of a lane, too.
    EXPECT_THAT(join(scores::warnings(checks), "\n"), HasSubstr(fault.words));
  }
}

// The second tier is at fault: the whole stack is what is checked.
#ifdef MNEME_HAS_XL_CACHE
TEST(CheckUntrained, ReadsTheWholeStack) {
  const MemoryChecks checks = check_untrained(
      experiment("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 16\n" + flawed("looks_ahead")));
  EXPECT_EQ(checks.faults(), "not causal");
}
#endif

TEST(CheckUntrained, SaysWhyNothingWasChecked) {
  const MemoryChecks checks = check_untrained(experiment("[[memory.tier]]\nplugin = \"absent\"\n"));
  EXPECT_FALSE(checks.is_complete());
  EXPECT_FALSE(checks.has_failed());
  ASSERT_EQ(checks.checks.size(), 3U);
  EXPECT_THAT(checks.checks[0].text, HasSubstr("absent"));
  ASSERT_EQ(scores::warnings(checks).size(), 1U);
  EXPECT_THAT(scores::warnings(checks)[0],
              HasSubstr("its memory was not checked for causality, reset, lanes"));
}

// A gate that starts closed hides the leak until it was trained.
TEST(CheckTrained, FindsWhatOnlyTrainedWeightsShow) {
  const config::Experiment arm = experiment(flawed("looks_ahead_when_trained"));
  expect_all_hold(check_untrained(arm));
  const run::Runtime runtime(arm, {});
  expect_all_hold(check_trained(runtime, 0));
  for (const memory::TierParameter& parameter : runtime.stack().parameters()) {
    if (!parameter.name.ends_with("later")) continue;
    const at::NoGradGuard no_grad;
    at::Tensor(parameter.tensor).fill_(1e-3);
  }
  const MemoryChecks checks = check_trained(runtime, 8);
  EXPECT_EQ(checks.step, 8);
  EXPECT_EQ(checks.faults(), "not causal");
  EXPECT_THAT(scores::warnings(checks).at(0), HasSubstr("(with the weights of step 8)"));
}

// Texts are read again where they are shorter than what the checks read.
TEST(CheckTrained, ReadsShortTexts) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += static_cast<char>('a' + i * i % 7);
  const std::string file = folder.write("text.txt", text).string();
  std::string arm = str(kModel, "[memory]\n");
  const std::size_t data = arm.find("[data]"), train = arm.find("[train]");
  arm.replace(data, train - data,
              str("[data]\ntask = \"text\"\nvocabulary = \"byte\"\ntrain = \"", file,
                  "\"\nvalid = \"", file, "\"\n"));
  const run::Runtime runtime(config::parse_experiment_text(arm, "arm.toml", ".", {}), {});
  expect_all_hold(check_trained(runtime, 1));
}

TEST(CheckTrained, SaysThatWeightsAreNotFinite) {
  const run::Runtime runtime(experiment(flawed("none")), {});
  {
    const at::NoGradGuard no_grad;
    at::Tensor(runtime.model().parameters().front().tensor).fill_(NAN);
  }
  const MemoryChecks checks = check_trained(runtime, 8);
  EXPECT_FALSE(checks.is_complete());
  EXPECT_THAT(checks.checks.at(0).text, HasSubstr("its losses are not finite"));
}

// What a run's folder keeps reads back.
TEST(RunChecks, ReadBackAsTheyWereWritten) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(scores::read_run_checks(folder.path()).before);
  scores::RunChecks stored;
  stored.after =
      MemoryChecks{.step = 7,
                   .parameters = 12,
                   .checks = {{.name = "causality", .result = CheckResult::kFails, .text = "a\xff"},
                              {.name = "reset", .result = CheckResult::kNotChecked, .text = "why"},
                              {.name = "lanes"}}};
  scores::write_run_checks(folder.path(), stored);
  const scores::RunChecks read = scores::read_run_checks(folder.path());
  EXPECT_FALSE(read.before);
  ASSERT_TRUE(read.after);
  EXPECT_EQ(read.after->step, 7);
  EXPECT_EQ(read.after->faults(), "not causal");
  EXPECT_FALSE(read.after->is_complete());
  EXPECT_EQ(of(*read.after, "lanes").result, CheckResult::kHolds);
  folder.write("checks.json", "{\"format\": \"mneme-checks\", \"after\": {\"step\": \"x\"}}");
  EXPECT_FALSE(scores::read_run_checks(folder.path()).after);  // damaged: not checked
}

}  // namespace
}  // namespace mneme::checks
