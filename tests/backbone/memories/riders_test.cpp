// Riders through the whole backbone, with a test memory whose newest embedded rows pass the layer
// stack again, attending to themselves (tests/abi/plugins/riders.cpp). Gradients:
// memories_test.cpp.
#include <gtest/gtest.h>

#include <utility>

#include "host/eval/run_segment.hpp"
#include "host/kernel/rows.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

constexpr double kSame = 1e-12;
constexpr int64_t kRows = 4;

config::MemoryConfig riders(const std::string& before = "") {
  return memory_of({MNEME_BINARY_DIR "/tests/abi_plugins", MNEME_PLUGIN_DIR},
                   before + "[[memory.tier]]\nplugin = \"test_riders\"\nrows = 4\n");
}

std::string cache(int64_t rows) {
  return "[[memory.tier]]\nplugin = \"xl_cache\"\nrows = " + std::to_string(rows) + "\n";
}

config::ModelConfig riders_model_config(config::Norm norm) {
  config::ModelConfig c = small_config();
  c.norm = norm;
  c.init = config::Init::kArticle;
  return c;
}

class Riders : public testing::TestWithParam<config::Norm> {
 protected:
  const config::ModelConfig config = riders_model_config(GetParam());
  MemorySession session(const std::string& before = "") const {
    return {config, small_setup(), riders(before)};
  }
};

TEST_P(Riders, FirstSegmentEqualsNoMemoryAndLaterOnesDoNot) {
  MemorySession with = session();
  MemorySession without(config, small_setup(), config::MemoryConfig{});
  memory::StackState a = with.fresh(2), b = without.fresh(2);
  for (uint64_t s = 0; s < 4; ++s) {
    const at::Tensor ids = random_ids(50 + s, 2, 7, 11);
    const at::Tensor nll = with.nll(a, ids), plain = without.nll(b, ids);
    EXPECT_TRUE(nll.isfinite().all().item<bool>());
    if (s == 0) {
      EXPECT_LT(largest_difference(nll, plain), kSame);
    } else {
      EXPECT_GT(largest_difference(nll, plain), 1e-4);
    }
  }
}

TEST_P(Riders, ResetLaneEqualsAFreshOneAndLeavesTheOthers) {
  MemorySession run = session();
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(60, 3, 19, 11);
  memory::StackState state = run.fresh(3);
  run.nll(state, ids.narrow(1, 0, 7), {6});
  state.reset({0, 1, 0});
  const at::Tensor after = run.nll(state, ids.narrow(1, 6, 13), {6, 6});
  for (int64_t lane = 0; lane < 3; ++lane) {
    memory::StackState alone = run.fresh(1);
    const at::Tensor own = ids.narrow(0, lane, 1);
    const at::Tensor expected = lane == 1 ? run.nll(alone, own.narrow(1, 6, 13), {6, 6})
                                          : run.nll(alone, own, {6, 6, 6}).narrow(1, 6, 12);
    EXPECT_LT(largest_difference(after.narrow(0, lane, 1), expected), kSame) << "lane " << lane;
  }
}

TEST_P(Riders, PaddedRowsDoNotRide) {
  MemorySession run = session();
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(61, 2, 13, 11);
  at::Tensor changed = ids.clone();
  changed[1].narrow(0, 3, 4).fill_(0);
  // Lane 1 ends after 3 tokens; the values of its padding affect nothing.
  const auto second = [&](const at::Tensor& tokens) {
    memory::StackState state = run.fresh(2);
    at::Tensor target = tokens.narrow(1, 1, 6).clone();
    target[1].narrow(0, 3, 3).fill_(-1);
    const Batch batch{tokens.narrow(1, 0, 6), target, {6, 3}};
    eval::run_segment(*run.model, run.stack, state, batch);
    return run.nll(state, ids.narrow(1, 6, 7));
  };
  EXPECT_LT(largest_difference(second(ids), second(changed)), kSame);
}

TEST_P(Riders, KeptProjectionsGiveTheLossesOfFreshOnes) {
  for (const std::string& before : {std::string(), cache(5)}) {
    MemorySession run = session(before);
    const at::Tensor ids = random_ids(62, 2, 24, 11);
    const std::vector<int64_t> lengths = {6, 4, 1, 6, 6};
    memory::StackState kept = run.fresh(2, memory::Phase::kEvaluation);
    memory::StackState fresh = run.fresh(2, memory::Phase::kEvaluation);
    const at::Tensor expected = run.nll(fresh, ids, lengths);
    const at::NoGradGuard no_grad;
    EXPECT_LT(largest_difference(run.nll(kept, ids, lengths), expected), kSame);
    EXPECT_EQ(fresh.cached_projection_bytes(), 0);
    // Riders get keys and values anew in every segment: none are kept for them.
    EXPECT_EQ(kept.cached_projection_bytes() > 0, !before.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, Riders, testing::Values(config::Norm::kPost, config::Norm::kPre),
                         [](const auto& name) {
                           return name.param == config::Norm::kPost ? "post" : "pre";
                         });

// In a model of one layer riders are what tokens attend to, at their places: exactly a cache of as
// many rows, which reaches the attention by another way.
TEST(RidersInOneLayer, EqualACacheOfTheSameRows) {
  using config::PositionScheme;
  for (const config::Norm norm : {config::Norm::kPost, config::Norm::kPre}) {
    for (const PositionScheme position :
         {PositionScheme::kRelative, PositionScheme::kAlibi, PositionScheme::kNone}) {
      SCOPED_TRACE(config::to_word(position));
      config::ModelConfig config = riders_model_config(norm);
      config.layers = 1;
      config.position = position;
      config.clamp_distance = position == PositionScheme::kNone ? 0 : 5;
      MemorySession riding(config, small_setup(), riders());
      MemorySession caching(config, small_setup(), memory_of({MNEME_PLUGIN_DIR}, cache(kRows)));
      memory::StackState a = riding.fresh(2), b = caching.fresh(2);
      const at::Tensor ids = random_ids(63, 2, 20, 11);
      const std::vector<int64_t> lengths = {6, 2, 1, 6, 4};
      EXPECT_LT(largest_difference(riding.nll(a, ids, lengths), caching.nll(b, ids, lengths)),
                kSame);
    }
  }
}

// In the second layer the riders' keys are projections of the first layer's output.
class TwoLayers {
 public:
  TwoLayers(const MemorySession& session, const config::ModelConfig& config)
      : session_(session), config_(config), is_pre_(config.norm == config::Norm::kPre) {}

  // Riders and tokens [B,M+T,D] through both layers; attention without position terms.
  at::Tensor forward(at::Tensor h, int64_t riders) const {
    for (const char* layer : {"layers.0.", "layers.1."}) h = through(layer, h, riders);
    return h.narrow(1, riders, h.size(1) - riders);
  }

 private:
  at::Tensor weight(const std::string& name) const { return session_.parameter(name); }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    return at::layer_norm(x, {config_.width}, weight(name + ".weight"), weight(name + ".bias"));
  }
  // Riders see all riders; tokens see the riders and the tokens up to themselves.
  at::Tensor attend(const std::string& layer, const at::Tensor& x, int64_t riders) const {
    const int64_t lanes = x.size(0), all = x.size(1);
    const std::vector<at::Tensor> qkv =
        at::linear(x, weight(layer + "attention.qkv.weight"))
            .view({lanes, all, 3, config_.heads, config_.head_width})
            .unbind(2);
    const at::Tensor scores = at::einsum("bihd,bjhd->bhij", {qkv[0], qkv[1]}) /
                              std::sqrt(static_cast<double>(config_.head_width));
    at::Tensor is_seen = at::ones({all, all}, at::kBool).tril();
    is_seen.narrow(0, 0, riders).narrow(1, 0, riders).fill_(true);
    const at::Tensor p =
        scores.masked_fill(is_seen.logical_not(), -std::numeric_limits<double>::infinity())
            .softmax(-1);
    return at::linear(at::einsum("bhij,bjhd->bihd", {p, qkv[2]}).flatten(2),
                      weight(layer + "attention.output.weight"));
  }
  at::Tensor feed(const std::string& layer, const at::Tensor& x) const {
    const at::Tensor inner =
        at::linear(x, weight(layer + "ff.in.weight"), weight(layer + "ff.in.bias")).relu();
    return at::linear(inner, weight(layer + "ff.out.weight"), weight(layer + "ff.out.bias"));
  }
  at::Tensor through(const std::string& layer, const at::Tensor& h, int64_t riders) const {
    if (is_pre_) {
      const at::Tensor middle = h + attend(layer, norm(layer + "attention.norm", h), riders);
      return middle + feed(layer, norm(layer + "ff.norm", middle));
    }
    const at::Tensor middle = norm(layer + "attention.norm", h + attend(layer, h, riders));
    return norm(layer + "ff.norm", middle + feed(layer, middle));
  }

  const MemorySession& session_;
  const config::ModelConfig& config_;
  bool is_pre_;
};

void expect_pass_by_hand(config::Norm norm) {
  config::ModelConfig config = riders_model_config(norm);
  config.position = config::PositionScheme::kNone;
  MemorySession run(config, small_setup(), riders());
  const TwoLayers by_hand(run, config);
  memory::StackState state = run.fresh(2);
  at::Tensor held;
  for (uint64_t s = 0; s < 3; ++s) {
    ForwardOptions::Tap tap;
    eval::SegmentOptions with;
    with.forward.tap = &tap;
    const Batch batch{random_ids(70 + s, 2, 3, 11), {}, {}};
    const Output out = eval::run_segment(*run.model, run.stack, state, batch, std::move(with));
    const int64_t count = held.defined() ? held.size(1) : 0;
    const at::Tensor rows = count > 0 ? at::cat({held, tap.embedded}, 1) : tap.embedded;
    EXPECT_LT(largest_difference(out.top, by_hand.forward(rows, count)), kSame) << "segment " << s;
    held = rows.narrow(1, std::max<int64_t>(0, rows.size(1) - kRows),
                       std::min<int64_t>(kRows, rows.size(1)));
  }
}

TEST(RidersInTwoLayers, EqualAPassWrittenByHand) {
  for (const config::Norm norm : {config::Norm::kPost, config::Norm::kPre}) {
    expect_pass_by_hand(norm);
    const tensor::WithRowKernels kernels(kernel::row_definitions());
    expect_pass_by_hand(norm);
  }
}

}  // namespace
}  // namespace mneme::backbone
