// What the look-ahead memory [LaMemo] has to be equal to, and what must not change it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "host/base/text.hpp"
#include "host/memory/stack/tier_outline.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/lamemo/memory.hpp"

namespace lamemo_test {
namespace {

using mneme::str;
using mneme::backbone::largest_difference;
using mneme::backbone::random_ids;
using mneme::backbone::random_tensor;

constexpr double kSame = 1e-12;
const std::vector<int64_t> kUneven = {6, 4, 6, 1, 1, 5, 2, 6};

at::Tensor lamemo_tier_ids_of(uint64_t s, int64_t length) {
  return random_ids(700 + s, 2, length + 1, 11);
}

// Every row of these slots (of every layer, or of one) has the value.
tier_test::Edit filled(const std::string& slot, double value) {
  return [=](const std::string& name, at::Tensor& tensor) {
    if (name.ends_with(slot)) tensor.fill_(value);
  };
}

// With all that a row carries weighing more than any key it stays what it was: Transformer-XL's
// cache, whose rows come out of the layers as they did in their own segment.
TEST(LaMemo, WhereAlphaIsOneEqualsTransformerXl) {
  for (const Norm norm : {Norm::kPost, Norm::kPre}) {
    for (const Phase phase : {Phase::kTraining, Phase::kEvaluation}) {
      for (const int64_t rows : {4, 9}) {
        SCOPED_TRACE(str(norm == Norm::kPre ? "pre" : "post", "-norm, ", rows, " rows"));
        const ModelConfig config = model_config(norm);
        MemorySession ahead = session(lamemo(str("rows = ", rows)), config);
        MemorySession cache = session(xl_cache(rows), config);
        StackState a = ahead.fresh(2, phase), b = cache.fresh(2, phase);
        for (uint64_t s = 0; s < kUneven.size(); ++s) {
          if (s == 4) {
            a.reset({0, 1});
            b.reset({0, 1});
          }
          const at::Tensor ids = lamemo_tier_ids_of(s, kUneven[s]);
          const auto seen = ahead.run(a, ids, {.probes = {kAlpha}}), expected = cache.run(b, ids);
          EXPECT_LE(largest_difference(seen.top, expected.top), kSame) << s;
          EXPECT_LE(largest_difference(seen.nll, expected.nll), kSame) << s;
          if (s > 0) {
            const at::Tensor of_lane = tier_test::probe(seen, kAlpha, 1)[0];  // never reset
            EXPECT_TRUE(of_lane.eq(1.0).all().item<bool>()) << s;
          }
          a = reloaded(ahead, a, phase, filled(".lse", 1e30));
        }
      }
    }
  }
}

// Nothing carried: the look-ahead alone, whatever the contexts hold.
TEST(LaMemo, WhereNothingIsCarriedIsTheLookAheadAlone) {
  MemorySession merged = session(lamemo("rows = 7"), model_config());
  MemorySession alone = session(lamemo("rows = 7\ninterpolation = false"), model_config());
  StackState a = merged.fresh(2), b = alone.fresh(2);
  for (uint64_t s = 0; s < kUneven.size(); ++s) {
    const at::Tensor ids = lamemo_tier_ids_of(s, kUneven[s]);
    EXPECT_LE(largest_difference(merged.nll(a, ids), alone.nll(b, ids)), kSame) << s;
    a = reloaded(merged, a, Phase::kTraining, [&](const std::string& name, at::Tensor& tensor) {
      if (name.ends_with(".lse")) tensor.fill_(-std::numeric_limits<double>::infinity());
      if (name.ends_with(".context")) tensor.copy_(random_tensor(s, tensor.sizes()));
    });
  }
}

// The same valid rows in every lane; what masked ones hold is nobody's.
void expect_held_alike(const StackState& a, const StackState& b, const std::string& place,
                       int64_t tier) {
  const Held ours = held_at(a, place, tier), theirs = held_at(b, place, tier);
  ASSERT_EQ(ours.columns(), theirs.columns()) << place;
  for (int64_t lane = 0; ours.columns() > 0 && lane < ours.rows.size(0); ++lane) {
    EXPECT_TRUE(at::equal(ours.lane(lane), theirs.lane(lane))) << place << ", lane " << lane;
  }
}

// Losses, what reaches the weights, and what the next tier gets.
TEST(LaMemo, WithoutLookAheadIsTransformerXlsCache) {
  for (const ModelConfig& config :
       {model_config(), model_config(Norm::kPre), relative_config(), relative_config(Norm::kPre)}) {
    for (const int64_t rows : {4, 9}) {
      SCOPED_TRACE(rows);
      const std::string follower = xl_cache(1000);
      MemorySession without =
          session(lamemo(str("rows = ", rows, "\nlookahead = false")) + follower, config);
      MemorySession cache = session(xl_cache(rows) + follower, config);
      EXPECT_TRUE(without.stack.parameters().empty());
      StackState a = without.fresh(2), b = cache.fresh(2);
      for (uint64_t s = 0; s < kUneven.size(); ++s) {
        if (s == 3) {
          a.reset({1, 0});
          b.reset({1, 0});
        }
        const at::Tensor ids = lamemo_tier_ids_of(s, kUneven[s]);
        const auto ours = without.run(a, ids), theirs = cache.run(b, ids);
        EXPECT_TRUE(at::equal(ours.top, theirs.top)) << s;
        EXPECT_TRUE(at::equal(ours.nll, theirs.nll)) << s;
        ours.loss.backward();
        theirs.loss.backward();
        for (const int64_t layer : {0, 1, 2}) expect_held_alike(a, b, str(layer, ".cache"), 1);
      }
      for (const auto& parameter : without.model->parameters()) {
        EXPECT_TRUE(at::equal(parameter.tensor.grad(), cache.parameter(parameter.name).grad()))
            << parameter.name;
      }
    }
  }
}

// Rows of `a` and `b` [B,T,...] before row n are the same bits, and row n is not.
void expect_first_difference(const at::Tensor& a, const at::Tensor& b, int64_t n,
                             const std::string& what) {
  EXPECT_TRUE(at::equal(a.narrow(1, 0, n), b.narrow(1, 0, n))) << what;
  EXPECT_GT(largest_difference(a.narrow(1, n, 1), b.narrow(1, n, 1)), 1e-9) << what;
}

// A token of segment 2 is another one: what comes before it does not notice, although memory rows
// look ahead.
void expect_causal(const Variant& variant, Norm norm, int64_t rows) {
  MemorySession run =
      session(lamemo(str("rows = ", rows, "\n", variant.options)), variant.config(norm));
  StackState before = run.fresh(2);
  for (uint64_t s = 0; s < 2; ++s) run.nll(before, lamemo_tier_ids_of(s, 6));
  StackState a = before.clone();
  const at::Tensor ids = lamemo_tier_ids_of(2, 6);
  const auto seen = run.run(a, ids);
  const at::Tensor next = run.nll(a, lamemo_tier_ids_of(3, 6));
  for (const int64_t place : {0, 1, 5}) {
    SCOPED_TRACE(str(variant.name, ", ", rows, " rows, token ", place));
    StackState b = before.clone();
    at::Tensor changed = ids.clone();
    changed.select(1, place).copy_(at::remainder(ids.select(1, place) + 1, 11));
    const auto other = run.run(b, changed);
    expect_first_difference(seen.top, other.top, place, "top");
    // The token is also what the row before it predicts.
    expect_first_difference(seen.nll, other.nll, std::max<int64_t>(place - 1, 0), "nll");
    // Without interpolation rows do not depend on a token that left the memory.
    if (std::string(variant.options) == "interpolation = false\n" && place < 6 - rows) continue;
    EXPECT_GT(largest_difference(next, run.nll(b, lamemo_tier_ids_of(3, 6))), 1e-9);
  }
}

TEST(LaMemo, ShowsNoTokenALaterOne) {
  for (const Variant& variant : kVariants) {
    for (const Norm norm : {Norm::kPost, Norm::kPre}) {
      for (const int64_t rows : {4, 9}) expect_causal(variant, norm, rows);
    }
  }
}

// The context of the last layer has no effect on losses; that of any other layer has.
TEST(LaMemo, NeverReadsWhatTheLastLayerCarries) {
  for (const Variant& variant : kVariants) {
    SCOPED_TRACE(variant.name);
    const bool is_carried = std::string(variant.name) != "no_interpolation";
    for (const int64_t layer : {2, 1}) {
      MemorySession run = session(lamemo(str("rows = 7\n", variant.options)), variant.config());
      StackState clean = run.fresh(2), scrambled = run.fresh(2);
      double most = 0.0;
      for (uint64_t s = 0; s < kUneven.size(); ++s) {
        const at::Tensor ids = lamemo_tier_ids_of(s, kUneven[s]);
        const at::Tensor expected = run.nll(clean, ids), nll = run.nll(scrambled, ids);
        most = std::max(most, largest_difference(nll, expected));
        scrambled = reloaded(run, scrambled, Phase::kTraining,
                             [&](const std::string& name, at::Tensor& tensor) {
                               if (!name.ends_with(str(".", layer, ".lse")) &&
                                   !name.ends_with(str(".", layer, ".context"))) {
                                 return;
                               }
                               tensor.copy_(random_tensor(s, tensor.sizes()));
                             });
      }
      if (layer == 2) {
        EXPECT_EQ(most, 0.0);
      } else if (is_carried) {
        EXPECT_GT(most, 1e-6);
      }
    }
  }
}

TEST(LaMemo, OfBothWindowsIsTheSameWhileSegmentsAreEven) {
  for (const Norm norm : {Norm::kPost, Norm::kPre}) {
    for (const int64_t rows : {4, 6, 9}) {
      SCOPED_TRACE(rows);
      const std::string tier = lamemo(str("rows = ", rows));
      MemorySession previous = session(tier + "window = \"previous\"\n", model_config(norm));
      MemorySession official = session(tier + "window = \"official\"\n", model_config(norm));
      StackState a = previous.fresh(2), b = official.fresh(2);
      for (uint64_t s = 0; s < 4; ++s) {
        const at::Tensor ids = lamemo_tier_ids_of(s, 5);
        EXPECT_TRUE(at::equal(previous.nll(a, ids), official.nll(b, ids))) << s;
      }
      // After 5 tokens one: 4 keys are lost where only the current length counts.
      const at::Tensor ids = lamemo_tier_ids_of(4, 1);
      EXPECT_GT(largest_difference(previous.nll(a, ids), official.nll(b, ids)), 1e-9);
    }
  }
}

// A first segment, and every first one of a lane, has no memory.
TEST(LaMemo, OfAFirstSegmentIsNoMemory) {
  for (const Variant& variant : kVariants) {
    SCOPED_TRACE(variant.name);
    MemorySession run = session(lamemo(str("rows = 4\n", variant.options)), variant.config());
    MemorySession none = session("", variant.config());
    StackState a = run.fresh(2), b = none.fresh(2);
    const at::Tensor ids = lamemo_tier_ids_of(1, 6);
    EXPECT_LE(largest_difference(run.nll(a, ids), none.nll(b, ids)), kSame);
    a.reset_all();
    b.reset_all();
    EXPECT_LE(largest_difference(run.nll(a, ids), none.nll(b, ids)), kSame);
  }
}

// Cut otherwise, rows look ahead at other times: losses differ, and the tier says so.
TEST(LaMemo, SaysThatALossDependsOnHowATextIsCut) {
  using testing::Contains;
  using testing::Not;
  const auto behaviour = [](const std::string& options) {
    return session(lamemo(options), model_config()).stack.outlines(2, 2).at(0).training.behaviour;
  };
  const char* same = "same losses however a text is cut";
  EXPECT_THAT(behaviour("rows = 9"), Not(Contains(same)));
  EXPECT_THAT(behaviour("rows = 9"), Contains("has riders"));
  EXPECT_THAT(behaviour("rows = 9"), Contains("releases rows"));
  EXPECT_THAT(behaviour("rows = 9\nlookahead = false"), Contains(same));
  EXPECT_THAT(behaviour("rows = 9\nlookahead = false"), Not(Contains("has riders")));
  const at::Tensor ids = random_ids(720, 2, 13, 11);
  const auto cut = [&](const std::string& options, const std::vector<int64_t>& lengths) {
    MemorySession run = session(lamemo(options), model_config());
    StackState state = run.fresh(2);
    return run.nll(state, ids, lengths);
  };
  EXPECT_GT(largest_difference(cut("rows = 20", {6, 6}), cut("rows = 20", {4, 2, 1, 5})), 1e-6);
  const char* cache = "rows = 20\nlookahead = false";
  EXPECT_LE(largest_difference(cut(cache, {6, 6}), cut(cache, {4, 2, 1, 5})), kSame);
}

}  // namespace
}  // namespace lamemo_test
