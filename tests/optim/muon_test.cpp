// Muon beside plain loops over doubles.
#include "host/optim/muon.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "host/backbone/linear.hpp"
#include "host/optim/optimizer.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::optim {
namespace {

// Rows of a matrix [m,n].
struct Matrix {
  std::int64_t m = 0, n = 0;
  std::vector<double> values;

  Matrix(std::int64_t rows, std::int64_t columns)
      : m(rows), n(columns), values(static_cast<std::size_t>(rows * columns)) {}
  explicit Matrix(const at::Tensor& tensor) : Matrix(tensor.size(0), tensor.size(1)) {
    const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous();
    std::copy_n(flat.const_data_ptr<double>(), values.size(), values.begin());
  }
  double& at(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * n + j)]; }
  [[nodiscard]] double at(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * n + j)];
  }
  [[nodiscard]] at::Tensor tensor() const {
    return torch::tensor(values, at::kDouble).reshape({m, n});
  }
};

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix out(a.m, b.n);
  for (std::int64_t i = 0; i < a.m; ++i)
    for (std::int64_t k = 0; k < a.n; ++k)
      for (std::int64_t j = 0; j < b.n; ++j) out.at(i, j) += a.at(i, k) * b.at(k, j);
  return out;
}

Matrix transposed(const Matrix& a) {
  Matrix out(a.n, a.m);
  for (std::int64_t i = 0; i < a.m; ++i)
    for (std::int64_t j = 0; j < a.n; ++j) out.at(j, i) = a.at(i, j);
  return out;
}

// The published iteration, without a look at which side is the longer one: for both it is the same
// polynomial of the singular values, 3.4445 s - 4.775 s^3 + 2.0315 s^5.
Matrix naive_orthogonalized(Matrix x) {
  double square = 0.0;
  for (const double value : x.values) square += value * value;
  for (double& value : x.values) value /= std::max(std::sqrt(square), 1e-7);
  for (int step = 0; step < 5; ++step) {
    const Matrix gram = times(x, transposed(x));
    const Matrix cube = times(gram, x), fifth = times(gram, cube);
    for (std::size_t i = 0; i < x.values.size(); ++i)
      x.values[i] = 3.4445 * x.values[i] - 4.7750 * cube.values[i] + 2.0315 * fifth.values[i];
  }
  return x;
}

// One matrix, in plain loops.
struct NaiveMuon {
  Matrix weight, momentum;

  explicit NaiveMuon(const at::Tensor& first)
      : weight(first), momentum(first.size(0), first.size(1)) {}
  void step(const at::Tensor& given, double lr, double decay, double mu) {
    const Matrix gradient(given);
    Matrix direction(weight.m, weight.n);
    for (std::size_t i = 0; i < weight.values.size(); ++i) {
      momentum.values[i] = mu * momentum.values[i] + (1.0 - mu) * gradient.values[i];
      direction.values[i] = (1.0 - mu) * gradient.values[i] + mu * momentum.values[i];
    }
    const Matrix update = naive_orthogonalized(direction);
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(weight.m, weight.n)));
    for (std::size_t i = 0; i < weight.values.size(); ++i)
      weight.values[i] -= lr * (scale * update.values[i] + decay * weight.values[i]);
  }
};

at::Tensor drawn(at::IntArrayRef sizes, std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn(sizes, at::kDouble);
}

double relative_error(const at::Tensor& ours, const at::Tensor& theirs) {
  return ((ours.to(at::kDouble) - theirs).norm() / theirs.norm()).item<double>();
}

TEST(Muon, OrthogonalizesAsPlainLoops) {
  // Wide, tall, square, of the least size.
  for (const auto& sizes :
       std::vector<std::vector<std::int64_t>>{{7, 19}, {33, 6}, {12, 12}, {2, 2}}) {
    const at::Tensor matrix = drawn(sizes, 3) * 5.0;
    const at::Tensor naive = naive_orthogonalized(Matrix(matrix)).tensor();
    const at::Tensor ours = orthogonalized(matrix, at::kDouble);
    EXPECT_LE(relative_error(ours, naive), 1e-12) << at::IntArrayRef(sizes);
    const at::Tensor single = orthogonalized(matrix.to(at::kFloat), at::kFloat);
    EXPECT_EQ(single.scalar_type(), at::kFloat);
    EXPECT_LE(relative_error(single, naive), 1e-5) << at::IntArrayRef(sizes);
    const at::Tensor low = orthogonalized(matrix.to(at::kFloat), at::kBFloat16);
    EXPECT_EQ(low.scalar_type(), at::kFloat);
    EXPECT_LE(relative_error(low, naive), 0.05) << at::IntArrayRef(sizes);
  }
}

// What the coefficients are for: singular values that differ by a factor of 100 come close to 1.
TEST(Muon, MakesSingularValuesAlike) {
  const at::Tensor left = std::get<0>(at::linalg_qr(drawn({24, 24}, 5)));
  const at::Tensor right = std::get<0>(at::linalg_qr(drawn({40, 24}, 6)));
  const at::Tensor values = torch::logspace(-2, 0, 24, 10, at::kDouble);
  const at::Tensor matrix = at::mm(left * values, right.t());
  for (const at::ScalarType products : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor found = at::linalg_svdvals(orthogonalized(matrix, products));
    EXPECT_GE(found.min().item<double>(), 0.6) << products;
    EXPECT_LE(found.max().item<double>(), 1.3) << products;
  }
}

TEST(Muon, KeepsZeros) {
  EXPECT_TRUE(orthogonalized(torch::zeros({3, 4}), at::kFloat).equal(torch::zeros({3, 4})));
}

TEST(Muon, TakesMatricesAlone) {
  EXPECT_TRUE(is_matrix(torch::zeros({2, 3})));
  for (const auto& sizes :
       std::vector<std::vector<std::int64_t>>{{}, {3}, {1, 3}, {3, 1}, {2, 2, 2}})
    EXPECT_FALSE(is_matrix(torch::zeros(sizes))) << at::IntArrayRef(sizes);
}

struct Trained {
  std::vector<TrainableParameter> parameters;

  explicit Trained(at::ScalarType dtype) {
    const auto add = [&](const char* name, at::IntArrayRef sizes, double decay, bool by_muon) {
      const at::Tensor tensor = drawn(sizes, 10 + parameters.size()).to(dtype);
      parameters.push_back({name, tensor.set_requires_grad(true), 0.02, decay});
      parameters.back().by_muon = by_muon;
    };
    add("wide", {6, 11}, 0.1, true);
    add("vector", {5}, 0.0, false);
    add("tall", {9, 4}, 0.0, true);
    add("unused", {3, 3}, 0.1, true);
  }
  // Of all but the last one.
  void set_gradients(int step) {
    for (std::size_t i = 0; i + 1 < parameters.size(); ++i) {
      at::Tensor tensor = parameters[i].tensor;
      const at::Tensor gradient =
          drawn(tensor.sizes(), 100 + 10 * static_cast<std::uint64_t>(step) + i);
      tensor.mutable_grad() = gradient.to(tensor.scalar_type());
    }
  }
};

OptimizerOptions muon(at::ScalarType products) {
  return {.kind = config::Optimizer::kMuon, .momentum = 0.9, .products = products};
}

TEST(Muon, UpdatesMatricesAsPlainLoops) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    Trained ours(dtype);
    Optimizer optimizer(ours.parameters, muon(dtype));
    std::vector<NaiveMuon> naive;
    for (const std::size_t i : {0U, 2U}) naive.emplace_back(ours.parameters[i].tensor);
    const at::Tensor unused = ours.parameters[3].tensor.detach().clone();
    for (int step = 0; step < 5; ++step) {
      ours.set_gradients(step);
      const double factor = 1.0 / (1 + step);
      naive[0].step(ours.parameters[0].tensor.grad(), 0.02 * factor, 0.1, 0.9);
      naive[1].step(ours.parameters[2].tensor.grad(), 0.02 * factor, 0.0, 0.9);
      optimizer.step(factor);
    }
    const double tolerance = dtype == at::kDouble ? 1e-12 : 1e-5;
    EXPECT_LE(relative_error(ours.parameters[0].tensor, naive[0].weight.tensor()), tolerance);
    EXPECT_LE(relative_error(ours.parameters[2].tensor, naive[1].weight.tensor()), tolerance);
    EXPECT_LE(relative_error(optimizer.moments()[0].momentum, naive[0].momentum.tensor()),
              tolerance);
    EXPECT_TRUE(at::equal(ours.parameters[3].tensor, unused));
    EXPECT_EQ(optimizer.moments()[2].count.item<float>(), 5.0F);
    EXPECT_EQ(optimizer.moments()[3].count.item<float>(), 0.0F);
    EXPECT_FALSE(optimizer.moments()[0].mean.defined());
    EXPECT_FALSE(optimizer.moments()[1].momentum.defined());
    EXPECT_THAT(optimizer.untrained(), testing::ElementsAre("unused"));
  }
}

// The others have the updates of AdamW.
TEST(Muon, LeavesVectorsToAdamW) {
  Trained ours(at::kDouble), theirs(at::kDouble);
  Optimizer optimizer(ours.parameters, muon(at::kDouble));
  std::vector<TrainableParameter> vectors = {theirs.parameters[1]};
  Optimizer adamw(vectors, {.kind = config::Optimizer::kAdamW});
  for (int step = 0; step < 3; ++step) {
    ours.set_gradients(step);
    theirs.set_gradients(step);
    optimizer.step(1.0);
    adamw.step(1.0);
  }
  EXPECT_TRUE(at::equal(ours.parameters[1].tensor, theirs.parameters[1].tensor));
}

TEST(Muon, ChangesNothingInAStepThatIsSkipped) {
  Trained ours(at::kFloat), theirs(at::kFloat);
  Optimizer skips(ours.parameters, muon(at::kFloat)), plain(theirs.parameters, muon(at::kFloat));
  for (int step = 0; step < 3; ++step) {
    ours.set_gradients(step);
    theirs.set_gradients(step);
    skips.step(0.5, torch::zeros({}));
    plain.step(0.5);
    ours.parameters[0].tensor.mutable_grad().mul_(std::nan(""));
    skips.step(0.5, torch::ones({}));
    const std::vector<NamedTensor> a = skips.changed(), b = plain.changed();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
  }
}

// Where the kernel for CUDA writes those of other parameters.
TEST(Muon, WritesCopiesOfWeights) {
  const tensor::WithRowKernels kernels(kernel::row_definitions(), nullptr,
                                       &kernel::AdamKernels::by_definition());
  Trained ours(at::kFloat);
  backbone::ConvertedWeights converted;
  const at::Tensor copy = converted.get(ours.parameters[0].tensor.detach(), at::kBFloat16);
  Optimizer optimizer(ours.parameters, muon(at::kBFloat16), &converted);
  const at::Tensor before = copy.clone();
  ours.set_gradients(0);
  optimizer.step(1.0);
  converted.weights_changed(/*by_optimizer=*/true);
  EXPECT_FALSE(at::equal(copy, before));
  EXPECT_TRUE(at::equal(copy, ours.parameters[0].tensor.to(at::kBFloat16)));
}

}  // namespace
}  // namespace mneme::optim
