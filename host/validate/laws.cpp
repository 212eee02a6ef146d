#include "host/validate/laws.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::validate {
namespace {

using memory::Phase;
using memory::StackState;

std::vector<std::int64_t> all_or(const std::vector<std::int64_t>& some, std::int64_t from,
                                 std::int64_t to) {
  if (!some.empty()) return some;
  std::vector<std::int64_t> out(static_cast<std::size_t>(std::max<std::int64_t>(to - from, 0)));
  std::iota(out.begin(), out.end(), from);
  return out;
}

// `ids` with other tokens from `place` on.
at::Tensor changed_from(const at::Tensor& ids, std::int64_t place, std::int64_t vocabulary) {
  const at::Tensor out = ids.clone();
  out.narrow(1, place, ids.size(1) - place).add_(1).remainder_(vocabulary);
  return out;
}

// The first place whose losses differ; -1 = none.
std::int64_t first_difference(const at::Tensor& base, const at::Tensor& got, double tolerance) {
  for (std::int64_t i = 0; i < base.size(1); ++i) {
    if (largest_difference(base.select(1, i), got.select(1, i)) > tolerance) return i;
  }
  return -1;
}

StackState fresh(const Trial& trial, Phase phase) {
  return trial.session.fresh(trial.ids.size(0), phase);
}

at::Tensor read(const Trial& trial, StackState& state, const at::Tensor& ids) {
  return losses_of(trial.session, state, ids, trial.length);
}

// The trial's text with another one in this lane.
at::Tensor mixed(const Trial& trial, std::int64_t lane) {
  at::Tensor out = trial.ids.clone();
  out[lane].copy_(trial.other[lane]);
  return out;
}

// The losses [lanes, length] of one segment, of the targets of `original`.
at::Tensor losses_of_segment(const Trial& trial, StackState& state, const at::Tensor& ids,
                             const at::Tensor& original) {
  const SegmentHow how{.target = original.narrow(1, 1, trial.length)};
  return trial.session.run(state, ids, how).nll.detach();
}

// What other tokens of a segment change before them; "" = nothing.
std::string leak_into_earlier(const Trial& trial, const StackState& before,
                              const at::Tensor& segment, const at::Tensor& base) {
  for (const std::int64_t place : all_or(trial.places, 1, trial.length)) {
    StackState state = before.clone();
    const at::Tensor got =
        losses_of_segment(trial, state, changed_from(segment, place, trial.vocabulary), segment);
    const at::Tensor expected = base.narrow(1, 0, place), found = got.narrow(1, 0, place);
    const std::int64_t token = first_difference(expected, found, trial.tolerance);
    if (token < 0) continue;
    return str("other tokens from ", place, " on change the loss of token ", token, " by ",
               short_text(largest_difference(expected.select(1, token), found.select(1, token))),
               ": a token sees a later one");
  }
  return "";
}

std::string differs(const at::Tensor& got, const at::Tensor& expected, double tolerance,
                    const std::string& what) {
  const double difference = largest_difference(got, expected);
  return difference > tolerance ? str(what, " by ", short_text(difference)) : std::string();
}

}  // namespace

const char* text_of(Phase phase) { return phase == Phase::kTraining ? "training" : "evaluation"; }

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

at::Tensor segment_of(const at::Tensor& ids, std::int64_t length, std::int64_t s) {
  return ids.narrow(1, s * length, length + 1);
}

at::Tensor losses_of(Session& session, StackState& state, const at::Tensor& ids,
                     std::int64_t length) {
  std::vector<at::Tensor> out;
  for (std::int64_t s = 0; s < (ids.size(1) - 1) / length; ++s) {
    out.push_back(session.nll(state, segment_of(ids, length, s)).detach());
    state.cut_graph();
  }
  return at::cat(out, 1);
}

std::string broken_causality(const Trial& trial, Phase phase) {
  StackState before = fresh(trial, phase);
  const std::vector<std::int64_t> tried = all_or(trial.segments, 0, trial.segment_count());
  for (std::int64_t s = 0; s <= tried.back(); ++s) {
    const at::Tensor segment = segment_of(trial.ids, trial.length, s);
    StackState state = before.clone();
    const at::Tensor base = losses_of_segment(trial, state, segment, segment);
    if (std::ranges::find(tried, s) != tried.end()) {
      std::string leak = leak_into_earlier(trial, before, segment, base);
      if (!leak.empty()) return str("in ", text_of(phase), ", segment ", s, ": ", leak);
    }
    before = std::move(state);
    before.cut_graph();
  }
  return "";
}

std::string broken_reset(const Trial& trial, Phase phase) {
  StackState one = fresh(trial, phase), two = fresh(trial, phase);
  static_cast<void>(read(trial, one, trial.ids));
  static_cast<void>(read(trial, two, trial.other));
  one.reset_all();
  two.reset_all();
  const at::Tensor after = read(trial, one, trial.ids);
  return differs(
      read(trial, two, trial.ids), after, trial.tolerance,
      str("in ", text_of(phase), ": after a reset, losses depend on what was read before it,"));
}

std::string broken_lane_reset(const Trial& trial, Phase phase) {
  StackState undisturbed = fresh(trial, phase);
  static_cast<void>(read(trial, undisturbed, trial.ids));
  const at::Tensor kept = read(trial, undisturbed, trial.ids);
  StackState one = fresh(trial, phase), two = fresh(trial, phase);
  static_cast<void>(read(trial, one, trial.ids));
  static_cast<void>(read(trial, two, mixed(trial, 1)));
  std::vector<std::uint8_t> lane_one(static_cast<std::size_t>(trial.ids.size(0)), 0);
  lane_one[1] = 1;
  one.reset(lane_one);
  two.reset(lane_one);
  const at::Tensor after = read(trial, one, trial.ids);
  std::string problem =
      differs(read(trial, two, trial.ids), after, trial.tolerance,
              str("in ", text_of(phase),
                  ": after the reset of lane 1, losses depend on what it read before,"));
  for (const std::int64_t lane : {0, 2}) {
    if (!problem.empty()) break;
    problem =
        differs(after[lane], kept[lane], trial.tolerance,
                str("in ", text_of(phase), ": the reset of lane 1 changes losses of lane ", lane));
  }
  return problem;
}

std::string broken_lanes(const Trial& trial, Phase phase) {
  StackState undisturbed = fresh(trial, phase);
  const at::Tensor base = read(trial, undisturbed, trial.ids);
  // Each lane in turn: a memory may mix two lanes, or give all of them what one holds.
  for (std::int64_t changed = 0; changed < trial.ids.size(0); ++changed) {
    StackState state = fresh(trial, phase);
    const at::Tensor got = read(trial, state, mixed(trial, changed));
    for (std::int64_t lane = 0; lane < trial.ids.size(0); ++lane) {
      if (lane == changed) continue;
      std::string problem = differs(got[lane], base[lane], trial.tolerance,
                                    str("in ", text_of(phase), ": another text in lane ", changed,
                                        " changes losses of lane ", lane));
      if (!problem.empty()) return problem;
    }
  }
  return "";
}

}  // namespace mneme::validate
