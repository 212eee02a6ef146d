// The look-ahead memory's state: saving and loading, other sizes at evaluation, open segments.
#include <gtest/gtest.h>

#include <algorithm>

#include "host/backbone/open/open_segment.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/lamemo/memory.hpp"

namespace lamemo_test {
namespace {

using mneme::str;
using mneme::backbone::largest_difference;
using mneme::backbone::random_ids;

const std::vector<int64_t> kLengths = {6, 4, 6, 1, 5, 6, 2, 6};

at::Tensor ids_of(uint64_t s) { return random_ids(900 + s, 2, kLengths[s] + 1, 11); }

std::string lamemo_state_with(int64_t rows, const Variant& variant, const std::string& more = "") {
  return lamemo(str("rows = ", rows, "\n", variant.options, more));
}

TEST(LaMemoState, SavedAndLoadedGoesOnBitForBit) {
  for (const Variant& variant : kVariants) {
    for (const Norm norm : {Norm::kPost, Norm::kPre}) {
      for (const Phase phase : {Phase::kTraining, Phase::kEvaluation}) {
        for (const int64_t rows : {4, 11}) {
          SCOPED_TRACE(str(variant.name, ", ", rows, " rows"));
          MemorySession run = session(lamemo_state_with(rows, variant), variant.config(norm));
          StackState whole = run.fresh(2, phase), cut = run.fresh(2, phase);
          for (uint64_t s = 0; s < kLengths.size(); ++s) {
            if (s == 4) {
              whole.reset({0, 1});
              cut.reset({0, 1});
            }
            EXPECT_TRUE(at::equal(run.nll(whole, ids_of(s)), run.nll(cut, ids_of(s)))) << s;
            cut = reloaded(run, cut, phase);
          }
        }
      }
    }
  }
}

// What lives for a segment is neither counted nor held behind it.
TEST(LaMemoState, HasTheBytesOfWhatIsSaved) {
  MemorySession run = session(lamemo_state_with(4, kVariants[0]), model_config());
  StackState state = run.fresh(2);
  for (uint64_t s = 0; s < 3; ++s) run.nll(state, ids_of(s));
  int64_t saved = 0;
  for (const auto& [name, tensor] : state.save().tensors) {
    EXPECT_EQ(name.find("riders"), std::string::npos) << name;
    saved += tensor.numel() * static_cast<int64_t>(tensor.element_size());
  }
  EXPECT_EQ(state.bytes(), saved);
}

// The newest rows of all that is carried along memory.
tier_test::Edit shortened(int64_t rows) {
  return [=](const std::string& name, at::Tensor& tensor) {
    if (!name.ends_with(".context") && !name.ends_with(".lse")) return;
    const int64_t kept = std::min(tensor.size(1), rows);
    tensor = tensor.narrow(1, tensor.size(1) - kept, kept).clone();
  };
}

// A training state that is evaluated with fewer rows acts as if it had only these.
TEST(LaMemoState, KeepsTheNewestRowsWhereEvaluationHasFewer) {
  for (const Variant& variant : kVariants) {
    SCOPED_TRACE(variant.name);
    MemorySession run = session(lamemo_state_with(9, variant, "eval_rows = 4\n"), variant.config());
    MemorySession small = session(lamemo_state_with(4, variant), variant.config());
    for (const auto& parameter : run.stack.parameters()) {
      const at::NoGradGuard no_grad;
      const std::string name = parameter.name.substr(parameter.name.find("model."));
      small.parameter(name).copy_(parameter.tensor);
    }
    StackState full = run.fresh(2);
    for (uint64_t s = 0; s < 3; ++s) run.nll(full, ids_of(s));
    StackState fewer = reloaded(run, full, Phase::kEvaluation);
    const Held before = held_at(full, "model.embedded"), after = held_at(fewer, "model.embedded");
    ASSERT_EQ(before.columns(), 9);
    ASSERT_EQ(after.columns(), 4);
    EXPECT_TRUE(at::equal(after.rows, before.rows.narrow(1, 5, 4)));
    StackState expected = small.stack.restore(
        Phase::kEvaluation, 2, reloaded(run, fewer, Phase::kEvaluation, shortened(4)).save());
    const at::NoGradGuard no_grad;
    for (uint64_t s = 3; s < kLengths.size(); ++s) {
      EXPECT_TRUE(at::equal(run.nll(fewer, ids_of(s)), small.nll(expected, ids_of(s)))) << s;
      EXPECT_EQ(context_of(fewer, 0).size(1), 4);
    }
  }
}

// With more rows it is training's memory until one falls out there, and then fills up.
TEST(LaMemoState, FillsUpWhereEvaluationHasRoomForMore) {
  for (const Variant& variant : kVariants) {
    SCOPED_TRACE(variant.name);
    MemorySession run =
        session(lamemo_state_with(5, variant, "eval_rows = 17\n"), variant.config());
    StackState small = run.fresh(2);
    for (uint64_t s = 0; s < 3; ++s) run.nll(small, ids_of(s));
    StackState large = reloaded(run, small, Phase::kEvaluation);
    EXPECT_TRUE(
        at::equal(held_at(large, "model.embedded").rows, held_at(small, "model.embedded").rows));
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(run.nll(small, ids_of(3)), run.nll(large, ids_of(3))));
    for (uint64_t s = 4; s < kLengths.size(); ++s) {
      EXPECT_TRUE(run.nll(large, ids_of(s)).isfinite().all().item<bool>()) << s;
    }
    EXPECT_EQ(held_at(large, "model.embedded").columns(), 17);
    for (const int64_t layer : {0, 1, 2}) {
      EXPECT_EQ(context_of(large, layer).size(1), 17);
      EXPECT_EQ(lse_of(large, layer).size(1), 17);
    }
    EXPECT_EQ(held_at(small, "model.embedded").columns(), 5);
    EXPECT_EQ(context_of(small, 1).size(1), 5);
  }
}

// Without gradient the backbone keeps tables of positions; numbers are those of training.
TEST(LaMemoState, GivesTheNumbersOfTrainingAtEvaluation) {
  for (const Variant& variant : kVariants) {
    for (const Norm norm : {Norm::kPost, Norm::kPre}) {
      SCOPED_TRACE(variant.name);
      MemorySession run = session(lamemo_state_with(9, variant), variant.config(norm));
      StackState a = run.fresh(2), b = run.fresh(2, Phase::kEvaluation);
      for (uint64_t s = 0; s < kLengths.size(); ++s) {
        const at::Tensor expected = run.nll(a, ids_of(s)).detach();
        const at::NoGradGuard no_grad;
        EXPECT_LE(largest_difference(run.nll(b, ids_of(s)), expected), 1e-12) << s;
      }
    }
  }
}

// A dropped segment leaves everything as it was.
TEST(LaMemoState, IsWrittenByCommittedSegmentsAlone) {
  MemorySession run = session(lamemo("rows = 7"), model_config());
  StackState state = run.fresh(2);
  for (uint64_t s = 0; s < 2; ++s) run.nll(state, ids_of(s));
  const StackState before = state.clone();
  {
    mneme::memory::SegmentInput input;
    input.length = 6;
    mneme::memory::SegmentHooks dropped(run.stack, state, input);
    run.model->forward({ids_of(2).narrow(1, 0, 6), ids_of(2).narrow(1, 1, 6), {}}, dropped);
  }
  const auto is = state.save(), was = before.save();
  ASSERT_EQ(is.tensors.size(), was.tensors.size());
  for (std::size_t i = 0; i < is.tensors.size(); ++i) {
    EXPECT_TRUE(at::equal(is.tensors[i].second, was.tensors[i].second)) << is.tensors[i].first;
  }
}

// A segment that grows step by step gives the numbers and the state of a whole one. What a row
// looks at depends on the segment's length with window = "official" alone; that of the first step
// counts.
TEST(LaMemoState, OfAnOpenSegmentIsThatOfAWholeOne) {
  for (const Variant& variant : kVariants) {
    SCOPED_TRACE(variant.name);
    const bool is_official = std::string(variant.name) == "official_window";
    MemorySession run = session(lamemo_state_with(9, variant), variant.config());
    StackState whole = run.fresh(2, Phase::kEvaluation), open = run.fresh(2, Phase::kEvaluation);
    const at::NoGradGuard no_grad;
    for (uint64_t s = 0; s < 4; ++s) {
      const at::Tensor ids = ids_of(s);
      const at::Tensor top = run.run(whole, ids).top;
      const int64_t step = is_official ? kLengths[s] : 1;
      mneme::memory::SegmentInput input;
      input.length = step;
      input.is_open = true;
      mneme::memory::SegmentHooks segment(run.stack, open, input);
      mneme::backbone::OpenSegment steps(*run.model, segment);
      for (int64_t t = 0; t < kLengths[s]; t += step) {
        EXPECT_LE(largest_difference(steps.step(ids.narrow(1, t, step)), top.narrow(1, t, step)),
                  1e-12)
            << "segment " << s << ", token " << t;
      }
      steps.close();
      segment.commit();
      for (const int64_t layer : {0, 1, 2}) {
        EXPECT_LE(largest_difference(context_of(open, layer), context_of(whole, layer)), 1e-12);
        EXPECT_LE(largest_difference(lse_of(open, layer), lse_of(whole, layer)), 1e-12);
      }
    }
  }
}

}  // namespace
}  // namespace lamemo_test
