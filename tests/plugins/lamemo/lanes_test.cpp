// Lanes of the look-ahead memory: each by itself, reset by itself, ending early by itself.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <ostream>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/lamemo/memory.hpp"

namespace lamemo_test {
namespace {

using mneme::str;
using mneme::backbone::largest_difference;
using mneme::backbone::random_ids;

constexpr uint64_t kSegments = 9;
const std::vector<int64_t> kLamemoLanesLengths = {6, 6, 4, 6, 6, 1, 5, 6, 3};
const std::vector<int64_t> kAll = {0, 1, 2};

// Lanes start afresh before segments of their own, with and without padding in the segment before.
Events events() {
  Events out;
  out.is_reset = [](int64_t lane, uint64_t s) {
    return (lane == 1 && s == 2) || (lane == 0 && s == 5) || (lane == 2 && (s == 4 || s == 7));
  };
  out.valid = [](int64_t lane, uint64_t s) {
    if (lane == 0 && s == 4) return int64_t{2};
    if (lane == 2 && s == 3) return int64_t{1};
    if (lane == 2 && s == 6) return int64_t{3};
    return kLamemoLanesLengths[s];
  };
  return out;
}

at::Tensor lamemo_lanes_ids_of(uint64_t s) {
  return random_ids(800 + s, 3, kLamemoLanesLengths[s] + 1, 11);
}

struct Alone {
  MemorySession run;
  StackState state;
};

// Every lane of `tiers` against a run of that lane.
void expect_lanes_alone(const std::string& tiers, const ModelConfig& config, Phase phase) {
  const at::AutoGradMode grad(phase == Phase::kTraining);
  MemorySession all = session(tiers, config);
  StackState state = all.fresh(3, phase);
  std::vector<std::unique_ptr<Alone>> alone;
  for (uint64_t b = 0; b < 3; ++b) {
    alone.emplace_back(new Alone{session(tiers, config), {}});
    alone.back()->state = alone.back()->run.fresh(1, phase);
    alone.back()->state.set_streams({b});
  }
  for (uint64_t s = 0; s < kSegments; ++s) {
    const auto together =
        tier_test::run_segment(all, state, lamemo_lanes_ids_of(s), s, events(), kAll);
    for (int64_t b = 0; b < 3; ++b) {
      Alone& lane = *alone[static_cast<std::size_t>(b)];
      const auto own =
          tier_test::run_segment(lane.run, lane.state, lamemo_lanes_ids_of(s), s, events(), {b});
      const int64_t valid = events().valid(b, s);
      EXPECT_LE(
          largest_difference(together.nll[b].narrow(0, 0, valid), own.nll[0].narrow(0, 0, valid)),
          1e-12)
          << "lane " << b << ", segment " << s;
    }
  }
}

class LaMemoLanes : public testing::TestWithParam<Variant> {
 protected:
  std::vector<std::string> tiers() const {
    std::vector<std::string> out;
    for (const int64_t rows : {4, 6, 11}) {
      out.push_back(lamemo(str("rows = ", rows, "\n", GetParam().options)));
    }
    out.push_back(out[0] + xl_cache(7));
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(LaMemo, LaMemoLanes, testing::ValuesIn(kVariants),
                         [](const auto& made) { return made.param.name; });

TEST_P(LaMemoLanes, HaveTheNumbersOfThatLaneAlone) {
  for (const std::string& text : tiers()) {
    for (const Norm norm : {Norm::kPost, Norm::kPre}) {
      for (const Phase phase : {Phase::kTraining, Phase::kEvaluation}) {
        SCOPED_TRACE(text);
        expect_lanes_alone(text, GetParam().config(norm), phase);
      }
    }
  }
}

// Riders that a restarted lane lacks take no place between its tokens and the rows that it starts
// with.
TEST(LaMemoBeside, AMemoryThatStartsWithRowsHasTheNumbersOfEachLaneAlone) {
  const std::string starts =
      tier_test::tier("compressive", "rows = 4\ncompressed_rows = 2\nrate = 2\nstart = \"zeros\"");
  for (const std::string feed : {"", "feed = \"segment\"\n"}) {
    for (const Phase phase : {Phase::kTraining, Phase::kEvaluation}) {
      SCOPED_TRACE(feed);
      expect_lanes_alone(lamemo("rows = 4") + starts + feed, model_config(), phase);
    }
  }
}

TEST_P(LaMemoLanes, MayBeInAnyOrder) {
  const std::vector<int64_t> order = {2, 0, 1};
  for (const std::string& text : tiers()) {
    SCOPED_TRACE(text);
    MemorySession run = session(text, GetParam().config());
    StackState a = run.fresh(3), b = run.fresh(3);
    for (uint64_t s = 0; s < kSegments; ++s) {
      const auto straight =
          tier_test::run_segment(run, a, lamemo_lanes_ids_of(s), s, events(), kAll);
      const auto moved = tier_test::run_segment(run, b, lamemo_lanes_ids_of(s), s, events(), order);
      EXPECT_LE(
          largest_difference(moved.nll, straight.nll.index_select(0, at::tensor(order, at::kLong))),
          1e-12)
          << s;
    }
  }
}

// Lane 1's state becomes NaN after segment 4; the others never notice.
TEST_P(LaMemoLanes, KeepANanToThemselves) {
  for (const std::string& text : tiers()) {
    SCOPED_TRACE(text);
    MemorySession run = session(text, GetParam().config());
    StackState clean = run.fresh(3), dirty = run.fresh(3);
    for (uint64_t s = 0; s < kSegments; ++s) {
      const at::Tensor a = run.nll(clean, lamemo_lanes_ids_of(s)),
                       b = run.nll(dirty, lamemo_lanes_ids_of(s));
      for (const int64_t lane : {0, 2})
        EXPECT_TRUE(at::equal(a[lane], b[lane])) << "lane " << lane << ", segment " << s;
      // Rows that forget are well again once those of the NaN have left.
      if (s <= 5) {
        EXPECT_EQ(b[1].isfinite().all().item<bool>(), s <= 4) << s;
      }
      if (s != 4) continue;
      dirty = reloaded(run, dirty, Phase::kTraining, [](const std::string&, at::Tensor& tensor) {
        if (tensor.is_floating_point()) tensor[1].fill_(std::numeric_limits<double>::quiet_NaN());
      });
    }
  }
}

}  // namespace
}  // namespace lamemo_test
