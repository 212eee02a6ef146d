// Checks of the state: reset, save, copy, reorder, bounds.

#include "host/base/error.hpp"
#include "host/memory/stack/tier_outline.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/check.hpp"
#include "host/validate/interposer.hpp"
#include "host/validate/setting.hpp"

namespace mneme::validate {
namespace {

using memory::Phase;
using memory::StackState;

constexpr std::int64_t kUnusedId = kVocabulary - 1;  // ids_of leaves it out

// The losses of a new run and of one whose lanes have read something and were reset. Random draws
// go by the number of segments since the start: a memory that draws has others.
at::Tensor losses_after(const Subject& subject, Session& session, Phase phase,
                        const std::vector<std::uint8_t>& reset) {
  StackState state = session.fresh(kLanes, phase);
  if (!reset.empty()) {
    static_cast<void>(losses_of(session, state, ids_of(subject, session, kSegments, 1)));
    state.reset(reset);
  }
  return losses_of(session, state, ids_of(subject, session, kSegments));
}

Outcome reset_forgets(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  for (const Phase phase : kPhases) {
    expect_none(broken_reset(trial_of(subject, *session), phase));
    if (interposer().draws) continue;
    expect_equal(losses_after(subject, *session, phase, {}),
                 losses_after(subject, *session, phase, {1, 1, 1}),
                 "after a reset, losses differ from a new run's");
  }
  return {};
}

Outcome reset_of_a_lane(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  for (const Phase phase : kPhases) {
    expect_none(broken_lane_reset(trial_of(subject, *session), phase));
    if (interposer().draws) continue;
    expect_equal(losses_after(subject, *session, phase, {0, 1, 0})[1],
                 losses_after(subject, *session, phase, {})[1],
                 "after its reset, lane 1 differs from a new run's");
  }
  return {};
}

// The tops [B,n,D] of a run: they are finite where no NaN has come in, whatever the output layer
// is.
at::Tensor tops(Session& session, StackState& state, const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  const std::int64_t length = segment_length(session);
  std::vector<at::Tensor> out;
  for (std::int64_t s = 0; s < ids.size(1) / length; ++s) {
    out.push_back(session.run(state, segment_of(ids, length, s)).top);
  }
  return at::cat(out, 1);
}

// A model in which one id, which no text but lane 1's has, is embedded as NaN.
std::unique_ptr<Session> poisoned(const Subject& subject) {
  Setting setting = small_setting(subject);
  setting.model.tie_embedding = false;
  auto session = open(subject, setting);
  const at::NoGradGuard no_grad;
  session->parameter("embedding.0.weight").select(0, kUnusedId).fill_(NAN);
  return session;
}

at::Tensor poisoned_ids(const Subject& subject, const Session& session) {
  at::Tensor ids = ids_of(subject, session, kSegments);
  ids[1][segment_length(session)] = kUnusedId;  // the first token of the second segment
  return ids;
}

Outcome nan_stays_in_its_lane(const Subject& subject) {
  const auto session = poisoned(subject);
  StackState state = session->fresh(kLanes, Phase::kEvaluation);
  at::Tensor top;
  try {
    top = tops(*session, state, poisoned_ids(subject, *session));
  } catch (const Error& error) {
    return {Grade::kPass, str("refuses values that are not finite: ", error.what())};
  }
  for (const std::int64_t lane : {0, 2}) {
    if (!top[lane].isfinite().all().item<bool>())
      throw Failed(str("a value that is not finite in lane 1 reaches lane ", lane));
  }
  return {};
}

Outcome save_and_go_on(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  const at::Tensor first = ids_of(subject, *session, kSegments, 1);
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  for (const Phase phase : kPhases) {
    StackState state = session->fresh(kLanes, phase);
    static_cast<void>(losses_of(*session, state, first));
    // Into another instance, as a resumed run has it.
    const auto resumed = open_past_zeros(subject);
    StackState restored = resumed->stack.restore(phase, kLanes, state.save());
    expect_equal(losses_of(*resumed, restored, ids), losses_of(*session, state, ids),
                 "a run that is saved and goes on in another process has other losses,");
  }
  return {};
}

Outcome lanes_are_reordered(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  const at::Tensor first = ids_of(subject, *session, kSegments, 1);
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  const std::vector<std::int64_t> order = {2, 0, 0};
  const at::Tensor index = at::tensor(order, at::kLong);
  for (const Phase phase : kPhases) {
    StackState state = session->fresh(kLanes, phase);
    static_cast<void>(losses_of(*session, state, first));
    StackState selected = state.clone();
    selected.select(order);
    const at::Tensor expected = losses_of(*session, state, ids).index_select(0, index);
    expect_equal(losses_of(*session, selected, ids.index_select(0, index)), expected,
                 "lanes in another order, as beam search puts them, have other losses,");
  }
  return {};
}

// The state ends growing once every queue is full.
Outcome state_is_bounded(const Subject& subject) {
  constexpr std::int64_t kMostTokens = 6000;
  constexpr std::int64_t kLonger = 24;
  const auto session = open(subject);
  const at::NoGradGuard no_grad;
  const std::int64_t longest = session->stack.longest_segment(Phase::kEvaluation);
  const std::int64_t length = longest == 0 ? kLonger : std::min(kLonger, longest);
  const std::int64_t rows = session->stack.context_rows(Phase::kEvaluation);
  StackState state = session->fresh(1, Phase::kEvaluation);
  const std::int64_t filled = std::min(kMostTokens, 2 * rows + 512);
  std::int64_t tokens = 0;
  const auto read = [&](std::int64_t count) {
    for (const std::int64_t end = tokens + count; tokens < end; tokens += length) {
      const at::Tensor ids = random_ids(subject.seed + static_cast<std::uint64_t>(tokens), 1,
                                        length + 1, kVocabulary - 1);
      static_cast<void>(session->nll(state, ids));
    }
    return state.bytes();
  };
  const std::int64_t before = read(filled);
  const std::int64_t after = read(filled);
  if (after <= before) return {Grade::kPass, str(after, " bytes a lane")};
  return {Grade::kWarn,
          str("the state grows from ", before, " bytes a lane after ", filled, " tokens to ", after,
              " after ", tokens, ": nothing bounds it but, perhaps, an option")};
}

// One text of everything that a tier declares.
std::string declared(const Session& session) {
  std::string text;
  for (const memory::TierOutline& tier : session.stack.outlines(1, 1)) {
    for (const auto& parameter : tier.parameters)
      text += str(parameter.name, list_text(parameter.dims), parameter.is_model_scope, '\n');
    const memory::InstanceOutline& made = tier.training;
    for (const auto& slot : made.slots)
      text += str(slot.name, list_text(slot.dims), slot.dtype, slot.is_model_scope, '\n');
    for (const auto& queue : made.queues)
      text += str(queue.name, queue.rows, queue.capacity, queue.start_rows, '\n');
    text += str(made.absorbs, join(made.reads_at, ","), join(made.wants, ","),
                join(made.behaviour, ","), made.context_rows, ' ', made.read_rows, ' ',
                made.max_segment, '\n');
  }
  return text;
}

Outcome create_is_pure(const Subject& subject) {
  const std::string first = declared(*open(subject));
  for (int round = 0; round < 3; ++round) {
    if (declared(*open(subject)) != first)
      throw Failed("the same options give other declarations the next time");
  }
  return {};
}

}  // namespace

std::vector<Check> state_checks() {
  return {
      {"state.reset", "Does a reset forget everything?", reset_forgets, "runs.by_turns"},
      {"state.reset_lane", "Does the reset of a lane forget its text, and no other lane's?",
       reset_of_a_lane, "state.reset", "lanes.independent"},
      {"state.nan_lane", "Does a NaN stay in its lane?", nan_stays_in_its_lane,
       "lanes.independent"},
      {"state.save", "Does a saved run go on as if it had not been stopped?", save_and_go_on,
       "runs.by_turns"},
      {"state.declared", "Do equal options give equal declarations?", create_is_pure, "state.save"},
      {"state.select", "Can lanes be reordered, as beam search does?", lanes_are_reordered,
       "state.reset_lane", "lanes.alone"},
      {"state.bounded", "Does the state stop growing?", state_is_bounded, "runs.by_turns"},
  };
}

}  // namespace mneme::validate
