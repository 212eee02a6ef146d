// What a compressive memory holds, evicts and compresses under every remainder policy, against
// plain lists of rows.
#include <gtest/gtest.h>

#include <ostream>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/compressive/lists.hpp"
#include "tests/plugins/compressive/memory.hpp"

namespace compressive_test {
namespace {

using mneme::str;

constexpr int64_t kLanes = 3;
constexpr int64_t kLayers = 2;
const std::set<std::string, std::less<>> kProbes = {"memory.evicted", "memory.compressed"};

// The inputs of every layer since the run's start, and the lists of every layer and lane.
class Expected {
 public:
  explicit Expected(const ListSettings& settings)
      : lists_(kLayers, std::vector<Lists>(kLanes, Lists(settings))), inputs_(kLayers) {}

  void reset(int64_t lane) {
    for (auto& layer : lists_) layer[static_cast<std::size_t>(lane)].reset();
  }
  void absorb(const mneme::backbone::ForwardOptions::Tap& tap) {
    const int64_t length = tap.embedded.size(1);
    for (std::size_t layer = 0; layer < inputs_.size(); ++layer) {
      const at::Tensor x = layer == 0 ? tap.embedded : tap.layer_out[layer - 1];
      inputs_[layer] = inputs_[layer].defined() ? at::cat({inputs_[layer], x}, 1) : x;
      for (Lists& lane : lists_[layer]) lane.absorb(inputs_[layer].size(1) - length, length);
    }
  }
  const Lists& lists(int64_t layer, int64_t lane) const {
    return lists_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(lane)];
  }
  // [n,D] the rows of these numbers.
  template <typename Numbers>
  at::Tensor rows(int64_t layer, int64_t lane, const Numbers& numbers) const {
    const at::Tensor& all = inputs_[static_cast<std::size_t>(layer)];
    std::vector<at::Tensor> out = {torch::zeros({0, all.size(2)}, at::kDouble)};
    for (const int64_t n : numbers)
      out.push_back(n == kZero ? torch::zeros({1, all.size(2)}, at::kDouble)
                               : all[lane].narrow(0, n, 1));
    return at::cat(out, 0);
  }
  // [n,D] the means of these groups.
  template <typename Groups>
  at::Tensor means(int64_t layer, int64_t lane, const Groups& groups) const {
    std::vector<at::Tensor> out = {rows(layer, lane, std::vector<int64_t>())};
    for (const Lists::Group& group : groups) out.push_back(rows(layer, lane, group).mean(0, true));
    return at::cat(out, 0);
  }

 private:
  std::vector<std::vector<Lists>> lists_;  // [layer][lane]
  std::vector<at::Tensor> inputs_;         // [layer] [B,tokens,D]
};

void expect_rows(const at::Tensor& got, const at::Tensor& expected) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  if (got.numel() > 0) {
    EXPECT_LE((got - expected).abs().max().item<double>(), 1e-14);
  }
}
void expect_held(const StackState& state, const char* queue, int64_t layer, int64_t lane,
                 const at::Tensor& expected) {
  SCOPED_TRACE(queue);
  const Held seen = held(state, queue, layer);
  if (seen.rows.defined()) {
    expect_rows(seen.lane(lane), expected);
  } else {
    EXPECT_EQ(expected.size(0), 0);
  }
}
// The first rows of a lane in a probe that may have more columns for the sake of other lanes.
void expect_probe(const MemorySession::Result& seen, const char* name, int64_t layer, int64_t lane,
                  const at::Tensor& expected) {
  SCOPED_TRACE(name);
  if (expected.size(0) == 0) return;
  expect_rows(probe(seen, name, layer)[lane].narrow(0, 0, expected.size(0)), expected);
}

std::string text_of(const ListSettings& s) {
  return str("rows = ", s.rows, "\ncompressed_rows = ", s.compressed_rows, "\nrate = ", s.rate,
             "\nremainder = \"", s.remainder, "\"\nstart = \"",
             s.starts_with_zeros ? "zeros" : "empty", "\"\n");
}

// Segments of `lengths`; lanes start afresh where `resets` says (segment, lane).
void expect_lists(const ListSettings& settings, const std::vector<int64_t>& lengths,
                  const std::vector<std::pair<uint64_t, int64_t>>& resets) {
  SCOPED_TRACE(text_of(settings));
  MemorySession run = session(compressive(text_of(settings) + "function = \"mean\""));
  StackState state = run.fresh(kLanes);
  Expected expected(settings);
  for (uint64_t s = 0; s < lengths.size(); ++s) {
    SCOPED_TRACE(str("segment ", s));
    std::vector<uint8_t> reset(kLanes, 0);
    for (const auto& [segment, lane] : resets) {
      if (segment != s) continue;
      reset[static_cast<std::size_t>(lane)] = 1;
      expected.reset(lane);
    }
    state.reset(reset);
    mneme::backbone::ForwardOptions::Tap tap;
    const auto seen = run.run(state, mneme::backbone::random_ids(s, kLanes, lengths[s] + 1, 11),
                              {.probes = kProbes, .tap = &tap});
    expected.absorb(tap);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        SCOPED_TRACE(str("layer ", layer, ", lane ", lane));
        const Lists& lists = expected.lists(layer, lane);
        expect_held(state, "memory", layer, lane, expected.rows(layer, lane, lists.memory()));
        expect_held(state, "compressed", layer, lane,
                    expected.means(layer, lane, lists.compressed()));
        expect_probe(seen, "memory.evicted", layer, lane,
                     expected.rows(layer, lane, lists.evicted()));
        expect_probe(seen, "memory.compressed", layer, lane,
                     expected.means(layer, lane, lists.made()));
      }
    }
  }
}

struct Sizes {
  int64_t rows, compressed_rows, rate;
};
class Eviction : public testing::TestWithParam<const char*> {
 protected:
  void expect(const std::vector<int64_t>& lengths,
              const std::vector<std::pair<uint64_t, int64_t>>& resets) const {
    // One segment and more, less than one, none; a rate above what leaves; a memory for fewer
    // compressed rows than one eviction makes.
    for (const Sizes& sizes : std::vector<Sizes>{
             {6, 5, 3}, {9, 4, 4}, {4, 3, 2}, {0, 5, 4}, {7, 2, 9}, {3, 1, 2}, {5, 9, 1}}) {
      for (const bool starts_with_zeros : {false, true}) {
        expect_lists({sizes.rows, sizes.compressed_rows, sizes.rate, GetParam(), starts_with_zeros},
                     lengths, resets);
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Compressive, Eviction, testing::Values("floor", "pad", "ceil", "carry"),
                         [](const auto& made) { return std::string(made.param); });

TEST_P(Eviction, IsThatOfPlainLists) { expect({6, 6, 6, 6, 6, 6, 6, 6}, {}); }

TEST_P(Eviction, IsThatOfPlainListsForSegmentsOfAnyLength) {
  expect({6, 1, 4, 6, 2, 5, 1, 1, 6, 3}, {});
}

TEST_P(Eviction, IsThatOfPlainListsWhereLanesStartAfresh) {
  expect({6, 6, 5, 6, 6, 2, 6, 6, 6}, {{2, 1}, {3, 2}, {5, 0}, {5, 1}, {7, 2}});
}

TEST_P(Eviction, IsThatOfPlainListsWhereAllLanesStartAfresh) {
  expect({6, 6, 6, 6, 6, 6}, {{3, 0}, {3, 1}, {3, 2}});
}

// Columns that no lane has rows in are dropped, however often lanes start afresh before they fill
// the memory.
TEST(CompressiveEviction, KeepsNoColumnsWithoutRows) {
  for (const char* remainder : {"floor", "pad", "ceil", "carry"}) {
    const ListSettings settings{14, 4, 3, remainder};
    MemorySession run = session(compressive(text_of(settings) + "function = \"mean\""));
    StackState state = run.fresh(2);
    for (uint64_t s = 0; s < 12; ++s) {
      state.reset({s % 2 == 0, s % 2 == 1});
      run.nll(state, mneme::backbone::random_ids(s, 2, 7, 11));
      EXPECT_LE(held(state, "memory").columns(), 12) << remainder << ", segment " << s;
    }
  }
}

// The declared capacity is what a window of model.same_length is made of.
TEST(CompressiveEviction, EmitsNoMoreRowsThanItDeclares) {
  for (const char* remainder : {"floor", "pad", "ceil", "carry"}) {
    const ListSettings settings{7, 4, 3, remainder};
    MemorySession run = session(compressive(text_of(settings) + "function = \"mean\""));
    const int64_t most = run.stack.context_rows(mneme::memory::Phase::kTraining);
    EXPECT_EQ(most, settings.remainder == "carry" ? 13 : 11);
    StackState state = run.fresh(2);
    for (uint64_t s = 0; s < 12; ++s) {
      state.reset({s % 3 == 1, s % 4 == 3});
      run.nll(state, mneme::backbone::random_ids(s, 2, (s % 5) + 2, 11));
      EXPECT_LE(held(state, "memory").columns() + held(state, "compressed").columns(), most);
    }
  }
}

}  // namespace
}  // namespace compressive_test
