// The tier against the paper's equations in whole matrices (lamemo_by_hand.hpp).
#include "tests/plugins/lamemo/by_hand.hpp"

#include <gtest/gtest.h>

#include <ostream>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace lamemo_test {
namespace {

using mneme::str;
using mneme::backbone::largest_difference;
using mneme::backbone::random_ids;

constexpr double kLamemoByHandSame = 1e-12;

struct Shape {
  const char* name;
  int64_t lanes, rows;
  std::vector<int64_t> lengths;
  int64_t layers = 3, head_width = 5, clamp = 0;
  friend std::ostream& operator<<(std::ostream& out, const Shape& s) { return out << s.name; }
};

class LaMemoByHand : public testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(
    LaMemo, LaMemoByHand,
    testing::Values(Shape{"Even", 2, 6, {6, 6, 6, 6}},
                    Shape{"MemoryLongerThanSegments", 2, 11, {4, 5, 3, 6, 2, 6}},
                    Shape{"MemoryShorterThanSegments", 2, 3, {5, 6, 4, 1, 6}},
                    Shape{"OneToken", 2, 4, {1, 1, 1, 1, 1, 1, 1}},
                    Shape{"OneRow", 2, 1, {3, 1, 4, 1}},
                    Shape{"PromptThenTokens", 1, 7, {6, 1, 1, 1, 5, 1}},
                    Shape{"OneLane", 1, 5, {4, 6, 3}}, Shape{"OneLayer", 2, 5, {4, 6, 3}, 1},
                    Shape{"HeadWidth41", 2, 5, {4, 6, 3}, 2, 41},
                    Shape{"ClampedDistances", 2, 9, {4, 6, 3, 5}, 3, 5, 4}),
    [](const auto& made) { return made.param.name; });

void expect_state(const MemorySession::Result& seen, const StackState& state, const ByHand& by_hand,
                  int64_t layer) {
  SCOPED_TRACE(str("layer ", layer));
  EXPECT_LE(largest_difference(context_of(state, layer), by_hand.context(layer)),
            kLamemoByHandSame);
  EXPECT_LE(largest_difference(lse_of(state, layer), by_hand.lse(layer)), kLamemoByHandSame);
  if (!by_hand.alpha(layer).defined()) return;
  EXPECT_LE(largest_difference(tier_test::probe(seen, kAlpha, layer), by_hand.alpha(layer)),
            kLamemoByHandSame);
}

void expect_by_hand(const Shape& shape, const Variant& variant, Norm norm, Phase phase) {
  SCOPED_TRACE(str(variant.name, norm == Norm::kPre ? ", pre-norm" : ", post-norm"));
  ModelConfig config = variant.config(norm);
  config.layers = shape.layers;
  config.head_width = shape.head_width;
  config.clamp_distance = shape.clamp;
  MemorySession run = session(lamemo(str("rows = ", shape.rows, "\n", variant.options)), config);
  ByHand by_hand(run, config, ByHandSettings::parse(variant.options, shape.rows));
  StackState state = run.fresh(shape.lanes, phase);
  const at::NoGradGuard no_grad;
  for (uint64_t s = 0; s < shape.lengths.size(); ++s) {
    SCOPED_TRACE(str("segment ", s));
    mneme::backbone::ForwardOptions::Tap tap;
    const auto seen = run.run(state, random_ids(500 + s, shape.lanes, shape.lengths[s] + 1, 11),
                              {.probes = {kAlpha}, .tap = &tap});
    EXPECT_LE(largest_difference(seen.top, by_hand.forward(tap.embedded)), kLamemoByHandSame);
    for (int64_t l = 0; l < shape.layers; ++l) expect_state(seen, state, by_hand, l);
  }
}

TEST_P(LaMemoByHand, HasTheNumbersOfThePapersEquations) {
  for (const Variant& variant : kVariants) {
    for (const Norm norm : {Norm::kPost, Norm::kPre}) {
      for (const Phase phase : {Phase::kTraining, Phase::kEvaluation}) {
        expect_by_hand(GetParam(), variant, norm, phase);
      }
    }
  }
}

}  // namespace
}  // namespace lamemo_test
