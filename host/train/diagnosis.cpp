#include "host/train/diagnosis.hpp"

#include <algorithm>

#include "host/base/text.hpp"
#include "host/eval/batch.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::train {
namespace {

std::string bad_parameter(const run::Runtime& runtime) {
  for (const optim::TrainableParameter& parameter : runtime.parameters()) {
    if (!at::isfinite(parameter.tensor).all().item<bool>()) {
      return str("parameter ", parameter.name);
    }
  }
  return "";
}

eval::NotFinite run_segment(run::Runtime& runtime, memory::StackState& state,
                            const data::Segment& segment) {
  const backbone::Batch batch =
      eval::make_batch(segment, runtime.model().vocabulary(), runtime.device());
  if (std::find(segment.reset.begin(), segment.reset.end(), 1) != segment.reset.end()) {
    state.reset(segment.reset);
  }
  memory::FiniteWatch watch;
  memory::SegmentInput input;
  input.length = segment.length;
  input.valid_count = batch.valid_count;
  input.watch = &watch;
  memory::SegmentRun run(runtime.stack(), state, input);
  eval::NotFinite found = eval::find_not_finite(runtime.model(), batch, run, watch);
  run.commit();
  return found;
}

}  // namespace

eval::NotFinite find_not_finite(run::Runtime& runtime, memory::StackState& state,
                                const std::vector<data::Segment>& segments) {
  const at::NoGradGuard no_grad;
  if (std::string found = bad_parameter(runtime); !found.empty()) return {found};
  if (eval::NotFinite found = eval::find_in_state(state); !found.place.empty()) return found;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    eval::NotFinite found = run_segment(runtime, state, segments[i]);
    if (found.place.empty()) continue;
    found.place += str(", segment ", i + 1, " of the step");
    return found;
  }
  return {};
}

}  // namespace mneme::train
