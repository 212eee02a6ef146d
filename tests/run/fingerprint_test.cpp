#include "host/run/fingerprint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::run {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<backbone::Model> model(std::uint64_t seed,
                                       const memory::ReplacedLayers& replaced = {}) {
  config::ModelConfig config;
  config.layers = 1;
  config.heads = 2;
  config.head_width = 8;
  config.width = config.embedding = 16;
  config.ff = 32;
  backbone::ModelSetup setup;
  setup.vocabulary = 11;
  setup.train_segment = setup.eval_segment = 8;
  setup.seed = seed;
  setup.replaced = replaced;
  return backbone::make_model(config, setup);
}

TEST(Fingerprint, IsTheSameForTheSameSeed) {
  const auto a = fingerprint(*model(1));
  const auto b = fingerprint(*model(1));
  EXPECT_GT(a.size(), 5U);
  EXPECT_EQ(a, b);
  EXPECT_EQ(digest(a), digest(b));
  check_equal(a, "a", b, "b");
}

TEST(Fingerprint, SeesASingleBit) {
  const auto changed = model(1);
  const Fingerprint before = fingerprint(*changed);
  const backbone::Parameter& parameter = changed->parameters().at(2);
  {
    const torch::NoGradGuard guard;
    float* const value = parameter.tensor.view({-1}).mutable_data_ptr<float>();
    *value = std::nextafter(*value, 1e9F);
  }
  const Fingerprint after = fingerprint(*changed);
  EXPECT_NE(digest(before), digest(after));
  const std::string message = test::error_of([&] { check_equal(before, "none", after, "cache"); });
  EXPECT_THAT(message,
              HasSubstr("1: none and cache: their backbones do not start from the same weights"));
  EXPECT_THAT(message, HasSubstr(parameter.name));
}

TEST(Fingerprint, SeesAMissingParameter) {
  const Fingerprint all = fingerprint(*model(1));
  const Fingerprint fewer(all.begin(), all.end() - 1);
  EXPECT_THAT(test::error_of([&] { check_equal(all, "a", fewer, "b"); }),
              HasSubstr("got no parameter"));
}

TEST(Fingerprint, OutsideAttentionIsTheSameWhereAttentionIsReplaced) {
  const Fingerprint attends = fingerprint(*model(1)), replaced = fingerprint(*model(1, {{0, {}}}));
  EXPECT_NE(attends, replaced);
  const Fingerprint rest = outside_attention(attends);
  EXPECT_GT(rest.size(), 4U);
  EXPECT_EQ(rest, outside_attention(replaced));
  EXPECT_NE(rest, outside_attention(fingerprint(*model(2))));
}

}  // namespace
}  // namespace mneme::run
