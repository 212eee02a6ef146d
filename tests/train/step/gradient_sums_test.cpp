#include "host/train/step/gradient_sums.hpp"

#include <atomic>

#include "host/optim/optimizer.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/log_capture.hpp"
#include "tests/ranks/thread_ranks.hpp"

namespace mneme::train {
namespace {

using optim::TrainableParameter;

// A model of a few parameters, of which rank 1 uses all but the last two, and nobody the last.
struct Model {
  explicit Model(at::ScalarType type, at::Device device = at::kCPU) {
    const at::TensorOptions options = at::TensorOptions().dtype(type).device(device);
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{3, 4}, {4}, {4, 5}, {}, {5, 2}, {7}, {6}}) {
      const at::Tensor value =
          (torch::arange(c10::multiply_integers(shape), options) * 0.01 + 0.1).view(shape);
      parameters.push_back({str("p", parameters.size()), value.clone().requires_grad_(true)});
    }
  }

  // Of one lane.
  [[nodiscard]] at::Tensor loss(int lane, bool uses_all) const {
    const auto p = [&](std::size_t i) { return parameters[i].tensor; };
    const at::Tensor x = torch::full({2, 3}, 0.3 * (lane + 1), p(0).options().requires_grad(false));
    at::Tensor h = at::tanh(at::matmul(x, p(0)) + p(1));
    h = at::tanh(at::matmul(h, p(2)) * p(3));
    at::Tensor sum = at::matmul(h, p(4)).pow(2).sum();
    if (uses_all) sum = sum + (p(5) * static_cast<double>(lane + 1)).pow(2).sum();
    return sum;
  }

  std::vector<TrainableParameter> parameters;
};

// The gradients of all lanes in one process; rank 1's lanes do not use p5.
std::vector<at::Tensor> expected_sums(at::ScalarType type, int ranks, int passes,
                                      at::Device device) {
  const Model model(type, device);
  for (int pass = 0; pass < passes; ++pass) {
    for (int rank = 0; rank < ranks; ++rank) model.loss(10 * pass + rank, rank != 1).backward();
  }
  std::vector<at::Tensor> out;
  for (const TrainableParameter& one : model.parameters) out.push_back(one.tensor.grad());
  return out;
}

void expect_sums(at::ScalarType type, const GradientSumsOptions& options, double tolerance,
                 int size = 3, at::Device device = at::kCPU) {
  constexpr int kPasses = 2, kSteps = 3;
  const std::vector<at::Tensor> wanted = expected_sums(type, size, kPasses, device);
  test::run_ranks(size, [&](ranks::Communicator& ranks) {
    const at::AutoGradMode grad(true);
    Model model(type, device);
    GradientSums sums(ranks, model.parameters, options);
    for (int step = 0; step < kSteps; ++step) {
      for (TrainableParameter& one : model.parameters) one.tensor.mutable_grad() = at::Tensor();
      const bool uses_all = ranks.rank() != 1;
      for (int pass = 0; pass < kPasses; ++pass) {
        if (pass + 1 == kPasses) sums.begin(str("step ", step));
        model.loss(10 * pass + ranks.rank(), uses_all).backward();
      }
      std::vector<double> numbers = {1.0, static_cast<double>(ranks.rank())};
      sums.finish(numbers);
      EXPECT_EQ(numbers[0], size);
      EXPECT_EQ(numbers[1], size * (size - 1) / 2);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const at::Tensor& got = model.parameters[i].tensor.grad();
        ASSERT_EQ(got.defined(), wanted[i].defined()) << i;
        if (!got.defined()) continue;
        EXPECT_EQ(got.scalar_type(), type);
        EXPECT_TRUE(at::allclose(got, wanted[i], tolerance, tolerance * 1e-3))
            << i << got << wanted[i];
      }
    }
  });
}

TEST(GradientSums, AreThoseOfOneProcess) {
  for (const std::int64_t bytes : {1, 64, 200, 1 << 20})
    expect_sums(at::kDouble, {.bucket_bytes = bytes}, 1e-14);
  expect_sums(at::kFloat, {.bucket_bytes = 100}, 1e-6);
}

// Adam over the shards of all ranks is Adam over all parameters.
void expect_shards(int size, at::Device device, double tolerance) {
  constexpr int kSteps = 4;
  const at::AutoGradMode grad(true);
  Model whole(at::kDouble, device);
  for (TrainableParameter& one : whole.parameters) one.lr = 0.01;
  optim::Optimizer adam(whole.parameters, {});
  for (int step = 0; step < kSteps; ++step) {
    adam.zero_grad();
    for (int rank = 0; rank < size; ++rank) whole.loss(rank + step, rank != 1).backward();
    adam.step(1.0);
  }
  for (const std::int64_t bytes : {1, 100, 1 << 20}) {
    test::run_ranks(size, [&](ranks::Communicator& ranks) {
      const at::AutoGradMode with_grad(true);
      Model model(at::kDouble, device);
      for (TrainableParameter& one : model.parameters) one.lr = 0.01;
      GradientSums sums(ranks, model.parameters, {.bucket_bytes = bytes, .is_sharded = true});
      std::vector<TrainableParameter> own;
      for (const GradientSums::Shard& shard : sums.shards()) own.push_back(shard.part);
      optim::Optimizer part(own, {});
      for (int step = 0; step < kSteps; ++step) {
        part.zero_grad();
        sums.zero_grad();
        sums.begin("step");
        model.loss(ranks.rank() + step, ranks.rank() != 1).backward();
        sums.finish({});
        part.step(1.0);
        sums.share_parameters();
      }
      for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
        EXPECT_TRUE(
            at::allclose(model.parameters[i].tensor, whole.parameters[i].tensor, tolerance, 0))
            << i;
      }
      std::vector<at::Tensor> means;
      for (const optim::Optimizer::Moments& one : part.moments()) means.push_back(one.mean);
      const std::vector<at::Tensor> gathered = sums.gather(means);
      ASSERT_EQ(gathered.size(), ranks.is_first() ? whole.parameters.size() : 0u);
      for (std::size_t i = 0; i < gathered.size(); ++i) {
        EXPECT_TRUE(at::allclose(gathered[i], adam.moments()[i].mean.cpu(), 10 * tolerance, 1e-16))
            << i;
      }
    });
  }
}

TEST(GradientSums, UpdateShardsAsOneProcessUpdatesAll) { expect_shards(3, at::kCPU, 1e-13); }

TEST(GradientSums, TravelInBf16WhenAsked) {
  expect_sums(at::kFloat, {.bucket_bytes = 100, .in_bf16 = true}, 2e-2);
}

// One rank with NCCL; two on one GPU, which NCCL refuses, through the memory of the CPU. In a
// process of its own: LibTorch looks for GPUs when it computes for the first time.
TEST(GradientSumsOnAGpu, AreThoseOfOneProcess) {
  if (!tensor::has_cuda_driver()) GTEST_SKIP() << "no GPU";
  const at::Device device = tensor::open_device("cuda");
  for (const int size : {1, 2}) {
    test::LogCapture log;
    for (const std::int64_t bytes : {1, 200, 1 << 20}) {
      expect_sums(at::kDouble, {.bucket_bytes = bytes}, 1e-12, size, device);
      expect_sums(at::kFloat, {.bucket_bytes = bytes}, 1e-5, size, device);
      expect_sums(at::kFloat, {.bucket_bytes = bytes, .in_bf16 = true}, 2e-2, size, device);
    }
    expect_shards(size, device, 1e-11);
    EXPECT_EQ(log.text().find("through the memory of the CPU") != std::string::npos, size == 2);
  }
}

TEST(GradientSums, AreMadeInBucketsOfTheSizeAskedFor) {
  test::run_ranks(2, [&](ranks::Communicator& ranks) {
    const Model model(at::kFloat);
    const GradientSums one(ranks, model.parameters, {.bucket_bytes = 1 << 20});
    EXPECT_EQ(one.bytes(), 4 * (12 + 4 + 20 + 1 + 10 + 7 + 6));
    EXPECT_EQ(one.buckets(), 1);
    const GradientSums many(ranks, model.parameters, {.bucket_bytes = 1});
    EXPECT_EQ(many.buckets(), 7);
    const GradientSums half(ranks, model.parameters, {.bucket_bytes = 1 << 20, .in_bf16 = true});
    EXPECT_EQ(half.bytes(), one.bytes() / 2);
  });
}

// Without begin() a backward pass leaves gradients as they are, as in the passes that accumulate.
TEST(GradientSums, LeavePassesBeforeTheLastAlone) {
  test::run_ranks(2, [&](ranks::Communicator& ranks) {
    const at::AutoGradMode grad(true);
    const Model model(at::kDouble), alone(at::kDouble);
    const GradientSums sums(ranks, model.parameters, {});
    model.loss(ranks.rank(), true).backward();
    alone.loss(ranks.rank(), true).backward();
    EXPECT_TRUE(at::equal(model.parameters[0].tensor.grad(), alone.parameters[0].tensor.grad()));
  });
}

}  // namespace
}  // namespace mneme::train
