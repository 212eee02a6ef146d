#include "host/backbone/open/open_segment.hpp"

#include <array>
#include <stdexcept>

#include "host/backbone/attention/kernels/choice.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "mneme/plugin.h"

namespace mneme::backbone {
namespace {

// Whether a step's attention reads rows that lanes share where they lie: a kernel does, the operations
// copy them for each lane.
bool reads_pieces(const LayerSettings& settings) {
  const AttentionFacts facts{.device = settings.device,
                             .compute = settings.compute,
                             .head_width = settings.head_width,
                             .has_host_kernels = tensor::has_host_kernels(),
                             .is_relative = settings.is_relative(),
                             .has_slopes = !settings.slopes.empty(),
                             .has_softcap = settings.attention_softcap > 0.0};
  return choose_attention(settings.attention_kernel, facts).path != AttentionPath::kOperations;
}

}  // namespace

at::Tensor EvenPlace::seen(std::int64_t window) const {
  return window == 0 ? valid : valid.logical_and(columns.gt(place - window));
}

EvenPlace EvenRoom::place_of(std::int64_t lanes, bool is_relative) const {
  const std::int64_t rows = columns.size(0);
  const at::Tensor& shared = layers.front().shared_k;
  EvenPlace out;
  out.room = rows;
  out.place = place;
  out.row = shared.defined() ? place - shared.size(2) : place;
  out.columns = columns;
  out.valid = columns.le(place).unsqueeze(0).expand({lanes, rows});
  if (is_relative) out.table_rows = (columns - place).add_(rows - 1).clamp_max_(rows);
  return out;
}

OpenSegment::OpenSegment(Model& model, memory::SegmentHooks& hooks)
    : model_(model), hooks_(hooks), layers_(model.layers_.size()) {
  if (model.is_training_) throw std::logic_error("segments are opened in evaluation only");
  if (hooks.wants_at_finish(MNEME_WANT_FINISH_LAYERS)) outputs_.resize(layers_.size());
}

at::Tensor OpenSegment::step(const at::Tensor& ids, const at::Tensor& types) {
  const at::NoGradGuard no_grad;
  const tensor::WithoutRowKernels plain(model_.settings_.is_without_row_kernels());
  const std::int64_t n = ids.size(1);
  room_ = nullptr;
  model_.check_segment(tokens_ + n);
  if (tokens_ > 0) hooks_.next_step(n);
  model_.tables_.begin_segment(0.0);
  SegmentScope scope = model_.scope_of(hooks_);
  scope.past = tokens_;
  std::vector<at::Tensor> outputs;
  const at::Tensor top = model_.pass(model_.embed({ids, {}, {}, types}, tokens_, 0.0), scope,
                                     outputs_.empty() ? nullptr : &outputs, nullptr, &layers_);
  for (std::size_t layer = 0; layer < outputs.size(); ++layer)
    outputs_[layer].push_back(outputs[layer]);
  tokens_ += n;
  if (!hooks_.has_tiers()) return top;
  tops_.push_back(top);
  ids_.push_back(ids);
  if (types.defined()) types_.push_back(types);
  return top;
}

std::string_view OpenSegment::against_even_steps(const Model& model, bool has_memory) {
  if (has_memory) return "hooks of a memory see the place of each step in its segment";
  return model.settings_.slopes.empty() ? "" : "ALiBi's scores depend on the place of each step";
}

bool OpenSegment::begin_even_step(std::int64_t rows, EvenRoom& room) {
  const at::NoGradGuard no_grad;
  if (!can_step_evenly() || tokens_ == 0 || tokens_ >= rows) {
    throw std::logic_error("an even step of a segment that has none");
  }
  model_.check_segment(tokens_ + 1);
  hooks_.next_step(1);
  bool is_new = false;
  if (room_ == nullptr) {
    room_ = &room;
    room.layers.resize(layers_.size());
    for (std::size_t i = 0; i < layers_.size(); ++i)
      is_new = layers_[i].move_to(room.layers[i], rows) || is_new;
    if (is_new) {
      const at::TensorOptions index =
          at::TensorOptions().dtype(at::kLong).device(model_.info_.device);
      room.place = at::empty({1}, index);
      room.columns = at::arange(rows, index);
    }
    room.place.fill_(tokens_);
  } else {
    room.place.add_(1);
  }
  for (OpenLayer& layer : layers_) layer.count_row();
  ++tokens_;
  return is_new;
}

at::Tensor OpenSegment::even_step(const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  const tensor::WithoutRowKernels plain(model_.settings_.is_without_row_kernels());
  model_.tables_.begin_segment(0.0);
  SegmentScope scope = model_.scope_of(hooks_);
  scope.past = 1;  // the stages of a first step are over
  const at::Tensor& place = room_->place;
  scope.even = room_->place_of(ids.size(0), model_.settings_.is_relative());
  const std::array tables = {model_.rotary_.get(), model_.local_rotary_.get()};
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (tables[i] != nullptr) scope.even.turns[i] = tables[i]->at(place, model_.settings_.compute);
  }
  return model_.pass(model_.embed_at(ids, place), scope, nullptr, nullptr, &layers_);
}

void OpenSegment::close() {
  const at::NoGradGuard no_grad;
  const tensor::WithoutRowKernels plain(model_.settings_.is_without_row_kernels());
  if (hooks_.wants_at_finish(MNEME_WANT_FINISH_RIDERS)) {
    // Riders may attend to all tokens, and what they become is part of the next segment's memory.
    hooks_.restart(tokens_);
    const at::Tensor types = types_.empty() ? at::Tensor() : at::cat(types_, 1);
    model_.forward({at::cat(ids_, 1), {}, {}, types}, hooks_);
    return;
  }
  hooks_.close();
  SegmentScope scope = model_.scope_of(hooks_);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    model_.set_rotary(static_cast<std::int64_t>(i), scope);
    OpenLayerPass(model_.layers_[i], scope, layers_[i]).close(tokens_);
  }
  std::vector<at::Tensor> outputs;
  for (const std::vector<at::Tensor>& steps : outputs_) outputs.push_back(at::cat(steps, 1));
  hooks_.finish(tops_.empty() ? at::Tensor() : at::cat(tops_, 1), outputs, {}, {});
}

void OpenSegment::select(const std::vector<std::int64_t>& lanes) {
  const at::NoGradGuard no_grad;
  hooks_.select(lanes);
  const at::Tensor index = at::tensor(lanes, at::kLong).to(model_.info_.device);
  const bool shares = !hooks_.has_tiers() && tokens_ > 0 && layers_.front().lanes() == 1 &&
                      layers_.front().shared_rows() == 0 && lanes.size() > 1 &&
                      reads_pieces(model_.settings_);
  for (OpenLayer& layer : layers_) {
    shares ? layer.share(static_cast<std::int64_t>(lanes.size())) : layer.select(index);
  }
  room_ = nullptr;
  const auto pick = [&](std::vector<at::Tensor>& pieces) {
    for (at::Tensor& piece : pieces) piece = piece.index_select(0, index);
  };
  for (std::vector<at::Tensor>* pieces : {&ids_, &types_, &tops_}) pick(*pieces);
  for (std::vector<at::Tensor>& steps : outputs_) pick(steps);
}

}  // namespace mneme::backbone
