// Memories that take turns behind one backbone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/run/sweep.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::fitted;
using test::infini;
using test::small_experiment;
using test::xl_cache;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

config::MemoryConfig memory_of(const std::string& tiers) { return small_experiment(tiers).memory; }

scores::Sums evaluated(run::Runtime& runtime) {
  return runtime.evaluate_split(data::Split::kValid).total;
}

void expect_same(const scores::Sums& a, const scores::Sums& b) {
  EXPECT_EQ(a.nll, b.nll);  // bit for bit
  EXPECT_EQ(a.targets, b.targets);
  EXPECT_EQ(a.correct, b.correct);
}

TEST(Swap, GivesTheNumbersOfARuntimeOfItsOwn) {
  run::Runtime runtime(small_experiment(xl_cache(8)), {});
  static_cast<void>(evaluated(runtime));
  for (const std::string& tiers : {std::string(), xl_cache(14), xl_cache(8)}) {
    SCOPED_TRACE(tiers);
    const run::MemorySwap swap = runtime.swap_memory(memory_of(tiers));
    EXPECT_THAT(swap.reset, IsEmpty());
    run::Runtime alone(small_experiment(tiers), {});
    expect_same(evaluated(runtime), evaluated(alone));
    EXPECT_EQ(runtime.experiment(), alone.experiment());
    ASSERT_EQ(runtime.parameters().size(), alone.parameters().size());
    for (std::size_t i = 0; i < runtime.parameters().size(); ++i) {
      EXPECT_EQ(runtime.parameters()[i].name, alone.parameters()[i].name);
    }
  }
}

TEST(Swap, CarriesTrainedParametersAndRetiresTheOldMemory) {
  run::Runtime runtime(small_experiment(infini()), {});
  {
    const at::NoGradGuard no_grad;
    for (const auto& parameter : runtime.parameters()) at::Tensor(parameter.tensor).mul_(1.5);
  }
  runtime.weights_changed();
  const std::uint64_t version = runtime.stack().weights_version();
  const memory::Stack* const old = &runtime.stack();
  const scores::Sums before = evaluated(runtime);
  const run::MemorySwap swap = runtime.swap_memory(memory_of(infini()));
  EXPECT_EQ(swap.retired.get(), old);
  EXPECT_NE(&runtime.stack(), old);
  EXPECT_GT(runtime.stack().weights_version(), version);
  expect_same(evaluated(runtime), before);
  // A state of the retired memory stays usable while the memory is kept.
  EXPECT_GT(swap.retired->new_state(memory::Phase::kEvaluation, 2).bytes(), 0);
}

TEST(Swap, RefusesOrResetsUntrainedParameters) {
  run::Runtime runtime(small_experiment(xl_cache(8)), {});
  const scores::Sums before = evaluated(runtime);
  config::MemoryConfig next = memory_of(infini());
  EXPECT_THAT(test::error_of([&] { static_cast<void>(runtime.swap_memory(next)); }),
              testing::AllOf(StartsWith("2: memory: parameters of the new memory"),
                             HasSubstr("memory.0.test.infini.0.beta: no parameter has this name"),
                             HasSubstr("memory.carry = \"reset\"")));
  expect_same(evaluated(runtime), before);
  next.carry = config::Carry::kReset;
  const run::MemorySwap swap = runtime.swap_memory(next);
  EXPECT_EQ(swap.reset.size(), 2U);  // one a layer
  run::Runtime alone(small_experiment(infini()), {});
  expect_same(evaluated(runtime), evaluated(alone));
}

// What replaces the attention decides which parameters the layers have.
TEST(Swap, RefusesAMemoryThatReplacesTheAttentionOfOtherLayers) {
  const std::string tier = "[[memory.tier]]\nplugin = \"test_replacing\"\nlayers = [1]\n";
  const std::string failed =
      "2: memory: the new memory needs other weights of the model in layer 1";
  run::Runtime plain(small_experiment(""), {});
  EXPECT_THAT(test::error_of([&] { static_cast<void>(plain.swap_memory(memory_of(tier))); }),
              testing::AllOf(StartsWith(failed), HasSubstr("expected the layer's attention"),
                             HasSubstr("got tier 0.test.replacing in place of the attention"),
                             HasSubstr("train a run with this memory")));
  run::Runtime replaced(small_experiment(tier), {});
  EXPECT_THAT(test::error_of([&] { static_cast<void>(replaced.swap_memory(memory_of(""))); }),
              testing::AllOf(StartsWith(failed), HasSubstr("got the layer's attention")));
  EXPECT_THAT(replaced.swap_memory(memory_of(tier)).reset, IsEmpty());
}

TEST(Swap, RefusesParametersOfAnotherShape) {
  run::Runtime runtime(small_experiment(infini()), {});
  const run::TrainedMemory other{.parameter = [](const std::string&) { return torch::zeros({5}); }};
  EXPECT_THAT(
      test::error_of([&] { static_cast<void>(runtime.swap_memory(memory_of(infini()), other)); }),
      HasSubstr("memory.0.test.infini.0.beta: shape [5] in place of [2]"));
}

TEST(Swap, LeavesTheOldMemoryRunningAfterAFailure) {
  run::Runtime runtime(small_experiment(infini() + xl_cache(8)), {});
  const scores::Sums before = evaluated(runtime);
  const config::Experiment experiment = runtime.experiment();
  const memory::Stack* const stack = &runtime.stack();
  const std::string missing = "[[memory.tier]]\nplugin = \"no_such_plugin\"\n";
  for (const std::string& tiers : {missing, infini() + missing, xl_cache(0),
                                   xl_cache(8, "nonsense = 1"), xl_cache(8, "layers = [7]"),
                                   std::string("[[memory.tier]]\nplugin = \"test_faulty\"\n"
                                               "fault = \"create\"\n")}) {
    SCOPED_TRACE(tiers);
    config::MemoryConfig memory = small_experiment(xl_cache(8)).memory;
    memory.tiers = config::parse_experiment_text(
                       "[model]\nlayers = 8\n[data]\ntask = \"motif\"\n[train]\nsteps = 1\n"
                       "[memory]\nplugins = [\"x\"]\n" +
                           tiers,
                       "next.toml")
                       .memory.tiers;
    const auto text = test::error_of([&] { static_cast<void>(runtime.swap_memory(memory)); });
    EXPECT_NE(text, "no error");
    EXPECT_EQ(&runtime.stack(), stack);
    EXPECT_EQ(runtime.experiment(), experiment);
    expect_same(evaluated(runtime), before);
  }
}

// The names, shapes and plugin agree; what the parameters mean does not.
TEST(Swap, RefusesOrResetsTiersWithOtherTrainedOptions) {
  run::Runtime runtime(small_experiment(fitted() + infini()), {});
  {
    const at::NoGradGuard no_grad;
    for (const auto& parameter : runtime.parameters()) at::Tensor(parameter.tensor).mul_(1.5);
  }
  runtime.weights_changed();
  const scores::Sums before = evaluated(runtime);
  config::MemoryConfig next = memory_of(fitted("tau = 0.75\nscale = 2.0") + infini());
  EXPECT_THAT(
      test::error_of([&] { static_cast<void>(runtime.swap_memory(next)); }),
      testing::AllOf(StartsWith("2: memory: the memory was trained with other options"),
                     HasSubstr("tier 0.test.fitted: tau = 0.75, trained with 0.5\n"),
                     HasSubstr("memory.carry = \"reset\""), testing::Not(HasSubstr("scale"))));
  expect_same(evaluated(runtime), before);

  next.carry = config::Carry::kReset;
  EXPECT_THAT(runtime.swap_memory(next).reset,
              ElementsAre("memory.0.test.fitted.0.gain: tau = 0.75, trained with 0.5",
                          "memory.0.test.fitted.1.gain: tau = 0.75, trained with 0.5"));
  for (const memory::TierParameter& parameter : runtime.stack().parameters()) {
    const double expected = parameter.tier == "0.test.fitted" ? 1.0 : 0.75;  // infini's are 0.5
    EXPECT_TRUE(parameter.tensor.eq(expected).all().item<bool>()) << parameter.name;
  }
  // The options of the memory that runs count, given or not.
  EXPECT_THAT(test::error_of([&] {
                static_cast<void>(runtime.swap_memory(memory_of(fitted("tau = 0.5") + infini())));
              }),
              HasSubstr("tau = 0.5, trained with 0.75"));
  EXPECT_THAT(runtime.swap_memory(memory_of(fitted("tau = 0.75") + infini())).reset, IsEmpty());
}

// A run in a folder, and its checkpoint.
class SweepTest : public testing::Test {
 protected:
  // Trains two steps and saves.
  run::Checkpoint trained(const std::string& tiers) {
    experiment_ = small_experiment(tiers);
    Trainer trainer(experiment_);
    trainer.train_step();
    trainer.train_step();
    trainer.save(folder_ / "checkpoint.safetensors");
    options_.dataset = trainer.runtime().dataset();
    return run::Checkpoint::open(folder_ / "checkpoint.safetensors");
  }
  // In a separate runtime, as in a separate process.
  scores::Sums alone(const run::Checkpoint& checkpoint, const config::MemoryConfig& memory) const {
    run::Runtime runtime(config::with_memory(experiment_, memory), options_);
    static_cast<void>(checkpoint.load_weights(runtime, memory.carry));
    return evaluated(runtime);
  }
  static run::SweepResult evaluate(run::Sweep& sweep, const std::string& name,
                                   const config::MemoryConfig& memory) {
    return sweep.evaluate_memory({name, memory}, data::Split::kValid,
                                 [](run::Runtime&) { return eval::Options{}; });
  }

  test::TemporaryFolder folder_;
  config::Experiment experiment_;
  run::RuntimeOptions options_;
};

TEST_F(SweepTest, GivesTheNumbersOfSeparateRuntimes) {
  const run::Checkpoint checkpoint = trained(infini() + xl_cache(8));
  config::MemoryConfig reset = memory_of(xl_cache(12) + infini());  // other places: other names
  reset.carry = config::Carry::kReset;
  const std::vector<config::MemoryConfig> memories = {memory_of(infini() + xl_cache(8)),
                                                      memory_of(""), reset, memory_of(infini()),
                                                      memory_of(infini() + xl_cache(8))};
  run::Sweep sweep(checkpoint, experiment_, options_);
  for (const config::MemoryConfig& memory : memories) {
    const run::SweepResult result = evaluate(sweep, "x", memory);
    ASSERT_TRUE(result.result.has_value()) << result.error->what();
    expect_same(result.result->total, alone(checkpoint, memory));
    EXPECT_EQ(result.reset.size(), memory.carry == config::Carry::kReset ? 2U : 0U);
    EXPECT_EQ(result.plugins.size(), memory.tiers.size());
  }
}

// Of the memories of one sweep, each is held against the checkpoint, whatever ran before it.
TEST_F(SweepTest, HoldsTrainedOptionsAgainstTheCheckpoint) {
  const run::Checkpoint checkpoint = trained(fitted("widths = [2]"));
  const config::MemoryConfig same = memory_of(fitted("widths = [2.0]\nspare = true"));
  const config::MemoryConfig other = memory_of(fitted("tau = 0.75\nwidths = [2]"));
  config::MemoryConfig reset = other;
  reset.carry = config::Carry::kReset;
  const std::string refusal = "tier 0.test.fitted: tau = 0.75, trained with 0.5";
  run::Sweep sweep(checkpoint, experiment_, options_);
  for (const config::MemoryConfig& memory : {other, same, other, reset, other, same, reset}) {
    const run::SweepResult result = evaluate(sweep, "x", memory);
    if (memory == other) {
      ASSERT_TRUE(result.error.has_value());
      EXPECT_THAT(result.error->what(), HasSubstr(refusal));
      continue;
    }
    ASSERT_TRUE(result.result.has_value()) << result.error->what();
    expect_same(result.result->total, alone(checkpoint, memory));
    EXPECT_EQ(result.reset.size(), memory == reset ? 2U : 0U);
  }
}

// Groups of learning rates that name the trained memory do not keep another one from evaluation.
TEST_F(SweepTest, HasNoUseForParameterGroups) {
  const run::Checkpoint checkpoint = trained(infini());
  experiment_.train.groups = {{.parameters = {"memory.0.*"}, .lr = 1e-3}};
  run::Sweep sweep(checkpoint, experiment_, options_);
  EXPECT_TRUE(evaluate(sweep, "none", memory_of("")).result.has_value());
  EXPECT_TRUE(evaluate(sweep, "infini", memory_of(infini())).result.has_value());
}

TEST_F(SweepTest, GoesOnAfterAFailure) {
  const run::Checkpoint checkpoint = trained(xl_cache(8));
  const config::MemoryConfig good = memory_of(xl_cache(8));
  const config::MemoryConfig bad = memory_of("[[memory.tier]]\nplugin = \"no_such_plugin\"\n");
  run::Sweep sweep(checkpoint, experiment_, options_);
  const run::SweepResult first = evaluate(sweep, "bad", bad);  // even before anything runs
  ASSERT_TRUE(first.error.has_value());
  EXPECT_EQ(first.error->kind(), ErrorKind::kPlugin);
  EXPECT_FALSE(first.result.has_value());
  EXPECT_THAT(first.plugins, IsEmpty());
  const run::SweepResult a = evaluate(sweep, "good", good);
  const run::SweepResult b = evaluate(sweep, "bad", bad);
  const run::SweepResult c = evaluate(sweep, "good", good);
  ASSERT_TRUE(a.result && c.result);
  EXPECT_THAT(std::string(b.error->what()), HasSubstr("no_such_plugin"));
  expect_same(a.result->total, c.result->total);
}

TEST_F(SweepTest, SaysWhatToLowerWhenMemoryRunsOut) {
  const run::Checkpoint checkpoint = trained("");
  run::Sweep sweep(checkpoint, experiment_, options_);
  const auto failing = [&](const auto& error) {
    const run::SweepResult result =
        sweep.evaluate_memory({"x", memory_of("")}, data::Split::kValid,
                              [&](run::Runtime&) -> eval::Options { throw error; });
    return std::string(result.error->what());
  };
  EXPECT_THAT(failing(std::bad_alloc()),
              testing::AllOf(StartsWith("evaluation: out of memory"),
                             HasSubstr("lower eval.lanes, eval.segment")));
  EXPECT_EQ(failing(std::runtime_error("odd\nbacktrace")), "evaluation: odd");
  EXPECT_TRUE(evaluate(sweep, "x", memory_of("")).result.has_value());
}

TEST_F(SweepTest, ExtrapolatesByMultiplesOfTheSegment) {
  const run::Checkpoint checkpoint = trained(infini() + xl_cache(8));
  const run::SweepMemory base{"run", memory_of(infini() + xl_cache(8))};
  run::Sweep sweep(checkpoint, experiment_, options_);
  static_cast<void>(sweep.load(base.memory));
  const run::SizeOption option = run::find_size_option(sweep.runtime().stack(), "rows");
  EXPECT_EQ(option.tier, 1U);
  const std::vector<run::SweepMemory> sizes = run::extrapolate(base, option, 6, 3);
  std::vector<std::string> names;
  for (const run::SweepMemory& size : sizes) names.push_back(size.name);
  EXPECT_THAT(names, ElementsAre("run, rows = 6", "run, rows = 12", "run, rows = 18"));
  for (std::size_t m = 0; m < sizes.size(); ++m) {
    const std::string rows = str(6 * (m + 1));
    const run::SweepResult result = evaluate(sweep, sizes[m].name, sizes[m].memory);
    ASSERT_TRUE(result.result.has_value()) << result.error->what();
    EXPECT_EQ(str(result.result->protocol.context_rows), rows);
    // The same as a memory file that says eval_rows.
    expect_same(result.result->total,
                alone(checkpoint, memory_of(infini() + xl_cache(8, "eval_rows = " + rows))));
  }
}

TEST_F(SweepTest, SaysWhichSizesThereAre) {
  run::Runtime runtime(small_experiment(infini() + xl_cache(8)), {});
  EXPECT_THAT(
      test::error_of([&] { static_cast<void>(run::find_size_option(runtime.stack(), "row")); }),
      testing::AllOf(StartsWith("2: extrapolation: no tier has an integer option \"row\""),
                     HasSubstr("did you mean \"rows\"")));
  run::Runtime none(small_experiment(), {});
  EXPECT_THAT(
      test::error_of([&] { static_cast<void>(run::find_size_option(none.stack(), "rows")); }),
      HasSubstr("a memory without tiers"));
}

TEST(DistinctNames, NumbersEqualNames) {
  EXPECT_THAT(distinct_names({"a", "b", "a", "a"}), ElementsAre("a", "b", "a#2", "a#3"));
}

}  // namespace
}  // namespace mneme::train
