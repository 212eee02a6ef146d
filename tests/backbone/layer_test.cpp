// Attention over context blocks of every kind, against double loops.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "host/backbone/layer_pass.hpp"
#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/layer_fixture.hpp"
#include "tests/backbone/naive.hpp"

namespace mneme::backbone {
namespace {

using config::PositionScheme;
using memory::ContextBlock;
using memory::PositionKind;

constexpr int64_t kLanes = 2, kTokens = 4, kHeads = 2, kWidth = 4;

ContextBlock block_of(uint64_t seed, int64_t rows, PositionKind position) {
  ContextBlock block;
  block.rows.kind = memory::RowsKind::kKeyValue;
  block.rows.count = rows;
  block.rows.k = random_tensor(seed, {kLanes, rows, kHeads, kWidth}).set_requires_grad(true);
  block.rows.v = random_tensor(seed + 1, {kLanes, rows, kHeads, kWidth}).set_requires_grad(true);
  block.position = position;
  return block;
}

struct Tokens {
  at::Tensor q = random_tensor(1, {kLanes, kTokens, kHeads, kWidth}).set_requires_grad(true);
  at::Tensor k = random_tensor(2, {kLanes, kTokens, kHeads, kWidth}).set_requires_grad(true);
  at::Tensor v = random_tensor(3, {kLanes, kTokens, kHeads, kWidth}).set_requires_grad(true);
};

// A key column: its distance to query i (when it has one), its bias, and whether it is valid.
struct LayerColumn {
  bool is_token = false;
  // Of tokens and placed rows in each lane, relative to the segment's first token.
  std::array<int64_t, kLanes> place = {};
  const ContextBlock* block = nullptr;
  int64_t row = 0;
};

bool has_row(const ContextBlock& block, int64_t lane, int64_t row) {
  return !block.rows.valid.defined() || block.rows.valid[lane][row].item<bool>();
}

// The naive side of LayerPass::attend_tokens, columns in the order of the context. `window` of all
// layers; the layer may have one of its own, which explicit distances are in or out of too.
naive::Result expected(const LayerCase& c, const memory::LayerContext& context, const Tokens& t,
                       int64_t window, const at::Tensor& token_valid) {
  std::vector<LayerColumn> columns;
  std::vector<at::Tensor> keys, values;
  std::array<int64_t, kLanes> place = {};  // of the oldest row: each lane's own rows take one
  const auto count = [&](const ContextBlock& block, int64_t row, int64_t step) {
    for (size_t b = 0; b < place.size(); ++b) {
      if (block.position == PositionKind::kPlace && has_row(block, static_cast<int64_t>(b), row))
        place[b] += step;
    }
  };
  for (const ContextBlock& block : context.blocks) {
    for (int64_t r = 0; r < block.rows.count; ++r) count(block, r, -1);
  }
  for (const ContextBlock& block : context.blocks) {
    for (int64_t r = 0; r < block.rows.count; ++r) {
      columns.push_back({false, place, &block, r});
      count(block, r, 1);
    }
    keys.push_back(block.rows.k.detach());
    values.push_back(block.rows.v.detach());
  }
  for (int64_t j = 0; j < kTokens; ++j) columns.push_back({true, {j, j}, nullptr, j});
  keys.push_back(t.k.detach());
  values.push_back(t.v.detach());
  const at::Tensor k = at::cat(keys, 1), v = at::cat(values, 1), q = t.q.detach();
  const LayerWeights& w = c.layer->weights();
  const bool is_relative = c.settings.is_relative();
  const auto score = [&](int64_t h, int64_t b, int64_t i, int64_t j) {
    const LayerColumn& column = columns[static_cast<size_t>(j)];
    const bool is_placed = column.is_token || column.block->position == PositionKind::kPlace;
    const int64_t own_window = c.layer->window();
    int64_t distance = i - column.place[static_cast<size_t>(b)];
    if (is_placed && (distance < 0 || (window > 0 && distance >= window))) return -kInf;
    if (column.is_token && token_valid.defined() && !token_valid[b][column.row].item<bool>())
      return -kInf;
    double s = naive::dot(q, k, is_relative ? w.content_bias.detach() : at::Tensor(), h, b, i, j) /
               std::sqrt(static_cast<double>(kWidth));
    const bool has_distance = is_placed || column.block->position == PositionKind::kExplicit;
    if (!is_placed && has_distance) {
      const at::Tensor& d = column.block->distance;
      const at::Tensor own = d[d.size(0) == 1 ? 0 : b];
      distance = d.dim() == 2 ? own[column.row].item<int64_t>() + i
                              : own[own.size(0) == 1 ? 0 : i][column.row].item<int64_t>();
    }
    if (has_distance && own_window > 0 && distance >= own_window) return -kInf;
    if (has_distance && c.settings.is_rotary()) {
      s = naive::turned_dot(q, k, kRotaryBase, h, b, i, j, distance) /
          std::sqrt(static_cast<double>(kWidth));
    }
    if (has_distance) {
      if (c.settings.clamp_distance > 0) distance = std::min(distance, c.settings.clamp_distance);
      if (is_relative)
        s += naive::position_dot(q, w.position.detach(), w.position_bias.detach(), h, b, i,
                                 distance, c.settings.width) /
             std::sqrt(static_cast<double>(kWidth));
      if (!c.settings.slopes.empty())
        s -= c.settings.slopes[static_cast<size_t>(h)] * static_cast<double>(distance);
    }
    const at::Tensor bias = column.is_token ? context.token_bias : column.block->bias;
    if (bias.defined())
      s += bias.expand({kLanes, kHeads, kTokens, bias.size(3)})[b][h][i][column.row].item<double>();
    if (!column.is_token && !has_row(*column.block, b, column.row)) return -kInf;
    return s;
  };
  return naive::attend(q, v, score);
}

memory::LayerContext mixed_context() {
  memory::LayerContext context;
  context.blocks.push_back(block_of(10, 2, PositionKind::kPlace));
  context.blocks.push_back(block_of(20, 3, PositionKind::kNone));
  context.blocks.push_back(block_of(30, 2, PositionKind::kExplicit));
  context.blocks[2].distance = at::tensor({9, 40, 17, 3}, at::kLong).view({2, 2});
  context.blocks.push_back(block_of(40, 3, PositionKind::kExplicit));
  context.blocks[3].distance = at::tensor({12, 5, 1}, at::kLong).view({1, 3});
  context.blocks.push_back(block_of(50, 1, PositionKind::kPlace));
  return context;
}

// Rows that stand at one distance from every token, and rows at a distance of its own from each.
memory::LayerContext context_by_token() {
  memory::LayerContext context = mixed_context();
  context.blocks.push_back(block_of(60, 2, PositionKind::kExplicit));
  context.blocks.back().distance = at::tensor({7, 2, 30, 4}, at::kLong).view({kLanes, 1, 2});
  context.blocks.push_back(block_of(70, 3, PositionKind::kExplicit));
  context.blocks.back().distance =
      at::arange(kTokens * 3, at::kLong).mul(5).remainder(23).view({1, kTokens, 3});
  return context;
}

const std::vector<PositionScheme> kSchemes = {PositionScheme::kRelative, PositionScheme::kRotary,
                                              PositionScheme::kAlibi, PositionScheme::kLearned,
                                              PositionScheme::kNone};

TEST(LayerAttention, AgreesWithDoubleLoopsForEverySchemeAndBlock) {
  for (const PositionScheme scheme : kSchemes) {
    for (const int64_t clamp : {0, 4}) {
      SCOPED_TRACE(testing::Message() << config::to_word(scheme) << " clamp " << clamp);
      if (clamp > 0 && scheme != PositionScheme::kRelative && scheme != PositionScheme::kAlibi)
        continue;
      LayerCase c(scheme, kLanes, kTokens, clamp);
      const Tokens t;
      const memory::LayerContext context = context_by_token();
      const memory::LocalAttention local =
          LayerPass(*c.layer, *c.scope).attend_tokens(context, t.q, t.k, t.v, {true, true});
      const naive::Result naive = expected(c, context, t, 0, {});
      EXPECT_LT(largest_difference(local.z, naive.z), 1e-12);
      EXPECT_LT(largest_difference(local.lse, naive.lse), 1e-12);
      EXPECT_LT(largest_difference(local.mass, naive.mass), 1e-12);
    }
  }
}

TEST(LayerAttention, GivesTheContextsProjectionsInItsOwnOrder) {
  LayerCase c(PositionScheme::kRelative, kLanes, kTokens);
  const Tokens t;
  const memory::LayerContext context = mixed_context();  // attention uses another order
  const memory::LocalAttention local =
      LayerPass(*c.layer, *c.scope).attend_tokens(context, t.q, t.k, t.v, {false, false, true});
  ASSERT_EQ(local.context_k.size(), context.blocks.size());
  for (size_t i = 0; i < context.blocks.size(); ++i) {
    EXPECT_TRUE(local.context_k[i].equal(context.blocks[i].rows.k)) << i;
    EXPECT_TRUE(local.context_v[i].equal(context.blocks[i].rows.v)) << i;
  }
}

TEST(LayerAttention, KeepsWindowValidityAndBiases) {
  for (const PositionScheme scheme : kSchemes) {
    SCOPED_TRACE(testing::Message() << config::to_word(scheme));
    LayerCase c(scheme, kLanes, kTokens);
    const Tokens t;
    memory::LayerContext context = mixed_context();
    context.blocks[0].rows.valid = at::tensor({1, 0, 0, 0}, at::kLong).to(at::kBool).view({2, 2});
    context.blocks[3].rows.valid =
        at::tensor({1, 1, 0, 0, 1, 1}, at::kLong).to(at::kBool).view({2, 3});
    context.blocks[1].bias = random_tensor(60, {1, kHeads, kTokens, 3}).set_requires_grad(true);
    context.blocks[2].bias = random_tensor(61, {kLanes, 1, 1, 2}).set_requires_grad(true);
    context.token_bias = random_tensor(62, {1, 1, kTokens, kTokens});
    c.scope->window = 3;
    c.scope->token_valid =
        at::tensor({1, 1, 1, 1, 1, 1, 0, 0}, at::kLong).to(at::kBool).view({2, 4});
    const memory::LocalAttention local =
        LayerPass(*c.layer, *c.scope).attend_tokens(context, t.q, t.k, t.v, {true, false});
    const naive::Result naive = expected(c, context, t, 3, c.scope->token_valid);
    EXPECT_LT(largest_difference(local.z, naive.z), 1e-12);
    EXPECT_LT(largest_difference(local.lse, naive.lse), 1e-12);
  }
}

// By the host's kernel and by operations, which give probabilities to whoever looks at distances.
TEST(LayerAttention, KeepsTheWindowOfTheLayer) {
  for (const PositionScheme scheme : kSchemes) {
    for (const int64_t window : {1, 2, 4, 6, 100}) {
      SCOPED_TRACE(testing::Message() << config::to_word(scheme) << " window " << window);
      LayerCase c(scheme, kLanes, kTokens);
      c.settings.window = {window, 0};
      const Tokens t;
      memory::LayerContext context = context_by_token();
      context.blocks[1].bias = random_tensor(60, {1, kHeads, kTokens, 3});
      context.blocks[2].bias = random_tensor(61, {kLanes, 1, 1, 2});
      for (const int64_t of_all : {0, 3}) {
        c.scope->window = of_all;
        const naive::Result naive = expected(c, context, t, of_all, {});
        for (const bool has_kernel : {true, false}) {
          c.settings.attention_kernel =
              has_kernel ? config::AttentionKernel::kAuto : config::AttentionKernel::kOperations;
          const memory::LocalAttention local =
              LayerPass(*c.layer, *c.scope).attend_tokens(context, t.q, t.k, t.v, {true, false});
          EXPECT_LT(largest_difference(local.z, naive.z), 1e-12);
          EXPECT_LT(largest_difference(local.lse, naive.lse), 1e-12);
          const memory::LocalAttention with_mass =
              LayerPass(*c.layer, *c.scope).attend_tokens(context, t.q, t.k, t.v, {true, true});
          EXPECT_LT(largest_difference(with_mass.mass, naive.mass), 1e-12);
        }
      }
    }
  }
}

// A row that no token of the layer sees has no gradient.
TEST(LayerAttention, RowsOutsideOfTheWindowHaveNoGradient) {
  LayerCase c(PositionScheme::kRotary, kLanes, kTokens);
  c.settings.window = {3};
  const Tokens t;
  memory::LayerContext context;
  context.blocks.push_back(block_of(10, 2, PositionKind::kPlace));  // distances 4 and 5
  context.blocks.push_back(block_of(50, 3, PositionKind::kPlace));  // of which two are seen
  const memory::LocalAttention local =
      LayerPass(*c.layer, *c.scope).attend_tokens(context, t.q, t.k, t.v, {});
  local.z.sum().backward();
  const at::Tensor &far = context.blocks[0].rows.v.grad(), &near = context.blocks[1].rows.v.grad();
  EXPECT_TRUE(!far.defined() || far.abs().sum().item<double>() == 0.0);
  EXPECT_EQ(near.narrow(1, 0, 1).abs().sum().item<double>(), 0.0);
  EXPECT_TRUE(near.narrow(1, 1, 2).abs().sum(-1).gt(0.0).all().item<bool>());
}

TEST(LayerAttention, GradientsAgreeWithFiniteDifferences) {
  struct Case {
    PositionScheme scheme;
    int64_t clamp, window;
  };
  const std::vector<Case> cases = {{PositionScheme::kRelative, 0, 0},
                                   {PositionScheme::kRelative, 4, 0},
                                   {PositionScheme::kRelative, 0, 3},
                                   {PositionScheme::kRotary, 0, 0}};
  for (const auto& [scheme, clamp, window] : cases) {
    SCOPED_TRACE(testing::Message()
                 << config::to_word(scheme) << " clamp " << clamp << " window " << window);
    LayerCase c(scheme, kLanes, kTokens, clamp);
    if (window > 0) c.settings.window = {window};
    const Tokens t;
    memory::LayerContext context = context_by_token();
    context.blocks[2].bias = random_tensor(61, {kLanes, 1, 1, 2}).set_requires_grad(true);
    const at::Tensor to_z = random_tensor(70, t.q.sizes()),
                     to_lse = random_tensor(71, {kLanes, kHeads, kTokens});
    const auto loss = [&] {
      c.layer->weights_changed();  // differences are taken without gradients, where tables are kept
      const memory::LocalAttention local =
          LayerPass(*c.layer, *c.scope).attend_tokens(context, t.q, t.k, t.v, {true, false});
      return (local.z * to_z).sum() + (local.lse * to_lse).sum();
    };
    expect_gradient("q", t.q, loss);
    expect_gradient("k", t.k, loss);
    expect_gradient("v", t.v, loss);
    if (c.settings.is_relative()) {
      expect_gradient("position", c.layer->weights().position, loss);
      expect_gradient("content_bias", c.layer->weights().content_bias, loss);
      expect_gradient("position_bias", c.layer->weights().position_bias, loss);
    }
    expect_gradient("explicit k", context.blocks[2].rows.k, loss);
    expect_gradient("k at one distance", context.blocks[5].rows.k, loss);
    expect_gradient("k at a distance from each", context.blocks[6].rows.k, loss);
    expect_gradient("free v", context.blocks[1].rows.v, loss);
    expect_gradient("placed k", context.blocks[0].rows.k, loss);
    expect_gradient("bias", context.blocks[2].bias, loss);
  }
}

// The kernel reads one row of the table for all clamped distances where their rows are equal: not
// where positions have dropout.
TEST(LayerAttention, ClampedDistancesAreThoseOfThePlainPath) {
  memory::LayerContext context;
  context.blocks.push_back(block_of(40, 90, PositionKind::kPlace));
  const Tokens t;
  for (const double dropout : {0.0, 0.5}) {
    SCOPED_TRACE(testing::Message() << "dropout " << dropout);
    LayerCase c(PositionScheme::kRelative, kLanes, kTokens, /*clamp=*/4);
    c.settings.dropout = dropout;
    c.scope->is_training = true;
    c.tables->begin_segment(dropout);
    const auto attended = [&] {
      return LayerPass(*c.layer, *c.scope).attend_tokens(context, t.q, t.k, t.v, {true, false}).z;
    };
    const at::Tensor fused = attended();
    AttentionByDistance distances({.width = 1, .intervals = 2, .layers = {}});
    c.scope->distances = &distances;
    EXPECT_LT(largest_difference(fused, attended()), 1e-12);
    EXPECT_FALSE(distances.layers().empty());
  }
}

TEST(LayerAttention, PaddedLaneWithoutAnyTokenGivesZero) {
  LayerCase c(PositionScheme::kRelative, kLanes, kTokens);
  const Tokens t;
  c.scope->token_valid = at::tensor({1, 1, 1, 1, 0, 0, 0, 0}, at::kLong).to(at::kBool).view({2, 4});
  const memory::LocalAttention local =
      LayerPass(*c.layer, *c.scope).attend_tokens({}, t.q, t.k, t.v, {true, false});
  EXPECT_EQ(local.z[1].abs().sum().item<double>(), 0.0);
  EXPECT_TRUE(local.lse[1].eq(-kInf).all().item<bool>());
  local.z.sum().backward();
  EXPECT_TRUE(t.q.grad().isfinite().all().item<bool>());
}

TEST(LayerAttention, HiddenRowsAreNormedAndProjectedAsTheLayerDoesIt) {
  LayerCase c(PositionScheme::kRelative, kLanes, kTokens, 0, true);
  const Tokens t;
  const at::Tensor hidden = random_tensor(80, {kLanes, 5, c.settings.width});
  const at::Tensor normed = c.layer->norm_before(hidden);
  EXPECT_GT(largest_difference(normed, hidden), 0.1);
  const at::Tensor kv = at::matmul(normed, c.layer->weights().qkv.narrow(0, 8, 16).t())
                            .view({kLanes, 5, 2, kHeads, kWidth});
  memory::LayerContext given;
  given.blocks.push_back(block_of(0, 5, PositionKind::kPlace));
  given.blocks[0].rows.k = kv.select(2, 0);
  given.blocks[0].rows.v = kv.select(2, 1);
  // Two blocks of hidden rows and one of normed rows stand for the same five rows.
  memory::LayerContext blocks;
  for (const auto& [from, n, kind] : std::vector<std::tuple<int64_t, int64_t, memory::RowsKind>>{
           {0, 2, memory::RowsKind::kHidden},
           {2, 1, memory::RowsKind::kHidden},
           {3, 2, memory::RowsKind::kNormed}}) {
    ContextBlock block;
    block.rows.kind = kind;
    block.rows.count = n;
    block.rows.hidden = (kind == memory::RowsKind::kNormed ? normed : hidden).narrow(1, from, n);
    blocks.blocks.push_back(block);
  }
  const at::Tensor expected =
      LayerPass(*c.layer, *c.scope).attend_tokens(given, t.q, t.k, t.v, {false, false}).z;
  EXPECT_LT(
      largest_difference(
          LayerPass(*c.layer, *c.scope).attend_tokens(blocks, t.q, t.k, t.v, {false, false}).z,
          expected),
      1e-12);
}

TEST(LayerAttention, RefusesKeysOfAnotherDtype) {
  LayerCase c(PositionScheme::kNone, kLanes, kTokens);
  const Tokens t;
  memory::LayerContext context;
  context.blocks.push_back(block_of(1, 2, PositionKind::kPlace));
  context.blocks[0].rows.k = context.blocks[0].rows.k.detach().to(at::kFloat);
  const std::string message = error_of([&] {
    LayerPass(*c.layer, *c.scope).attend_tokens(context, t.q, t.k, t.v, {false, false});
  });
  EXPECT_NE(message.find("context of layer 0: keys and values of another dtype"), std::string::npos)
      << message;
  EXPECT_NE(message.find("expected f64, got f32 and f64"), std::string::npos) << message;
}

}  // namespace
}  // namespace mneme::backbone
