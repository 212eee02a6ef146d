// A layer's attention on a device that is said to be CUDA, where fake_kernels.cpp stands for
// LibTorch's kernels, against the same by tensor operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "host/backbone/attention/kernels/choice.hpp"
#include "host/backbone/layer_pass.hpp"
#include "host/backbone/open/open_segment.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/layer_fixture.hpp"
#include "tests/backbone/library/fake_kernels.hpp"

namespace mneme::backbone {
namespace {

using config::PositionScheme;
using memory::ContextBlock;
using memory::PositionKind;

constexpr int64_t kLayerLanes = 2, kLayerTokens = 4, kLayerHeads = 2, kLayerWidth = 4;

struct LayerSide {
  at::Tensor z, lse;
  std::vector<at::Tensor> gradients;
};

struct LayerProblem {
  PositionScheme position;
  at::ScalarType type;
  memory::LayerContext context = {};
  std::vector<at::Tensor> leaves = {};
  int64_t window = 0, riders = 0;
  int64_t layer_window = 0;
  bool has_padding = false;  // lanes of different fill

  LayerProblem(PositionScheme scheme, at::ScalarType compute) : position(scheme), type(compute) {}

  at::Tensor leaf(at::IntArrayRef shape) {
    const uint64_t seed = 40 + leaves.size();
    return leaves.emplace_back(random_tensor(seed, shape).to(type).requires_grad_());
  }
  ContextBlock& add(int64_t rows, PositionKind kind) {
    ContextBlock& block = context.blocks.emplace_back();
    block.rows.kind = memory::RowsKind::kKeyValue;
    block.rows.count = rows;
    block.rows.k = leaf({kLayerLanes, rows, kLayerHeads, kLayerWidth});
    block.rows.v = leaf({kLayerLanes, rows, kLayerHeads, kLayerWidth});
    block.position = kind;
    if (kind == PositionKind::kExplicit) {
      block.distance = at::arange(1, kLayerLanes * rows + 1, at::kLong).view({kLayerLanes, rows});
    }
    return block;
  }
  void forbid(ContextBlock& block, const std::vector<std::vector<int>>& valid) {
    block.rows.valid = at::zeros({kLayerLanes, block.rows.count}, at::kBool);
    for (int64_t b = 0; b < kLayerLanes; ++b) {
      for (int64_t r = 0; r < block.rows.count; ++r) {
        block.rows.valid[b][r] = valid[static_cast<size_t>(b)][static_cast<size_t>(r)] != 0;
      }
    }
    block.rows.counts = memory::count_valid(block.rows.valid);
  }
  LayerSide side(AttentionDevice device, bool wants_lse = false) const {
    LayerCase c(position, kLayerLanes, kLayerTokens);
    c.settings.compute = type;
    c.settings.device = device;
    c.settings.attention_kernel = device.type == c10::kCUDA ? config::AttentionKernel::kAuto
                                                            : config::AttentionKernel::kOperations;
    c.scope->window = window;
    if (layer_window > 0) c.settings.window = {layer_window};
    c.scope->riders = riders;
    if (has_padding) {
      c.scope->token_valid =
          at::tensor({1, 1, 1, 0, 1, 1, 1, 1}, at::kByte).to(at::kBool).view({2, 4});
    }
    std::vector<at::Tensor> inputs = leaves;
    const auto rows = [&](uint64_t seed, int64_t n) {
      const at::Tensor t = random_tensor(seed, {kLayerLanes, n, kLayerHeads, kLayerWidth});
      return inputs.emplace_back(t.to(type).requires_grad_());
    };
    const at::Tensor q = rows(1, kLayerTokens), k = rows(2, riders + kLayerTokens),
                     v = rows(3, riders + kLayerTokens);
    if (c.settings.is_relative()) {
      const LayerWeights& w = c.layer->weights();
      inputs.insert(inputs.end(), {w.position, w.content_bias, w.position_bias});
    }
    const memory::LocalAttention local =
        LayerPass(*c.layer, *c.scope).attend_tokens(context, q, k, v, {.lse = wants_lse});
    LayerSide out{local.z, local.lse, {}};
    if (at::GradMode::is_enabled()) {
      const at::Tensor grad = random_tensor(8, local.z.sizes()).to(local.z.scalar_type());
      out.gradients = torch::autograd::grad({local.z}, inputs, {grad}, false, false, true);
    }
    return out;
  }
};

// The layer's attention is computed by `path`, in training and without gradient, and equals that of
// the operations.
void expect_layer(const LayerProblem& problem, AttentionPath path) {
  const AttentionDevice cuda{c10::kCUDA, 90};
  const double tolerance = problem.type == at::kFloat ? 2e-5 : 6e-2;
  const KernelCalls before = kernel_calls();
  const LayerSide ours = problem.side(cuda), theirs = problem.side({});
  EXPECT_LT(largest_difference(ours.z.to(at::kDouble), theirs.z.to(at::kDouble)), tolerance);
  ASSERT_EQ(ours.gradients.size(), theirs.gradients.size());
  for (size_t i = 0; i < ours.gradients.size(); ++i) {
    const at::Tensor &got = ours.gradients[i], &expected = theirs.gradients[i];
    ASSERT_EQ(got.defined(), expected.defined()) << i;
    if (!got.defined()) continue;
    const double size = std::max(1.0, expected.abs().max().item<double>());
    EXPECT_LT(largest_difference(got.to(at::kDouble), expected.to(at::kDouble)), tolerance * size)
        << "input " << i;
  }
  {
    const at::NoGradGuard no_grad;
    const LayerSide evaluated = problem.side(cuda, true), expected = problem.side({}, true);
    EXPECT_LT(largest_difference(evaluated.z.to(at::kDouble), expected.z.to(at::kDouble)),
              tolerance);
    EXPECT_LT(largest_difference(evaluated.lse.to(at::kDouble), expected.lse.to(at::kDouble)),
              tolerance);
  }
  const KernelCalls after = kernel_calls();
  const int flash = path == AttentionPath::kFlash ? 2 : 0;
  const int efficient = path == AttentionPath::kEfficient ? 2 : 0;
  EXPECT_EQ(after.flash - before.flash, flash);
  EXPECT_EQ(after.flash_backward - before.flash_backward, flash / 2);
  EXPECT_EQ(after.efficient - before.efficient, efficient);
  EXPECT_EQ(after.efficient_backward - before.efficient_backward, efficient / 2);
}

class LibraryLayer : public testing::TestWithParam<PositionScheme> {
 protected:
  // FlashAttention's where the scheme has no term of both query and key.
  static AttentionPath best(at::ScalarType type) {
    const bool is_plain = !config::is_relative(GetParam()) && GetParam() != PositionScheme::kAlibi;
    return is_plain && type == at::kBFloat16 ? AttentionPath::kFlash : AttentionPath::kEfficient;
  }
  static std::vector<LayerProblem> problems() {
    return {{GetParam(), at::kFloat}, {GetParam(), at::kBFloat16}};
  }
};

TEST_P(LibraryLayer, AttendsToItsTokens) {
  for (const LayerProblem& problem : problems()) expect_layer(problem, best(problem.type));
}

TEST_P(LibraryLayer, AttendsToRowsByPlaceWithAWindow) {
  for (LayerProblem& problem : problems()) {
    problem.add(3, PositionKind::kPlace);
    problem.add(2, PositionKind::kPlace);
    expect_layer(problem, best(problem.type));
    problem.window = 3;
    expect_layer(problem, best(problem.type));
    problem.riders = 2;
    expect_layer(problem, best(problem.type));
    problem.window = 0;
    problem.layer_window = 3;  // two of the rows before the tokens, which are riders
    expect_layer(problem, best(problem.type));
    problem.layer_window = 5;
    expect_layer(problem, best(problem.type));
  }
}

TEST_P(LibraryLayer, AttendsToRowsWithoutPlaces) {
  const bool is_rotary = GetParam() == PositionScheme::kRotary;  // whole scores are biases
  for (LayerProblem& problem : problems()) {
    problem.add(3, PositionKind::kNone);
    problem.add(2, PositionKind::kPlace);
    expect_layer(problem, is_rotary ? AttentionPath::kEfficient : best(problem.type));
    problem.window = 2;
    expect_layer(problem, AttentionPath::kEfficient);
  }
}

TEST_P(LibraryLayer, AttendsToRowsAtDistancesAndWithBiases) {
  for (LayerProblem& problem : problems()) {
    problem.add(2, PositionKind::kExplicit);
    problem.add(2, PositionKind::kPlace);
    ContextBlock& last = problem.add(3, PositionKind::kPlace);
    last.bias = problem.leaf({kLayerLanes, 1, kLayerTokens, 3});
    expect_layer(problem, AttentionPath::kEfficient);
  }
}

// Invalid rows left of the valid ones, and between them, where columns change their order.
TEST_P(LibraryLayer, AttendsToLanesOfDifferentFill) {
  for (LayerProblem& problem : problems()) {
    ContextBlock& old = problem.add(3, PositionKind::kPlace);
    problem.forbid(old, {{0, 0, 1}, {1, 1, 1}});
    expect_layer(problem, AttentionPath::kEfficient);
    ContextBlock& next = problem.add(2, PositionKind::kPlace);
    problem.forbid(next, {{1, 1}, {0, 0}});
    expect_layer(problem, AttentionPath::kEfficient);
  }
}

// A token of padding may see nothing.
TEST_P(LibraryLayer, LeavesPaddingToTheOperations) {
  for (LayerProblem& problem : problems()) {
    problem.add(2, PositionKind::kPlace);
    problem.has_padding = true;
    expect_layer(problem, AttentionPath::kOperations);
  }
}

// Steps behind a prompt.
struct StepsCase {
  PositionScheme position;
  at::ScalarType type;
  bool shares = true;  // one lane read the prompt for all
  bool is_even = false;
  int64_t last = 2;  // tokens of the second step; the first one has one
  int64_t window = 0;

  std::vector<LayerSide> by_operations() const {
    StepsCase grows = *this;
    grows.is_even = false;
    return grows.steps({}, config::AttentionKernel::kOperations);
  }
  std::vector<LayerSide> on_cuda(config::AttentionKernel kernel) const {
    return steps({c10::kCUDA, 90}, kernel);
  }

 private:
  std::vector<LayerSide> steps(AttentionDevice device, config::AttentionKernel kernel) const {
    constexpr int64_t kPrompt = 5, kSharers = 3, kColumns = 9;
    LayerCase c(position, kSharers, kPrompt);
    c.settings.compute = type;
    c.settings.device = device;
    c.settings.attention_kernel = kernel;
    if (window > 0) c.settings.window = {window};
    OpenLayer open;
    EvenRoom room;
    std::vector<LayerSide> out;
    const auto step = [&](uint64_t seed, int64_t lanes, int64_t tokens) {
      const auto rows = [&](uint64_t of) {
        return random_tensor(seed + of, {lanes, tokens, kLayerHeads, kLayerWidth}).to(type);
      };
      c.tables->begin_segment(0.0);
      if (!room.layers.empty()) {
        open.count_row();
        c.scope->even = room.place_of(lanes, c.settings.is_relative());
        if (c.rotary != nullptr) c.scope->even.turn = c.rotary->at(room.place, type);
      }
      const auto pass = [&](LayerPass&& of) {
        return of.attend_tokens({}, rows(0), rows(1), rows(2), {.lse = true});
      };
      const memory::LocalAttention local = room.layers.empty()
                                               ? pass(OpenLayerPass(*c.layer, *c.scope, open))
                                               : pass(EvenLayerPass(*c.layer, *c.scope, open));
      c.layer->end_pass();
      c.scope->past += tokens;
      if (room.place.defined()) room.place.add_(tokens);
      out.push_back({local.z, local.lse, {}});
    };
    step(10, shares ? 1 : kSharers, kPrompt);
    if (shares) open.share(kSharers);
    if (is_even) {
      room.layers.resize(1);
      open.move_to(room.layers[0], kColumns);
      room.place = at::full({1}, kPrompt, at::kLong);
      room.columns = at::arange(kColumns, at::kLong);
    }
    step(20, kSharers, 1);
    step(30, kSharers, last);
    return out;
  }
};

void expect_same_steps(const std::vector<LayerSide>& ours, const std::vector<LayerSide>& theirs,
                       double tolerance) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].z.sizes(), theirs[i].z.sizes());
    EXPECT_LT(largest_difference(ours[i].z.to(at::kDouble), theirs[i].z.to(at::kDouble)), tolerance)
        << "step " << i;
    EXPECT_LT(largest_difference(ours[i].lse.to(at::kDouble), theirs[i].lse.to(at::kDouble)),
              tolerance)
        << "step " << i;
  }
}

TEST_P(LibraryLayer, ReadsThePromptOfSeveralLanesOnce) {
  const at::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const StepsCase steps{GetParam(), type};
    const KernelCalls before = kernel_calls();
    expect_same_steps(steps.on_cuda(config::AttentionKernel::kAuto), steps.by_operations(),
                      type == at::kFloat ? 2e-5 : 6e-2);
    const KernelCalls after = kernel_calls();
    const bool is_flash = best(type) == AttentionPath::kFlash;
    EXPECT_EQ(after.flash - before.flash, is_flash ? 1 + 2 + 2 : 0);
    EXPECT_EQ(after.efficient - before.efficient, is_flash ? 0 : 1 + 2 + 2);
  }
}

// Also where FlashAttention was asked for, which is not told which columns are free.
TEST_P(LibraryLayer, ReadsThePromptOnceInEvenSteps) {
  if (GetParam() == PositionScheme::kAlibi) return;  // has none
  const at::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const bool is_flash = best(type) == AttentionPath::kFlash;
    for (const auto kernel : {config::AttentionKernel::kAuto, config::AttentionKernel::kEfficient,
                              config::AttentionKernel::kFlash}) {
      if (kernel == config::AttentionKernel::kFlash && !is_flash) continue;
      for (const bool shares : {false, true}) {
        SCOPED_TRACE(testing::Message() << type << " " << config::to_word(kernel) << " " << shares);
        const StepsCase steps{GetParam(), type, shares, /*is_even=*/true, /*last=*/1};
        const KernelCalls before = kernel_calls();
        expect_same_steps(steps.on_cuda(kernel), steps.by_operations(),
                          type == at::kFloat ? 2e-5 : 6e-2);
        const KernelCalls after = kernel_calls();
        const int of_prompt = is_flash && kernel != config::AttentionKernel::kEfficient ? 1 : 0;
        EXPECT_EQ(after.flash - before.flash, of_prompt);
        EXPECT_EQ(after.efficient - before.efficient, 1 - of_prompt + 2 * (shares ? 2 : 1));
      }
    }
  }
}

// A window may hide all of the prompt, which is not read apart then.
TEST_P(LibraryLayer, KeepsAWindowBehindAPromptThatLanesShare) {
  const at::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const bool is_even : {false, true}) {
      if (is_even && GetParam() == PositionScheme::kAlibi) continue;
      for (const int64_t window : {1, 2, 6}) {
        SCOPED_TRACE(testing::Message() << type << " " << is_even << " window " << window);
        const StepsCase steps{GetParam(), type, true, is_even, is_even ? 1 : 2, window};
        const KernelCalls before = kernel_calls();
        expect_same_steps(steps.on_cuda(config::AttentionKernel::kAuto), steps.by_operations(),
                          type == at::kFloat ? 2e-5 : 6e-2);
        const KernelCalls after = kernel_calls();
        EXPECT_EQ(after.flash + after.efficient - before.flash - before.efficient, 3);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, LibraryLayer,
                         testing::Values(PositionScheme::kNone, PositionScheme::kLearned,
                                         PositionScheme::kRotary, PositionScheme::kAlibi,
                                         PositionScheme::kRelative, PositionScheme::kDisentangled),
                         [](const auto& one) { return std::string(config::to_word(one.param)); });

}  // namespace
}  // namespace mneme::backbone
