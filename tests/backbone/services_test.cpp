// The layer's services for hooks, compared with loops in double and direct products.
#include <gtest/gtest.h>

#include <cmath>

#include "host/backbone/decoder_services.hpp"
#include "host/backbone/model.hpp"
#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/layer_fixture.hpp"
#include "tests/backbone/naive.hpp"

namespace mneme::backbone {
namespace {

using config::PositionScheme;
using memory::AttentionCall;
using memory::AttentionMask;
using memory::LayerWeight;

AttentionCall call_of(int64_t queries, int64_t keys) {
  AttentionCall call;
  call.q = random_tensor(1, {2, queries, 2, 4}).set_requires_grad(true);
  call.k = random_tensor(2, {2, keys, 2, 4}).set_requires_grad(true);
  call.v = random_tensor(3, {2, keys, 2, 4}).set_requires_grad(true);
  call.last_key = keys - 1;
  return call;
}

bool is_seen(const AttentionCall& call, int64_t i, int64_t j) {
  const int64_t query = call.query_offset + i;
  if (call.mask == AttentionMask::kFull) return true;
  if (call.mask == AttentionMask::kCausal) return j <= query;
  return j >= query - call.window_before && j <= query + call.window_after && j >= call.first_key &&
         j <= call.last_key;
}

naive::Result expected(const LayerCase& c, const AttentionCall& call) {
  const LayerWeights& w = c.layer->weights();
  const bool has_positions = call.positions && c.settings.is_relative();
  const at::Tensor u = call.content_bias.defined()               ? call.content_bias
                       : has_positions || call.with_content_bias ? w.content_bias
                                                                 : at::Tensor();
  const at::Tensor r = call.position_bias.defined() ? call.position_bias : w.position_bias;
  const double scale = call.scale == 0.0 ? 1.0 / std::sqrt(4.0) : call.scale;
  const at::Tensor q = call.q.detach(), k = call.k.detach();
  return naive::attend(q, call.v.detach(), [&](int64_t h, int64_t b, int64_t i, int64_t j) {
    if (!is_seen(call, i, j) || (call.key_valid.defined() && !call.key_valid[b][j].item<bool>()))
      return -kInf;
    double s = naive::dot(q, k, u.defined() ? u.detach() : u, h, b, i, j);
    const int64_t distance = std::abs(call.query_offset + i - j);
    if (call.positions && c.settings.is_rotary())
      s = naive::turned_dot(q, k, kRotaryBase, h, b, i, j, call.query_offset + i - j);
    if (has_positions)
      s += naive::position_dot(q, w.position.detach(), r.detach(), h, b, i, distance, 8);
    s *= scale;
    if (call.positions && !c.settings.slopes.empty())
      s -= c.settings.slopes[static_cast<size_t>(h)] * static_cast<double>(distance);
    if (call.bias.defined())
      s += call.bias.detach().expand({2, 2, q.size(1), k.size(1)})[b][h][i][j].item<double>();
    return s;
  });
}

void expect_agreement(LayerCase& c, const AttentionCall& call) {
  DecoderServices services(*c.layer, *c.scope);
  const memory::AttentionResult out = services.attention(call);
  const naive::Result naive = expected(c, call);
  EXPECT_LT(largest_difference(out.z, naive.z), 1e-12);
  EXPECT_LT(largest_difference(out.lse, naive.lse), 1e-12);
}

TEST(LayerServices, AttentionAgreesWithDoubleLoopsForEveryMask) {
  for (const PositionScheme scheme : {PositionScheme::kRelative, PositionScheme::kRotary,
                                      PositionScheme::kAlibi, PositionScheme::kNone}) {
    LayerCase c(scheme, 2, 4);
    for (const bool positions : {false, true}) {
      for (const int64_t offset : {0, 2, 5}) {
        for (const AttentionMask mask :
             {AttentionMask::kCausal, AttentionMask::kFull, AttentionMask::kWindow}) {
          SCOPED_TRACE(testing::Message()
                       << config::to_word(scheme) << " positions " << positions << " offset "
                       << offset << " mask " << static_cast<int>(mask));
          AttentionCall call = call_of(3, 7);
          call.positions = positions;
          call.query_offset = offset;
          call.mask = mask;
          call.window_before = 1;
          call.window_after = 3;
          call.first_key = 2;
          call.last_key = 5;
          expect_agreement(c, call);
        }
      }
    }
  }
}

TEST(LayerServices, AttentionTakesOwnBiasesValidityScoresAndScale) {
  LayerCase c(PositionScheme::kRelative, 2, 4);
  AttentionCall call = call_of(4, 5);
  call.positions = true;
  call.mask = AttentionMask::kFull;
  call.content_bias = random_tensor(5, {2, 4});
  call.position_bias = random_tensor(6, {2, 4});
  call.bias = random_tensor(7, {1, 2, 1, 5});
  call.key_valid = at::tensor({1, 0, 1, 1, 1, 0, 0, 0, 0, 0}, at::kLong).to(at::kBool).view({2, 5});
  call.scale = 0.4;
  expect_agreement(c, call);
  call.content_bias = at::Tensor();
  call.positions = false;
  call.with_content_bias = true;
  expect_agreement(c, call);
}

TEST(LayerServices, WindowWithoutAnyKeyGivesTheVirtualKeyOrZero) {
  LayerCase c(PositionScheme::kRelative, 2, 4);
  AttentionCall call = call_of(2, 4);
  call.positions = true;
  call.mask = AttentionMask::kWindow;
  call.query_offset = 20;
  call.window_before = 3;
  DecoderServices services(*c.layer, *c.scope);
  const memory::AttentionResult empty = services.attention(call);
  EXPECT_EQ(empty.z.abs().sum().item<double>(), 0.0);
  EXPECT_TRUE(empty.lse.eq(-kInf).all().item<bool>());
  call.virtual_logit = random_tensor(8, {2, 2, 2});
  call.virtual_value = random_tensor(9, {2, 2, 2, 4});
  const memory::AttentionResult out = services.attention(call);
  EXPECT_EQ(largest_difference(out.z, call.virtual_value), 0.0);
  EXPECT_EQ(largest_difference(out.lse, call.virtual_logit), 0.0);
}

TEST(LayerServices, AttentionGradientsAgreeWithFiniteDifferences) {
  LayerCase c(PositionScheme::kRelative, 2, 4);
  AttentionCall call = call_of(3, 6);
  call.positions = true;
  call.mask = AttentionMask::kWindow;
  call.query_offset = 2;
  call.window_before = -1;  // look-ahead: later keys only
  call.window_after = 2;
  call.position_bias = random_tensor(6, {2, 4}).set_requires_grad(true);
  call.virtual_logit = random_tensor(8, {2, 2, 3});
  call.virtual_value = random_tensor(9, {2, 3, 2, 4});
  DecoderServices services(*c.layer, *c.scope);
  const at::Tensor to_z = random_tensor(10, call.q.sizes());
  const auto loss = [&] {
    c.layer->weights_changed();  // differences are taken without gradients, where tables are kept
    const memory::AttentionResult out = services.attention(call);
    return (out.z * to_z).sum() + out.lse.square().sum();
  };
  expect_gradient("q", call.q, loss);
  expect_gradient("k", call.k, loss);
  expect_gradient("v", call.v, loss);
  expect_gradient("position_bias", call.position_bias, loss);
  expect_gradient("position", c.layer->weights().position, loss);
  expect_gradient("content_bias", c.layer->weights().content_bias, loss);
}

TEST(LayerServices, ProjectsAndNormsAsTheLayerDoes) {
  LayerCase c(PositionScheme::kRelative, 2, 4, 0, true);
  DecoderServices services(*c.layer, *c.scope);
  const at::Tensor rows = random_tensor(1, {2, 5, 8}).set_requires_grad(true);
  using memory::Projector;
  const std::vector<std::pair<Projector, LayerWeight>> pairs = {
      {Projector::kQuery, LayerWeight::kQuery},
      {Projector::kKey, LayerWeight::kKey},
      {Projector::kValue, LayerWeight::kValue}};
  for (const auto& [projector, weight] : pairs) {
    const at::Tensor out = services.project(projector, rows, true);
    EXPECT_LT(
        largest_difference(out, at::matmul(rows, services.weight(weight).t()).view({2, 5, 2, 4})),
        1e-13);
  }
  const at::Tensor heads = random_tensor(2, {2, 5, 2, 4});
  EXPECT_LT(largest_difference(
                services.project(Projector::kOutput, heads, true),
                at::matmul(heads.view({2, 5, 8}), services.weight(LayerWeight::kOutput).t())),
            1e-13);
  const at::Tensor normed = services.norm(rows, true);
  EXPECT_LT(
      largest_difference(normed, at::layer_norm(rows, {8}, services.weight(LayerWeight::kNorm),
                                                services.weight(LayerWeight::kNormBias))),
      1e-13);
  EXPECT_FALSE(services.project(Projector::kQuery, rows.detach(), false).requires_grad());
  EXPECT_TRUE(services.project(Projector::kQuery, rows.detach(), true).requires_grad());
  EXPECT_FALSE(services.norm(rows.detach(), false).requires_grad());
}

// What hooks get as a norm's weight is what it multiplies by.
TEST(LayerServices, GivesTheFactorOfANormWithUnitOffset) {
  config::ModelConfig c = small_gemma().model;
  c.attention_softcap = c.logit_softcap = 0.0;
  const auto weight_and_factor = [&](bool has_offset) {
    LayerSettings settings;
    static_cast<config::ModelConfig&>(settings) = c;
    settings.norm_unit_offset = has_offset;
    settings.compute = at::kDouble;
    ParameterStore store(4, at::kDouble, at::kCPU);
    const Layer layer(0, settings, InitScheme{config::Init::kArticle}, {}, {}, store);
    const at::Tensor rows = random_tensor(2, {2, 3, 12});
    const at::Tensor factor = layer.weights().norm.factor();
    EXPECT_LT(largest_difference(layer.norm_before(rows),
                                 at::rms_norm(rows, {12}, factor, settings.norm_epsilon)),
              1e-13);
    return std::pair(layer.weights().norm.weight.sum().item<double>(), factor.sum().item<double>());
  };
  EXPECT_EQ(weight_and_factor(false), std::pair(12.0, 12.0));
  EXPECT_EQ(weight_and_factor(true), std::pair(0.0, 12.0));
}

// The projection of one distance's sinusoids, head h, [d].
at::Tensor projected(const LayerCase& c, int64_t distance, int64_t h) {
  const at::Tensor row = sinusoids(torch::tensor({distance}, at::kLong), 8, at::kDouble)[0];
  return c.layer->weights().position.detach().narrow(0, 4 * h, 4).mv(row);
}

TEST(LayerServices, PositionsAreProjectedByDistanceOrBySignedOffset) {
  for (const int64_t clamp : {int64_t{0}, int64_t{3}}) {
    LayerCase c(PositionScheme::kDisentangled, 2, 4, clamp);
    DecoderServices services(*c.layer, *c.scope);
    const at::Tensor distances = services.positions(-2, 8, false);
    const at::Tensor offsets = services.positions(-2, 8, true);
    ASSERT_EQ(distances.sizes(), at::IntArrayRef({2, 8, 4}));
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t r = 0; r < 8; ++r) {
        const int64_t offset = r - 2;
        const auto clamped = [&](int64_t d) { return clamp > 0 ? std::min(d, clamp) : d; };
        EXPECT_LE((distances[h][r] - projected(c, clamped(std::abs(offset)), h))
                      .abs()
                      .max()
                      .item<double>(),
                  1e-14);
        EXPECT_LE((offsets[h][r] - projected(c, clamped(-offset), h)).abs().max().item<double>(),
                  1e-14);
      }
    }
    for (const at::Tensor& table : {distances, offsets}) {
      const at::Tensor grad =
          torch::autograd::grad({table.sum()}, {c.layer->weights().position})[0];
      EXPECT_GT(grad.norm().item<double>(), 1e-3);
    }
  }
}

// But for rounding: products of more rows may be made in another order.
TEST(LayerServices, OneSegmentHasOneTableOfPositions) {
  LayerCase c(PositionScheme::kRelative, 2, 4);
  c.settings.dropout = 0.5;
  c.scope->is_training = true;
  c.tables->begin_segment(0.5);
  DecoderServices services(*c.layer, *c.scope);
  const at::Tensor longer = services.positions(0, 9, false);
  EXPECT_TRUE(at::equal(services.positions(2, 4, false), longer.narrow(1, 2, 4)));
  const at::Tensor both = services.positions(-3, 6, true);
  EXPECT_LT(largest_difference(services.positions(-1, 2, true), both.narrow(1, 2, 2)), 1e-14);
  const at::Tensor wider = services.positions(-5, 11, true);
  EXPECT_LT(largest_difference(wider.narrow(1, 2, 6), both), 1e-14);
  c.tables->begin_segment(0.5);
  EXPECT_FALSE(at::equal(services.positions(-3, 6, true), both));
}

TEST(LayerServices, HasPositionsAndTheirBiasesInRelativeSchemesOnly) {
  LayerCase c(PositionScheme::kDisentangled, 2, 4), none(PositionScheme::kNone, 2, 4);
  DecoderServices services(*c.layer, *c.scope), plain(*none.layer, *none.scope);
  EXPECT_TRUE(services.weight(LayerWeight::kContentBias).is_same(c.layer->weights().content_bias));
  EXPECT_TRUE(
      services.weight(LayerWeight::kPositionBias).is_same(c.layer->weights().position_bias));
  EXPECT_FALSE(plain.weight(LayerWeight::kContentBias).defined());
  EXPECT_FALSE(plain.weight(LayerWeight::kPositionBias).defined());
  EXPECT_FALSE(plain.positions(1, 2, false).defined());
}

TEST(LayerServices, RefusesCallsThatMakeNoSense) {
  LayerCase relative(PositionScheme::kRelative, 2, 4);
  LayerCase none(PositionScheme::kNone, 2, 4);
  DecoderServices services(*relative.layer, *relative.scope), plain(*none.layer, *none.scope);
  AttentionCall call = call_of(2, 3);
  call.k = call.k.detach().to(at::kFloat);
  EXPECT_NE(
      error_of([&] { services.attention(call); }).find("unequal dtype: expected f64, got f32 keys"),
      std::string::npos);
  call = call_of(2, 3);
  call.content_bias = random_tensor(1, {2, 4});
  EXPECT_NE(
      error_of([&] { plain.attention(call); }).find("position biases without relative positions"),
      std::string::npos);
  call = call_of(2, 3);
  call.virtual_logit = random_tensor(1, {2, 2, 2});
  EXPECT_NE(error_of([&] { services.attention(call); }).find("half a virtual key"),
            std::string::npos);
}

}  // namespace
}  // namespace mneme::backbone
