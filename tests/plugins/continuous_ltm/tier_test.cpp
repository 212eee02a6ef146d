// Properties of the continuous memory [infinity-former], through the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/base/log.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/continuous_ltm/memory.hpp"

namespace continuous_ltm_test {
namespace {

class LinearAndSticky : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(ContinuousLtm, LinearAndSticky, testing::Values(kLinear, kSticky),
                         [](const auto& options) {
                           return options.param == kLinear ? "Linear" : "Sticky";
                         });

// What segment `index` of a run gives, with the gradients of everything that it can train.
struct Trained {
  Seen seen;
  std::map<std::string, at::Tensor> gradients;
};

Trained train(Memory& memory, uint64_t segments) {
  Trained out;
  for (uint64_t s = 0; s < segments; ++s) {
    const bool is_last = s + 1 == segments;
    const at::Tensor x = memory.x(s).requires_grad_(is_last);
    const at::Tensor q = memory.q(s).requires_grad_(is_last);
    out.seen = memory.absorb(x, q);
    if (!is_last) continue;
    const at::Tensor weight = random(out.seen.z.sizes(), 77).to(out.seen.z.scalar_type());
    ((out.seen.z * weight).sum() + 0.1 * out.seen.losses.at("kl")).backward();
    out.gradients = {{"x", x.grad()}, {"q", q.grad()}};
  }
  for (const auto& [name, tensor] : memory.parameters()) out.gradients[name] = tensor.grad();
  return out;
}

void expect_equal_paths(const std::string& options, const Sizes& sizes, double tolerance) {
  Memory fast(options + "path = \"fast\"\n", sizes);
  Memory plain(options + "path = \"plain\"\n", sizes);
  const Trained a = train(fast, 4);
  const Trained b = train(plain, 4);
  // Narrow densities and wide ones: the fast path treats them differently.
  const at::Tensor variance = b.seen.probes.at("memory.density.variance");
  EXPECT_LT(variance.min().item<double>(), 1e-3);
  EXPECT_GT(variance.max().item<double>(), 0.1);
  EXPECT_LE(distance(a.seen.z, b.seen.z), tolerance);
  EXPECT_LE(distance(a.seen.losses.at("kl"), b.seen.losses.at("kl")), tolerance);
  // With linear sampling the two are A B + G^T X and the regression in two steps.
  EXPECT_LE(distance(a.seen.coefficients(), b.seen.coefficients()), tolerance);
  EXPECT_EQ(a.gradients.size(), b.gradients.size());
  EXPECT_GE(b.gradients.size(), 9u);
  for (const auto& [name, gradient] : b.gradients) {
    EXPECT_GT(gradient.norm().item<double>(), 0.0) << name;
    EXPECT_LE(distance(a.gradients.at(name), gradient), tolerance) << name;
  }
}

TEST_P(LinearAndSticky, FastAndPlainPathsAgreeInF64) {
  expect_equal_paths(GetParam(), {}, 1e-12);
  expect_equal_paths(GetParam() + "affine_bias = true\nkl_mean = true\nmu_0 = 0.4\n", {}, 1e-12);
  expect_equal_paths(GetParam() + "padding = false\n", {}, 1e-12);
}

TEST_P(LinearAndSticky, FastAndPlainPathsAgreeInF32) {
  Sizes sizes;
  sizes.dtype = at::kFloat;
  expect_equal_paths(GetParam(), sizes, 2e-4);
}

TEST_P(LinearAndSticky, KeepsNoGradientIntoEarlierSegments) {
  Memory memory(GetParam(), {});
  const at::Tensor old = memory.x(0).requires_grad_(true);
  memory.absorb(old, memory.q(0));
  const at::Tensor x = memory.x(1).requires_grad_(true);
  const Seen seen = memory.absorb(x, memory.q(1));
  const auto gradients = torch::autograd::grad({seen.z.square().sum()}, {old, x}, {}, std::nullopt,
                                               false, /*allow_unused=*/true);
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_GT(gradients[1].norm().item<double>(), 0.0);
}

TEST(ContinuousLtm, ReadsNothingBeforeItAbsorbs) {
  Memory memory(kLinear, {});
  const Seen seen = memory.segment(memory.x(0), memory.q(0));
  EXPECT_EQ(seen.z.abs().max().item<double>(), 0.0);
  EXPECT_TRUE(seen.losses.empty());
}

TEST(ContinuousLtm, HasNoKlTermAtThePriorsVariance) {
  const double sigma_0 = 0.3;
  Memory memory(kLinear + "affine_bias = true\nsigma_0 = 0.3\n", {});
  const Seen before = memory.absorb(memory.x(0), memory.q(0));
  EXPECT_GT(before.probes.at("memory.kl").min().item<double>(), 0.0);
  memory.set("sigma_weight", torch::zeros({1, 12}, at::kDouble));
  // softplus of this is sigma_0^2.
  memory.set("sigma_bias", torch::full({1}, std::log(std::expm1(sigma_0 * sigma_0)), at::kDouble));
  const Seen seen = memory.absorb(memory.x(1), memory.q(1));
  EXPECT_LE(seen.probes.at("memory.kl").abs().max().item<double>(), 1e-14);
  EXPECT_LE(std::abs(seen.losses.at("kl").item<double>()), 1e-14);
}

TEST(ContinuousLtm, WeighsTheMeanKlTermByLambda) {
  Memory memory("basis = 6\nlambda_kl = 0.25\n", {});
  const Seen seen = memory.absorb(memory.x(0), memory.q(0));
  EXPECT_NEAR(seen.losses.at("kl").item<double>(),
              0.25 * seen.probes.at("memory.kl").mean().item<double>(), 1e-12);
  EXPECT_NEAR(seen.metrics.at("kl").item<double>(),
              seen.probes.at("memory.kl").mean().item<double>(), 1e-12);
  Memory without("basis = 6\nsigma_0 = 0\n", {});
  EXPECT_TRUE(without.absorb(without.x(0), without.q(0)).losses.empty());
}

TEST(ContinuousLtm, ReportsTheShareOfVariancesOnTheFloor) {
  Memory memory(kLinear + "affine_bias = true\n", {});
  const auto floored_with_bias = [&](double bias) {
    memory.set("sigma_bias", torch::full({1}, bias, at::kDouble));
    return memory.absorb(memory.x(0), memory.q(0)).metrics.at("floored").item<double>();
  };
  EXPECT_EQ(floored_with_bias(-1e4), 1.0);
  EXPECT_EQ(floored_with_bias(1e4), 0.0);
  const double some = floored_with_bias(-9.0);
  EXPECT_GT(some, 0.0);
  EXPECT_LT(some, 1.0);
}

TEST(ContinuousLtm, AveragesTheKlTermOverValidQueriesOfLanesWithAMemory) {
  Memory memory(kLinear, {});
  memory.segment(memory.x(0), memory.q(0), {.valid_count = {5, 0, 5}});  // lane 1 stays empty
  const Seen seen = memory.segment(memory.x(1), memory.q(1), {.valid_count = {5, 4, 2}});
  const at::Tensor kl = seen.probes.at("memory.kl");  // [B,H,T]
  const at::Tensor counted = at::cat({kl[0].flatten(), kl[2].narrow(1, 0, 2).flatten()});
  EXPECT_NEAR(seen.metrics.at("kl").item<double>(), counted.mean().item<double>(),
              1e-12 * counted.mean().item<double>());
  EXPECT_NEAR(seen.losses.at("kl").item<double>(), 0.3 * counted.mean().item<double>(),
              1e-12 * counted.mean().item<double>());
}

TEST(ContinuousLtm, KeepsVariancesAtOrAboveTheFloorOfItsOption) {
  for (const char* path : {"fast", "plain"}) {
    Memory memory(kLinear + "variance_floor = 0.02\npath = \"" + path + "\"\n", {});
    const Seen seen = memory.absorb(memory.x(0), memory.q(0));
    EXPECT_EQ(seen.probes.at("memory.density.variance").min().item<double>(), 0.02) << path;
    EXPECT_GT(seen.metrics.at("floored").item<double>(), 0.0) << path;
  }
}

TEST(ContinuousLtm, StoresNormedRowsWhenAsked) {
  const at::Tensor weight = random({6}, 5).requires_grad_(true);
  const at::Tensor bias = random({6}, 6).requires_grad_(true);
  Memory memory(kLinear + "memory_input = \"normed\"\n", {});
  memory.use_norm(weight, bias);
  Memory input(kLinear, {});
  input.use_norm(weight, bias);
  for (uint64_t s = 0; s < 2; ++s) {
    const at::Tensor x = memory.x(s);
    const Seen a = memory.absorb(x, memory.q(s));
    const Seen b = input.absorb(at::layer_norm(x, {6}, weight, bias), input.q(s));
    EXPECT_LE(distance(a.z, b.z), 1e-13) << s;
    const auto gradient = torch::autograd::grad({a.z.square().sum()}, {weight});
    EXPECT_LE(distance(gradient[0], torch::autograd::grad({b.z.square().sum()}, {weight})[0]),
              1e-12)
        << s;
  }
}

TEST(ContinuousLtm, KeepsMemoryAndDensitiesInF32UnderMixedPrecision) {
  for (const char* path : {"fast", "plain"}) {
    SCOPED_TRACE(path);
    const std::string options = kLinear + "path = \"" + path + "\"\n";
    Memory mixed(options, {.dtype = at::kBFloat16});
    Memory single(options, {.dtype = at::kFloat});
    const Trained a = train(mixed, 3);
    const Trained b = train(single, 3);
    EXPECT_EQ(a.seen.z.scalar_type(), at::kBFloat16);
    for (const char* name : {"memory.density.mean", "memory.density.variance",
                             "memory.coefficients", "memory.expectation"})
      EXPECT_EQ(a.seen.probes.at(name).scalar_type(), at::kFloat) << name;
    EXPECT_LE(distance(a.seen.coefficients(), b.seen.coefficients()), 0.02);
    EXPECT_LE(distance(a.seen.z, b.seen.z), 0.1);
    for (const auto& [name, gradient] : b.gradients)
      EXPECT_LE(distance(a.gradients.at(name), gradient), 0.15) << name;
  }
}

TEST(ContinuousLtm, TakesStickySamplesUnderMixedPrecision) {
  Memory memory(kSticky, {.dtype = at::kBFloat16});
  Seen seen;
  for (uint64_t s = 0; s < 3; ++s) seen = memory.absorb(memory.x(s), memory.q(s));
  EXPECT_EQ(seen.probes.at("memory.samples").scalar_type(), at::kDouble);
  EXPECT_TRUE(seen.z.isfinite().all().item<bool>());
}

// Matrices belong to a number of rows; those of another number are made, with one log line.
TEST(ContinuousLtm, SaysThatItMakesConstantsForAnotherNumberOfRows) {
  std::vector<std::string> lines;
  Memory memory(kLinear, {}, mneme::memory::Phase::kEvaluation);
  mneme::set_log_sink([&](mneme::LogLevel level, std::string_view line) {
    if (level == mneme::LogLevel::kInfo) lines.emplace_back(line);
  });
  memory.absorb(memory.x(0, 7), memory.q(0));
  memory.absorb(memory.x(1), memory.q(1));
  EXPECT_EQ(lines.size(), 0u) << "a first write of another length is nothing to speak of";
  memory.absorb(memory.x(2, 7), memory.q(2));
  memory.absorb(memory.x(3, 7), memory.q(3));
  mneme::set_log_sink({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], testing::HasSubstr(
                            "makes the constants of updates with 7 rows; the run's segment is 5"));
}

// With 64 samples an update shrinks what is stored, with 32 it grows.
TEST(ContinuousLtm, SaysItsSpectralRadiusAndWarnsWhenItsUpdateGrows) {
  std::vector<std::string> warnings;
  std::vector<std::string> lines;
  mneme::set_log_sink([&](mneme::LogLevel level, std::string_view line) {
    (level == mneme::LogLevel::kWarning ? warnings : lines).emplace_back(line);
  });
  const std::string options = "basis = 64\ntau = 0.75\nridge = 1.0\nwidths = [0.01, 0.05]\n";
  Sizes sizes;
  sizes.segment = 24;
  Memory stable(options + "samples = 64\n", sizes);
  const std::size_t before = warnings.size();
  Memory growing(options + "samples = 32\n", sizes);
  mneme::set_log_sink({});
  EXPECT_EQ(before, 0u);
  ASSERT_EQ(lines.size(), 2u) << "one each";
  EXPECT_THAT(lines[0], testing::HasSubstr("24 rows and 64 samples has spectral radius 0."));
  EXPECT_THAT(lines[1], testing::HasSubstr("24 rows and 32 samples has spectral radius 1.537"));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], testing::AllOf(testing::HasSubstr("segments of 24 rows"),
                                          testing::HasSubstr("spectral radius is 1.537"),
                                          testing::HasSubstr("samples (now 32)")));
}

}  // namespace
}  // namespace continuous_ltm_test
