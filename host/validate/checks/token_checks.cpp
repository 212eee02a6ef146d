// Checks of what tokens, lanes and runs may know of one another.

#include <thread>

#include "host/backbone/open/open_segment.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/check.hpp"
#include "host/validate/interposer.hpp"
#include "host/validate/setting.hpp"

namespace mneme::validate {
namespace {

using memory::Phase;
using memory::StackState;

Outcome causality_of_tokens(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  if (segment_length(*session) < 2) throw Skipped("segments have one token");
  for (const Phase phase : kPhases) {
    expect_none(broken_causality(trial_of(subject, *session), phase));
  }
  return {};
}

Outcome lanes_are_independent(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  for (const Phase phase : kPhases) {
    expect_none(broken_lanes(trial_of(subject, *session), phase));
  }
  return {};
}

Outcome lanes_alone(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  for (const Phase phase : kPhases) {
    StackState all = session->fresh(kLanes, phase);
    const at::Tensor together = losses_of(*session, all, ids);
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      StackState state = session->fresh(1, phase);
      state.set_streams({static_cast<std::uint64_t>(lane)});
      const at::Tensor alone = losses_of(*session, state, ids.narrow(0, lane, 1));
      expect_equal(alone[0], together[lane],
                   str("in ", text_of(phase), ": lane ", lane, " of ", kLanes,
                       " has other losses when it runs alone,"));
    }
  }
  return {};
}

// Losses and the memory's gradients of a short training, all in one tensor.
at::Tensor trained(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  const std::int64_t length = segment_length(*session);
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  StackState state = session->fresh(kLanes);
  std::vector<at::Tensor> out;
  for (std::int64_t s = 0; s < kSegments; ++s) {
    const at::Tensor loss = session->loss(state, segment_of(ids, length, s));
    loss.backward();
    out.push_back(loss.detach().reshape(-1));
  }
  for (const memory::TierParameter& parameter : session->stack.parameters()) {
    if (parameter.tensor.grad().defined()) out.push_back(parameter.tensor.grad().reshape(-1));
  }
  out.push_back(session->parameter("embedding.0.weight").grad().reshape(-1));
  return at::cat(out);
}

Outcome runs_repeat(const Subject& subject) {
  const at::Tensor first = trained(subject), second = trained(subject);
  if (at::equal(first, second)) return {};
  throw Failed(
      str("the same training twice differs by ", short_text(largest_difference(first, second)),
          ": draw random numbers by mneme.random, keep no state in static variables or in the "
          "instance, and let no result depend on the order of threads"));
}

// Two states by turns give what each gives alone.
Outcome runs_by_turns(const Subject& subject) {
  const at::Tensor ids = ids_of(subject, *open(subject), kSegments);
  const at::Tensor others = ids_of(subject, *open(subject), kSegments, 1);
  for (const Phase phase : kPhases) {
    const auto alone = open_past_zeros(subject);
    StackState quiet = alone->fresh(kLanes, phase);
    const at::Tensor expected = losses_of(*alone, quiet, ids);
    const auto shared = open_past_zeros(subject);
    const std::int64_t length = segment_length(*shared);
    StackState one = shared->fresh(kLanes, phase), two = shared->fresh(kLanes, phase);
    std::vector<at::Tensor> out;
    for (std::int64_t s = 0; s < kSegments; ++s) {
      static_cast<void>(shared->nll(two, segment_of(others, length, s)));
      out.push_back(shared->nll(one, segment_of(ids, length, s)).detach());
    }
    expect_equal(at::cat(out, 1), expected,
                 str("in ", text_of(phase), ": a second run of the same instance changes losses"),
                 ": the instance, or a global variable, holds what belongs into a slot");
  }
  return {};
}

// Two instances on two threads at once.
Outcome runs_on_threads(const Subject& subject) {
  const at::Tensor expected = trained(subject);
  std::vector<std::string> problems(2);
  const auto work = [&](std::size_t worker) {
    try {
      for (int round = 0; round < 3; ++round) {
        const double difference = largest_difference(trained(subject), expected);
        if (difference > kSame) {
          problems[worker] =
              str("on two threads at once losses or gradients differ by ", short_text(difference));
        }
      }
    } catch (const std::exception& error) {
      problems[worker] = str("on two threads at once: ", error.what());
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  for (const std::string& problem : problems) {
    if (!problem.empty()) throw Failed(problem + ": do not write to shared variables in hooks");
  }
  return {};
}

Outcome calls_do_not_depend_on_values(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  for (const Phase phase : kPhases) {
    StackState first = session->fresh(kLanes, phase);  // constants are made once
    static_cast<void>(losses_of(*session, first, ids_of(subject, *session, kSegments)));
    std::vector<std::string> traces[2];
    for (const std::uint64_t salt : {0, 1}) {
      StackState state = session->fresh(kLanes, phase);
      interposer().trace();
      static_cast<void>(losses_of(*session, state, ids_of(subject, *session, kSegments, salt)));
      traces[salt] = interposer().take_trace();
    }
    if (traces[0] == traces[1]) continue;
    std::size_t at = 0;
    while (at < traces[0].size() && at < traces[1].size() && traces[0][at] == traces[1][at]) ++at;
    const auto line = [&](std::size_t run) {
      return at < traces[run].size() ? '"' + traces[run][at] + '"' : std::string("no call");
    };
    throw Failed(str("in ", text_of(phase), ": for two texts of the same shape call ", at, " is ",
                     line(0), " and ", line(1),
                     ": hooks may depend on shapes, options and counts alone"));
  }
  return {};
}

// The last layer's outputs of a segment, in one piece or token by token.
at::Tensor tops(Session& session, StackState& state, const at::Tensor& ids, bool is_stepwise) {
  const at::NoGradGuard no_grad;
  memory::SegmentInput input;
  input.length = is_stepwise ? 1 : ids.size(1);
  input.is_open = is_stepwise;
  memory::SegmentHooks hooks(session.stack, state, input);
  at::Tensor top;
  if (is_stepwise) {
    backbone::OpenSegment segment(*session.model, hooks);
    std::vector<at::Tensor> out;
    for (std::int64_t i = 0; i < ids.size(1); ++i) out.push_back(segment.step(ids.narrow(1, i, 1)));
    segment.close();
    top = at::cat(out, 1);
  } else {
    top = session.model->forward({ids, {}, {}}, hooks).top;
  }
  hooks.commit();
  return top;
}

Outcome steps_give_the_segment(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  const std::int64_t length = segment_length(*session);
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  StackState whole = session->fresh(kLanes, Phase::kEvaluation);
  StackState stepwise = session->fresh(kLanes, Phase::kEvaluation);
  for (std::int64_t s = 0; s < kSegments; ++s) {
    const at::Tensor segment = ids.narrow(1, s * length, length);
    const at::Tensor expected = tops(*session, whole, segment, false);
    expect_equal(tops(*session, stepwise, segment, true), expected,
                 str("segment ", s,
                     ", read token by token as in generation, differs from the same segment in one "
                     "piece"),
                 s == 0 ? "" : ": what the close writes counts as well", 1e-9);
  }
  return {};
}

// Evaluation keeps keys and values of a queue's blocks; with gradients it does not.
Outcome kept_projections(const Subject& subject) {
  const auto session = open_past_zeros(subject);
  const at::Tensor ids = ids_of(subject, *session, 2 * kSegments);
  at::Tensor results[2];
  for (const bool is_fresh : {false, true}) {
    const at::AutoGradMode grad(is_fresh);
    StackState state = session->fresh(kLanes, Phase::kEvaluation);
    results[is_fresh ? 1 : 0] = losses_of(*session, state, ids);
    if (!is_fresh && state.cached_projection_bytes() == 0)
      throw Skipped("no queue's blocks are attended to");
  }
  expect_equal(results[0], results[1], "with keys and values that the host keeps, losses differ",
               ": queue_assign says with `carried` which rows stayed");
  return {};
}

}  // namespace

std::vector<Check> token_checks() {
  return {
      {"runs.repeat", "Is the same training twice the same, bit for bit?", runs_repeat,
       "kernels.outputs"},
      {"runs.by_turns", "Can one instance serve two runs by turns?", runs_by_turns, "runs.repeat"},
      {"runs.threads", "Can two instances run on two threads at once?", runs_on_threads,
       "runs.by_turns"},
      {"runs.values", "Are a hook's calls the same whatever the text says?",
       calls_do_not_depend_on_values, "runs.by_turns"},
      {"causality.tokens", "Does no token see a later one?", causality_of_tokens, "runs.by_turns"},
      {"lanes.independent", "Does no lane change another's losses?", lanes_are_independent,
       "runs.by_turns"},
      {"lanes.alone", "Has a lane the same losses when it runs alone?", lanes_alone,
       "lanes.independent"},
      {"evaluation.projections", "Are kept keys and values those of the rows?", kept_projections,
       "runs.by_turns"},
      {"generation.steps", "Does generation give the numbers of whole segments?",
       steps_give_the_segment, "causality.tokens", "evaluation.projections"},
  };
}

}  // namespace mneme::validate
