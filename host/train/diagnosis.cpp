#include "host/train/diagnosis.hpp"

#include <algorithm>

#include "host/base/text.hpp"
#include "host/eval/batch.hpp"
#include "host/torch.hpp"

namespace mneme::train {
namespace {

// The first lane of values [B,...] with a number that is not finite; -1 = none.
std::int64_t bad_lane(const at::Tensor& values) {
  if (!values.defined()) return -1;
  const at::Tensor bad = at::isfinite(values).logical_not().flatten(1).any(1);
  if (!bad.any().item<bool>()) return -1;
  return bad.to(at::kInt).argmax().item<std::int64_t>();
}

std::string bad_parameter(const Runtime& runtime) {
  for (const TrainableParameter& parameter : runtime.parameters()) {
    if (!at::isfinite(parameter.tensor).all().item<bool>()) {
      return str("parameter ", parameter.name);
    }
  }
  return "";
}

// In the order of computation.
std::string bad_output(const backbone::Output& out, const backbone::ForwardOptions::Tap& tap) {
  const auto where = [](const std::string& what, std::int64_t lane) {
    return str(what, ", lane ", lane);
  };
  if (const auto lane = bad_lane(tap.embedded); lane >= 0) return where("the embedding", lane);
  for (std::size_t l = 0; l < tap.layer_out.size(); ++l) {
    if (const auto lane = bad_lane(tap.attention_out[l]); lane >= 0) {
      return where(str("layer ", l, " (from 0), output of the attention block"), lane);
    }
    if (const auto lane = bad_lane(tap.layer_out[l]); lane >= 0) {
      return where(str("layer ", l, " (from 0), output of the feed-forward block"), lane);
    }
  }
  if (const auto lane = bad_lane(out.nll); lane >= 0) return where("the softmax", lane);
  return "";
}

std::string bad_loss(const memory::SegmentRun& run) {
  for (const auto& [name, loss] : run.losses()) {
    if (!at::isfinite(loss.value).all().item<bool>()) return str("the auxiliary loss ", name);
  }
  return "";
}

std::string run_segment(Runtime& runtime, memory::StackState& state, const data::Segment& segment) {
  const backbone::Batch batch =
      eval::make_batch(segment, runtime.model().vocabulary(), runtime.device());
  if (std::find(segment.reset.begin(), segment.reset.end(), 1) != segment.reset.end()) {
    state.reset(segment.reset);
  }
  memory::SegmentInput input;
  input.length = segment.length;
  input.valid_count = batch.valid_count;
  memory::SegmentRun run(runtime.stack(), state, input);
  backbone::ForwardOptions::Tap tap;
  backbone::ForwardOptions options;
  options.tap = &tap;
  const backbone::Output out = runtime.model().forward(batch, run, options);
  std::string found = bad_output(out, tap);
  if (found.empty()) found = bad_loss(run);
  run.commit();
  return found;
}

}  // namespace

std::string find_not_finite(Runtime& runtime, memory::StackState& state,
                            const std::vector<data::Segment>& segments) {
  const at::NoGradGuard no_grad;
  if (std::string found = bad_parameter(runtime); !found.empty()) return found;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::string found = run_segment(runtime, state, segments[i]);
    if (!found.empty()) return str(found, ", segment ", i + 1, " of the step");
  }
  return "";
}

}  // namespace mneme::train
