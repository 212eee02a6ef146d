// Numbers that are not finite are laid at the door of the hook that gave them; parameters that no
// gradient reaches are said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/log.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using test::small_experiment;
using test::xl_cache;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string unfinite(const std::string& options) {
  return "[[memory.tier]]\nplugin = \"test_unfinite\"\n" + options + "\n";
}

std::string gives(const std::string& what, int layer = 1, int from = 0) {
  return unfinite(str("gives = \"", what, "\"\nlayer = ", layer, "\nfrom = ", from));
}

// The error of the first steps.
std::string training_error(const std::string& memory,
                           const std::vector<std::string>& overrides = {}) {
  Trainer trainer(small_experiment(memory, overrides));
  return error_of([&] {
    for (int step = 0; step < 4; ++step) trainer.train_step();
  });
}

std::string hook(const std::string& name, int layer) {
  return str(" of plugin test.unfinite, tier 0, hook ", name, ", layer ", layer, ", lane 0");
}

struct Case {
  std::string gives;
  int layer;
  std::string first;
};

class NotFiniteHooks : public testing::TestWithParam<Case> {};

TEST_P(NotFiniteHooks, AreNamedInPlaceOfTheLayer) {
  const Case& one = GetParam();
  const std::string error = training_error(gives(one.gives, one.layer));
  EXPECT_THAT(error, StartsWith("1: step 1: the training reached numbers that are not finite"));
  EXPECT_THAT(error, HasSubstr("the first thing that is not finite is " + one.first));
  EXPECT_THAT(error, HasSubstr(", segment 1 of the step"));
  EXPECT_THAT(error, AllOf(HasSubstr("all inputs of the plugin were finite: correct the plugin"),
                           Not(HasSubstr("attention block"))));
}

INSTANTIATE_TEST_SUITE_P(
    All, NotFiniteHooks,
    testing::Values(
        Case{"read", 1, "result" + hook("read", 1)}, Case{"gate", 0, "gate" + hook("read", 0)},
        Case{"lse", 1, "lse" + hook("read", 1)},
        Case{"rows", 1, "rows of a context block" + hook("context", 1)},
        Case{"bias", 0, "bias of a context block" + hook("context", 0)},
        Case{"token_bias", 1, "token bias" + hook("context", 1)},
        Case{"riders", 0, "riders of plugin test.unfinite, tier 0, hook begin, lane 0"},
        Case{"ride", 0, "result" + hook("ride", 0)},
        Case{"kernel", 1,
             "output 0 of kernel pass of plugin test.unfinite, tier 0, hook read, layer 1"},
        Case{"aux", 1,
             "auxiliary loss \"size\" of plugin test.unfinite, tier 0, hook absorb, layer 1"}),
    [](const auto& test) { return test.param.gives; });

// What one segment writes another one reads, in the same step or the next.
TEST(NotFinite, NamesWhatAnEarlierSegmentWrote) {
  EXPECT_THAT(training_error(gives("slot", 1, 1)),
              AllOf(StartsWith("1: step 3: "),
                    HasSubstr("not finite is the memory's state 0.test.unfinite.1.mean, written by "
                              "an earlier segment")));
  const std::vector<std::string> two = {"train.bptt_segments=2"};
  EXPECT_THAT(training_error(gives("slot", 1, 2), two),
              AllOf(StartsWith("1: step 2: "), HasSubstr("slot \"mean\"" + hook("absorb", 1)),
                    HasSubstr("segment 1 of the step")));
  EXPECT_THAT(training_error(gives("queue", 0, 2), two),
              HasSubstr("queue \"kept\"" + hook("absorb", 0)));
  EXPECT_THAT(training_error(gives("released", 1, 2) + xl_cache(8), two),
              HasSubstr("released rows" + hook("absorb", 1)));
}

TEST(NotFinite, NamesTheKernelWhoseGradientIsNot) {
  const std::string error = training_error(gives("gradient"));
  EXPECT_THAT(error, AllOf(StartsWith("1: step 1: "), HasSubstr("its forward passes are finite"),
                           HasSubstr("the first thing that is not finite is gradient 0 of kernel "
                                     "pass of plugin test.unfinite, tier 0, hook read, layer 1, "
                                     "backward")));
}

// A plugin whose inputs are not finite is not named.
TEST(NotFinite, NamesTheLayerWhereAPluginOnlyPassesItOn) {
  Trainer trainer(small_experiment(unfinite("")));
  for (const optim::TrainableParameter& parameter : trainer.runtime().parameters()) {
    const at::NoGradGuard no_grad;
    if (parameter.name == "model.layers.0.ff.in.bias") at::Tensor(parameter.tensor).fill_(1e200);
    if (parameter.name == "model.layers.0.ff.out.weight") at::Tensor(parameter.tensor).fill_(1e200);
  }
  trainer.runtime().weights_changed();
  EXPECT_THAT(
      error_of([&] { trainer.train_step(); }),
      HasSubstr("not finite is layer 0 (from 0), output of the feed-forward block, lane 0"));
}

TEST(NotFinite, AnAuxiliaryLossWithoutGradientStopsTheTraining) {
  const std::string error = training_error(gives("constant_aux", 1, 1));
  EXPECT_THAT(error,
              AllOf(StartsWith("1: step 2: "),
                    HasSubstr("the auxiliary loss 0.test.unfinite.constant is nan; the first "
                              "thing that is not finite is auxiliary loss \"constant\" of "
                              "plugin test.unfinite, tier 0, hook absorb, layer 1")));
}

TEST(NotFinite, EvaluationNamesTheHookToo) {
  const auto error = [](const std::string& memory) {
    run::Runtime runtime(small_experiment(memory), {});
    return error_of([&] { static_cast<void>(runtime.evaluate_split(data::Split::kTest)); });
  };
  EXPECT_THAT(error(gives("read")),
              AllOf(StartsWith("1: segment 0, lane 0, place 0: the loss of a token is not finite"),
                    HasSubstr("the first thing that is not finite is result" + hook("read", 1))));
  EXPECT_THAT(error(gives("constant_aux", 1, 1)),
              AllOf(StartsWith("1: segment 1: the auxiliary loss 0.test.unfinite.constant is not "
                               "finite"),
                    HasSubstr("hook absorb, layer 1")));
  EXPECT_EQ(error(unfinite("")), "no error");
}

// Warnings of a training of eight steps that logs every second one.
std::vector<std::string> warnings_of(const std::string& memory,
                                     const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> said;
  const LogListener listener([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarning) said.emplace_back(line);
    return false;
  });
  Trainer trainer(small_experiment(memory, overrides));
  trainer.train();
  return said;
}

TEST(Untrained, IsSaidOnceWithTheFirstLineOfTheLogFromStepTenOn) {
  EXPECT_THAT(warnings_of(unfinite("idle = true")),
              ElementsAre("tier 0.test.unfinite: no gradient has reached 2 of its parameters in 8 "
                          "steps, they keep their first values: memory.0.test.unfinite.0.idle, "
                          "memory.0.test.unfinite.1.idle"));
  EXPECT_THAT(warnings_of(unfinite("idle = true"), {"train.log_every=0"}),
              ElementsAre(HasSubstr("in 8 steps")));
  EXPECT_THAT(warnings_of(unfinite("idle = true"), {"train.log_every=4", "train.steps=20"}),
              ElementsAre(HasSubstr("in 12 steps")));
}

TEST(Untrained, IsNotWhatIsTrainedOrFrozen) {
  EXPECT_THAT(warnings_of(unfinite("")), IsEmpty());
  EXPECT_THAT(warnings_of(xl_cache(8)), IsEmpty());
  // What it reads is empty in the first step.
  EXPECT_THAT(warnings_of(test::infini(), {"train.log_every=1"}), IsEmpty());
  EXPECT_THAT(warnings_of(unfinite("idle = true\nlr = 0.0")), IsEmpty());
}

}  // namespace
}  // namespace mneme::train
