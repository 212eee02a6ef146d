// Each check of `mneme plugins validate` against a memory that breaks its rule, and no other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/tensor/device.hpp"
#include "host/validate/check.hpp"

namespace mneme::validate {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Whether this process can compute on a CUDA device. Asked before any test: LibTorch looks for CUDA
// once, when something first asks it.
class Cuda : public testing::Environment {
 public:
  void SetUp() override {
#ifdef MNEME_TEST_HAS_CUDA
    if (!tensor::has_cuda_driver()) return;
    try {
      is_open = tensor::open_device("cuda").is_cuda();
    } catch (const Error&) {
      is_open = false;
    }
#endif
  }
  static inline bool is_open = false;
};
[[maybe_unused]] const testing::Environment* const kCuda =
    testing::AddGlobalTestEnvironment(new Cuda);

struct Fault {
  std::string name;   // of the plugin's option `fault`
  std::string check;  // that finds it
  std::vector<std::string> options = {};
};

std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.name; }

constexpr const char* kEveryCheck = "*";

Subject flawed(const std::string& fault, std::vector<std::string> options = {}) {
  options.push_back("fault=" + fault);
  return {.file = MNEME_FLAWED_PLUGINS "/test_flawed.so", .options = std::move(options)};
}

// Those of files and of the entry have plugins of their own (tests/cli/plugins/validate_test.cpp), and
// errors.groups needs a process in which the plugin has not been loaded.
bool is_run_here(std::string_view check) {
  return !check.starts_with("file.") && !check.starts_with("negotiation.") &&
         check != "errors.groups";
}

// The long ones are run where they are to find something; with MNEME_ALL_CHECKS always.
bool is_long(std::string_view check) {
  constexpr std::string_view kLong[] = {"leaks.instances",    "leaks.segments", "errors.hooks",
                                        "state.bounded",      "options.bounds", "model.positions",
                                        "model.heads",        "model.norms",    "replay.trace",
                                        "precision.extremes", "replay.numbers", "segments.lengths"};
  return std::getenv("MNEME_ALL_CHECKS") == nullptr &&
         std::ranges::find(kLong, check) != std::end(kLong);
}

// "check: text" of everything that does not hold, as the program runs them: a check whose
// conditions do not hold is left out. Warnings count where `has_warnings`.
std::vector<std::string> problems_of(const Subject& subject, const std::string& expected,
                                     bool has_warnings = true) {
  const LogListener silence([](LogLevel, std::string_view) { return false; });
  std::vector<std::string> problems;
  std::set<std::string_view> without;
  for (const Check& check : all_checks()) {
    if (!is_run_here(check.name)) continue;
    if (is_long(check.name) && check.name != expected && expected != kEveryCheck) continue;
    const bool is_left_out = std::ranges::any_of(
        check.after, [&](std::string_view name) { return without.contains(name); });
    const Outcome outcome = is_left_out ? Outcome{} : run_check(check, subject);
    const bool is_problem =
        outcome.grade == Grade::kFail || (has_warnings && outcome.grade == Grade::kWarn);
    if (outcome.grade == Grade::kFail || is_left_out) without.insert(check.name);
    if (is_problem) problems.push_back(std::string(check.name) + ": " + outcome.text);
  }
  return problems;
}

TEST(Flawless, MemoryPassesEveryCheck) {
  EXPECT_THAT(problems_of(flawed("none"), kEveryCheck), IsEmpty());
  EXPECT_THAT(problems_of(flawed("none", {"queue=true"}), kEveryCheck), IsEmpty());
}

Outcome outcome_of(std::string_view name, const Subject& subject) {
  return run_check(*std::ranges::find(all_checks(), name, &Check::name), subject);
}

// A parameter, and a kernel's input, whose values lie where the loss bends: differences across the
// kink are no gradient.
TEST(Kinks, AreNoWrongGradients) {
  const Subject subject = flawed("none", {"corner=true"});
  const Outcome outcome = outcome_of("gradients.parameters", subject);
  EXPECT_EQ(outcome.grade, Grade::kPass);
  EXPECT_EQ(outcome.text,
            "4 of 4 parameters compared; the start values of memory.0.test.flawed.0.corner, "
            "memory.0.test.flawed.1.corner lie on a kink: compared on both sides of it");
  for (const char* const name : {"kernels.gradients", "gradients.backbone", "gradients.reach"}) {
    const Outcome other = outcome_of(name, subject);
    EXPECT_EQ(other.grade, Grade::kPass) << name << ": " << other.text;
  }
}

// A parameter that a gate of zeros multiplies is trained from the second update on.
TEST(Reach, CountsWhatTheSecondUpdateTrains) {
  const Outcome outcome = outcome_of("gradients.reach", flawed("behind_the_gate", {"closed=true"}));
  EXPECT_EQ(outcome.grade, Grade::kPass) << outcome.text;
}

// A hook that computes in f32: differences in f64 see its rounding. A right gradient gets a remark, and
// a wrong one fails as it does without.
TEST(Rounding, IsNoWrongGradient) {
  const Outcome right = outcome_of("gradients.parameters", flawed("rounded"));
  EXPECT_EQ(right.grade, Grade::kWarn) << right.text;
  EXPECT_THAT(right.text,
              testing::AllOf(testing::StartsWith("the loss has fewer digits than f64, as where a "
                                                 "hook or a kernel computes in f32: the gradients "
                                                 "of memory.0.test.flawed.0.gate"),
                             testing::HasSubstr(" agree within 1.0e-02 of their norm")));
  const Outcome wrong = outcome_of("gradients.parameters", flawed("rounded_opaque"));
  EXPECT_EQ(wrong.grade, Grade::kFail) << wrong.text;
  EXPECT_THAT(wrong.text, testing::HasSubstr("memory.0.test.flawed.0.gate: off by "));
  EXPECT_THAT(wrong.text, testing::Not(testing::HasSubstr("kink")));
}

// The loss shows it in the segment after it.
TEST(NotFinite, IsNamedWithTheHookAndLayerThatMadeIt) {
  for (const char* const name : {"segments.padding", "segments.lengths", "model.layers"}) {
    const Outcome outcome = outcome_of(name, flawed("not_finite"));
    EXPECT_EQ(outcome.grade, Grade::kFail) << name;
    EXPECT_THAT(outcome.text,
                testing::ContainsRegex("segment 2.*: a loss is not finite; the first thing that is "
                                       "not finite is slot \"mean\" of plugin test.flawed, tier "
                                       "0, hook absorb, layer [01], lane 0"))
        << name;
  }
}

// A slot of places beside the one that keeps its gradient.
TEST(State, InWholeNumbersHidesNoGradient) {
  const Outcome outcome = outcome_of(
      "gradients.state",
      {.file = MNEME_BINARY_DIR "/tests/abi_plugins/test_retention.so", .options = {"own=true"}});
  EXPECT_EQ(outcome.grade, Grade::kPass) << outcome.text;
}

// --set gives an option its value in training: at evaluation it is tried all the same.
TEST(Options, ThatAreGivenAreTriedAtEvaluation) {
  const Outcome tried = outcome_of("options.evaluation", flawed("none", {"decay=0.5"}));
  EXPECT_EQ(tried.grade, Grade::kPass) << tried.text;
  EXPECT_EQ(tried.text, "2 values");
  const std::vector<std::string> problems =
      problems_of(flawed("evaluation_option", {"decay=0.5"}), "options.evaluation");
  EXPECT_THAT(problems, ElementsAre(testing::StartsWith("options.evaluation: ")));
}

TEST(Options, ThatAreAllGivenAreNamedWhereNoneIsTried) {
  const Outcome evaluation = outcome_of("options.evaluation", flawed("none", {"eval_decay=0.5"}));
  EXPECT_EQ(evaluation.grade, Grade::kSkip);
  EXPECT_EQ(evaluation.text, "keeps the value given by --set: eval_decay");
  const Outcome bounds =
      outcome_of("options.bounds", flawed("none", {"queue=false", "closed=false", "corner=false",
                                                   "rows=4", "decay=0.5", "mean=\"plain\""}));
  EXPECT_EQ(bounds.grade, Grade::kSkip);
  EXPECT_EQ(bounds.text,
            "keeps the value given by --set: fault, queue, closed, corner, rows, decay, mean");
}

// --- The memories of this project, and those that tests of the ABI use ---

struct Memory {
  std::string name, file;
  std::vector<std::string> options = {};
};

std::ostream& operator<<(std::ostream& out, const Memory& memory) { return out << memory.name; }

class Memories : public testing::TestWithParam<Memory> {};

TEST_P(Memories, FailNoCheck) {
  const Subject subject{.file = GetParam().file, .options = GetParam().options};
  EXPECT_THAT(problems_of(subject, kEveryCheck, false), IsEmpty());
}

// What is written down of a segment is no empty list, and no use of a memory is left out.
TEST_P(Memories, AreRunAgainInEveryUse) {
  const Subject subject{.file = GetParam().file, .options = GetParam().options};
  for (const char* const name : {"replay.trace", "replay.numbers"}) {
    const Outcome outcome = outcome_of(name, subject);
    EXPECT_EQ(outcome.grade, Grade::kPass) << name << ": " << outcome.text;
    EXPECT_EQ(outcome.text, "") << name;
  }
}

std::vector<Memory> memories() {
  const std::string test = MNEME_BINARY_DIR "/tests/abi_plugins/test_";
  // Those of examples/ have tests of their own, in tests/examples.
  std::vector<Memory> out = {{"riders", test + "riders.so", {"rows=4"}}};
  const auto add = [&](const char* name, const char* plugin, std::vector<std::string> options) {
    out.push_back({name, str(MNEME_PLUGIN_DIR, '/', plugin, ".so"), std::move(options)});
  };
#ifdef MNEME_HAS_XL_CACHE
  add("xl_cache", "xl_cache", {"rows=8"});
#endif
#ifdef MNEME_HAS_COMPRESSIVE
  add("compressive", "compressive", {"rows=8", "compressed_rows=6"});
#endif
#ifdef MNEME_HAS_CONTINUOUS_LTM
  add("continuous_ltm_sticky", "continuous_ltm", {"basis=8", "sticky=true"});
#endif
#ifdef MNEME_HAS_LAMEMO
  add("lamemo", "lamemo", {"rows=8"});
#endif
#ifdef MNEME_HAS_GLA
  add("gla", "gla", {});
#endif
#ifdef MNEME_HAS_MAMBA2
  add("mamba2", "mamba2", {"key_width=4", "value_width=5", "heads=4", "groups=2"});
#endif
#ifdef MNEME_HAS_GATED_DELTANET
  add("gated_deltanet", "gated_deltanet", {"negative_eigenvalues=true"});
#endif
#ifdef MNEME_HAS_KDA
  add("kda", "kda", {"negative_eigenvalues=true"});
#endif
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, Memories, testing::ValuesIn(memories()),
                         [](const auto& test) { return test.param.name; });

// --- One fault after another ---

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, AreFoundByTheirCheckAlone) {
  if (GetParam().check.starts_with("devices.") && !Cuda::is_open)
    GTEST_SKIP() << "no CUDA device, or built without CUDA";
  const std::vector<std::string> problems =
      problems_of(flawed(GetParam().name, GetParam().options), GetParam().check);
  EXPECT_THAT(problems, ElementsAre(testing::StartsWith(GetParam().check + ": ")));
}

const Fault kFaults[] = {
    {"create_fails", "options.run"},
    {"bound", "options.bounds"},
    {"evaluation_option", "options.evaluation"},
    {"kernel_writes_input", "kernels.inputs"},
    {"kernel_uses_unset", "kernels.outputs"},
    {"kernel_shapes", "kernels.infer"},
    {"kernel_wavers", "kernels.repeat"},
    {"kernel_gradient", "kernels.gradients"},
    {"kernel_partial", "kernels.partial"},
    {"kernel_strides", "kernels.strides"},
    {"kernel_absent", "kernels.absent"},
    {"kernel_no_backward", "kernels.no_backward"},
    {"kernel_f32", "kernels.f32"},
    {"positions", "model.positions"},
    {"grouped_keys", "model.grouped_keys"},
    {"heads", "model.heads"},
    {"norms", "model.norms"},
    {"some", "model.layers"},
    {"one_token", "segments.one_token"},
    {"lengths", "segments.lengths"},
    {"long", "segments.long"},
    {"lanes", "segments.lanes"},
    {"f32", "precision.f32"},
    {"bf16", "precision.bf16"},
    {"divides_by_zero", "precision.extremes"},
    {"run_wavers", "runs.repeat"},
    {"by_turns", "runs.by_turns"},
    {"by_turns", "runs.by_turns", {"closed=true"}},
    {"threads", "runs.threads"},
    {"threads", "runs.threads", {"closed=true"}},
    {"values", "runs.values"},
    {"looks_ahead", "causality.tokens"},
    {"padding", "segments.padding"},
    {"lanes_mixed", "lanes.independent"},
    {"lanes_mixed", "lanes.independent", {"closed=true"}},
    {"lane_for_all", "lanes.independent"},
    {"lane_for_all", "lanes.independent", {"closed=true"}},
    {"lanes_turned", "lanes.independent"},
    {"lanes_counted", "lanes.alone"},
    {"rows_unmasked", "lanes.rows"},
    {"queue_unmasked", "lanes.rows", {"queue=true"}},
    {"padding_in_loss", "lanes.padding"},
    {"projections", "evaluation.projections"},
    {"steps", "generation.steps"},
    {"steps", "generation.steps", {"closed=true"}},
    {"counts_segments", "state.reset"},
    {"kept_over_reset", "state.reset_lane"},
    {"nan_in_other_lanes", "state.nan_lane"},
    {"counts_hidden", "replay.trace"},
    {"kernel_armed", "replay.numbers"},
    {"slot_names", "state.save"},
    {"declarations", "state.declared"},
    {"kept_in_order", "state.select"},
    {"unbounded", "state.bounded"},
    {"opaque_read", "gradients.backbone"},
    {"opaque_gate", "gradients.parameters"},
    {"corner_opaque", "gradients.parameters", {"corner=true"}},
    {"corner_kernel", "kernels.gradients", {"corner=true"}},
    {"opaque_absorb", "gradients.state"},
    {"unused_parameter", "gradients.reach"},
    {"unused_parameter", "gradients.reach", {"closed=true"}},
    {"cuda_result", "devices.kernels"},
    {"cuda_stream", "devices.stream"},
    {"cuda_waits", "devices.stream"},
    {"cuda_model", "devices.model"},
    {"swallows_in_create", "errors.create"},
    {"swallows_in_hook", "errors.hooks"},
    {"leaks_instances", "leaks.instances"},
    {"leaks_segments", "leaks.segments"},
    {"many_calls", "speed.calls"},
};
INSTANTIATE_TEST_SUITE_P(All, Faults, testing::ValuesIn(kFaults), [](const auto& test) {
  const bool is_closed = test.param.options == std::vector<std::string>{"closed=true"};
  return test.param.name + (is_closed ? "_behind_a_gate" : "");
});

// A read beyond its input ends the process, which the program reports as a crash.
TEST(FaultsDeathTest, ReadingBeyondAnInputEndsTheProcess) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto& checks = all_checks();
  const auto check = std::ranges::find(checks, "kernels.bounds", &Check::name);
  ASSERT_NE(check, checks.end());
  EXPECT_DEATH(static_cast<void>(run_check(*check, flawed("kernel_reads_beyond"))), "");
}

// Every check is in the list of faults here, in that of tests/cli/plugins/validate_test.cpp or in
// python/tests/memory/test_checking.py.
TEST(AllChecks, HaveAFaultThatTheyFind) {
  std::set<std::string_view> found = {"kernels.bounds", "errors.groups", "options.help",
                                      "file.portable"};
  for (const Fault& fault : kFaults) found.insert(fault.check);
  std::vector<std::string_view> missing;
  for (const Check& check : all_checks()) {
    const bool is_elsewhere = check.name.starts_with("file.") ||
                              check.name.starts_with("negotiation.") ||
                              check.name.starts_with("python.");
    if (!is_elsewhere && !found.contains(check.name)) missing.push_back(check.name);
  }
  EXPECT_THAT(missing, IsEmpty());
  EXPECT_GE(all_checks().size(), 45U);
}

TEST(AllChecks, StandInTheGuideForAuthors) {
  const std::string guide = read_file(MNEME_SOURCE_DIR "/docs/plugin-authoring.md");
  for (const Check& check : all_checks()) {
    const std::string row = str("| `", check.name, "` | ", check.question, " |\n");
    EXPECT_THAT(guide, testing::HasSubstr(row));
  }
}

// A condition stands before what it is a condition of: one job at a time can run them in order.
TEST(AllChecks, StandInAnOrderThatCanBeRun) {
  std::set<std::string_view> before;
  for (const Check& check : all_checks()) {
    for (const std::string_view name : check.after)
      EXPECT_TRUE(before.contains(name)) << check.name << " after " << name;
    EXPECT_TRUE(before.insert(check.name).second) << check.name;
  }
}

}  // namespace
}  // namespace mneme::validate
