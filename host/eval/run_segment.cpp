#include "host/eval/run_segment.hpp"

#include <algorithm>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/memory/interface/finite_watch.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::eval {
namespace {

void check_ids(const data::TokenSegment& segment, const std::vector<std::int64_t>& ids,
               const char* what, std::int64_t least, std::int64_t vocabulary) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= least && ids[i] < vocabulary) continue;
    const auto place = static_cast<std::int64_t>(i);
    throw_run({.where = str("segment ", segment.index, ", lane ", place / segment.length,
                            ", place ", place % segment.length),
               .failed = str("the ", what, " id is outside the model's vocabulary"),
               .expected = str(least, " .. ", vocabulary - 1),
               .got = str(ids[i]),
               .hint = "use the data and the vocabulary that the model was built for"});
  }
}

at::Tensor to_tensor(const std::vector<std::int64_t>& ids, const data::TokenSegment& segment,
                     at::Device device) {
  at::Tensor out = torch::empty({segment.lanes, segment.length}, at::kLong);
  std::copy(ids.begin(), ids.end(), out.mutable_data_ptr<std::int64_t>());
  return tensor::to_device(out, device);
}

}  // namespace

backbone::Batch make_batch(const data::TokenSegment& segment, std::int64_t vocabulary,
                           at::Device device) {
  check_ids(segment, segment.inputs, "input", 0, vocabulary);
  check_ids(segment, segment.targets, "target", data::kNoTarget, vocabulary);
  backbone::Batch batch;
  batch.input = to_tensor(segment.inputs, segment, device);
  batch.target = to_tensor(segment.targets, segment, device);
  if (!segment.types.empty()) {
    check_ids(segment, segment.types, "type", 0, vocabulary);
    batch.types = to_tensor(segment.types, segment, device);
  }
  if (!segment.documents.empty()) {
    batch.documents = to_tensor(segment.documents, segment, device);
  }
  const bool is_padded = std::any_of(segment.valid.begin(), segment.valid.end(),
                                     [&](std::int64_t n) { return n != segment.length; });
  if (is_padded) batch.valid_count = segment.valid;
  return batch;
}

backbone::Batch make_batch(const data::TokenSegment& segment, const backbone::Model& model) {
  const at::Device device = model.info().device;
  backbone::Batch batch = make_batch(segment, model.vocabulary(), device);
  if (device.is_cpu() || !at::GradMode::is_enabled()) return batch;
  batch.places = {
      model.places_of_inputs(segment.inputs), model.places_of_targets(segment.targets),
      segment.types.empty() ? backbone::ClusterPlaces() : model.places_of_inputs(segment.types)};
  return batch;
}

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

std::string bad_loss(const memory::SegmentHooks& hooks) {
  for (const auto& [name, loss] : hooks.losses()) {
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

backbone::Output run_segment(backbone::Model& model, memory::Stack& stack,
                             memory::StackState& state, const backbone::Batch& batch,
                             SegmentOptions with) {
  with.memory.length = batch.input.size(1);
  with.memory.valid_count = batch.valid_count;
  with.memory.documents = batch.documents;
  memory::SegmentHooks hooks(stack, state, with.memory);
  backbone::Output out = model.forward(batch, hooks, with.forward);
  if (with.sum_over_processes) hooks.sum_over_processes(with.sum_over_processes);
  if (with.before_commit) with.before_commit(out, hooks);
  hooks.commit();
  return out;
}

backbone::Output run_segment(backbone::Model& model, memory::Stack& stack,
                             memory::StackState& state, const data::TokenSegment& segment,
                             SegmentOptions with) {
  const backbone::Batch batch = make_batch(segment, model);
  if (std::ranges::find(segment.reset, 1) != segment.reset.end()) {
    state.reset(segment.reset, with.do_others_go_on);
  }
  return run_segment(model, stack, state, batch, std::move(with));
}

NotFinite find_not_finite(backbone::Model& model, memory::Stack& stack, memory::StackState& state,
                          const data::TokenSegment& segment) {
  memory::FiniteWatch watch;
  backbone::ForwardOptions::Tap tap;
  NotFinite found;
  SegmentOptions with;
  with.forward.tap = &tap;
  with.memory.watch = &watch;
  with.before_commit = [&](const backbone::Output& out, const memory::SegmentHooks& hooks) {
    found = {watch.found(), !watch.found().empty()};
    if (found.place.empty()) found.place = bad_output(out, tap);
    if (found.place.empty()) found.place = bad_loss(hooks);
  };
  run_segment(model, stack, state, segment, std::move(with));
  return found;
}

}  // namespace mneme::eval
