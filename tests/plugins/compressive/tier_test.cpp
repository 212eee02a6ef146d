// What a compressive memory [Rae et al. 2019] has to be equal to: an xl_cache where nothing is
// compressed, itself behind one, itself without bptt.
#include <gtest/gtest.h>

#include <vector>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/compressive/memory.hpp"

namespace compressive_test {
namespace {

using mneme::str;
using mneme::backbone::random_ids;
using mneme::memory::Phase;

// A tier that keeps all rows that the one before it releases.
const std::string kFollower = xl_cache(1000);

// A run of two lanes, the second of which starts afresh where that is wanted.
struct Pair {
  MemorySession a, b;
  StackState of_a, of_b;

  Pair(const std::string& tiers_a, const std::string& tiers_b, Phase phase = Phase::kTraining,
       const ModelConfig& config = model_config(),
       const ModelSetup& setup = mneme::backbone::small_setup())
      : a(session(tiers_a, config, setup)),
        b(session(tiers_b, config, setup)),
        of_a(a.fresh(2, phase)),
        of_b(b.fresh(2, phase)) {}

  void reset(const std::vector<uint8_t>& lanes) {
    of_a.reset(lanes);
    of_b.reset(lanes);
  }
  struct Results {
    MemorySession::Result a, b;
  };
  Results segment(uint64_t s, int64_t length = 6) {
    const at::Tensor ids = random_ids(100 + s, 2, length + 1, 11);
    return {a.run(of_a, ids), b.run(of_b, ids)};
  }
};

void expect_same(const Pair::Results& seen, uint64_t s) {
  EXPECT_TRUE(at::equal(seen.a.top, seen.b.top)) << "segment " << s;
  EXPECT_TRUE(at::equal(seen.a.nll, seen.b.nll)) << "segment " << s;
}
void expect_close(const Pair::Results& seen, uint64_t s) {
  EXPECT_LE(mneme::backbone::largest_difference(seen.a.top, seen.b.top), 1e-12) << "segment " << s;
  EXPECT_LE(mneme::backbone::largest_difference(seen.a.nll, seen.b.nll), 1e-12) << "segment " << s;
}

// The followers' rows of every lane, whatever columns they lie in.
void expect_released_alike(const Pair& pair, double tolerance) {
  for (const int64_t layer : {0, 1}) {
    const Held a = held(pair.of_a, "cache", layer, 1), b = held(pair.of_b, "cache", layer, 1);
    ASSERT_EQ(a.rows.defined(), b.rows.defined());
    for (int64_t lane = 0; a.rows.defined() && lane < a.rows.size(0); ++lane) {
      const at::Tensor ours = a.lane(lane), theirs = b.lane(lane);
      ASSERT_EQ(ours.sizes(), theirs.sizes()) << "lane " << lane;
      if (ours.numel() == 0) continue;
      EXPECT_LE(mneme::backbone::largest_difference(ours, theirs), tolerance) << "lane " << lane;
    }
  }
}

TEST(Compressive, AtRateOneWithMeanIsAnXlCacheOfBothSizes) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    for (const Phase phase : {Phase::kTraining, Phase::kEvaluation}) {
      for (const char* remainder : {"floor", "pad", "ceil", "carry"}) {
        SCOPED_TRACE(str(c10::toString(dtype), ", ", remainder));
        ModelSetup setup = mneme::backbone::small_setup();
        setup.dtype = dtype;
        Pair pair(compressive(str("rows = 8\ncompressed_rows = 11\nrate = 1\nfunction = \"mean\"\n",
                                  "loss = \"none\"\nremainder = \"", remainder, "\"")),
                  xl_cache(19), phase, model_config(), setup);
        const at::AutoGradMode grad(phase == Phase::kTraining);
        for (uint64_t s = 0; s < 8; ++s) {
          if (s == 6) pair.reset({0, 1});
          const auto seen = pair.segment(s);
          if (phase == Phase::kTraining) {
            expect_same(seen, s);
          } else {  // keys are projected when their rows come, in other products than a cache's
            EXPECT_LE(mneme::backbone::largest_difference(seen.a.nll, seen.b.nll),
                      dtype == at::kDouble ? 1e-12 : 1e-5)
                << "segment " << s;
          }
        }
        EXPECT_EQ(held(pair.of_a, "memory").columns(), 8);
        EXPECT_EQ(held(pair.of_a, "compressed").columns(), 11);
      }
    }
  }
}

TEST(Compressive, AtRateOneWithMaxIsAnXlCacheToo) {
  Pair pair(compressive("rows = 3\ncompressed_rows = 10\nrate = 1\nfunction = \"max\""),
            xl_cache(13));
  for (uint64_t s = 0; s < 5; ++s) expect_same(pair.segment(s), s);
}

// In what tokens read and in what the next tier gets.
TEST(Compressive, WithoutCompressedRowsIsAnXlCache) {
  for (const char* remainder : {"floor", "pad", "ceil", "carry"}) {
    for (const char* function : {"conv", "mean", "most_used"}) {
      for (const int64_t rows : {4, 9}) {
        SCOPED_TRACE(str(remainder, ", ", function, ", ", rows, " rows"));
        Pair pair(compressive(str("rows = ", rows, "\ncompressed_rows = 0\nfunction = \"", function,
                                  "\"\nremainder = \"", remainder, "\"")) +
                      kFollower,
                  xl_cache(rows) + kFollower);
        for (uint64_t s = 0; s < 7; ++s) {
          if (s == 3) pair.reset({1, 0});
          expect_same(pair.segment(s, s == 4 ? 2 : 6), s);
          expect_released_alike(pair, 0.0);
        }
      }
    }
  }
}

// Rows that leave the compressed memory of the second tier are absorbed by the third.
TEST(Compressive, ReleasesWhatFallsOffTheCompressedRows) {
  Pair pair(compressive("rows = 4\ncompressed_rows = 7\nrate = 1\nfunction = \"mean\"") + kFollower,
            xl_cache(11) + kFollower);
  for (uint64_t s = 0; s < 7; ++s) {
    if (s == 4) pair.reset({0, 1});
    expect_same(pair.segment(s), s);
    expect_released_alike(pair, 0.0);
  }
}

TEST(Compressive, OfNormedRowsReleasesNothing) {
  MemorySession run =
      session(compressive("rows = 4\ncompressed_rows = 1\nstore = \"normed\"") + kFollower);
  StackState state = run.fresh(1);
  for (uint64_t s = 0; s < 3; ++s) run.nll(state, random_ids(s, 1, 7, 11));
  // The follower gets the segments' own rows, since no tier before it releases.
  EXPECT_EQ(held(state, "cache", 0, 1).columns(), 18);
}

TEST(Compressive, BehindAnXlCacheIsOneOfBothSizes) {
  for (const char* remainder : {"floor", "pad", "carry"}) {
    for (const char* function : {"conv", "dilated", "mean", "max"}) {
      for (const int64_t rows : {6, 8, 4}) {
        SCOPED_TRACE(str(remainder, ", ", function, ", ", rows, " rows"));
        const std::string options = str("compressed_rows = 5\nrate = 4\nfunction = \"", function,
                                        "\"\nremainder = \"", remainder, "\"");
        Pair pair(xl_cache(rows) + compressive("rows = 0\n" + options),
                  compressive(str("rows = ", rows, "\n", options)));
        for (const auto& parameter : pair.b.stack.parameters()) {
          const torch::NoGradGuard no_grad;  // names hold the tier's place, so starts differ
          const std::string name = parameter.name.substr(std::string("memory.0.").size());
          pair.a.parameter(name).copy_(parameter.tensor);
        }
        for (uint64_t s = 0; s < 7; ++s) {
          if (s == 4) pair.reset({0, 1});
          const auto seen = pair.segment(s);
          expect_close(seen, s);
          ASSERT_EQ(seen.a.aux.defined(), seen.b.aux.defined()) << s;
          if (seen.a.aux.defined()) {
            EXPECT_NEAR(seen.a.aux.item<double>(), seen.b.aux.item<double>(), 1e-12) << s;
          }
        }
      }
    }
  }
}

// The task loss trains the function; what is computed does not change.
TEST(Compressive, WithBpttGivesTheNumbersOfThatWithout) {
  for (const char* function : {"conv", "dilated"}) {
    for (const char* remainder : {"floor", "pad", "ceil", "carry"}) {
      for (const char* start : {"empty", "zeros"}) {
        SCOPED_TRACE(str(function, ", ", remainder, ", ", start));
        // The first compressed memory is longer than what a segment makes, the second shorter.
        for (const int64_t compressed_rows : {5, 1}) {
          const std::string options =
              str("rows = 5\ncompressed_rows = ", compressed_rows, "\nrate = 3\nfunction = \"",
                  function, "\"\nremainder = \"", remainder, "\"\nstart = \"", start, "\"\n");
          Pair pair(compressive(options + "bptt = true") + kFollower,
                    compressive(options) + kFollower);
          for (uint64_t s = 0; s < 8; ++s) {
            if (s == 3) pair.reset({0, 1});
            if (s == 6) pair.reset({1, 0});
            expect_close(pair.segment(s), s);
            expect_released_alike(pair, 1e-12);
          }
          EXPECT_GT(held(pair.of_a, "cache", 0, 1).columns(), 0);
        }
      }
    }
  }
}

// A lane that is full of zeros from the start attends to them.
TEST(Compressive, StartsWithZerosOfFullLength) {
  Pair pair(compressive("rows = 7\ncompressed_rows = 4\nrate = 2\nstart = \"zeros\""),
            compressive("rows = 7\ncompressed_rows = 4\nrate = 2"));
  EXPECT_EQ(held(pair.of_a, "memory").columns(), 7);
  EXPECT_EQ(held(pair.of_a, "memory").rows.abs().max().item<double>(), 0.0);
  EXPECT_EQ(held(pair.of_a, "compressed").columns(), 4);
  const auto seen = pair.segment(0);
  EXPECT_GT(mneme::backbone::largest_difference(seen.a.nll, seen.b.nll), 1e-3);
  // 6 rows of zeros left and became 3 rows of the bias; the second layer's likewise.
  for (const int64_t layer : {0, 1}) {
    const at::Tensor made = held(pair.of_a, "compressed", layer).rows;
    EXPECT_EQ(made.narrow(1, 0, 1).abs().max().item<double>(), 0.0);
    const at::Tensor bias = pair.a.parameter(str(layer, ".bias"));
    EXPECT_TRUE(at::equal(made.narrow(1, 1, 3), bias.detach().expand({2, 3, 12})));
  }
}

// Rows that a queue keeps in f32 and rows in the layer's dtype side by side.
TEST(Compressive, RunsInBFloat16) {
  ModelSetup setup = mneme::backbone::small_setup();
  setup.dtype = at::kFloat;
  ModelSetup low = setup;
  low.bf16_autocast = true;
  for (const char* remainder : {"floor", "pad", "ceil", "carry"}) {
    for (const char* start : {"empty", "zeros"}) {
      for (const char* more :
           {"", "bptt = true", "loss = \"autoencoding\"", "function = \"most_used\"",
            "store = \"normed\"", "position_bias = \"alibi\""}) {
        SCOPED_TRACE(str(remainder, ", ", start, ", ", more));
        const std::string tiers =
            compressive(str("rows = 5\ncompressed_rows = 4\nrate = 3\n", "remainder = \"",
                            remainder, "\"\nstart = \"", start, "\"\n", more));
        MemorySession a = session(tiers, model_config(), low);
        MemorySession b = session(tiers, model_config(), setup);
        StackState of_a = a.fresh(2), of_b = b.fresh(2);
        for (uint64_t s = 0; s < 6; ++s) {
          if (s == 4) {
            of_a.reset({1, 0});
            of_b.reset({1, 0});
          }
          const at::Tensor ids = random_ids(200 + s, 2, 7, 11);
          const at::Tensor ours = a.run(of_a, ids).loss;
          EXPECT_NEAR(ours.item<double>(), b.run(of_b, ids).loss.item<double>(), 0.1) << s;
          ours.backward();
        }
      }
    }
  }
}

}  // namespace
}  // namespace compressive_test
