#include "host/optim/weight_average.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "host/tensor/torch.hpp"

namespace mneme::optim {
namespace {

// "frozen" is the second of three.
std::vector<TrainableParameter> averaged_leaves(at::ScalarType dtype) {
  std::vector<TrainableParameter> out;
  for (const char* const name : {"a", "frozen", "b"}) {
    torch::manual_seed(out.size());
    out.push_back({name, torch::randn({3, 5}, dtype).set_requires_grad(true)});
    out.back().is_frozen = out.size() == 2;
  }
  return out;
}

void move_leaves(const std::vector<TrainableParameter>& leaves, std::uint64_t seed) {
  torch::manual_seed(seed);
  for (const TrainableParameter& one : leaves)
    one.tensor.detach().add_(torch::randn({3, 5}, one.tensor.scalar_type()));
}

TEST(WeightAverage, IsThatOfPlainLoops) {
  const double decay = 0.6;  // reached at update 13: (1 + t) / (10 + t) = 0.609
  const std::vector<TrainableParameter> leaves = averaged_leaves(at::kDouble);
  const at::Tensor frozen = leaves[1].tensor.detach().clone();
  WeightAverage average(leaves, decay);
  std::vector<double> naive(15);
  for (int i = 0; i < 15; ++i) naive[i] = leaves[2].tensor.view(-1)[i].item<double>();
  for (int t = 1; t <= 20; ++t) {
    move_leaves(leaves, 10 + static_cast<std::uint64_t>(t));
    average.add(t);
    const double d = std::min(decay, (1.0 + t) / (10.0 + t));
    for (int i = 0; i < 15; ++i)
      naive[i] = d * naive[i] + (1.0 - d) * leaves[2].tensor.view(-1)[i].item<double>();
  }
  const at::Tensor trained = leaves[2].tensor.detach().clone();
  const at::Tensor moved = leaves[1].tensor.detach().clone();
  average.exchange();
  for (int i = 0; i < 15; ++i)
    EXPECT_NEAR(leaves[2].tensor.view(-1)[i].item<double>(), naive[i], 1e-12);
  EXPECT_TRUE(at::equal(leaves[1].tensor, moved));  // has no average
  average.exchange();
  EXPECT_TRUE(at::equal(leaves[2].tensor, trained));
  average.reset();
  average.exchange();
  EXPECT_TRUE(at::equal(leaves[2].tensor, trained));
  EXPECT_FALSE(at::equal(frozen, moved));
}

TEST(WeightAverage, ChangesNothingBehindASkippedUpdate) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const std::vector<TrainableParameter> ours = averaged_leaves(dtype),
                                          theirs = averaged_leaves(dtype);
    WeightAverage skips(ours, 0.9), plain(theirs, 0.9);
    for (int t = 1; t < 5; ++t) {
      for (const auto* const side : {&ours, &theirs})
        move_leaves(*side, 10 + static_cast<std::uint64_t>(t));
      skips.add(t, torch::zeros({}, at::kFloat));
      plain.add(t);
      skips.add(t, torch::ones({}, at::kFloat));
    }
    skips.exchange();
    plain.exchange();
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(at::equal(ours[i].tensor, theirs[i].tensor));
  }
}

TEST(WeightAverage, IsGivenToTheMomentsOfItsParameters) {
  const WeightAverage average(averaged_leaves(at::kFloat), 0.9);
  std::vector<Optimizer::Moments> none, two(2), three(3);
  average.attach(none);
  average.attach(two);
  EXPECT_TRUE(two[0].weight.defined() && two[1].weight.defined());
  EXPECT_THROW(average.attach(three), std::logic_error);
}

}  // namespace
}  // namespace mneme::optim
