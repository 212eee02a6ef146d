#include "host/memory/hook_driver.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

const config::MemoryConfig& one_tier(const config::MemoryConfig& memory) {
  if (memory.tiers.size() != 1)
    throw_usage(ErrorText{.where = "hook driver",
                          .failed = "the memory file must hold one tier",
                          .got = str(memory.tiers.size())});
  return memory;
}

// [Tq, K] bool: true where query i may see key j.
at::Tensor visible(const AttentionCall& call, std::int64_t queries, std::int64_t keys,
                   at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  const at::Tensor j = torch::arange(keys, options).unsqueeze(0);
  const at::Tensor i = torch::arange(queries, options).unsqueeze(1) + call.query_offset;
  switch (call.mask) {
    case AttentionMask::kCausal:
      return j.le(i);
    case AttentionMask::kFull:
      return torch::ones({queries, keys}, options.dtype(at::kBool));
    case AttentionMask::kWindow:
      break;
  }
  return j.ge(i - call.window_before)
      .logical_and(j.le(i + call.window_after))
      .logical_and(j.ge(call.first_key))
      .logical_and(j.le(call.last_key));
}

}  // namespace

PlainLayer::PlainLayer(Weights weights, std::int64_t heads)
    : weights_(std::move(weights)), heads_(heads) {}

at::Tensor PlainLayer::norm(const at::Tensor& rows, bool weight_gradient) {
  if (!weights_.norm.defined()) return rows;
  const auto use = [&](const at::Tensor& w) { return weight_gradient ? w : w.detach(); };
  return at::layer_norm(rows, {rows.size(-1)}, use(weights_.norm), use(weights_.norm_bias), 1e-5);
}

at::Tensor PlainLayer::project(Projector which, const at::Tensor& rows, bool weight_gradient) {
  const at::Tensor own = weight(static_cast<LayerWeight>(which));  // numbered alike
  const at::Tensor w = weight_gradient ? own : own.detach();
  if (which == Projector::kOutput) return at::linear(rows.flatten(2), w);
  return at::linear(rows, w).unflatten(2, {heads_, w.size(0) / heads_});
}

at::Tensor PlainLayer::weight(LayerWeight which) {
  // By MNEME_WEIGHT_*, from 1; it has no biases of content and position.
  constexpr std::array kWeights = {&Weights::query,  &Weights::key,  &Weights::value,
                                   &Weights::output, &Weights::norm, &Weights::norm_bias};
  const auto place = static_cast<std::size_t>(which) - 1;
  return place < kWeights.size() ? weights_.*kWeights[place] : at::Tensor();
}

double PlainLayer::scale() {
  return 1.0 / std::sqrt(static_cast<double>(weights_.query.size(0) / heads_));
}

AttentionResult PlainLayer::attention(const AttentionCall& call) {
  if (call.positions || (call.with_content_bias && !call.content_bias.defined())) {
    throw_plugin("attention: this layer has no position scheme and no content bias");
  }
  const double scale =
      call.scale == 0.0 ? 1.0 / std::sqrt(static_cast<double>(call.q.size(3))) : call.scale;
  const at::Tensor q = call.content_bias.defined() ? call.q + call.content_bias : call.q;
  at::Tensor scores =
      at::matmul(q.transpose(1, 2), call.k.permute({0, 2, 3, 1})) * scale;  // [B,H,Tq,K]
  if (call.bias.defined()) scores = scores + call.bias;
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  scores = scores.masked_fill(
      visible(call, call.q.size(1), call.k.size(1), scores.device()).logical_not(), minus_infinity);
  if (call.key_valid.defined())
    scores =
        scores.masked_fill(call.key_valid.logical_not().unsqueeze(1).unsqueeze(1), minus_infinity);
  at::Tensor values = call.v.transpose(1, 2);
  if (call.virtual_logit.defined())
    scores = at::cat({call.virtual_logit.unsqueeze(-1).to(scores.scalar_type()), scores}, 3);
  at::Tensor largest = scores.detach().amax(3, true);
  largest = at::where(largest.isinf(), torch::zeros_like(largest), largest);
  const at::Tensor weights = (scores - largest).exp();
  const at::Tensor total = weights.sum(3, true);
  const at::Tensor is_empty = total == 0;
  const at::Tensor probabilities = weights / at::where(is_empty, torch::ones_like(total), total);
  at::Tensor z;
  if (call.virtual_logit.defined()) {
    z = at::matmul(probabilities.narrow(3, 1, call.k.size(1)), values) +
        probabilities.narrow(3, 0, 1) * call.virtual_value.transpose(1, 2);
  } else {
    z = at::matmul(probabilities, values);
  }
  const at::Tensor safe = at::where(is_empty, torch::ones_like(total), total);
  const at::Tensor lse = (safe.log() + largest).masked_fill(is_empty, minus_infinity).squeeze(3);
  return {z.transpose(1, 2), lse};
}

HookDriver::HookDriver(const config::MemoryConfig& memory, const BackboneInfo& backbone,
                       plugin::PluginLoader& loader, Phase phase, std::int64_t lanes)
    : stack_(one_tier(memory), backbone, loader), state_(stack_.new_state(phase, lanes)) {}

HookDriver::~HookDriver() = default;

SegmentHooks& HookDriver::hooks() {
  if (hooks_ == nullptr) throw_run("hook driver: no segment was begun");
  return *hooks_;
}

void HookDriver::begin(const SegmentInput& input) {
  hooks_ = std::make_unique<SegmentHooks>(stack_, state_, input);
}

void HookDriver::commit() {
  hooks().commit();
  hooks_.reset();
}

}  // namespace mneme::memory
