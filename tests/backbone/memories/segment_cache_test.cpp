// The backbone with a real segment cache: properties that hold whatever the weights are.
#include <gtest/gtest.h>

#include "host/backbone/model.hpp"
#include "host/eval/run_segment.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/plugin/loader.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

config::MemoryConfig cache_of(int64_t rows) {
  config::MemoryConfig memory;
  memory.plugins = {MNEME_PLUGIN_DIR};
  memory.tiers.resize(1);
  config::TierConfig& tier = memory.tiers[0];
  tier.plugin = "xl_cache";
  tier.options = config::Value::table({}, "memory.tier.0");
  tier.options.set("rows", {}, config::Value::integer(rows, {}, "memory.tier.0.rows"));
  tier.eval_options = config::Value::table({}, "memory.tier.0");
  return memory;
}

config::ModelConfig model_config(config::Norm norm) {
  config::ModelConfig c = small_config();
  c.norm = norm;
  c.init = config::Init::kArticle;
  return c;
}

std::vector<NamedConfig> cached_models() {
  std::vector<NamedConfig> out = {{"post", model_config(config::Norm::kPost)},
                                  {"pre", model_config(config::Norm::kPre)}};
  for (const NamedConfig& one : small_decoders()) {
    // Learned positions begin anew in every segment, so cuts matter.
    if (one.model.position != config::PositionScheme::kLearned) out.push_back(one);
  }
  out.push_back(small_gemma());
  return out;
}

// A model, its memory and one run.
struct CachedRun {
  config::ModelConfig config;
  std::unique_ptr<Model> model;
  plugin::PluginLoader loader = memory::make_loader();
  memory::Stack stack;
  memory::StackState state;

  CachedRun(const config::ModelConfig& c, int64_t rows, int64_t lanes)
      : config(c),
        model(make_model(c, small_setup())),
        stack(cache_of(rows), backbone_info(c, small_setup()), loader),
        state(stack.new_state(memory::Phase::kEvaluation, lanes)) {
    model->train(false);
  }

  // The losses of ids [B,n+1], cut into segments of `lengths`; without gradient projections are
  // kept.
  at::Tensor losses(const at::Tensor& ids, const std::vector<int64_t>& lengths,
                    bool has_grad = false) {
    const at::AutoGradMode grad(has_grad);
    std::vector<at::Tensor> out;
    int64_t from = 0;
    for (const int64_t n : lengths) {
      const Batch batch{ids.narrow(1, from, n), ids.narrow(1, from + 1, n), {}};
      out.push_back(eval::run_segment(*model, stack, state, batch).nll.detach());
      from += n;
    }
    return at::cat(out, 1);
  }
};

class SegmentCache : public testing::TestWithParam<NamedConfig> {};

TEST_P(SegmentCache, KeptProjectionsGiveTheLossesOfFreshOnes) {
  const at::Tensor ids = random_ids(1, 3, 31, 11);
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{6, 6, 6, 6, 6}, std::vector<int64_t>{4, 6, 1, 1, 5, 6, 2, 5}}) {
    CachedRun kept(GetParam().model, 9, 3), fresh(GetParam().model, 9, 3);
    const at::Tensor expected = fresh.losses(ids, lengths, true);
    EXPECT_LT(largest_difference(kept.losses(ids, lengths), expected), 1e-12);
    EXPECT_GT(kept.state.cached_projection_bytes(), 0);
    EXPECT_EQ(fresh.state.cached_projection_bytes(), 0);
  }
}

TEST_P(SegmentCache, ProjectionsOfOldWeightsAreMadeAgain) {
  const at::Tensor ids = random_ids(2, 2, 13, 11);
  CachedRun kept(GetParam().model, 9, 2), fresh(GetParam().model, 9, 2);
  for (CachedRun* session : {&kept, &fresh}) {
    session->losses(ids.narrow(1, 0, 7), {6}, session == &fresh);
    const at::NoGradGuard no_grad;
    for (const Parameter& p : session->model->parameters()) at::Tensor(p.tensor).mul_(1.5);
    session->stack.weights_changed();
    session->model->weights_changed();
  }
  EXPECT_LT(largest_difference(kept.losses(ids.narrow(1, 6, 7), {6}),
                               fresh.losses(ids.narrow(1, 6, 7), {6}, true)),
            1e-12);
}

TEST_P(SegmentCache, CutsDoNotMatterWhileNothingIsDropped) {
  const at::Tensor ids = random_ids(3, 2, 13, 11);
  const auto losses = [&](const std::vector<int64_t>& lengths, bool has_grad) {
    return CachedRun(GetParam().model, 32, 2).losses(ids, lengths, has_grad);
  };
  const at::Tensor whole = losses({6, 6}, false);
  EXPECT_LT(largest_difference(losses(std::vector<int64_t>(12, 1), false), whole), 1e-12);
  EXPECT_LT(largest_difference(losses({1, 5, 3, 3}, false), whole), 1e-12);
  EXPECT_LT(largest_difference(losses({2, 6, 4}, true), whole), 1e-12);
}

TEST_P(SegmentCache, LanesDoNotInfluenceEachOther) {
  const at::Tensor ids = random_ids(4, 3, 19, 11);
  const at::Tensor all = CachedRun(GetParam().model, 9, 3).losses(ids, {6, 6, 6});
  for (int64_t lane = 0; lane < 3; ++lane) {
    const at::Tensor alone =
        CachedRun(GetParam().model, 9, 1).losses(ids.narrow(0, lane, 1), {6, 6, 6});
    EXPECT_LT(largest_difference(alone, all.narrow(0, lane, 1)), 1e-12);
  }
}

TEST_P(SegmentCache, ResetLaneEqualsAFreshOneAndLeavesTheOthers) {
  const at::Tensor ids = random_ids(5, 2, 19, 11);
  CachedRun session(GetParam().model, 9, 2);
  session.losses(ids.narrow(1, 0, 7), {6});
  session.state.reset({0, 1});
  const at::Tensor after = session.losses(ids.narrow(1, 6, 13), {6, 6});
  const at::Tensor undisturbed =
      CachedRun(GetParam().model, 9, 2).losses(ids, {6, 6, 6}).narrow(1, 6, 12);
  const at::Tensor fresh =
      CachedRun(GetParam().model, 9, 1).losses(ids.narrow(0, 1, 1).narrow(1, 6, 13), {6, 6});
  EXPECT_LT(largest_difference(after[0], undisturbed[0]), 1e-12);
  EXPECT_LT(largest_difference(after[1], fresh[0]), 1e-12);
  EXPECT_GT(largest_difference(after[1], undisturbed[1]), 1e-6);
}

TEST_P(SegmentCache, PaddedSegmentBeforeAResetIsForgotten) {
  const at::Tensor ids = random_ids(6, 2, 13, 11);
  CachedRun session(GetParam().model, 9, 2);
  const at::NoGradGuard no_grad;
  at::Tensor target = ids.narrow(1, 1, 6).clone();
  target[1].narrow(0, 2, 4).fill_(-1);
  const Batch batch{ids.narrow(1, 0, 6), target, {6, 2}};
  const at::Tensor first =
      eval::run_segment(*session.model, session.stack, session.state, batch).nll;
  session.state.reset({0, 1});
  const at::Tensor second = session.losses(ids.narrow(1, 6, 7), {6});
  CachedRun whole(GetParam().model, 9, 1), fresh(GetParam().model, 9, 1),
      start(GetParam().model, 9, 1);
  const at::Tensor lane0 = whole.losses(ids.narrow(0, 0, 1), {6, 6});
  EXPECT_LT(largest_difference(first[0], lane0[0].narrow(0, 0, 6)), 1e-12);
  EXPECT_LT(largest_difference(second[0], lane0[0].narrow(0, 6, 6)), 1e-12);
  EXPECT_LT(largest_difference(first[1].narrow(0, 0, 2),
                               start.losses(ids.narrow(0, 1, 1), {6})[0].narrow(0, 0, 2)),
            1e-12);
  EXPECT_LT(
      largest_difference(second[1], fresh.losses(ids.narrow(0, 1, 1).narrow(1, 6, 7), {6})[0]),
      1e-12);
}

// What a state holds of lane 1 alone, without the rows of its first tier.
memory::NamedState second_lane(const memory::StackState& state) {
  memory::StackState lane = state.clone();
  lane.select({1});
  memory::NamedState saved = lane.save();
  std::erase_if(saved.tensors, [](const auto& entry) { return entry.first.starts_with("0."); });
  return saved;
}

// The same of both lanes, where lane 1 lacks the rows of its first tier.
memory::NamedState with_gap(const memory::StackState& state) {
  memory::NamedState saved = state.save();
  std::vector<std::pair<std::string, at::Tensor>> masks;
  for (const auto& [name, tensor] : saved.tensors) {
    if (!name.starts_with("0.") || !name.ends_with(".hidden")) continue;
    at::Tensor valid = torch::ones({2, tensor.size(1)}, at::kBool);
    valid[1].fill_(false);
    masks.emplace_back(name.substr(0, name.rfind('.')) + ".valid", valid);
  }
  saved.tensors.insert(saved.tensors.end(), masks.begin(), masks.end());
  return saved;
}

// A lane that lacks rows of a nearer tier has the places of that lane alone.
TEST_P(SegmentCache, PlacesCountOnlyRowsThatTheLaneHas) {
  const at::Tensor ids = random_ids(8, 2, 25, 11);
  config::MemoryConfig memory = cache_of(4);
  memory.tiers.push_back(cache_of(9).tiers[0]);
  const config::ModelConfig c = GetParam().model;
  MemorySession session(c, small_setup(), memory);
  memory::StackState state = session.fresh(2, memory::Phase::kEvaluation);
  session.nll(state, ids, {6, 6, 6});
  memory::StackState gap = session.stack.restore(memory::Phase::kEvaluation, 2, with_gap(state));
  memory::StackState alone =
      session.stack.restore(memory::Phase::kEvaluation, 1, second_lane(state));
  const at::Tensor more = ids.narrow(1, 18, 7);
  for (const bool has_grad : {true, false}) {
    const at::AutoGradMode grad(has_grad);
    memory::StackState a = gap.clone(), b = alone.clone(), whole = state.clone();
    const at::Tensor both = session.nll(a, more);
    EXPECT_LT(largest_difference(both[1], session.nll(b, more.narrow(0, 1, 1))[0]), 1e-12);
    const at::Tensor undisturbed = session.nll(whole, more);
    EXPECT_EQ(largest_difference(both[0], undisturbed[0]), 0.0);
    EXPECT_GT(largest_difference(both[1], undisturbed[1]), 1e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SegmentCache, testing::ValuesIn(cached_models()),
                         [](const auto& made) { return made.param.name; });

TEST(SegmentCacheSetup, MemoryLeavesInitialWeightsAlone) {
  const auto without = make_model(small_config(), small_setup());
  CachedRun with(small_config(), 9, 1);
  ASSERT_EQ(without->parameters().size(), with.model->parameters().size());
  for (size_t i = 0; i < without->parameters().size(); ++i) {
    EXPECT_TRUE(without->parameters()[i].tensor.equal(with.model->parameters()[i].tensor));
  }
}

// A cache of window - 1 rows has all that the layers' windows reach.
TEST(SegmentCacheSetup, WindowsOfLayersMakeCutsAndLongerCachesHarmless) {
  const at::Tensor ids = random_ids(7, 2, 25, 11);
  for (const std::vector<int64_t>& windows : std::vector<std::vector<int64_t>>{{4}, {2, 4}}) {
    for (config::ModelConfig c : {small_decoders()[1].model, model_config(config::Norm::kPost)}) {
      c.window = windows;
      const auto losses = [&](int64_t rows, const std::vector<int64_t>& lengths) {
        return CachedRun(c, rows, 2).losses(ids, lengths);
      };
      const at::Tensor whole = losses(1, {24});
      for (const int64_t rows : {3, 9, 40}) {
        EXPECT_LT(largest_difference(losses(rows, {6, 6, 6, 6}), whole), 1e-12) << rows;
        EXPECT_LT(largest_difference(losses(rows, {3, 5, 1, 6, 2, 6, 1}), whole), 1e-12) << rows;
      }
      EXPECT_GT(largest_difference(losses(2, {6, 6, 6, 6}), whole), 1e-9);
    }
  }
}

TEST(SegmentCacheSetup, WindowOfTheCacheMakesCutsHarmless) {
  config::ModelConfig c = model_config(config::Norm::kPost);
  c.same_length = true;
  const at::Tensor ids = random_ids(7, 2, 25, 11);
  const auto losses = [&](const std::vector<int64_t>& lengths) {
    CachedRun session(c, 9, 2);
    session.model->set_context_rows(session.stack.context_rows(memory::Phase::kEvaluation));
    return session.losses(ids, lengths);
  };
  EXPECT_LT(largest_difference(losses({6, 6, 6, 6}), losses({3, 5, 1, 6, 2, 6, 1})), 1e-12);
}

}  // namespace
}  // namespace mneme::backbone
