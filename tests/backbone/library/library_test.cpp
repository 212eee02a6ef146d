// Attention by LibTorch's kernels for CUDA, which fake_kernels.cpp stands for here, against the
// same by tensor operations.
#include "host/backbone/attention/kernels/library.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "host/backbone/attention/positions.hpp"
#include "host/backbone/layer_pass.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/layer_fixture.hpp"
#include "tests/backbone/library/fake_kernels.hpp"

namespace mneme::backbone {
namespace {

using config::PositionScheme;
using memory::ContextBlock;
using memory::PositionKind;

struct KernelCase {
  std::string name;
  AttentionPath path;
  at::ScalarType type;
  int64_t lanes = 2, queries = 5, heads = 4, key_heads = 4, width = 16, free = 0;
  std::vector<int64_t> rows = {30, 5};  // of pieces, the tokens' last
  bool is_relative = false;
  int64_t window = 0;
  std::vector<double> slopes = {};
  bool has_gaps = false;
  std::vector<int64_t> bias = {};  // its shape; empty = none

  // Of results; bf16 rounds what is added to scores, too.
  double tolerance() const {
    if (type == at::kFloat) return 2e-5;
    return path == AttentionPath::kFlash ? 1e-2 : 3e-2;
  }
};

std::ostream& operator<<(std::ostream& out, const KernelCase& c) { return out << c.name; }

class LibraryAttention : public testing::TestWithParam<KernelCase> {};

struct KernelProblem {
  const KernelCase& c;
  std::vector<at::Tensor> leaves;
  std::vector<KeyPiece> pieces;
  AttentionArgs args;
  int64_t keys = 0;

  explicit KernelProblem(const KernelCase& given) : c(given) {
    for (const int64_t rows : c.rows) {
      // As a layer's projection gives them: keys and values beside each other.
      const at::Tensor both = leaf({c.lanes, rows, 2, c.key_heads, c.width}, c.type);
      pieces.push_back({both.select(2, 0), both.select(2, 1)});
      keys += rows;
    }
    args.q = leaf({c.lanes, c.queries, c.heads, c.width}, c.type);
    args.first_placed = c.free;
    args.scale = 0.25;
    if (c.is_relative) {
      args.table = leaf({c.heads, keys - c.free + 3, c.width}, c.type);
      args.table = args.table.narrow(1, 2, keys - c.free + 1);
      args.content_bias = leaf({c.heads, c.width}, at::kFloat);
      args.position_bias = leaf({c.heads, c.width}, at::kFloat);
    }
    if (!c.bias.empty()) args.bias = leaf(c.bias, at::kFloat);
  }
  // Undefined where the kernel's own mask is all.
  at::Tensor mask(bool is_whole) const {
    if (!is_whole && c.slopes.empty() && c.window == 0 && !c.has_gaps) return {};
    MaskCache masks;
    const at::Tensor causal = masks.causal({c.free, keys - c.free - c.queries, c.queries}, c.window,
                                           c.slopes, 0, at::TensorOptions().dtype(at::kFloat));
    if (!c.has_gaps) return causal;
    at::Tensor valid = random_tensor(6, {c.lanes, keys}).gt(-0.5);
    valid.narrow(1, keys - c.queries, c.queries).fill_(true);
    return causal.masked_fill(valid.logical_not().view({1, c.lanes, 1, keys}), kMinusInfinity);
  }
  AttentionOutput by_kernel() const {
    AttentionArgs own = args;
    const bool is_flash = c.path == AttentionPath::kFlash;
    if (!is_flash) own.mask = mask(false);
    return attend_by_library(c.path, own, pieces, is_flash ? c.window : 0);
  }
  // In f64, from the same numbers.
  AttentionOutput by_operations() const {
    AttentionArgs own = args;
    for (at::Tensor* t : {&own.q, &own.table, &own.content_bias, &own.position_bias, &own.bias}) {
      if (t->defined()) *t = t->to(at::kDouble);
    }
    const auto [k, v] = joined_pieces(pieces);
    own.k = k.to(at::kDouble);
    own.v = v.to(at::kDouble);
    own.mask = mask(true).to(at::kDouble);
    return attend(own);
  }

 private:
  at::Tensor leaf(at::IntArrayRef shape, at::ScalarType type) {
    const uint64_t seed = 100 + leaves.size();
    return leaves.emplace_back(random_tensor(seed, shape).to(type).requires_grad_());
  }
};

TEST_P(LibraryAttention, EqualsTensorOperations) {
  const KernelCase& c = GetParam();
  const KernelProblem problem(c);
  const KernelCalls before = kernel_calls();
  const at::Tensor ours = problem.by_kernel().z, theirs = problem.by_operations().z;
  EXPECT_EQ(ours.scalar_type(), c.type);
  EXPECT_LT(largest_difference(ours.to(at::kDouble), theirs), c.tolerance());
  const at::Tensor grad = random_tensor(7, ours.sizes());
  const auto gradients = [&](const at::Tensor& z) {
    return torch::autograd::grad({z}, problem.leaves, {grad.to(z.scalar_type())});
  };
  const std::vector<at::Tensor> got = gradients(ours), expected = gradients(theirs);
  for (size_t i = 0; i < got.size(); ++i) {
    const double size = std::max(1.0, expected[i].abs().max().item<double>());
    EXPECT_EQ(got[i].scalar_type(), problem.leaves[i].scalar_type());
    EXPECT_LT(largest_difference(got[i].to(at::kDouble), expected[i].to(at::kDouble)),
              3 * c.tolerance() * size)
        << "leaf " << i << " " << expected[i].sizes();
  }
  const KernelCalls after = kernel_calls();
  const bool is_flash = c.path == AttentionPath::kFlash;
  EXPECT_EQ(after.flash_backward - before.flash_backward, is_flash ? 1 : 0);
  EXPECT_EQ(after.efficient_backward - before.efficient_backward, is_flash ? 0 : 1);
}

TEST_P(LibraryAttention, GivesTheLogSumExpWithoutGradient) {
  const KernelCase& c = GetParam();
  KernelProblem problem(c);
  problem.args.wants_lse = true;
  const at::Tensor ours = problem.by_kernel().lse, theirs = problem.by_operations().lse;
  EXPECT_FALSE(ours.requires_grad());
  EXPECT_EQ(ours.scalar_type(), at::kFloat);
  EXPECT_LT(largest_difference(ours.to(at::kDouble), theirs), c.tolerance());
}

std::vector<KernelCase> kernel_cases() {
  std::vector<KernelCase> out;
  const auto add = [&](const std::string& name, const KernelCase& c) {
    out.push_back(c);
    out.back().name = name;
    if (c.type == at::kFloat) {
      out.push_back(c);
      out.back().type = at::kBFloat16;
      out.back().name = name + "Bf16";
    }
  };
  const KernelCase flash{"", AttentionPath::kFlash, at::kBFloat16};
  KernelCase c = flash;
  add("Flash", c);
  c.width = 41;
  c.free = 7;
  add("FlashOddWidth", c);
  c = flash;
  c.key_heads = 2;
  c.window = 6;
  add("FlashGroupedWindow", c);
  c = flash;
  c.queries = 1;
  c.rows = {9, 8, 1};
  add("FlashOneToken", c);
  const KernelCase efficient{"", AttentionPath::kEfficient, at::kFloat};
  c = efficient;
  add("Plain", c);
  c.key_heads = 2;
  c.width = 41;
  add("GroupedOddWidth", c);
  c = efficient;
  c.is_relative = true;
  add("Relative", c);
  c.key_heads = 1;
  c.free = 7;
  c.rows = {7, 13, 5};
  c.has_gaps = true;
  c.window = 9;
  c.width = 10;
  add("RelativeFreeGapsWindow", c);
  c.bias = {4, 2, 5, 25};
  add("RelativeBias", c);
  c = efficient;
  c.slopes = alibi_slopes(4);
  c.free = 3;
  add("Alibi", c);
  c = efficient;
  c.bias = {1, 2, 1, 35};
  add("BiasOfLanes", c);
  c.bias = {4, 1, 5, 1};
  c.has_gaps = true;
  add("BiasOfHeads", c);
  c = efficient;
  c.queries = 1;
  c.rows = {6, 1};
  c.is_relative = true;
  add("RelativeOneToken", c);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Cases, LibraryAttention, testing::ValuesIn(kernel_cases()),
                         [](const auto& one) { return one.param.name; });

TEST(LibraryAttention, LeavesLibTorchsSettingsAsTheyWere) {
  at::Context& context = at::globalContext();
  const KernelCase c{"", AttentionPath::kFlash, at::kBFloat16};
  KernelProblem problem(c);
  torch::autograd::grad({problem.by_kernel().z.sum()}, problem.leaves);
  EXPECT_FALSE(context.deterministicAlgorithms());
  EXPECT_TRUE(context.deterministicFillUninitializedMemory());
}

// Keys and values that no vector can be read from are copied.
TEST(LibraryAttention, CopiesRowsThatAreNotAligned) {
  const at::NoGradGuard no_grad;
  const at::Tensor rows = random_tensor(1, {1, 6, 2, 17}).to(at::kFloat).narrow(3, 1, 16);
  AttentionArgs args;
  args.q = random_tensor(2, {1, 6, 2, 16}).to(at::kFloat);
  const at::Tensor copied = attend_by_library(AttentionPath::kEfficient, args,
                                              {{rows.contiguous(), rows.contiguous()}}, 0)
                                .z;
  EXPECT_TRUE(
      attend_by_library(AttentionPath::kEfficient, args, {{rows, rows}}, 0).z.equal(copied));
}

// --- A layer's attention on a device that is said to be CUDA ---

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

INSTANTIATE_TEST_SUITE_P(Schemes, LibraryLayer,
                         testing::Values(PositionScheme::kNone, PositionScheme::kLearned,
                                         PositionScheme::kRotary, PositionScheme::kAlibi,
                                         PositionScheme::kRelative),
                         [](const auto& one) { return std::string(config::to_word(one.param)); });

}  // namespace
}  // namespace mneme::backbone
