// Which keys a memory row has met. With queries and biases that are zero every score is 0, and the
// log-sum-exp that a row carries is the logarithm of their number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/lamemo/memory.hpp"

namespace lamemo_test {
namespace {

using mneme::str;
using mneme::backbone::random_ids;

constexpr int64_t kLamemoCountLanes = 3;
constexpr int64_t kLayers = 3;

// Scores of 0 everywhere, the look-ahead's included.
void make_indifferent(const MemorySession& run, const ModelConfig& config) {
  const at::NoGradGuard no_grad;
  const auto clear = [](at::Tensor parameter) { parameter.zero_(); };
  for (int64_t l = 0; l < kLayers; ++l) {
    clear(run.parameter(str("layers.", l, ".attention.qkv.weight"))
              .narrow(0, 0, config.heads * config.head_width));
  }
  clear(run.parameter("attention.content_bias"));
  clear(run.parameter("attention.position_bias"));
  for (const auto& parameter : run.stack.parameters()) clear(parameter.tensor);
}

// One lane's text since its start, and how often each row in memory has met each token.
class Lane {
 public:
  struct Row {
    int64_t place;                   // in the text
    std::map<int64_t, int64_t> met;  // place of a token -> times
    int64_t keys() const {
      int64_t sum = 0;
      for (const auto& [token, times] : met) sum += times;
      return sum;
    }
  };

  explicit Lane(int64_t rows) : rows_(rows) {}
  void reset() {
    memory_.clear();
    end_ = 0;
  }
  // A segment: memory rows meet `window` keys of which the last is its first token; its own tokens
  // meet what is before them. Of all `columns` of the memory (the lane's rows are the newest ones)
  // the oldest is no key.
  void segment(int64_t length, int64_t columns, int64_t window, bool forgets, bool is_full) {
    for (Row& row : memory_) {
      if (forgets) row.met.clear();
      const int64_t first = end_ - std::min(window, columns) + 1;
      for (int64_t key = std::max(first, memory_.front().place); key <= end_; ++key) {
        if (is_full || key > row.place) ++row.met[key];
      }
    }
    std::vector<Row> all = memory_;
    for (int64_t t = 0; t < length; ++t) {
      Row row{end_ + t, {}};
      for (const Row& before : memory_) ++row.met[before.place];
      for (int64_t u = 0; u <= t; ++u) ++row.met[end_ + u];
      all.push_back(row);
    }
    const auto kept = std::min<std::size_t>(all.size(), static_cast<std::size_t>(rows_));
    memory_.assign(all.end() - static_cast<std::ptrdiff_t>(kept), all.end());
    end_ += length;
  }
  const std::vector<Row>& memory() const { return memory_; }
  int64_t end() const { return end_; }

 private:
  int64_t rows_;
  std::vector<Row> memory_;
  int64_t end_ = 0;  // tokens so far
};

// The newest rows of every layer against the lane's.
void expect_counts(const StackState& state, int64_t b, const Lane& lane) {
  const auto rows = static_cast<int64_t>(lane.memory().size());
  for (int64_t l = 0; l < kLayers; ++l) {
    const at::Tensor lse = lse_of(state, l)[b];
    ASSERT_GE(lse.size(0), rows);
    for (int64_t r = 0; r < rows; ++r) {
      const at::Tensor count = lse[lse.size(0) - rows + r].exp();
      const auto expected = static_cast<double>(lane.memory()[static_cast<size_t>(r)].keys());
      EXPECT_LE((count - expected).abs().max().item<double>(), 1e-9 * expected)
          << "layer " << l << ", lane " << b << ", row " << r << " of " << rows << ", met "
          << count[0].item<double>() << " instead of " << expected;
    }
  }
}

// Every token after a row, up to the first one that is not in memory yet, once.
void expect_each_met_once(const Lane& lane, int64_t newest_segment) {
  for (const Lane::Row& row : lane.memory()) {
    const int64_t last = std::max(row.place, lane.end() - newest_segment);
    for (int64_t key = row.place; key <= last; ++key) {
      const auto found = row.met.find(key);
      ASSERT_TRUE(found != row.met.end() && found->second == 1)
          << "row " << row.place << ", token " << key;
    }
    EXPECT_LE(row.met.rbegin()->first, last) << "row " << row.place;
  }
}

struct Text {
  const char* name;
  int64_t rows;
  std::vector<int64_t> lengths;
  friend std::ostream& operator<<(std::ostream& out, const Text& t) { return out << t.name; }
};

class LaMemoCounts : public testing::TestWithParam<Text> {
 protected:
  // Lane 1 starts afresh before segment 3; lane 2 ends early in segment 1, and starts afresh.
  void expect(const Variant& variant, Phase phase) const {
    SCOPED_TRACE(variant.name);
    const Text& text = GetParam();
    const std::string options = variant.options;
    const auto has = [&](const char* key) { return options.find(key) != std::string::npos; };
    MemorySession run = session(lamemo(str("rows = ", text.rows, "\n", options)), variant.config());
    make_indifferent(run, variant.config());
    StackState state = run.fresh(kLamemoCountLanes, phase);
    std::vector<Lane> lanes(kLamemoCountLanes, Lane(text.rows));
    int64_t columns = 0;
    const at::NoGradGuard no_grad;
    for (uint64_t s = 0; s < text.lengths.size(); ++s) {
      SCOPED_TRACE(str("segment ", s));
      const int64_t length = text.lengths[s];
      Events events;
      events.is_reset = [](int64_t b, uint64_t at) { return at == (b == 1 ? 3U : 2U) && b > 0; };
      events.valid = [&](int64_t b, uint64_t at) {
        return b == 2 && at == 1 ? (length + 1) / 2 : length;
      };
      tier_test::run_segment(run, state, random_ids(s, kLamemoCountLanes, length + 1, 11), s,
                             events, {0, 1, 2}, {.probes = {kAlpha}});
      const int64_t before = s > 0 ? text.lengths[s - 1] : 0;
      for (int64_t b = 0; b < kLamemoCountLanes; ++b) {
        Lane& lane = lanes[static_cast<std::size_t>(b)];
        if (events.is_reset(b, s)) lane.reset();
        const int64_t valid = events.valid(b, s);
        lane.segment(valid, columns, has("official") ? length : before, has("interpolation"),
                     has("full_mask"));
        if (valid < length) continue;  // its rows are not the newest columns
        expect_counts(state, b, lane);
        if (options.empty()) expect_each_met_once(lane, length);
      }
      columns = std::min(columns + length, text.rows);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(
    LaMemo, LaMemoCounts,
    testing::Values(Text{"MemoryLongerThanSegments", 17, {4, 7, 2, 5, 1, 6, 3, 7}},
                    Text{"MemoryShorterThanSegments", 3, {4, 7, 5, 6, 4, 7}},
                    Text{"MemoryBetweenTheirLengths", 5, {6, 2, 7, 3, 4, 1, 5}},
                    Text{"OneToken", 4, {1, 1, 1, 1, 1, 1, 1}},
                    Text{"TokensAfterAPrompt", 9, {7, 1, 1, 1, 6, 1, 1}},
                    Text{"OneRow", 1, {3, 1, 4, 1, 2}}),
    [](const auto& made) { return made.param.name; });

TEST_P(LaMemoCounts, ARowMeetsEveryTokenAfterItOnce) {
  expect(kVariants[0], Phase::kTraining);
  expect(kVariants[0], Phase::kEvaluation);
}

// The other options' rows, against the same lists.
TEST_P(LaMemoCounts, ARowMeetsWhatTheOptionsSay) {
  for (const Variant& variant : kVariants) expect(variant, Phase::kTraining);
}

}  // namespace
}  // namespace lamemo_test
