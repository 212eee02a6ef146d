// Lanes of the continuous memory: each by itself, reset by itself.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "host/tensor/torch.hpp"
#include "tests/plugins/continuous_ltm/memory.hpp"

namespace continuous_ltm_test {
namespace {

class Lanes : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(ContinuousLtm, Lanes, testing::Values(kLinear, kSticky),
                         [](const auto& options) {
                           return options.param == kLinear ? "Linear" : "Sticky";
                         });

// Lane b of the events below: what happens before segment s of six.
bool is_reset(int64_t lane, uint64_t s) {
  return (lane == 1 && s == 2) || (lane == 0 && s == 4) || (lane == 2 && s == 5);
}
int64_t valid_tokens(int64_t lane, uint64_t s) {
  if (lane == 2 && s == 0) return 3;  // its first segment is shorter than the others'
  if (lane == 0 && s == 3) return 2;  // a document's end
  if (lane == 1 && s == 3) return 4;  // its second segment after a reset
  return 5;
}

Seen eventful_segment(Memory& memory, uint64_t s, const std::vector<int64_t>& lanes,
                      const at::Tensor& x, const at::Tensor& q) {
  std::vector<uint8_t> resets;
  How how;
  for (const int64_t b : lanes) {
    resets.push_back(is_reset(b, s) ? 1 : 0);
    how.valid_count.push_back(valid_tokens(b, s));
  }
  memory.state().reset(resets);
  return memory.segment(x, q, how);
}

TEST_P(Lanes, GivesEveryLaneTheNumbersOfThatLaneAlone) {
  Memory all(GetParam(), {});
  Sizes one;
  one.lanes = 1;
  std::vector<std::unique_ptr<Memory>> alone;
  for (uint64_t b = 0; b < 3; ++b) {
    alone.push_back(std::make_unique<Memory>(GetParam(), one));
    alone.back()->state().set_streams({b});
  }
  for (uint64_t s = 0; s < 6; ++s) {
    const at::Tensor x = all.x(s);
    const at::Tensor q = all.q(s);
    const Seen together = eventful_segment(all, s, {0, 1, 2}, x, q);
    for (int64_t b = 0; b < 3; ++b) {
      Memory& memory = *alone[static_cast<std::size_t>(b)];
      const Seen lane = eventful_segment(memory, s, {b}, x.narrow(0, b, 1), q.narrow(0, b, 1));
      const int64_t valid = valid_tokens(b, s);
      EXPECT_LE(
          distance(together.z.narrow(0, b, 1).narrow(1, 0, valid), lane.z.narrow(1, 0, valid)),
          1e-12)
          << "lane " << b << ", segment " << s;
    }
  }
}

// The same when the padding holds whatever it likes.
TEST_P(Lanes, NeverLooksAtPadding) {
  Memory clean(GetParam(), {});
  Memory dirty(GetParam(), {});
  for (uint64_t s = 0; s < 5; ++s) {
    const How how{.valid_count = {5, 3, 2}};
    const at::Tensor padding =
        torch::arange(5).unsqueeze(0).ge(torch::tensor({5, 3, 2}).unsqueeze(1)).unsqueeze(2);
    const double bad = std::nan("");
    const at::Tensor q = clean.q(s);
    const Seen a = clean.segment(clean.x(s), q, how);
    const Seen b = dirty.segment(dirty.x(s).masked_fill(padding, bad),
                                 q.masked_fill(padding.unsqueeze(3), 50.0), how);
    const at::Tensor keep = padding.logical_not();
    EXPECT_TRUE(at::equal(a.z.masked_select(keep), b.z.masked_select(keep))) << s;
    if (s == 0) continue;
    EXPECT_TRUE(at::equal(a.losses.at("kl"), b.losses.at("kl"))) << s;
    EXPECT_TRUE(at::equal(a.metrics.at("floored"), b.metrics.at("floored"))) << s;
  }
}

TEST_P(Lanes, StartsAResetLaneAfresh) {
  Memory old(GetParam(), {});
  Memory fresh(GetParam(), {});
  for (uint64_t s = 0; s < 3; ++s) old.segment(old.x(10 + s), old.q(10 + s));
  old.state().reset({0, 1, 0});
  for (uint64_t s = 0; s < 4; ++s) {
    Draws draws;  // those of a fresh run have another segment number
    const Seen a = old.segment(old.x(s), old.q(s), {.record = &draws});
    const Seen b = fresh.segment(fresh.x(s), fresh.q(s), {.replay = &draws});
    EXPECT_LE(distance(a.z[1], b.z[1]), 1e-13) << s;
    if (s == 0) continue;  // nothing was absorbed yet
    EXPECT_LE(distance(a.coefficients()[1], b.coefficients()[1]), 1e-13) << s;
    EXPECT_GT(distance(a.z[0], b.z[0]), 1e-3) << s;
  }
}

TEST_P(Lanes, EqualsAFreshRunAfterAResetOfAllLanes) {
  Memory old(GetParam(), {});
  Memory fresh(GetParam(), {});
  for (uint64_t s = 0; s < 3; ++s) old.segment(old.x(10 + s), old.q(10 + s));
  old.state().reset_all();
  for (uint64_t s = 0; s < 4; ++s) {
    Draws draws;
    const Seen a = old.segment(old.x(s), old.q(s), {.record = &draws});
    const Seen b = fresh.segment(fresh.x(s), fresh.q(s), {.replay = &draws});
    EXPECT_TRUE(at::equal(a.z, b.z)) << s;
  }
}

TEST_P(Lanes, EmptiesItselfAfterResetTokens) {
  Memory bounded(GetParam() + "reset_tokens = 10\n", {});
  Memory fresh(GetParam(), {});
  Memory endless(GetParam(), {});
  Seen last;
  for (uint64_t s = 0; s < 3; ++s) {
    last = bounded.absorb(bounded.x(s), bounded.q(s));
    const Seen other = endless.absorb(endless.x(s), endless.q(s));
    EXPECT_EQ(at::equal(last.z, other.z), s < 2) << s;
  }
  const Seen first = fresh.absorb(fresh.x(2), fresh.q(2));
  EXPECT_TRUE(at::equal(last.coefficients(), first.coefficients()));
  EXPECT_TRUE(at::equal(last.z, first.z));
}

TEST(ContinuousLtmLanes, CountsResetTokensByLane) {
  const std::string options = kLinear + "reset_tokens = 8\n";
  Memory memory(options, {});
  Memory fresh(kLinear, {});
  // Rows of a segment are absorbed by the next one: lane 1 has 8 after the fourth, lane 0 after the
  // third.
  const std::vector<std::vector<int64_t>> valid = {{5, 3, 5}, {5, 3, 5}, {5, 3, 5}, {5, 5, 5}};
  Seen seen;
  for (uint64_t s = 0; s < 4; ++s)
    seen = memory.segment(memory.x(s), memory.q(s), {.valid_count = valid[s]});
  fresh.segment(fresh.x(2), fresh.q(2), {.valid_count = valid[2]});
  const Seen started = fresh.segment(fresh.x(3), fresh.q(3), {.valid_count = valid[3]});
  EXPECT_LE(distance(seen.coefficients()[0], started.coefficients()[0]), 1e-13);
  EXPECT_GT(distance(seen.coefficients()[1], started.coefficients()[1]), 1e-3);
}

}  // namespace
}  // namespace continuous_ltm_test
