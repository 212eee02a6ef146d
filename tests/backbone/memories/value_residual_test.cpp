// model.value_residual, held to a decoder of loops in f64. segment_cache_test.cpp has rows of caches,
// open_segment_test.cpp and even_steps_test.cpp have generation, by the decoder "qwen3".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/backbone/memories/naive_llama.hpp"
#include "tests/backbone/memory_session.hpp"
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

// The sum of values by loops; ids [B,T+1] -> nll [B,T].
at::Tensor naive_residual_nll(const MemorySession& session, const at::Tensor& ids) {
  const NaiveLlama llama{session, kResidualLayers};
  at::Tensor first;
  return llama.nll(ids, [&](int64_t l, const at::Tensor& normed) {
    return llama.attention(l, normed, [&](const at::Tensor& projected) {
      at::Tensor v = projected.clone();
      if (l == 0) return first = v;
      const at::Tensor factors = factors_of(session, l).detach();
      for (int64_t i = 0; i < v.numel(); ++i) {
        v.mutable_data_ptr<double>()[i] =
            factors[0].item<double>() * v.const_data_ptr<double>()[i] +
            factors[1].item<double>() * first.const_data_ptr<double>()[i];
      }
      return v;
    });
  });
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
