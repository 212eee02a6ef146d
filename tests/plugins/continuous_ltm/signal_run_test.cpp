// What the continuous memory holds, draws and saves, through the host.
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/plugins/continuous_ltm/memory.hpp"

namespace continuous_ltm_test {
namespace {

const std::string kSignalLinear = "basis = 12\nwidths = [0.05, 0.2]\nsamples = 9\n";
const std::string kSignalSticky = kSignalLinear + "sticky = true\nbins = 16\n";

// psi(t) B for one lane: the stored signal at `places` [P] -> [P,D], by the definition.
at::Tensor signal_at(const at::Tensor& coefficients, const std::vector<double>& widths,
                     const at::Tensor& places) {
  const int64_t count = coefficients.size(0);
  const auto wide = static_cast<int64_t>(widths.size());
  const at::Tensor n = torch::arange(count);
  const at::Tensor centre =
      n.div(wide, "floor").to(at::kDouble) / static_cast<double>(count / wide - 1);
  const at::Tensor width = torch::tensor(widths, at::kDouble).index_select(0, n.remainder(wide));
  const at::Tensor z = (places.unsqueeze(1) - centre) / width;
  return at::matmul((-0.5 * z.square()).exp() / (width * std::sqrt(2 * M_PI)),
                    coefficients.to(at::kDouble));
}

double worst(const at::Tensor& x) { return x.abs().max().item<double>(); }

// At the sizes of the paper's GPT-2 experiments. The limits were measured on the official code in
// double: the zero padding lowers the ends, and an update leaves a notch at t = tau.
TEST(ContinuousLtmSignal, ReadsAConstantSequenceBackBetweenEndsAndSeams) {
  Sizes sizes{.lanes = 1, .width = 2, .heads = 1, .head_width = 2, .segment = 512};
  Memory memory("basis = 512\nwidths = [0.005, 0.01]\ntau = 0.5\nridge = 0.5\ngate = false\n",
                sizes);
  const at::Tensor ones = torch::ones({1, 512, 2}, at::kDouble);
  const at::Tensor inner = torch::linspace(0.03, 0.97, 2001, at::kDouble);
  const auto at_places = [](const Seen& seen, const at::Tensor& places) {
    return signal_at(seen.coefficients()[0], {0.005, 0.01}, places);
  };
  Seen seen = memory.absorb(ones, memory.q(0, 1));
  EXPECT_LE(worst(at_places(seen, inner) - 1), 0.005);
  EXPECT_NEAR(at_places(seen, torch::tensor({0.0, 1.0}, at::kDouble)).mean().item<double>(), 0.506,
              0.001);
  for (int update = 0; update < 3; ++update) {
    seen = memory.absorb(ones, memory.q(0, 1));
    const at::Tensor notch = at_places(seen, torch::tensor({0.5}, at::kDouble));
    EXPECT_NEAR(notch[0][0].item<double>(), 0.89, 0.015) << update;
    const at::Tensor behind = torch::linspace(0.3, 0.45, 301, at::kDouble);
    const at::Tensor ahead = torch::linspace(0.55, 0.97, 501, at::kDouble);
    EXPECT_LE(worst(at_places(seen, behind) - 1), 0.005) << update;
    EXPECT_LE(worst(at_places(seen, ahead) - 1), 0.005) << update;
  }
}

TEST(ContinuousLtmSignal, MovesThePastTowardsZeroByTau) {
  Sizes sizes{.lanes = 1, .width = 1, .heads = 1, .head_width = 1, .segment = 64};
  Memory memory("basis = 128\nwidths = [0.01, 0.02]\ntau = 0.6\nridge = 0.5\ngate = false\n",
                sizes);
  // A bump, then nothing: the bump's place is multiplied by tau at every update.
  const at::Tensor t = (torch::arange(64, at::kDouble) + 0.5) / 64;
  const at::Tensor bump = (-0.5 * ((t - 0.8) / 0.05).square()).exp().view({1, 64, 1});
  const at::Tensor grid = torch::linspace(0.0, 1.0, 4001, at::kDouble);
  double place = 0.8;
  for (int step = 0; step < 3; ++step) {
    const Seen seen = memory.absorb(step == 0 ? bump : torch::zeros_like(bump), memory.q(0, 1));
    const at::Tensor peak = signal_at(seen.coefficients()[0], {0.01, 0.02}, grid).argmax();
    EXPECT_NEAR(grid[peak.item<int64_t>()].item<double>(), place, 0.01) << step;
    place *= 0.6;
  }
}

TEST(ContinuousLtmSignal, DrawsSortedPlacesInsideTheDrawnBins) {
  for (const bool is_uniform : {false, true}) {
    Memory memory(kSignalSticky + "within_bin = " + (is_uniform ? "\"uniform\"\n" : "\"left\"\n"),
                  {});
    memory.absorb(memory.x(0), memory.q(0));
    const Seen seen = memory.absorb(memory.x(1), memory.q(1));
    const at::Tensor bins = std::get<0>(seen.probes.at("memory.drawn_bins").sort(1));
    const at::Tensor places = seen.probes.at("memory.samples");
    ASSERT_EQ(places.sizes(), at::IntArrayRef({3, 9}));
    const at::Tensor within = places * 16 - bins;
    EXPECT_TRUE(within.ge(0).all().item<bool>());
    EXPECT_TRUE(within.lt(1).all().item<bool>());
    EXPECT_EQ(worst(within) > 0, is_uniform);
    EXPECT_TRUE(places.diff(1, 1).ge(0).all().item<bool>());
  }
}

// The histogram that the draws follow is that of the previous segment's densities.
TEST(ContinuousLtmSignal, KeepsTheMassOfTheLastSegmentsDensities) {
  Memory memory(kSignalSticky, {});
  const Seen first = memory.absorb(memory.x(0), memory.q(0));
  const Seen second = memory.absorb(memory.x(1), memory.q(1));
  at::Tensor edges = torch::arange(17, at::kDouble) / 16;
  edges[0] = -1e-6;
  edges[16] = 1 + 1e-6;
  const at::Tensor mean = first.probes.at("memory.density.mean").flatten(1).unsqueeze(2);
  const at::Tensor deviation =
      first.probes.at("memory.density.variance").flatten(1).unsqueeze(2).sqrt();
  const at::Tensor mass = at::special_ndtr((edges - mean) / deviation).diff(1, 2).sum(1);
  EXPECT_LE(distance(second.probes.at("memory.histogram"), mass / mass.sum(1, true)), 1e-12);
}

TEST(ContinuousLtmSignal, RepeatsARunFromItsRecordedDraws) {
  Sizes other;
  other.seed = 12;
  for (const char* within : {"left", "uniform"}) {
    const std::string options = kSignalSticky + "within_bin = \"" + within + "\"\n";
    Memory first(options, {});
    Memory repeated(options, other);
    Memory free(options, other);
    double apart = 0.0;
    for (uint64_t s = 0; s < 4; ++s) {
      Draws draws;
      const Seen a = first.segment(first.x(s), first.q(s), {.record = &draws});
      const Seen b = repeated.segment(repeated.x(s), repeated.q(s), {.replay = &draws});
      EXPECT_TRUE(at::equal(a.z, b.z)) << within << " " << s;
      apart = distance(free.segment(free.x(s), free.q(s)).z, a.z);
      // The first update is that of the third segment.
      EXPECT_EQ(draws.size(), s < 2 ? 0u : std::string(within) == "left" ? 1u : 2u) << s;
    }
    EXPECT_GT(apart, 1e-6) << "another seed drew the same bins";
  }
}

TEST(ContinuousLtmSignal, RepeatsWithTheSameSeed) {
  Memory a(kSignalSticky, {});
  Memory b(kSignalSticky, {});
  for (uint64_t s = 0; s < 4; ++s)
    EXPECT_TRUE(at::equal(a.segment(a.x(s), a.q(s)).z, b.segment(b.x(s), b.q(s)).z)) << s;
}

class Saved : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(ContinuousLtm, Saved,
                         testing::Values(kSignalLinear, kSignalSticky,
                                         kSignalSticky + "reset_tokens = 20\n"));

TEST_P(Saved, ContinuesBitForBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const Sizes sizes{.dtype = dtype};
    Memory whole(GetParam(), sizes);
    for (uint64_t s = 0; s < 4; ++s)
      whole.segment(whole.x(s), whole.q(s), {.valid_count = {5, s == 1 ? 3 : 5, 5}});
    whole.state().reset({0, 0, 1});
    const auto saved = whole.state().save();
    Memory resumed(GetParam(), sizes);
    resumed.state() = resumed.stack().restore(mneme::memory::Phase::kTraining, sizes.lanes, saved);
    for (uint64_t s = 4; s < 8; ++s) {
      const Seen a = whole.segment(whole.x(s), whole.q(s));
      const Seen b = resumed.segment(resumed.x(s), resumed.q(s));
      EXPECT_TRUE(at::equal(a.z, b.z)) << s;
      EXPECT_TRUE(at::equal(a.losses.at("kl"), b.losses.at("kl"))) << s;
    }
  }
}

TEST_P(Saved, KeepsItsBytesHoweverMuchItAbsorbs) {
  Memory memory(GetParam(), {});
  memory.segment(memory.x(0), memory.q(0));
  memory.segment(memory.x(1), memory.q(1));
  const int64_t bytes = memory.state().bytes();
  EXPECT_GE(bytes, 3 * 12 * 6 * 8);  // coefficients [3,12,6] in f64
  for (uint64_t s = 2; s < 20; ++s) memory.segment(memory.x(s), memory.q(s));
  EXPECT_EQ(memory.state().bytes(), bytes);
}

}  // namespace
}  // namespace continuous_ltm_test
