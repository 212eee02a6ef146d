// The compressive memory's state: sizes at evaluation, cached projections, saving and loading.
#include <gtest/gtest.h>

#include <algorithm>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/compressive/memory.hpp"

namespace compressive_test {
namespace {

using mneme::str;
using mneme::backbone::largest_difference;
using mneme::backbone::random_ids;
using mneme::memory::Phase;

const char* const kRemainders[] = {"floor", "pad", "ceil", "carry"};

at::Tensor ids_of(uint64_t s, int64_t length = 6) { return random_ids(400 + s, 2, length + 1, 11); }

std::string with(const std::string& remainder, const std::string& more) {
  return compressive(
      str("rows = 7\ncompressed_rows = 4\nrate = 4\nremainder = \"", remainder, "\"\n", more));
}

// The state as it comes back from a file: other tensors with the same values.
StackState reloaded(const MemorySession& run, const StackState& state, Phase phase) {
  mneme::memory::NamedState saved = state.save();
  for (auto& [name, tensor] : saved.tensors) tensor = tensor.clone();
  return run.stack.restore(phase, state.lanes(), saved);
}

TEST(CompressiveState, SavedAndLoadedGoesOnBitForBit) {
  for (const char* remainder : kRemainders) {
    for (const char* more : {"", "bptt = true", "start = \"zeros\"", "function = \"most_used\"",
                             "store = \"normed\"", "start = \"zeros\"\nbptt = true"}) {
      SCOPED_TRACE(str(remainder, ", ", more));
      MemorySession run = session(with(remainder, more));
      StackState whole = run.fresh(2), cut = run.fresh(2);
      for (uint64_t s = 0; s < 8; ++s) {
        if (s == 4) {
          whole.reset({0, 1});
          cut.reset({0, 1});
        }
        const auto a = run.run(whole, ids_of(s));
        const auto b = run.run(cut, ids_of(s));
        EXPECT_TRUE(at::equal(a.nll, b.nll)) << s;
        EXPECT_TRUE(at::equal(a.loss, b.loss)) << s;
        cut = reloaded(run, cut, Phase::kTraining);
      }
      if (std::string(more).find("bptt") != std::string::npos) {
        EXPECT_GT(held(cut, "pending").columns(), 0);
      }
    }
  }
}

TEST(CompressiveState, GivesTheNumbersOfFreshProjectionsWithKeptOnes) {
  for (const char* remainder : kRemainders) {
    for (const auto norm : {mneme::config::Norm::kPost, mneme::config::Norm::kPre}) {
      for (const char* more : {"", "start = \"zeros\"", "store = \"normed\"",
                               "function = \"mean\"\nposition_bias = \"alibi\""}) {
        SCOPED_TRACE(str(remainder, ", ", more));
        ModelConfig config = model_config();
        config.norm = norm;
        MemorySession run = session(with(remainder, more), config);
        StackState kept = run.fresh(2, Phase::kEvaluation);
        StackState fresh = run.fresh(2, Phase::kEvaluation);
        for (uint64_t s = 0; s < 8; ++s) {
          const int64_t length = s == 5 ? 2 : 6;
          if (s == 4) {
            kept.reset({1, 0});
            fresh.reset({1, 0});
          }
          const at::Tensor expected = run.nll(fresh, ids_of(s, length)).detach();
          const at::NoGradGuard no_grad;  // at evaluation projections are kept without gradient
          EXPECT_LE(largest_difference(run.nll(kept, ids_of(s, length)), expected), 1e-12) << s;
        }
        EXPECT_GT(kept.cached_projection_bytes(), 0);
        EXPECT_EQ(fresh.cached_projection_bytes(), 0);
      }
    }
  }
}

// Training and evaluation of one memory give the same losses; only what is kept of projections and
// what bptt computes when differs.
TEST(CompressiveState, GivesTheNumbersOfTrainingAtEvaluation) {
  for (const char* remainder : kRemainders) {
    for (const char* more : {"", "bptt = true", "start = \"zeros\"\nbptt = true"}) {
      SCOPED_TRACE(str(remainder, ", ", more));
      MemorySession run = session(with(remainder, more));
      StackState a = run.fresh(2, Phase::kTraining), b = run.fresh(2, Phase::kEvaluation);
      for (uint64_t s = 0; s < 6; ++s) {
        const at::Tensor expected = run.nll(a, ids_of(s)).detach();
        const at::NoGradGuard no_grad;
        EXPECT_LE(largest_difference(run.nll(b, ids_of(s)), expected), 1e-12) << s;
      }
    }
  }
}

// Rows that wait for compression are not lost where training's state goes on at evaluation.
TEST(CompressiveState, CompressesAtEvaluationWhatTrainingLeftWaiting) {
  MemorySession run = session(with("floor", "bptt = true"));
  StackState a = run.fresh(2);
  for (uint64_t s = 0; s < 4; ++s) run.nll(a, ids_of(s));
  StackState b = reloaded(run, a, Phase::kEvaluation);
  for (uint64_t s = 4; s < 7; ++s)
    EXPECT_LE(largest_difference(run.nll(b, ids_of(s)), run.nll(a, ids_of(s))), 1e-12) << s;
  EXPECT_EQ(held(b, "pending").columns(), 0);
}

// A memory with other sizes at evaluation equals one that has them anyway.
TEST(CompressiveState, TakesOtherSizesAtEvaluation) {
  for (const char* remainder : kRemainders) {
    for (const auto& [rows, compressed_rows] :
         std::vector<std::pair<int64_t, int64_t>>{{3, 9}, {12, 2}, {0, 5}, {7, 0}, {20, 20}}) {
      SCOPED_TRACE(str(remainder, ", ", rows, " and ", compressed_rows));
      MemorySession trained = session(
          with(remainder, str("eval_rows = ", rows, "\neval_compressed_rows = ", compressed_rows)));
      MemorySession other =
          session(compressive(str("rows = ", rows, "\ncompressed_rows = ", compressed_rows,
                                  "\nrate = 4\nremainder = \"", remainder, '"')));
      StackState a = trained.fresh(2, Phase::kEvaluation), b = other.fresh(2, Phase::kEvaluation);
      const at::NoGradGuard no_grad;
      for (uint64_t s = 0; s < 9; ++s)
        EXPECT_TRUE(at::equal(trained.nll(a, ids_of(s)), other.nll(b, ids_of(s)))) << s;
      EXPECT_EQ(trained.stack.context_rows(Phase::kTraining),
                remainder == std::string("carry") ? 14 : 11);
    }
  }
}

// A state with more rows than the evaluation keeps: the newest stay.
TEST(CompressiveState, KeepsTheNewestRowsWhereEvaluationHasRoomForFewer) {
  MemorySession run = session(with("floor", "eval_rows = 3\neval_compressed_rows = 2"));
  StackState full = run.fresh(2);
  for (uint64_t s = 0; s < 7; ++s) run.nll(full, ids_of(s));
  StackState smaller = reloaded(run, full, Phase::kEvaluation);
  for (const int64_t layer : {0, 1}) {
    for (const auto& [queue, had, keeps] : std::vector<std::tuple<const char*, int64_t, int64_t>>{
             {"memory", 7, 3}, {"compressed", 4, 2}}) {
      const Held before = held(full, queue, layer), after = held(smaller, queue, layer);
      ASSERT_EQ(before.columns(), had);
      ASSERT_EQ(after.columns(), keeps);
      EXPECT_TRUE(at::equal(after.rows, before.rows.narrow(1, had - keeps, keeps)));
    }
  }
  const at::NoGradGuard no_grad;
  for (uint64_t s = 7; s < 10; ++s)
    EXPECT_TRUE(run.nll(smaller, ids_of(s)).isfinite().all().item<bool>());
  EXPECT_EQ(held(smaller, "memory").columns(), 3);
}

// One of the two memories may be left out at evaluation; the other goes on from where it was.
TEST(CompressiveState, GoesOnWithoutOneOfItsMemories) {
  for (const char* remainder : kRemainders) {
    for (const char* left_out : {"rows", "compressed_rows"}) {
      SCOPED_TRACE(str(remainder, ", without ", left_out));
      MemorySession run = session(with(remainder, str("eval_", left_out, " = 0")));
      StackState full = run.fresh(2);
      for (uint64_t s = 0; s < 7; ++s) run.nll(full, ids_of(s));
      StackState part = reloaded(run, full, Phase::kEvaluation);
      const char* other = left_out == std::string("rows") ? "compressed" : "memory";
      const Held before = held(full, other), after = held(part, other);
      const int64_t keeps = std::min<int64_t>(before.columns(), other[0] == 'm' ? 7 : 4);
      ASSERT_EQ(after.columns(), keeps);  // rows carried for compression have no room
      EXPECT_TRUE(at::equal(after.rows, before.rows.narrow(1, before.columns() - keeps, keeps)));
      const at::NoGradGuard no_grad;
      for (uint64_t s = 7; s < 10; ++s)
        EXPECT_TRUE(run.nll(part, ids_of(s)).isfinite().all().item<bool>());
      EXPECT_GT(held(part, other).columns(), 0);
      EXPECT_LT(held(part, other[0] == 'm' ? "compressed" : "memory").columns(), 4);
    }
  }
}

// And one with fewer: the memory fills up.
TEST(CompressiveState, FillsUpWhereEvaluationHasRoomForMore) {
  MemorySession run = session(with("floor", "eval_rows = 15\neval_compressed_rows = 6"));
  StackState full = run.fresh(2);
  for (uint64_t s = 0; s < 7; ++s) run.nll(full, ids_of(s));
  StackState larger = reloaded(run, full, Phase::kEvaluation);
  EXPECT_TRUE(at::equal(held(larger, "memory").rows, held(full, "memory").rows));
  const at::NoGradGuard no_grad;
  for (uint64_t s = 7; s < 12; ++s) run.nll(larger, ids_of(s));
  EXPECT_EQ(held(larger, "memory").columns(), 15);
  EXPECT_EQ(held(larger, "compressed").columns(), 6);
}

// Shares of attention over the three regions, of lanes that hold different numbers of rows.
TEST(CompressiveState, ReportsWhereAttentionGoes) {
  for (const char* remainder : kRemainders) {
    SCOPED_TRACE(remainder);
    MemorySession run = session(with(remainder, "report_mass = true"));
    StackState state = run.fresh(2);
    for (uint64_t s = 0; s < 8; ++s) {
      std::vector<std::pair<int64_t, int64_t>> rows;  // compressed and remembered, as read
      if (s == 4) state.reset({0, 1});
      for (const int64_t b : {0, 1}) {
        const auto count = [&](const char* queue) {
          const Held seen = held(state, queue);
          const bool is_empty = !seen.rows.defined() || (s == 4 && b == 1);
          return is_empty ? 0 : seen.lane(b).size(0);
        };
        rows.emplace_back(count("compressed"), count("memory"));
      }
      const auto seen = run.run(state, ids_of(s), {.probes = {"memory.mass", "memory.regions"}});
      const auto metric = [&](const std::string& name) {
        return seen.metrics.at("0.org.mneme.compressive.mass_" + name).item<double>();
      };
      EXPECT_NEAR(metric("compressed") + metric("memory") + metric("segment"), 1.0, 1e-12) << s;
      double compressed = 0.0, memory = 0.0;
      for (const int64_t layer : {0, 1}) {
        const at::Tensor mass = probe(seen, "memory.mass", layer);
        const at::Tensor regions = probe(seen, "memory.regions", layer);
        EXPECT_LE((mass.sum(1) - 1.0).abs().max().item<double>(), 1e-12);
        for (const int64_t b : {0, 1}) {
          // A lane's rows lie end to end before the tokens, its compressed ones first, or with
          // empty columns between the two.
          const auto [n_compressed, n_memory] = rows[static_cast<std::size_t>(b)];
          EXPECT_TRUE(at::equal(regions[b], torch::tensor({n_compressed, n_memory, int64_t{6}})));
          const at::Tensor own = mass[b].narrow(0, 0, mass.size(1) - 6);
          const at::Tensor present = own.index({own.gt(0)});
          ASSERT_EQ(present.size(0), n_compressed + n_memory) << s;
          compressed += present.narrow(0, 0, n_compressed).sum().item<double>() / 4;
          memory += present.narrow(0, n_compressed, n_memory).sum().item<double>() / 4;
        }
      }
      EXPECT_NEAR(metric("compressed"), compressed, 1e-12) << s;
      EXPECT_NEAR(metric("memory"), memory, 1e-12) << s;
    }
  }
}

}  // namespace
}  // namespace compressive_test
