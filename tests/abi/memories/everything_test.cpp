// What no other test memory calls: kernels, constants, draws, probes, losses, special slots,
// explicit distances, biases, release, finish.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

struct Outcome {
  LayerPass first, second;
  std::map<std::string, Reported> losses, metrics;
  std::map<std::string, at::Tensor> draws, probes;
};

Outcome run_segment(HookDriver& driver, PlainLayer& layer, uint64_t seed,
                    const std::map<std::string, at::Tensor>* replay = nullptr) {
  Outcome out;
  SegmentInput input{.length = 5};
  input.recorded_draws = &out.draws;
  input.replay_draws = replay;
  input.wanted_probes = {"memory.read"};
  input.probes = &out.probes;
  driver.begin(input);
  const at::Tensor x = random({kLanes, 5, kWidth}, seed);
  out.first = pass_layer(driver, layer, x, 0);
  out.second = pass_layer(driver, layer, 2 * x, 1);
  driver.hooks().finish(x, {x, 2 * x}, {}, {});
  out.losses = driver.hooks().losses();
  out.metrics = driver.hooks().metrics();
  driver.commit();
  return out;
}

const at::Tensor& parameter(HookDriver& driver, const std::string& end) {
  for (const TierParameter& p : driver.stack().parameters()) {
    if (p.name.ends_with(end)) return p.tensor;
  }
  throw std::runtime_error("no parameter " + end);
}

TEST(Everything, KernelEntersTheGraphLikeAnOp) {
  HookDriver driver(manifest("everything", "scale = 2.0"), test_backbone(), test_loader(),
                    Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(1);
  const Outcome out = run_segment(driver, layer, 1);
  // First segment: carried = start = 0.25, so the read adds 2 * shared * 0.25.
  const at::Tensor shared = parameter(driver, "model.shared");
  const at::Tensor start = parameter(driver, ".0.start");
  const at::Tensor added =
      out.first.projected - layer.project(Projector::kOutput, out.first.merged, true);
  EXPECT_LE((added - 2.0 * shared * start).abs().max().item<double>(), 1e-12);
  const auto grads = torch::autograd::grad({out.first.projected.sum()}, {shared, start});
  EXPECT_LE((grads[0] - 2.0 * 5 * kLanes * start).abs().max().item<double>(), 1e-12);
  EXPECT_LE((grads[1] - 2.0 * 5 * kLanes * shared).abs().max().item<double>(), 1e-12);
}

TEST(Everything, SlotFollowsItsRule) {
  HookDriver driver(manifest("everything", "scale = 1.0"), test_backbone(), test_loader(),
                    Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(1);
  run_segment(driver, layer, 1);
  const Outcome out = run_segment(driver, layer, 2);
  const at::Tensor carried = 0.5 * 0.25 + 0.5 * random({kLanes, 5, kWidth}, 1).mean(1);
  const at::Tensor expected = (parameter(driver, "model.shared") * carried).unsqueeze(1);
  const at::Tensor added =
      out.first.projected - layer.project(Projector::kOutput, out.first.merged, true);
  EXPECT_LE((added - expected).abs().max().item<double>(), 1e-12);
}

TEST(Everything, ReportsLossesAndMetricsPerTier) {
  HookDriver driver(manifest("everything", "weight.size = 3.0"), test_backbone(), test_loader(),
                    Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(1);
  const Outcome out = run_segment(driver, layer, 1);
  ASSERT_TRUE(out.losses.contains("0.test.everything.size"));
  const Reported& size = out.losses.at("0.test.everything.size");
  EXPECT_EQ(size.weight, 3.0);
  const at::Tensor product = 0.5 * parameter(driver, "model.shared") * 0.25;
  EXPECT_NEAR(size.value.item<double>(), 2 * product.square().mean().item<double>(), 1e-12)
      << "mean over lanes, sum over the two layers";
  EXPECT_TRUE(size.value.requires_grad());
  ASSERT_TRUE(out.metrics.contains("0.test.everything.noise"));
  EXPECT_FALSE(out.metrics.at("0.test.everything.noise").value.requires_grad());
  EXPECT_TRUE(out.metrics.contains("0.test.everything.top"));
}

// Counts are the state's like any slot: per lane, reset with it, saved with it.
TEST(Everything, CountsBelongToTheState) {
  Stack stack(manifest("everything"), test_backbone(), test_loader());
  PlainLayer layer = test_layer(1);
  StackState state = stack.new_state(Phase::kTraining, kLanes);
  const auto counted = [](const StackState& of) {
    std::vector<int64_t> out;
    for (const auto& [name, tensor] : of.save().tensors) {
      if (!name.ends_with(".0.absorbed")) continue;
      EXPECT_TRUE(tensor.is_cpu());
      for (int64_t b = 0; b < kLanes; ++b) out.push_back(tensor[b].item<int64_t>());
    }
    return out;
  };
  step(stack, state, layer, random({kLanes, 5, kWidth}, 1));
  const auto saved = state.save();
  state.reset({0, 1, 0});
  step(stack, state, layer, random({kLanes, 4, kWidth}, 2));
  EXPECT_THAT(counted(state), testing::ElementsAre(9, 4, 9));
  state.select({1, 0, 1});
  EXPECT_THAT(counted(state), testing::ElementsAre(4, 9, 4));
  StackState restored = stack.restore(Phase::kTraining, kLanes, saved);
  EXPECT_THAT(counted(restored), testing::ElementsAre(5, 5, 5));
  StackState carried = stack.carry(Phase::kTraining, kLanes, saved, config::Carry::kRefuse);
  EXPECT_THAT(counted(carried), testing::ElementsAre(5, 5, 5));
}

TEST(Everything, DrawsAreNamedRecordedAndReplayed) {
  PlainLayer layer = test_layer(1);
  HookDriver a(manifest("everything"), test_backbone(), test_loader(), Phase::kTraining, kLanes);
  const Outcome first = run_segment(a, layer, 1);
  const Outcome second = run_segment(a, layer, 2);
  ASSERT_THAT(first.draws, testing::Contains(testing::Key("0.test.everything.0.noise")));
  ASSERT_THAT(first.draws, testing::Contains(testing::Key("0.test.everything.1.noise")));
  const at::Tensor layer0 = first.draws.at("0.test.everything.0.noise");
  EXPECT_FALSE(at::equal(layer0, first.draws.at("0.test.everything.1.noise")))
      << "layers draw apart";
  EXPECT_FALSE(at::equal(layer0, second.draws.at("0.test.everything.0.noise")))
      << "segments draw apart";
  HookDriver b(manifest("everything"), test_backbone(), test_loader(), Phase::kTraining, kLanes);
  EXPECT_TRUE(at::equal(layer0, run_segment(b, layer, 1).draws.at("0.test.everything.0.noise")))
      << "the same keys draw the same";
  std::map<std::string, at::Tensor> replay = {
      {"0.test.everything.0.noise", torch::full({kLanes, 1}, 0.125, at::kDouble)}};
  HookDriver c(manifest("everything", "layers = [0]"), test_backbone(), test_loader(),
               Phase::kTraining, kLanes);
  const Outcome replayed = run_segment(c, layer, 1, &replay);
  EXPECT_NEAR(replayed.metrics.at("0.test.everything.noise").value.item<double>(), 0.125, 1e-15);
}

TEST(Everything, StepsOfAnOpenSegmentDrawApart) {
  const at::NoGradGuard no_grad;
  PlainLayer layer = test_layer(1);
  HookDriver driver(manifest("everything"), test_backbone(), test_loader(), Phase::kEvaluation,
                    kLanes);
  std::map<std::string, at::Tensor> draws;
  SegmentInput input{.length = 2, .is_open = true};
  input.recorded_draws = &draws;
  driver.begin(input);
  const auto drawn = [&] {
    pass_layer(driver, layer, random({kLanes, 2, kWidth}, 1));
    return draws.at("0.test.everything.0.noise");
  };
  const at::Tensor first = drawn();
  driver.hooks().next_step(2);
  EXPECT_FALSE(at::equal(drawn(), first));
  HookDriver whole(manifest("everything"), test_backbone(), test_loader(), Phase::kEvaluation,
                   kLanes);
  EXPECT_TRUE(at::equal(run_segment(whole, layer, 1).draws.at("0.test.everything.0.noise"), first))
      << "the first step draws what a whole segment does";
}

TEST(Everything, ALaneDrawsTheSameAlone) {
  PlainLayer layer = test_layer(1);
  HookDriver all(manifest("everything"), test_backbone(), test_loader(), Phase::kTraining, kLanes);
  const at::Tensor together = run_segment(all, layer, 1).draws.at("0.test.everything.0.noise");
  HookDriver alone(manifest("everything"), test_backbone(), test_loader(), Phase::kTraining, 1);
  alone.state().set_streams({2});
  std::map<std::string, at::Tensor> draws;
  SegmentInput input{.length = 5};
  input.recorded_draws = &draws;
  alone.begin(input);
  pass_layer(alone, layer, random({1, 5, kWidth}, 1));
  EXPECT_EQ(draws.at("0.test.everything.0.noise").item<double>(), together[2].item<double>());
}

TEST(Everything, PublishesProbesOnlyWhenAsked) {
  HookDriver driver(manifest("everything"), test_backbone(), test_loader(), Phase::kTraining,
                    kLanes);
  PlainLayer layer = test_layer(1);
  EXPECT_EQ(run_segment(driver, layer, 1).probes.size(), 2U);
  driver.begin({.length = 5});
  pass_layer(driver, layer, random({kLanes, 5, kWidth}, 1));
}

TEST(Everything, EmitsItsQueueAtTrueDistances) {
  HookDriver driver(manifest("everything"), test_backbone(), test_loader(), Phase::kTraining,
                    kLanes);
  PlainLayer layer = test_layer(1);
  run_segment(driver, layer, 1);
  driver.state().reset({1, 0, 0});
  driver.begin({.length = 5});
  const LayerContext context = driver.hooks().context(0, random({kLanes, 5, kWidth}, 3), layer);
  ASSERT_EQ(context.rows(), 4);
  ASSERT_EQ(context.blocks.size(), 1u);
  EXPECT_EQ(context.blocks[0].position, PositionKind::kExplicit);
  EXPECT_TRUE(at::equal(context.blocks[0].distance[1], torch::tensor({4, 3, 2, 1}, at::kLong)));
  EXPECT_FALSE(context.blocks[0].rows.valid[0].any().item<bool>())
      << "the reset lane's rows are invalid";
  EXPECT_TRUE(context.blocks[0].rows.valid[1].all().item<bool>());
  EXPECT_EQ(context.blocks[0].rows.counts, (std::vector<int64_t>{0, 4, 4}));
  EXPECT_TRUE(at::equal(context.blocks[0].bias, torch::full({1, 1, 1, 4}, -1.0, at::kDouble)));
  EXPECT_TRUE(context.token_bias.defined());
}

TEST(Everything, FeedsTheNextTierWithWhatItReleases) {
  const std::string tiers =
      "[[memory.tier]]\nplugin = \"test_everything\"\n[[memory.tier]]\nplugin = "
      "\"test_everything\"\n";
  Stack stack(manifest_text(tiers), test_backbone(), test_loader());
  StackState state = stack.new_state(Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(1);
  const LocalAttention local;
  std::vector<at::Tensor> xs;
  for (uint64_t s = 0; s < 2; ++s) {
    SegmentHooks hooks(stack, state, {.length = 5});
    xs.push_back(random({kLanes, 5, kWidth}, s));
    hooks.absorb_after(0, xs.back(), local, layer);
    hooks.commit();
  }
  // The first tier keeps 4 rows; after two segments of 5 the second tier got 1 + 5 rows and keeps 4
  // of them: rows 2 to 5 of the stream.
  SegmentHooks hooks(stack, state, {.length = 5});
  const LayerContext context = hooks.context(0, xs.back(), layer);
  const at::Tensor all = at::cat(xs, 1);
  ASSERT_EQ(context.rows(), 8) << "the farther tier first";
  std::vector<at::Tensor> rows;
  for (const ContextBlock& block : context.blocks) rows.push_back(block.rows.hidden);
  EXPECT_TRUE(at::equal(at::cat(rows, 1), all.narrow(1, 2, 8)));
}

TEST(Everything, AbsorbsThePreviousSegmentWhenBeforeReading) {
  HookDriver driver(manifest("everything", "before = true\nscale = 1.0"), test_backbone(),
                    test_loader(), Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(1);
  const Outcome first = run_segment(driver, layer, 1);
  const Outcome second = run_segment(driver, layer, 2);
  const auto added = [&](const Outcome& o) {
    return (o.first.projected - layer.project(Projector::kOutput, o.first.merged, true))
        .select(1, 0);
  };
  const at::Tensor shared = parameter(driver, "model.shared");
  EXPECT_LE((added(first) - shared * 0.25).abs().max().item<double>(), 1e-12)
      << "nothing waits in the first segment";
  const at::Tensor carried = 0.5 * 0.25 + 0.5 * random({kLanes, 5, kWidth}, 1).mean(1);
  EXPECT_LE((added(second) - shared * carried).abs().max().item<double>(), 1e-12);
  // The write is inside the second segment's graph: its loss trains the start parameter through the
  // slot.
  const auto grads = torch::autograd::grad({added(second).sum()}, {parameter(driver, ".0.start")},
                                           {}, std::nullopt, false, true);
  EXPECT_FALSE(grads[0].defined())
      << "the slot is of gradient stop: the start value was detached when segment 0 was committed";
}

TEST(Everything, UsesTheEvaluationValueInEvaluation) {
  PlainLayer layer = test_layer(1);
  const auto added = [&](Phase phase) {
    HookDriver driver(manifest("everything", "scale = 1.0\neval_scale = 4.0"), test_backbone(),
                      test_loader(), phase, kLanes);
    const Outcome out = run_segment(driver, layer, 1);
    return (out.first.projected - layer.project(Projector::kOutput, out.first.merged, true))
        .detach();
  };
  EXPECT_LE((added(Phase::kEvaluation) - 4 * added(Phase::kTraining)).abs().max().item<double>(),
            1e-12);
}

}  // namespace
}  // namespace mneme::memory
