// Contexts in which a scaling that depends on their length would have an effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

config::ModelConfig with_dynamic_positions(std::int64_t longest) {
  config::ModelConfig c = small_decoders().at(1).model;
  c.rotary.scaling = config::RotaryScaling::kDynamic;
  c.rotary.original_positions = longest;
  return c;
}

TEST(LongestContext, AScalingOfLongerOnesChangesNothing) {
  const auto nll = [](const config::ModelConfig& c) {
    const auto model = make_model(c, small_setup());
    return run_plain(*model, c, small_setup(), batch_of(1, 6, 11)).nll.detach();
  };
  const at::Tensor plain = nll(small_decoders().at(1).model);
  EXPECT_TRUE(nll(with_dynamic_positions(6)).equal(plain));
}

TEST(LongestContext, LongerSegmentsAreRefusedBeforeAnythingIsComputed) {
  EXPECT_THAT(
      error_of([] { make_model(with_dynamic_positions(5), small_setup()); }),
      AllOf(HasSubstr("train.segment = 6: the context is longer than "
                      "model.rotary.original_positions = 5, up to which scaling = \"dynamic\" has "
                      "no effect: expected at most 5 tokens of a segment and rows of memories, got "
                      "6 tokens"),
            HasSubstr("--ignore rope_scaling")));
  const config::ModelConfig c = with_dynamic_positions(6);
  const auto model = make_model(c, small_setup());
  EXPECT_EQ(model->longest_segment(), 6);
  EXPECT_THAT(error_of([&] { run_plain(*model, c, small_setup(), batch_of(1, 7, 11)); }),
              HasSubstr("got 7 tokens"));
}

TEST(LongestContext, RowsOfMemoriesCount) {
  const config::ModelConfig c = with_dynamic_positions(8);
  const auto model = make_model(c, small_setup());
  model->set_context_rows(2);
  EXPECT_EQ(model->longest_segment(), 6);
  static_cast<void>(run_plain(*model, c, small_setup(), batch_of(1, 6, 11)));
  model->set_context_rows(3);
  EXPECT_THAT(
      error_of([&] { run_plain(*model, c, small_setup(), batch_of(1, 6, 11)); }),
      HasSubstr("expected at most 8 tokens of a segment and rows of memories, got 6 tokens and "
                "3 rows"));
}

}  // namespace
}  // namespace mneme::backbone
