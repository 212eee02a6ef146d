// model.value_residual, held to a decoder of loops in f64. segment_cache_test.cpp has rows of caches,
// open_segment_test.cpp and even_steps_test.cpp have generation, by the decoder "qwen3".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/naive.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

constexpr int64_t kResidualLayers = 3;

// "llama" with a third layer.
config::ModelConfig residual_config() {
  config::ModelConfig c = small_decoders().at(1).model;
  c.layers = kResidualLayers;
  c.value_residual = true;
  return c;
}

MemorySession residual_session(const std::string& tiers,
                               const config::ModelConfig& config = residual_config()) {
  return {config, small_setup(), memory_of({MNEME_BINARY_DIR "/tests/abi_plugins"}, tiers)};
}

at::Tensor factors_of(const MemorySession& session, int64_t layer) {
  return session.parameter(str("layers.", layer, ".attention.value_factors"));
}

void set_factors(const MemorySession& session, int64_t layer, double own, double first) {
  const at::NoGradGuard no_grad;
  factors_of(session, layer).copy_(at::tensor({own, first}, at::kDouble));
}

std::vector<int64_t> layers_with_factors(const MemorySession& session) {
  std::vector<int64_t> out;
  for (int64_t layer = 0; layer < kResidualLayers; ++layer) {
    const std::string name = str("layers.", layer, ".attention.value_factors");
    for (const Parameter& parameter : session.model->parameters()) {
      if (parameter.name == name) out.push_back(layer);
    }
  }
  return out;
}

// Products and norms by LibTorch, attention and the sum of values by loops; ids [B,T+1] -> nll [B,T].
at::Tensor naive_residual_nll(const MemorySession& session, const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  const auto weight = [&](const std::string& name) { return session.parameter(name).detach(); };
  const auto rms = [](const at::Tensor& x, const at::Tensor& w) {
    return x / (x.square().mean(2, true) + 1e-5).sqrt() * w;
  };
  const int64_t tokens = ids.size(1) - 1;
  const at::Tensor table = weight("embedding.0.weight");
  at::Tensor x = table.index_select(0, ids.narrow(1, 0, tokens).flatten())
                     .view({ids.size(0), tokens, table.size(1)});
  at::Tensor first;
  for (int64_t l = 0; l < kResidualLayers; ++l) {
    const std::string layer = str("layers.", l, '.');
    const auto heads = [&](const at::Tensor& rows, int64_t count) {
      return rows.view({ids.size(0), tokens, count, 6}).contiguous();
    };
    const std::vector<at::Tensor> qkv = at::linear(rms(x, weight(layer + "attention.norm.weight")),
                                                   weight(layer + "attention.qkv.weight"))
                                            .split_with_sizes({24, 12, 12}, 2);
    const at::Tensor q = heads(qkv[0], 4), k = heads(qkv[1], 2);
    at::Tensor v = heads(qkv[2], 2).clone();
    if (l == 0) {
      first = v.clone();
    } else {
      const at::Tensor factors = weight(layer + "attention.value_factors");
      for (int64_t i = 0; i < v.numel(); ++i) {
        v.mutable_data_ptr<double>()[i] =
            factors[0].item<double>() * v.const_data_ptr<double>()[i] +
            factors[1].item<double>() * first.const_data_ptr<double>()[i];
      }
    }
    const auto score = [&](int64_t h, int64_t b, int64_t i, int64_t j) {
      return j > i ? -kInf : naive::turned_dot(q, k, 20.0, h, b, i, j, i - j) / std::sqrt(6.0);
    };
    const at::Tensor z = naive::attend(q, v.repeat_interleave(2, 2).contiguous(), score).z;
    x = x + at::linear(z.flatten(2), weight(layer + "attention.output.weight"));
    const std::vector<at::Tensor> inner =
        at::linear(rms(x, weight(layer + "ff.norm.weight")), weight(layer + "ff.in.weight"))
            .chunk(2, 2);
    x = x + at::linear(at::silu(inner[0]) * inner[1], weight(layer + "ff.out.weight"));
  }
  const at::Tensor logits = at::linear(rms(x, weight("final_norm.weight")), table);
  const at::Tensor target = ids.narrow(1, 1, tokens).unsqueeze(2);
  return -at::log_softmax(logits, 2).gather(2, target).squeeze(2);
}

TEST(ValueResidual, GivesTheLossesOfANaiveDecoder) {
  MemorySession session = residual_session("");
  EXPECT_EQ(layers_with_factors(session), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(factors_of(session, 2).detach().equal(at::full({2}, 0.5, at::kDouble)));
  set_factors(session, 1, 0.7, -0.4);
  set_factors(session, 2, 1.3, 0.6);
  const at::Tensor ids = random_ids(20, 2, 7, 11);
  memory::StackState state = session.fresh(2);
  EXPECT_LT(largest_difference(session.nll(state, ids).detach(), naive_residual_nll(session, ids)),
            1e-12);
}

TEST(ValueResidual, FactorsOfOneAndZeroAreThePlainModel) {
  config::ModelConfig plain_config = residual_config();
  plain_config.value_residual = false;
  for (const std::string& tiers : {std::string(), std::string("[[memory.tier]]\n"
                                                              "plugin = \"test_sinks\"\n")}) {
    MemorySession session = residual_session(tiers), plain = residual_session(tiers, plain_config);
    for (const int64_t layer : {1, 2}) set_factors(session, layer, 1.0, 0.0);
    const at::Tensor ids = random_ids(21, 2, 13, 11);
    memory::StackState a = session.fresh(2), b = plain.fresh(2);
    EXPECT_LT(largest_difference(session.nll(a, ids, {6, 6}), plain.nll(b, ids, {6, 6})), 1e-13);
    set_factors(session, 2, 1.0, 0.5);
    memory::StackState c = session.fresh(2), d = plain.fresh(2);
    EXPECT_GT(largest_difference(session.nll(c, ids, {6, 6}), plain.nll(d, ids, {6, 6})), 1e-6);
  }
}

// The first layer with attention is that whose values the later ones add.
TEST(ValueResidual, PassesOverLayersWhoseAttentionATierReplaces) {
  const std::string tier = "[[memory.tier]]\nplugin = \"test_retention\"\n";
  EXPECT_EQ(layers_with_factors(residual_session(tier)), std::vector<int64_t>());
  EXPECT_EQ(layers_with_factors(residual_session(tier + "layers = [1]\n")),
            std::vector<int64_t>{2});
  MemorySession session = residual_session(tier + "layers = [0]\n");
  EXPECT_EQ(layers_with_factors(session), std::vector<int64_t>{2});
  set_factors(session, 2, 0.0, 1.0);
  memory::StackState state = session.fresh(2);
  session.nll(state, random_ids(22, 2, 7, 11)).mean().backward();
  const auto gradient_of_values = [&](int64_t layer) {
    return session.parameter(str("layers.", layer, ".attention.qkv.weight"))
        .grad()
        .narrow(0, 36, 12)
        .norm()
        .item<double>();
  };
  EXPECT_GT(gradient_of_values(1), 1e-6);
  EXPECT_EQ(gradient_of_values(2), 0.0);
}

TEST(ValueResidual, RefusesRowsThatTheFirstLayerDoesNotRead) {
  const auto error = [](const std::string& layers) {
    MemorySession session =
        residual_session("[[memory.tier]]\nplugin = \"test_sinks\"\nlayers = " + layers + '\n');
    memory::StackState state = session.fresh(2);
    return error_of([&] { session.nll(state, random_ids(23, 2, 13, 11), {6, 6}); });
  };
  EXPECT_EQ(error("[0, 2]"), "");
  EXPECT_EQ(error("[0]"), "");
  EXPECT_THAT(error("[1, 2]"),
              testing::HasSubstr(
                  "model.value_residual: rows of memory.tier.0 have no values in layer 0, which "
                  "layer 1 adds to its own: expected a tier that gives both layers equally many "
                  "rows; let the tier serve layer 0 too, or set value_residual = false"));
}

}  // namespace
}  // namespace mneme::backbone
