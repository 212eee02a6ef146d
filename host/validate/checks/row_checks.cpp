// Checks of rows that a lane does not have: those that an earlier tier releases, and its padding.

#include <algorithm>

#include "host/base/error.hpp"
#include "host/memory/stack/tier_outline.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/check.hpp"
#include "host/validate/setting.hpp"

namespace mneme::validate {
namespace {

using memory::Phase;
using memory::Rows;
using memory::StackState;

// The segment's own rows as a cache would release them: of each lane the newest `counts` alone are
// valid. The others hold numbers of an earlier text, or other numbers where `is_other`.
Rows released(const Rows& own, const std::vector<std::int64_t>& counts, bool is_other) {
  Rows out = own;
  const at::Tensor first = own.count - at::tensor(counts, at::kLong).unsqueeze(1);  // [B,1]
  out.valid = at::arange(own.count, at::kLong).unsqueeze(0).ge(first);
  out.counts = counts;
  out.valid_on_cpu = memory::mask_of(out.valid);
  if (is_other)
    out.hidden = at::where(out.valid.unsqueeze(2), own.hidden, 1.0 - 3.0 * own.hidden.flip({1}));
  return out;
}

// Valid rows of each lane in segment `s` of `length` tokens: lanes 1 and 2 are reset before segment
// 1, so that their rows come later than those of lane 0.
std::vector<std::int64_t> counts_in(std::int64_t s, std::int64_t length) {
  const std::int64_t some = std::min<std::int64_t>(2, length - 1);
  if (s == 1) return {length, some, 0};
  if (s == 2) return {length, length, some};
  return {length, length, length};
}

std::vector<SegmentResult> results_of(const Subject& subject, Session& session, Phase phase,
                                      bool is_other) {
  const std::int64_t length = segment_length(session);
  const at::Tensor ids = ids_of(subject, session, kSegments + 1);
  StackState state = session.fresh(kLanes, phase);
  std::vector<SegmentResult> out;
  for (std::int64_t s = 0; s <= kSegments; ++s) {
    if (s == 1) state.reset({0, 1, 1});
    SegmentHow how;
    how.released = [&](const Rows& own) { return released(own, counts_in(s, length), is_other); };
    out.push_back(session.run(state, segment_of(ids, length, s), how));
    state.cut_graph();
  }
  return out;
}

// Throws Skipped where the memory takes no rows, or none that another tier releases.
void expect_absorbs_released(const Subject& subject, Session& session) {
  if (session.stack.outlines(1, 1).front().training.absorbs == "never")
    throw Skipped("the memory absorbs no rows");
  SegmentHow how;
  how.released = [](const Rows& own) { return own; };
  StackState state = session.fresh(kLanes, Phase::kEvaluation);
  const at::Tensor ids = ids_of(subject, session, 2);
  try {
    for (std::int64_t s = 0; s < 2; ++s)
      static_cast<void>(session.run(state, segment_of(ids, segment_length(session), s), how));
  } catch (const Error& error) {
    throw Skipped(str("rows that another tier releases are refused: ", error.what()));
  }
}

Outcome absent_rows(const Subject& subject) {
  constexpr const char* kRemedy =
      ": rows of which `valid` is false, as a cache before this tier releases them, are of another "
      "text: leave them out of sums and means (where, before the sum), and give the mask on with "
      "the "
      "rows";
  const auto session = open_past_zeros(subject);
  expect_absorbs_released(subject, *session);
  for (const Phase phase : kPhases) {
    const at::AutoGradMode grad(phase == Phase::kTraining);
    const auto expected = results_of(subject, *session, phase, false);
    const auto got = results_of(subject, *session, phase, true);
    for (std::size_t s = 0; s < got.size(); ++s) {
      const std::string where = str("in ", text_of(phase), ", segment ", s);
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        expect_equal(got[s].nll[lane], expected[s].nll[lane],
                     str(where, ": rows that lane ", lane, " does not have change its losses"),
                     kRemedy);
      }
      expect_equal(got[s].loss, expected[s].loss,
                   where + ": rows that a lane does not have change an auxiliary loss", kRemedy);
    }
  }
  return {};
}

// Lanes that end early, and start afresh with the next segment: with other tokens in their padding.
Outcome padding_counts_for_nothing(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  const std::int64_t length = segment_length(*session);
  if (length < 2) throw Skipped("segments have one token");
  const std::vector<std::int64_t> counts = {length - 1, length, 1};
  const at::Tensor is_padding = at::arange(length + 1, at::kLong)
                                    .unsqueeze(0)
                                    .ge(at::tensor(counts, at::kLong).unsqueeze(1));  // [B,T+1]
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  for (const Phase phase : kPhases) {
    const at::AutoGradMode grad(phase == Phase::kTraining);
    StackState state = session->fresh(kLanes, phase), changed = session->fresh(kLanes, phase);
    for (std::int64_t s = 0; s < kSegments; ++s) {
      const at::Tensor segment = segment_of(ids, length, s);
      SegmentHow how{.target = segment.narrow(1, 1, length)};
      at::Tensor other = segment;
      if (s % 2 == 1) {
        how.valid_count = counts;
        other = at::where(is_padding, (segment + 1).remainder(kVocabulary - 1), segment);
      } else if (s > 0) {
        for (StackState* const each : {&state, &changed}) each->reset({1, 0, 1});
      }
      const SegmentResult expected = session->run(state, segment, how);
      const SegmentResult got = session->run(changed, other, how);
      const auto expect_same = [&](const at::Tensor& one, const at::Tensor& two, const char* what) {
        expect_equal(two, one,
                     str("in ", text_of(phase), ", segment ", s,
                         ": other tokens in the padding of a lane change ", what),
                     ": leave places of which `valid` is false out of sums and means");
      };
      expect_same(expected.nll, got.nll, "losses");
      expect_same(expected.loss, got.loss, "an auxiliary loss");
      state.cut_graph();
      changed.cut_graph();
    }
  }
  return {};
}

}  // namespace

std::vector<Check> row_checks() {
  return {
      {"lanes.rows", "Do rows that a lane does not have change nothing?", absent_rows,
       "lanes.independent", "evaluation.projections"},
      {"lanes.padding", "Does the padding of a lane change nothing?", padding_counts_for_nothing,
       "causality.tokens", "lanes.independent", "segments.padding"},
  };
}

}  // namespace mneme::validate
