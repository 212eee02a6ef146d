// Lanes of the compressive memory: each by itself, reset by itself.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/compressive/memory.hpp"

namespace compressive_test {
namespace {

using mneme::str;
using mneme::backbone::largest_difference;
using mneme::backbone::random_ids;
using mneme::memory::Phase;

constexpr uint64_t kSegments = 9;
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
    if (lane == 2 && s == 6) return int64_t{5};
    return int64_t{6};
  };
  return out;
}

at::Tensor compressive_lanes_ids_of(uint64_t s) { return random_ids(300 + s, 3, 7, 11); }

struct Alone {
  MemorySession run;
  StackState state;
  MemorySession::Result seen;
};

// Every lane of `tiers` against a run of that lane.
void expect_lanes_alone(const std::string& tiers, Phase phase = Phase::kTraining,
                        const ModelConfig& config = model_config()) {
  SCOPED_TRACE(tiers);
  const at::AutoGradMode grad(phase == Phase::kTraining);
  MemorySession all = session(tiers, config);
  StackState state = all.fresh(3, phase);
  std::vector<std::unique_ptr<Alone>> alone;
  for (uint64_t b = 0; b < 3; ++b) {
    alone.emplace_back(new Alone{session(tiers, config), {}, {}});
    alone.back()->state = alone.back()->run.fresh(1, phase);
    alone.back()->state.set_streams({b});
  }
  for (uint64_t s = 0; s < kSegments; ++s) {
    const auto together = run_segment(all, state, compressive_lanes_ids_of(s), s, events(), kAll);
    double losses = 0.0;
    int64_t lanes = 0;
    for (int64_t b = 0; b < 3; ++b) {
      Alone& lane = *alone[static_cast<std::size_t>(b)];
      lane.seen = run_segment(lane.run, lane.state, compressive_lanes_ids_of(s), s, events(), {b});
      const int64_t valid = events().valid(b, s);
      EXPECT_LE(largest_difference(together.nll[b].narrow(0, 0, valid),
                                   lane.seen.nll[0].narrow(0, 0, valid)),
                1e-12)
          << "lane " << b << ", segment " << s;
      if (!lane.seen.aux.defined()) continue;
      losses += lane.seen.aux.item<double>();
      ++lanes;
    }
    // The host's mean over the lanes that have one.
    ASSERT_EQ(together.aux.defined(), lanes > 0) << s;
    if (lanes > 0) {
      EXPECT_NEAR(together.aux.item<double>(), losses / static_cast<double>(lanes), 1e-12) << s;
    }
  }
}

struct Case {
  std::string name;
  std::string before;      // tiers
  std::string sizes;       // of the compressive tier
  std::string after = {};  // tiers
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class CompressiveLanes : public testing::TestWithParam<Case> {
 protected:
  // Under every remainder policy and start.
  void expect_alone(const std::string& more, Phase phase = Phase::kTraining) const {
    for (const char* remainder : {"floor", "pad", "ceil", "carry"}) {
      for (const char* start : {"empty", "zeros"}) {
        expect_lanes_alone(GetParam().before +
                               compressive(str(GetParam().sizes, "\nremainder = \"", remainder,
                                               "\"\nstart = \"", start, "\"\nrate = 4\n", more)) +
                               GetParam().after,
                           phase);
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(
    Compressive, CompressiveLanes,
    testing::Values(Case{"small", "", "rows = 4\ncompressed_rows = 5"},  // less than a segment
                    Case{"large", "", "rows = 9\ncompressed_rows = 3"},
                    Case{"no_memory", "", "rows = 0\ncompressed_rows = 4"},
                    Case{"behind_a_cache", xl_cache(5), "rows = 0\ncompressed_rows = 4"},
                    Case{"with_rows_behind_a_cache", xl_cache(5), "rows = 9\ncompressed_rows = 4"},
                    Case{"before_another", "", "rows = 4\ncompressed_rows = 2",
                         compressive("rows = 6\ncompressed_rows = 0")}),
    [](const auto& made) { return made.param.name; });

TEST_P(CompressiveLanes, HaveTheNumbersOfThatLaneAlone) { expect_alone(""); }

TEST_P(CompressiveLanes, HaveThemWithBptt) { expect_alone("bptt = true"); }

TEST_P(CompressiveLanes, HaveThemWithOtherFunctionsAndLosses) {
  expect_alone("function = \"mean\"\nreport_loss = true\nloss_norm = \"l2\"");
  expect_alone("function = \"dilated\"\nloss = \"autoencoding\"\nstore = \"normed\"");
  expect_alone("function = \"max\"\nposition_bias = \"alibi\"");
}

TEST_P(CompressiveLanes, HaveThemAtEvaluation) { expect_alone("", Phase::kEvaluation); }

TEST_P(CompressiveLanes, HaveThemWhereTheMostUsedRowsAreKept) {
  // Behind a cache it needs rows of its own, and says so (most_used_test.cpp).
  const bool is_refused = GetParam().name == "behind_a_cache";
  if (!is_refused) expect_alone("function = \"most_used\"");
}

TEST(CompressiveLanesOf, APreNormModelHaveTheNumbersOfThatLaneAlone) {
  ModelConfig config = model_config();
  config.norm = mneme::config::Norm::kPre;
  for (const char* store : {"input", "normed"}) {
    const std::string tiers = compressive(str(
        "rows = 5\ncompressed_rows = 4\nrate = 4\nremainder = \"carry\"\nstore = \"", store, '"'));
    expect_lanes_alone(tiers, Phase::kTraining, config);
    expect_lanes_alone(tiers, Phase::kEvaluation, config);
  }
}

TEST(CompressiveLanesOf, ABatchMayBeInAnyOrder) {
  const std::vector<int64_t> order = {2, 0, 1};
  for (const char* more : {"", "bptt = true", "function = \"most_used\"", "remainder = \"ceil\""}) {
    SCOPED_TRACE(more);
    const std::string tiers = compressive(str("rows = 5\ncompressed_rows = 4\nrate = 4\n", more));
    MemorySession a = session(tiers), b = session(tiers);
    StackState of_a = a.fresh(3), of_b = b.fresh(3);
    for (uint64_t s = 0; s < kSegments; ++s) {
      const auto straight = run_segment(a, of_a, compressive_lanes_ids_of(s), s, events(), kAll);
      const auto moved = run_segment(b, of_b, compressive_lanes_ids_of(s), s, events(), order);
      EXPECT_LE(
          largest_difference(moved.nll, straight.nll.index_select(0, at::tensor(order, at::kLong))),
          1e-12)
          << s;
    }
  }
}

// Lane 1's rows in the queues become NaN after segment 4; the others never notice.
TEST(CompressiveLanesOf, ANanStaysInItsLane) {
  for (const char* more : {"", "bptt = true", "function = \"max\"", "function = \"most_used\"",
                           "remainder = \"carry\"", "remainder = \"pad\"\nloss = \"autoencoding\"",
                           "start = \"zeros\""}) {
    SCOPED_TRACE(more);
    const std::string tiers = compressive(str("rows = 5\ncompressed_rows = 4\nrate = 4\n", more));
    MemorySession run = session(tiers);
    StackState clean = run.fresh(3), dirty = run.fresh(3);
    for (uint64_t s = 0; s < kSegments; ++s) {
      const auto a = run_segment(run, clean, compressive_lanes_ids_of(s), s, events(), kAll);
      const auto b = run_segment(run, dirty, compressive_lanes_ids_of(s), s, events(), kAll);
      for (const int64_t lane : {0, 2})
        EXPECT_TRUE(at::equal(a.nll[lane], b.nll[lane])) << "lane " << lane << ", segment " << s;
      EXPECT_EQ(b.nll[1].isfinite().all().item<bool>(), s <= 4) << s;
      if (s != 4) continue;
      auto saved = dirty.save();
      for (auto& [name, tensor] : saved.tensors) {
        if (!name.ends_with(".hidden")) continue;
        tensor = tensor.clone();
        tensor[1].fill_(std::numeric_limits<double>::quiet_NaN());
      }
      dirty = run.stack.restore(Phase::kTraining, 3, saved);
    }
  }
}

}  // namespace
}  // namespace compressive_test
