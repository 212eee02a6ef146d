// function = "most_used" keeps the rows that the segment attended to most, against attention as
// softmax over all rows that a lane has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/compressive/memory.hpp"

namespace compressive_test {
namespace {

using mneme::str;
using mneme::backbone::largest_difference;
using mneme::backbone::random_ids;

constexpr int64_t kVocabulary = 499;
// No token comes twice in a lane, so that no two rows are attended to alike. [2,7]
at::Tensor compressive_most_used_ids_of(uint64_t s) {
  const at::Tensor place = torch::arange(7, at::kLong) + static_cast<int64_t>(6 * s);
  return torch::stack({place * 131, place * 57 + 5}).remainder(kVocabulary);
}
ModelSetup setup() {
  ModelSetup out = mneme::backbone::small_setup();
  out.vocabulary = kVocabulary;
  return out;
}

// Content attention alone, so that the reference needs no positions.
ModelConfig without_positions() {
  ModelConfig config = model_config();
  config.position = mneme::config::PositionScheme::kNone;
  return config;
}

// Mean over heads and queries of what x [T,D] gives each of [context; x] [R+T,D].
at::Tensor usage_of(const MemorySession& run, int64_t layer, const at::Tensor& context,
                    const at::Tensor& x) {
  const at::Tensor weight = run.parameter(str("layers.", layer, ".attention.qkv.weight")).detach();
  const int64_t heads = 3, inner = weight.size(0) / 3, width = inner / heads;
  const at::Tensor rows = at::cat({context, x}, 0);
  const at::Tensor q = at::matmul(x, weight.narrow(0, 0, inner).t()).view({-1, heads, width});
  const at::Tensor k =
      at::matmul(rows, weight.narrow(0, inner, inner).t()).view({-1, heads, width});
  const int64_t tokens = x.size(0), columns = rows.size(0);
  at::Tensor mass = torch::zeros({columns}, at::kDouble);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t seen = columns - tokens + i + 1;
      const at::Tensor score = at::matmul(k.select(1, h).narrow(0, 0, seen), q[i][h]) /
                               std::sqrt(static_cast<double>(width));
      mass.narrow(0, 0, seen) += at::softmax(score, 0);
    }
  }
  return mass / static_cast<double>(heads * tokens);
}

// The places of the `count` largest, ascending.
std::vector<int64_t> most_of(const at::Tensor& usage, int64_t count) {
  std::vector<int64_t> order(static_cast<std::size_t>(usage.size(0)));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return usage[a].item<double>() > usage[b].item<double>();
  });
  order.resize(static_cast<std::size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

// Rows that a lane had in `queue` when the segment began.
at::Tensor before(const Held& seen, int64_t lane, bool is_reset) {
  if (is_reset || !seen.rows.defined()) return torch::zeros({0, 12}, at::kDouble);
  return seen.lane(lane);
}

struct CompressiveMostUsedCase {
  int64_t rows, compressed_rows, rate;
  bool is_padded;
};

// One layer and lane after a segment. `held_before`: its compressed rows and memory.
void expect_choice(const CompressiveMostUsedCase& c, const MemorySession& run,
                   const MemorySession::Result& seen, const StackState& state, int64_t layer,
                   int64_t lane, const std::pair<at::Tensor, at::Tensor>& held_before,
                   const at::Tensor& x) {
  const auto& [compressed, memory] = held_before;
  const at::Tensor all = at::cat({memory, x}, 0);
  const int64_t leaving = std::max<int64_t>(0, all.size(0) - c.rows);
  const int64_t count = c.is_padded ? (leaving + c.rate - 1) / c.rate : leaving / c.rate;
  if (count == 0) return;
  const at::Tensor usage = usage_of(run, layer, at::cat({compressed, memory}, 0), x)
                               .narrow(0, compressed.size(0), leaving);
  const std::vector<int64_t> kept = most_of(usage, count);
  const at::Tensor index = at::tensor(kept, at::kLong);
  EXPECT_TRUE(at::equal(probe(seen, "memory.compressed", layer)[lane].narrow(0, 0, count),
                        all.index_select(0, index)));
  const Held after = held(state, "compressed", layer);
  const int64_t here = std::min(count, c.compressed_rows);
  EXPECT_TRUE(at::equal(after.rows[lane].narrow(0, after.columns() - here, here),
                        all.index_select(0, index).narrow(0, count - here, here)));
  if (c.is_padded) return;  // places would count the zeros
  EXPECT_TRUE(at::equal(probe(seen, "memory.kept_index", layer)[lane].narrow(0, 0, count), index));
  EXPECT_LE(
      largest_difference(probe(seen, "memory.usage", layer)[lane].narrow(0, 0, leaving), usage),
      1e-13);
}

void expect_choices(const CompressiveMostUsedCase& c) {
  SCOPED_TRACE(str("rows ", c.rows, ", rate ", c.rate, c.is_padded ? ", pad" : ""));
  MemorySession run =
      session(compressive(str("rows = ", c.rows, "\ncompressed_rows = ", c.compressed_rows,
                              "\nrate = ", c.rate, "\nfunction = \"most_used\"\nremainder = \"",
                              c.is_padded ? "pad" : "floor", "\"\nposition_bias = \"none\"")),
              without_positions(), setup());
  StackState state = run.fresh(2);
  for (uint64_t s = 0; s < 8; ++s) {
    SCOPED_TRACE(str("segment ", s));
    const std::vector<uint8_t> reset = {s == 5, s == 3};
    std::vector<std::pair<Held, Held>> held_before;
    for (const int64_t layer : {0, 1})
      held_before.emplace_back(held(state, "compressed", layer), held(state, "memory", layer));
    state.reset(reset);
    mneme::backbone::ForwardOptions::Tap tap;
    const auto seen = run.run(
        state, compressive_most_used_ids_of(s),
        {.probes = {"memory.compressed", "memory.kept_index", "memory.usage"}, .tap = &tap});
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const at::Tensor x = layer == 0 ? tap.embedded : tap.layer_out[0];
      for (const int64_t lane : {0, 1}) {
        const bool is_reset = reset[static_cast<std::size_t>(lane)] != 0;
        expect_choice(c, run, seen, state, static_cast<int64_t>(layer), lane,
                      {before(held_before[layer].first, lane, is_reset),
                       before(held_before[layer].second, lane, is_reset)},
                      x[lane]);
      }
    }
  }
}

TEST(CompressiveMostUsed, KeepsTheMostAttendedRowsInTimeOrder) {
  expect_choices({6, 5, 2, false});
  expect_choices({9, 4, 3, false});
  expect_choices({4, 3, 4, false});
  expect_choices({0, 6, 2, false});
  expect_choices({7, 4, 4, true});
}

// Usage comes from this segment's attention; rows of a tier before come without.
TEST(CompressiveMostUsed, NeedsRowsThatWereReadBehindAnotherTier) {
  const auto error_with = [](int64_t rows, const std::string& remainder) {
    return mneme::backbone::error_of([&] {
      MemorySession run =
          session(xl_cache(4) +
                  compressive(str("rows = ", rows, "\ncompressed_rows = 4\nrate = 3\n",
                                  "function = \"most_used\"\nremainder = \"", remainder, '"')));
      StackState state = run.fresh(2);
      for (uint64_t s = 0; s < 5; ++s) run.nll(state, random_ids(s, 2, 7, 11));
    });
  };
  EXPECT_THAT(
      error_with(5, "floor"),
      testing::AllOf(testing::HasSubstr("hook absorb, layer 0"), testing::HasSubstr("most_used"),
                     testing::HasSubstr("give rows of at least 6 here (now 5)")));
  EXPECT_EQ(error_with(6, "floor"), "");
  EXPECT_THAT(error_with(0, "carry"), testing::HasSubstr("give rows of at least 6 here (now 0)"));
  EXPECT_EQ(error_with(6, "carry"), "");
  // Up to rate - 1 more rows leave with those that have to.
  EXPECT_THAT(error_with(7, "ceil"), testing::HasSubstr("give rows of at least 8 here (now 7)"));
  EXPECT_EQ(error_with(8, "ceil"), "");
}

}  // namespace
}  // namespace compressive_test
