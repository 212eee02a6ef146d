// What the look-ahead memory releases: its rows in the form in which the layer last read them.
#include <gtest/gtest.h>

#include <ostream>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/lamemo/memory.hpp"

namespace lamemo_test {
namespace {

using mneme::str;
using mneme::backbone::largest_difference;
using mneme::backbone::random_ids;
using Tap = mneme::backbone::ForwardOptions::Tap;

constexpr int64_t kLamemoReleaseLayers = 3;
constexpr int64_t kLanes = 2;

// A tier behind the look-ahead, and where it (or the host for it) keeps what it absorbs.
struct Behind {
  const char* name;
  const char* plugin;
  const char* options;
  const char* queue;
  friend std::ostream& operator<<(std::ostream& out, const Behind& b) { return out << b.name; }
};

class LaMemoReleases : public testing::TestWithParam<Behind> {};
INSTANTIATE_TEST_SUITE_P(
    LaMemo, LaMemoReleases,
    testing::Values(
        Behind{"xl_cache", "xl_cache", "rows = 100", "cache"},
        Behind{"compressive", "compressive",
               "rows = 100\ncompressed_rows = 4\nrate = 2\nfunction = \"mean\"", "memory"},
        Behind{"continuous_ltm", "continuous_ltm", "basis = 8\nsamples = 8", "waiting"}),
    [](const auto& made) { return made.param.name; });

// The rows that go after a segment: M riders and T tokens pass, `rows` stay.
at::Tensor leaving(const Tap& tap, const at::Tensor& embedded, int64_t layer, int64_t rows) {
  const auto before = static_cast<std::size_t>(layer - 1);
  const at::Tensor tokens = layer == 0 ? tap.embedded : tap.layer_out[before];
  at::Tensor all = tokens;
  if (embedded.defined()) {
    const at::Tensor riders = layer == 0 ? embedded : tap.rider_layer_out[before];
    all = at::cat({riders, tokens}, 1);
  }
  return all.narrow(1, 0, std::max<int64_t>(all.size(1) - rows, 0));
}

void expect_rows(const at::Tensor& got, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  if (got.numel() > 0) {
    EXPECT_LE(largest_difference(got, expected), 1e-14) << what;
  }
}

// Segments of `lengths`. Lane 1 starts afresh before segment 3: its older rows are not released.
void expect_released(const Behind& behind, int64_t rows, const std::vector<int64_t>& lengths) {
  SCOPED_TRACE(str(rows, " rows"));
  MemorySession run =
      session(lamemo(str("rows = ", rows)) + tier_test::tier(behind.plugin, behind.options),
              model_config());
  StackState state = run.fresh(kLanes);
  // [layer][lane], oldest first: all of it, or what waits since the last segment.
  std::vector<std::vector<at::Tensor>> expected(
      kLamemoReleaseLayers, std::vector<at::Tensor>(kLanes, at::zeros({0, 12}, at::kDouble)));
  const bool is_waiting = std::string(behind.queue) == "waiting";
  for (uint64_t s = 0; s < lengths.size(); ++s) {
    const at::Tensor embedded = held_at(state, "model.embedded").rows;
    if (s == 3) state.reset({0, 1});
    Tap tap;
    run.run(state, random_ids(s, kLanes, lengths[s] + 1, 11), {.tap = &tap});
    int64_t since = 0;  // tokens of lane 1 since its start
    for (uint64_t i = 3; i <= s; ++i) since += lengths[i];
    for (int64_t l = 0; l < kLamemoReleaseLayers; ++l) {
      const at::Tensor gone = leaving(tap, embedded, l, rows);
      const Held held = held_at(state, str(l, ".", behind.queue), 1);
      for (int64_t b = 0; b < kLanes; ++b) {
        at::Tensor& of_lane = expected[static_cast<size_t>(l)][static_cast<size_t>(b)];
        if (is_waiting || (b == 1 && s == 3)) of_lane = of_lane.narrow(0, 0, 0);
        const int64_t passed = (embedded.defined() ? embedded.size(1) : 0) + lengths[s];
        const int64_t invalid = b == 1 && s >= 3 ? std::max<int64_t>(passed - since, 0) : 0;
        const int64_t first = std::min(invalid, gone.size(1));
        of_lane = at::cat({of_lane, gone[b].narrow(0, first, gone.size(1) - first)});
        const std::string what = str("layer ", l, ", lane ", b, ", segment ", s);
        if (held.columns() == 0) {
          EXPECT_EQ(of_lane.size(0), 0) << what;
        } else {
          expect_rows(held.lane(b), of_lane, what);
        }
      }
    }
  }
}

TEST_P(LaMemoReleases, RowsThatFallOutInOrder) {
  expect_released(GetParam(), 9, {4, 3, 5, 4, 6, 2, 6});
  expect_released(GetParam(), 6, {6, 6, 6, 6, 6});
}

// The segment's own oldest rows follow the memory's.
TEST_P(LaMemoReleases, RowsOfASegmentThatIsLongerThanTheMemory) {
  expect_released(GetParam(), 3, {6, 5, 4, 6, 1, 6});
  expect_released(GetParam(), 1, {3, 1, 2, 1, 1, 4});
}

// Nothing is released twice and nothing is lost: memory and what is behind it hold every token.
TEST(LaMemoRelease, LosesNoRowOfTheLowestLayer) {
  for (const Variant& variant : kVariants) {
    SCOPED_TRACE(variant.name);
    MemorySession run =
        session(lamemo(str("rows = 5\n", variant.options)) + xl_cache(1000), variant.config());
    StackState state = run.fresh(kLanes);
    at::Tensor all = at::zeros({kLanes, 0, 12}, at::kDouble);
    for (uint64_t s = 0; s < 5; ++s) {
      Tap tap;
      run.run(state, random_ids(s, kLanes, 1 + (s % 2 == 0 ? 6 : 2), 11), {.tap = &tap});
      all = at::cat({all, tap.embedded}, 1);
      const Held behind = held_at(state, "0.cache", 1), own = held_at(state, "model.embedded");
      expect_rows(at::cat({behind.rows, own.rows}, 1), all, str("segment ", s));
    }
  }
}

}  // namespace
}  // namespace lamemo_test
