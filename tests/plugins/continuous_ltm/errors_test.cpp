// What the continuous memory refuses, and how it goes on where it need not refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/continuous_ltm/memory.hpp"

namespace continuous_ltm_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kSmallSticky = "basis = 12\nwidths = [0.02, 0.1]\nsticky = true\nbins = 16\n";

std::string refusal(const std::string& options) {
  try {
    Memory memory(options, {});
  } catch (const mneme::Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

struct BadOption {
  std::string options;
  std::string key;
  std::string text;
};

const BadOption kBadOptions[] = {
    {"", "basis", "expected an integer in [1, 65536]"},
    {"basis = 0\n", "basis", "expected an integer in [1, 65536], got 0"},
    {"basis = 7\n", "basis",
     "basis: expected a positive multiple of the number of widths, 2, got 7"},
    {"basis = 8\nwidths = []\n", "widths", "widths: expected"},
    {"basis = 8\nwidths = [0.1, 0.0]\n", "widths", "got 0"},
    {"basis = 17\nwidths = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n", "widths",
     "got 17"},
    {"basis = 8\ntau = 0.0\n", "tau", "expected a real number in [0.001, 0.999], got 0"},
    {"basis = 8\ntau = 1.0\n", "tau", "expected a real number in [0.001, 0.999], got 1"},
    {"basis = 8\nsamples = -1\n", "samples", "expected an integer in [0, 65536], got -1"},
    {"basis = 8\nridge = 0.0\n", "ridge", "got 0"},
    {"basis = 8\npadding = 1\n", "padding", "expected true or false, got 1"},
    {"basis = 8\nbins = 0\n", "bins", "expected an integer in [1, 65536], got 0"},
    {"basis = 8\nwithin_bin = \"right\"\n", "within_bin", "\"left\" | \"uniform\""},
    {"basis = 8\nvariance_floor = 0.0\n", "variance_floor", "got 0"},
    {"basis = 8\nsigma_0 = -0.1\n", "sigma_0", "got -0.1"},
    {"basis = 8\nlambda_kl = -1.0\n", "lambda_kl", "got -1"},
    {"basis = 8\nmu_0 = 11.0\n", "mu_0", "expected a real number in [-10, 10], got 11"},
    {"basis = 8\nkl_mean = true\nsigma_0 = 0.0\n", "kl_mean",
     "kl_mean = true needs a KL term: give a sigma_0 above 0, or leave kl_mean out"},
    {"basis = 8\nreset_tokens = -1\n", "reset_tokens", "got -1"},
    {"basis = 8\nmemory_input = \"output\"\n", "memory_input", "\"input\" | \"normed\""},
    {"basis = 8\npath = \"slow\"\n", "path", "\"fast\" | \"plain\""},
    {"basis = 8\nbassis = 8\n", "bassis", "basis"},
    {"basis = 8\neval_widths = [0.1]\n", "eval_widths", "evaluation"},
};

TEST(ContinuousLtmErrors, NamesEveryBadOption) {
  for (const BadOption& bad : kBadOptions)
    EXPECT_THAT(refusal(bad.options),
                AllOf(HasSubstr("test.toml:"), HasSubstr(bad.key), HasSubstr(bad.text)))
        << bad.options;
}

// Every value of a saved state, as text-free tensors by name.
bool are_equal(const mneme::memory::NamedState& a, const mneme::memory::NamedState& b) {
  if (a.tensors.size() != b.tensors.size() || a.metadata != b.metadata) return false;
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].first != b.tensors[i].first ||
        !at::equal(a.tensors[i].second, b.tensors[i].second))
      return false;
  }
  return true;
}

TEST(ContinuousLtmErrors, NamesTheLaneOfABadRowAndKeepsTheState) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      Memory memory(kSmallSticky, {.dtype = dtype});
      Memory twin(kSmallSticky, {.dtype = dtype});
      for (uint64_t s = 0; s < 2; ++s) {
        memory.absorb(memory.x(s), memory.q(s));
        twin.absorb(twin.x(s), twin.q(s));
      }
      const auto before = memory.state().save();
      const at::Tensor rows = memory.x(2);
      rows[1][3][4] = bad;
      try {
        memory.absorb(rows, memory.q(2));
        ADD_FAILURE() << "the rows were stored";
      } catch (const mneme::Error& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("hook absorb, layer 0"), HasSubstr("lane 1"),
                                        HasSubstr("row 3 of the 5 rows")));
      }
      EXPECT_TRUE(are_equal(memory.state().save(), before));
      EXPECT_TRUE(at::equal(memory.absorb(memory.x(3), memory.q(3)).z,
                            twin.absorb(twin.x(3), twin.q(3)).z));
    }
  }
}

// Lanes that start afresh are served apart from the others: the lane's number is still its own.
TEST(ContinuousLtmErrors, NamesTheLaneOfABadRowBesideOtherKindsOfLanes) {
  Memory memory(kSmallSticky, {});
  memory.absorb(memory.x(0), memory.q(0));
  memory.state().reset({1, 0, 0});
  const at::Tensor rows = memory.x(1);
  rows[2][0][0] = std::nan("");
  EXPECT_THAT([&] { memory.absorb(rows, memory.q(1)); },
              testing::ThrowsMessage<mneme::Error>(HasSubstr("lane 2")));
}

// A run of one memory, whose lane 1 gets the histogram `mass` [16] before its second update;
// `resets`: lanes that start afresh with it.
Seen after_histogram(const at::Tensor& mass, const std::vector<uint8_t>& resets = {0, 0, 0}) {
  Memory memory(kSmallSticky, {});
  memory.absorb(memory.x(0), memory.q(0));
  auto saved = memory.state().save();
  int64_t replaced = 0;
  for (auto& [name, tensor] : saved.tensors) {
    if (!name.ends_with(".density")) continue;
    tensor = tensor.clone();
    tensor[1].copy_(mass);
    ++replaced;
  }
  EXPECT_EQ(replaced, 1);
  memory.state() = memory.stack().restore(mneme::memory::Phase::kTraining, 3, saved);
  memory.state().reset(resets);
  return memory.absorb(memory.x(1), memory.q(1));
}

TEST(ContinuousLtmErrors, FallsBackToEvenSamplingAndCountsIt) {
  for (const double mass : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const Seen seen = after_histogram(torch::full({16}, mass, at::kDouble));
    const at::Tensor histogram = seen.probes.at("memory.histogram");
    EXPECT_LE((histogram[1] - 1.0 / 16).abs().max().item<double>(), 1e-15) << mass;
    EXPECT_GT((histogram[0] - 1.0 / 16).abs().max().item<double>(), 1e-3) << mass;
    EXPECT_NEAR(seen.metrics.at("uniform_fallback").item<double>(), 1.0 / 3, 1e-12) << mass;
    EXPECT_TRUE(seen.z.isfinite().all().item<bool>()) << mass;
  }
}

TEST(ContinuousLtmErrors, CountsNoFallbackWhereNothingIsSampled) {
  const at::Tensor even = torch::ones({16}, at::kDouble);
  EXPECT_EQ(after_histogram(even).metrics.at("uniform_fallback").item<double>(), 0.0);
  // Lane 1 starts afresh: its empty histogram is not looked at.
  EXPECT_EQ(after_histogram(even, {0, 1, 0}).metrics.at("uniform_fallback").item<double>(), 0.0);
}

TEST(ContinuousLtmErrors, TakesNegativeMassForNone) {
  at::Tensor mass = torch::ones({16}, at::kDouble);
  mass[5] = -1e-9;  // the rounding of a difference of sums
  const at::Tensor histogram = after_histogram(mass).probes.at("memory.histogram")[1];
  EXPECT_EQ(histogram[5].item<double>(), 0.0);
  EXPECT_NEAR(histogram[4].item<double>(), 1.0 / 15, 1e-15);
}

}  // namespace
}  // namespace continuous_ltm_test
