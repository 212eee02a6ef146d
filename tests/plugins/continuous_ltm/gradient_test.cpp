// Gradients of both paths of the continuous memory by finite differences in f64.
#include <gtest/gtest.h>

#include <ostream>

#include "host/tensor/torch.hpp"
#include "tests/plugins/continuous_ltm/memory.hpp"

namespace continuous_ltm_test {
namespace {

struct Shape {
  const char* name;
  std::string options;
  Sizes sizes;
  int64_t first_rows;  // of the first segment
  int64_t rows;        // of the others
  int64_t queries;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.name; }

const Shape kShapes[] = {
    {"OneQuery", "basis = 6\nwidths = [0.05, 0.2]\n", {.lanes = 2, .segment = 4}, 4, 4, 1},
    {"OneRow", "basis = 4\nwidths = [0.2, 0.4]\n", {.lanes = 1, .segment = 1}, 1, 1, 3},
    {"AsManyFunctionsAsWidths",
     "basis = 2\nwidths = [0.1, 0.3]\nsamples = 6\n",
     {.segment = 7},
     7,
     7,
     5},
    {"HeadWidth41",
     "basis = 10\n",
     {.lanes = 1, .width = 9, .heads = 1, .head_width = 41},
     5,
     5,
     5},
    {"ShortFirstSegment",
     "basis = 32\nsamples = 16\nwidths = [0.01, 0.02, 0.05, 0.1]\nbins = 16\ntau = 0.5\n",
     {.lanes = 2, .segment = 16},
     13,
     16,
     16},
    {"BiasesAndMeans", "basis = 8\naffine_bias = true\nkl_mean = true\nmu_0 = 0.2\n", {}, 5, 5, 5},
    {"NoGateNoPadding", "basis = 8\ngate = false\npadding = false\nsamples = 5\n", {}, 5, 5, 5},
};

// One memory with its past, of which only the last segment runs again and again.
class LastSegment {
 public:
  LastSegment(const Shape& shape, const std::string& path, bool is_sticky, bool has_past)
      : memory_(shape.options + "lambda_kl = 0.05\npath = \"" + path +
                    "\"\nsticky = " + (is_sticky ? "true\n" : "false\n"),
                shape.sizes) {
    for (uint64_t s = 0; has_past && s < 2; ++s)
      memory_.absorb(memory_.x(s, s == 0 ? shape.first_rows : shape.rows),
                     memory_.q(s, shape.queries));
    leaves_ = memory_.parameters();
    leaves_["x"] = memory_.x(7, has_past ? shape.rows : shape.first_rows).requires_grad_(true);
    leaves_["q"] = memory_.q(7, shape.queries).requires_grad_(true);
  }

  const std::map<std::string, at::Tensor>& leaves() const { return leaves_; }
  at::Tensor loss() {
    const Seen seen = memory_.try_absorb(leaves_.at("x"), leaves_.at("q"));
    return (seen.z * random(seen.z.sizes(), 55)).sum() + seen.losses.at("kl");
  }
  // The slope of the loss along `direction` of a leaf.
  double slope(const std::string& name, const at::Tensor& direction) {
    const torch::NoGradGuard no_grad;
    const at::Tensor leaf = leaves_.at(name);
    const at::Tensor start = leaf.clone();
    const auto at_step = [&](double step) {
      leaf.copy_(start + step * direction);
      return loss().item<double>();
    };
    // Fourth order, so that steps are long enough to stay clear of rounding.
    const double h = 1e-5;
    const double near = at_step(h) - at_step(-h);
    const double far = at_step(2 * h) - at_step(-2 * h);
    leaf.copy_(start);
    return (8 * near - far) / (12 * h);
  }

 private:
  Memory memory_;
  std::map<std::string, at::Tensor> leaves_;
};

void expect_gradients(const Shape& shape, const std::string& path, bool is_sticky, bool has_past) {
  SCOPED_TRACE(path + (is_sticky ? ", sticky" : ", linear") +
               (has_past ? ", update" : ", first segment"));
  LastSegment last(shape, path, is_sticky, has_past);
  last.loss().backward();
  uint64_t seed = 300;
  for (const auto& [name, leaf] : last.leaves()) {
    ASSERT_TRUE(leaf.grad().defined()) << name;
    const double scale = leaf.grad().norm().item<double>();
    EXPECT_GT(scale, 0.0) << name;
    for (int round = 0; round < 2; ++round) {
      const at::Tensor direction = random(leaf.sizes(), ++seed);
      const double ours = (leaf.grad() * direction).sum().item<double>();
      EXPECT_NEAR(last.slope(name, direction), ours, 1e-6 * scale) << name;
    }
  }
}

class ContinuousLtmGradient : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, ContinuousLtmGradient, testing::ValuesIn(kShapes),
                         [](const auto& shape) { return shape.param.name; });

TEST_P(ContinuousLtmGradient, EqualsFiniteDifferences) {
  for (const char* path : {"fast", "plain"}) {
    expect_gradients(GetParam(), path, false, false);
    expect_gradients(GetParam(), path, false, true);
    expect_gradients(GetParam(), path, true, true);
  }
}

}  // namespace
}  // namespace continuous_ltm_test
