#include <gtest/gtest.h>

#include "host/backbone/attention/positions.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// One head, one lane, 2 tokens behind 3 places and 1 column without a place. Token 0 has the places
// 2, 1, 0 at the distances 1, 2, 3; token 1 also its left neighbour.
at::Tensor small_p() {
  return torch::tensor({0.05, 0.1, 0.2, 0.3, 0.35, 0.0, 0.02, 0.08, 0.1, 0.25, 0.15, 0.4},
                       at::kDouble)
      .view({1, 1, 2, 6});
}

TEST(AttentionByDistance, TakesTheLargestWeightOfEachInterval) {
  AttentionByDistance distances({.width = 2, .intervals = 2});
  distances.add(3, small_p(), {.mask = {}, .query_valid = {}, .free = 1, .before = 3});
  const auto layers = distances.layers();
  ASSERT_EQ(layers.size(), 1U);
  const AttentionByDistance::Layer& layer = layers.at(3);
  // Distances 1, 2: max(.3, .2) and max(.15, .25); 3, 4: only token 1 has both, .1 and .08.
  EXPECT_EQ(layer.tokens, (std::vector<std::int64_t>{2, 1}));
  EXPECT_NEAR(layer.weight[0], (0.3 + 0.25) / 2.0, 1e-15);
  EXPECT_NEAR(layer.weight[1], 0.1, 1e-15);
}

TEST(AttentionByDistance, LeavesOutWhatATokenDoesNotSeeAndPadding) {
  at::Tensor mask = torch::zeros({1, 1, 2, 6}, at::kDouble);
  mask[0][0][0][3] = kMinusInfinity;  // token 0, distance 1
  AttentionByDistance masked({.width = 1, .intervals = 3});
  masked.add(0, small_p(), {.mask = mask, .query_valid = {}, .free = 1, .before = 3});
  EXPECT_EQ(masked.layers().at(0).tokens, (std::vector<std::int64_t>{1, 2, 2}));
  EXPECT_NEAR(masked.layers().at(0).weight[0], 0.15, 1e-15);
  AttentionByDistance padded({.width = 1, .intervals = 4});
  padded.add(0, small_p(),
             {.mask = {}, .query_valid = torch::tensor({{true, false}}), .free = 1, .before = 3});
  EXPECT_EQ(padded.layers().at(0).tokens, (std::vector<std::int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(padded.layers().at(0).weight[3], 0.0);
}

// Against loops over heads, lanes, tokens and places, with two segments.
TEST(AttentionByDistance, AgreesWithLoopsOverSegments) {
  const std::int64_t heads = 2, lanes = 3, tokens = 4, free = 2, before = 5, width = 3;
  AttentionByDistance distances({.width = width, .intervals = 2});
  std::vector<double> sum(2), count(2);
  for (const std::uint64_t seed : {5U, 6U}) {
    const at::Tensor p =
        at::softmax(random_tensor(seed, {heads, lanes, tokens, free + before + tokens}), -1);
    distances.add(1, p, {.mask = {}, .query_valid = {}, .free = free, .before = before});
    const auto value = p.accessor<double, 4>();
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t b = 0; b < lanes; ++b) {
        for (std::int64_t t = 0; t < tokens; ++t) {
          for (std::int64_t n = 0; n < 2; ++n) {
            if (before + t < (n + 1) * width) continue;
            double most = 0.0;
            for (std::int64_t d = n * width + 1; d <= (n + 1) * width; ++d) {
              most = std::max(most, value[h][b][t][free + before + t - d]);
            }
            sum[static_cast<std::size_t>(n)] += most;
            count[static_cast<std::size_t>(n)] += 1.0;
          }
        }
      }
    }
  }
  const AttentionByDistance::Layer layer = distances.layers().at(1);
  for (std::size_t n = 0; n < 2; ++n) {
    EXPECT_NEAR(layer.weight[n], sum[n] / count[n], 1e-14);
    EXPECT_EQ(layer.tokens[n], static_cast<std::int64_t>(count[n]) / heads);
  }
}

TEST(AttentionByDistance, LooksAtTheWantedLayersOfAModelOnly) {
  const config::ModelConfig config = small_config();
  const ModelSetup setup = small_setup();
  const auto model = make_model(config, setup);
  model->train(false);
  Batch batch;
  batch.input = random_ids(9, 2, 6, setup.vocabulary);
  AttentionByDistance distances({.width = 1, .intervals = 5, .layers = {1}});
  ForwardOptions options;
  const at::Tensor without = run_plain(*model, config, setup, batch).top;
  options.distances = &distances;
  // A layer that is looked at stores its probabilities, the others attend by the host's kernel.
  EXPECT_LT(largest_difference(run_plain(*model, config, setup, batch, options).top, without),
            1e-13);
  ASSERT_EQ(distances.layers().size(), 1U);
  const AttentionByDistance::Layer layer = distances.layers().at(1);
  EXPECT_EQ(layer.tokens, (std::vector<std::int64_t>{10, 8, 6, 4, 2}));
  for (const double weight : layer.weight) {
    EXPECT_GT(weight, 0.0);
    EXPECT_LT(weight, 1.0);
  }
}

TEST(AttentionByDistance, RefusesNoInterval) {
  const std::string text = error_of([] { AttentionByDistance({.width = 5, .intervals = 0}); });
  EXPECT_NE(text.find("expected at least 1 interval of at least 1 place, got 0 of 5"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace mneme::backbone
