// Gradients by finite differences in f64, and through what they flow.
#include <gtest/gtest.h>

#include <ostream>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/lamemo/by_hand.hpp"

namespace lamemo_test {
namespace {

using mneme::str;
using mneme::backbone::gradient_error;
using mneme::backbone::random_ids;

constexpr double kMaxError = 1e-6;
// What memory rows look at moves the tokens' loss by way of another layer alone, and by little.
constexpr double kLongStep = 1e-3;

struct Shape {
  const char* name;
  int64_t lanes, rows, length, previous;
  int64_t layers = 2, head_width = 3;
  friend std::ostream& operator<<(std::ostream& out, const Shape& s) { return out << s.name; }
};

// The third of three segments, computed again and again; layer 1 reads what layer 0 refreshed.
class LastSegment {
 public:
  LastSegment(const Shape& shape, const Variant& variant, Norm norm)
      : shape_(shape),
        variant_(variant),
        config_(small(shape, variant.config(norm))),
        run_(session(lamemo(str("rows = ", shape.rows, "\n", variant.options)), config_)),
        before_(run_.fresh(shape.lanes)) {
    run_.nll(before_, ids(0, shape.previous + 1));
    run_.nll(before_, ids(1, shape.previous));
    if (shape.lanes > 1) before_.reset({0, 1});
  }
  at::Tensor loss() {
    StackState state = before_.clone();
    return run_.loss(state, ids(9, shape_.length));
  }
  MemorySession& session_() { return run_; }

 private:
  static ModelConfig small(const Shape& shape, ModelConfig c) {
    c.layers = shape.layers;
    c.width = c.embedding = 6;
    c.heads = 2;
    c.head_width = shape.head_width;
    c.ff = 5;
    return c;
  }
  at::Tensor ids(uint64_t s, int64_t length) const {
    return random_ids(s, shape_.lanes, length + 1, 11);
  }

  Shape shape_;
  Variant variant_;
  ModelConfig config_;
  MemorySession run_;
  StackState before_;
};

class LaMemoGradient : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(LaMemo, LaMemoGradient,
                         testing::Values(Shape{"MemoryLonger", 2, 7, 4, 3},
                                         Shape{"MemoryShorter", 2, 2, 4, 3},
                                         Shape{"OneToken", 2, 4, 1, 1}, Shape{"OneRow", 1, 1, 3, 2},
                                         Shape{"HeadWidth41", 1, 3, 2, 2, 2, 41},
                                         Shape{"ThreeLayers", 1, 4, 3, 3, 3, 3}),
                         [](const auto& shape) { return shape.param.name; });

void expect_gradients(const Shape& shape, const Variant& variant, Norm norm, bool has_backbone) {
  SCOPED_TRACE(str(variant.name, norm == Norm::kPre ? ", pre-norm" : ", post-norm"));
  LastSegment last(shape, variant, norm);
  const auto loss = [&] { return last.loss(); };
  // The softmax over one key is 1 whatever its score.
  const bool is_one_key = std::string(variant.options).find("interpolation") != std::string::npos &&
                          std::min(shape.rows, shape.previous) == 1;
  for (const auto& parameter : last.session_().stack.parameters()) {
    if (is_one_key) {
      parameter.tensor.mutable_grad().reset();
      loss().backward();
      EXPECT_LE(parameter.tensor.grad().abs().max().item<double>(), 1e-15) << parameter.name;
      continue;
    }
    EXPECT_LE(gradient_error(parameter.tensor, loss, 2, kLongStep), kMaxError) << parameter.name;
  }
  if (!has_backbone) return;
  for (const auto& parameter : last.session_().model->parameters()) {
    EXPECT_LE(gradient_error(parameter.tensor, loss, 2), kMaxError) << parameter.name;
  }
}

// Those of the backbone, which are many, with one norm a variant, and with the other one in other
// shapes.
TEST_P(LaMemoGradient, OfEveryParameterEqualsDifferences) {
  bool is_post = GetParam().rows % 2 == 0;
  for (const Variant& variant : kVariants) {
    expect_gradients(GetParam(), variant, Norm::kPost, is_post);
    expect_gradients(GetParam(), variant, Norm::kPre, !is_post);
    is_post = !is_post;
  }
}

// A loss of the second layer's tokens is a function of what the first one made of memory rows.
struct Gradients {
  std::vector<std::string> names;
  std::vector<at::Tensor> values;
};
Gradients by_hand(MemorySession& run, const ModelConfig& config, ByHandSettings settings,
                  bool detaches) {
  settings.detaches_riders = detaches;
  ByHand model(run, config, settings);
  at::Tensor sum;
  for (uint64_t s = 0; s < 3; ++s) {
    mneme::backbone::ForwardOptions::Tap tap;
    StackState state = run.fresh(2);
    run.run(state, random_ids(s, 2, 7, 11), {.tap = &tap});
    sum = model.forward(tap.embedded).square().mul(at::arange(1, 13)).sum();
  }
  Gradients out;
  for (const auto& parameter : run.model->parameters()) {
    if (!parameter.name.starts_with("layers.") && !parameter.name.starts_with("attention.")) {
      continue;
    }
    out.names.push_back(parameter.name);
    out.values.push_back(torch::autograd::grad({sum}, {parameter.tensor}, {}, true)[0]);
  }
  return out;
}
Gradients of_tier(MemorySession& run, const std::vector<std::string>& names) {
  StackState state = run.fresh(2);
  at::Tensor sum;
  for (uint64_t s = 0; s < 3; ++s) {
    const at::Tensor top = run.run(state, random_ids(s, 2, 7, 11)).top;
    sum = top.square().mul(at::arange(1, 13)).sum();
  }
  Gradients out{names, {}};
  for (const std::string& name : names) {
    out.values.push_back(torch::autograd::grad({sum}, {run.parameter(name)}, {}, true)[0]);
  }
  return out;
}
// ||a - b|| / ||a|| over all parameters.
double apart(const Gradients& a, const Gradients& b) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    difference += (a.values[i] - b.values[i]).square().sum().item<double>();
    norm += a.values[i].square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
}

// As the released code; eq. 5 prints a stop-gradient on memory.
TEST(LaMemoGradientOf, TheMemoryRowsFlowsThroughAllLayersOfTheSegment) {
  for (const Norm norm : {Norm::kPost, Norm::kPre}) {
    for (const Variant& variant : kVariants) {
      SCOPED_TRACE(variant.name);
      const ModelConfig config = variant.config(norm);
      MemorySession run = session(lamemo(str("rows = 7\n", variant.options)), config);
      const auto settings = ByHandSettings::parse(variant.options, 7);
      const Gradients expected = by_hand(run, config, settings, false);
      const Gradients tier = of_tier(run, expected.names);
      EXPECT_LE(apart(expected, tier), 1e-10);
      EXPECT_GT(apart(by_hand(run, config, settings, true), tier), 0.01);
    }
  }
}

// Nothing crosses segments, and the last layer's look-ahead has no gradient to give.
TEST(LaMemoGradientOf, TheLookAheadEndsAtTheSegmentAndBeforeTheLastLayer) {
  ModelConfig config = model_config();
  config.layers = 1;
  MemorySession run = session(lamemo("rows = 7"), config);
  StackState state = run.fresh(2);
  for (uint64_t s = 0; s < 3; ++s) {
    const at::Tensor loss = run.loss(state, random_ids(s, 2, 7, 11));
    EXPECT_TRUE(state.is_graph_boundary()) << s;
    const auto grad = torch::autograd::grad({loss}, {run.parameter("position_bias_ahead")}, {},
                                            true, false, /*allow_unused=*/true)[0];
    EXPECT_TRUE(!grad.defined() || grad.abs().max().item<double>() == 0.0) << s;
  }
}

}  // namespace
}  // namespace lamemo_test
