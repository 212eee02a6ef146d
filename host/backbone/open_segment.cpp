#include "host/backbone/open_segment.hpp"

#include <stdexcept>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {

XlOpenSegment::XlOpenSegment(Xl& model, memory::SegmentRun& run)
    : model_(model), run_(run), layers_(model.layers_.size()) {
  if (model.is_training_) throw std::logic_error("segments are opened in evaluation only");
  if (run.wants_layer_outputs()) outputs_.resize(layers_.size());
}

SegmentScope XlOpenSegment::scope(int64_t past) {
  SegmentScope scope = model_.scope_of(run_);
  scope.open = &layers_;
  scope.past = past;
  return scope;
}

at::Tensor XlOpenSegment::step(const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  const int64_t n = ids.size(1);
  model_.check_segment(tokens_ + n);
  if (tokens_ > 0) run_.next_step(n);
  model_.tables_.begin_segment(0.0);
  SegmentScope step = scope(tokens_);
  std::vector<at::Tensor> outputs;
  const at::Tensor top =
      model_.pass(model_.embed(ids, tokens_, 0.0), step, outputs_.empty() ? nullptr : &outputs);
  for (size_t layer = 0; layer < outputs.size(); ++layer) outputs_[layer].push_back(outputs[layer]);
  tops_.push_back(top);
  tokens_ += n;
  return top;
}

void XlOpenSegment::close() {
  const at::NoGradGuard no_grad;
  run_.close();
  SegmentScope all = scope(0);
  for (Layer& layer : model_.layers_) layer.close(tokens_, all);
  std::vector<at::Tensor> outputs;
  for (const std::vector<at::Tensor>& steps : outputs_) outputs.push_back(at::cat(steps, 1));
  run_.finish(at::cat(tops_, 1), outputs, {}, {});
}

void XlOpenSegment::select(const std::vector<int64_t>& lanes) {
  const at::NoGradGuard no_grad;
  run_.select(lanes);
  const at::Tensor index = at::tensor(lanes, at::kLong).to(model_.info_.device);
  for (OpenLayer& layer : layers_) layer.select(index);
  const auto pick = [&](std::vector<at::Tensor>& pieces) {
    for (at::Tensor& piece : pieces) piece = piece.index_select(0, index);
  };
  pick(tops_);
  for (std::vector<at::Tensor>& steps : outputs_) pick(steps);
}

}  // namespace mneme::backbone
