#include "host/eval/not_finite.hpp"

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::eval {
namespace {

using memory::first_bad_lane;

// In the order of computation.
std::string bad_output(const backbone::Output& out, const backbone::ForwardOptions::Tap& tap) {
  const auto where = [](const std::string& what, std::int64_t lane) {
    return str(what, ", lane ", lane);
  };
  if (const auto lane = first_bad_lane(tap.embedded); lane >= 0) {
    return where("the embedding", lane);
  }
  for (std::size_t l = 0; l < tap.layer_out.size(); ++l) {
    if (const auto lane = first_bad_lane(tap.attention_out[l]); lane >= 0) {
      return where(str("layer ", l, " (from 0), output of the attention block"), lane);
    }
    if (const auto lane = first_bad_lane(tap.layer_out[l]); lane >= 0) {
      return where(str("layer ", l, " (from 0), output of the feed-forward block"), lane);
    }
  }
  if (const auto lane = first_bad_lane(out.nll); lane >= 0) return where("the softmax", lane);
  return "";
}

std::string bad_loss(const memory::SegmentRun& run) {
  for (const auto& [name, loss] : run.losses()) {
    if (first_bad_lane(loss.value) >= 0) return str("the auxiliary loss ", name);
  }
  return "";
}

}  // namespace

NotFinite find_in_state(const memory::StackState& state) {
  for (const auto& [name, tensor] : state.save().tensors) {
    if (first_bad_lane(tensor, memory::Holds::kInfinite) >= 0) {
      return {str("the memory's state ", name, ", written by an earlier segment"), true};
    }
  }
  return {};
}

NotFinite find_not_finite(backbone::Model& model, const backbone::Batch& batch,
                          memory::SegmentRun& run, const memory::FiniteWatch& watch) {
  backbone::ForwardOptions::Tap tap;
  backbone::ForwardOptions options;
  options.tap = &tap;
  const backbone::Output out = model.forward(batch, run, options);
  if (!watch.found().empty()) return {watch.found(), true};
  std::string found = bad_output(out, tap);
  return {found.empty() ? bad_loss(run) : found};
}

}  // namespace mneme::eval
