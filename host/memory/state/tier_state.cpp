// A tier's state while a run goes on: start values, resets, detaching, selection of lanes.
#include "host/memory/state/tier_state.hpp"

#include <algorithm>

#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

at::ScalarType held_dtype(const SlotDecl& decl, const BackboneInfo& backbone) {
  return decl.dtype == at::kFloat && backbone.compute_dtype == at::kDouble ? at::kDouble
                                                                           : decl.dtype;
}

at::Tensor bool_tensor(const std::vector<std::uint8_t>& flags, at::Device device) {
  at::Tensor out = torch::empty({static_cast<std::int64_t>(flags.size())}, at::kBool);
  for (std::size_t b = 0; b < flags.size(); ++b) out[static_cast<std::int64_t>(b)] = flags[b] != 0;
  return tensor::to_device(out, device);
}

}  // namespace

Rows zero_rows(const QueueDecl& decl, std::int64_t count, std::int64_t lanes,
               const BackboneInfo& backbone) {
  Rows rows;
  rows.kind = decl.kind;
  rows.count = count;
  // Rows come in the layers' compute dtype, so the start rows of a queue have it too.
  const auto options = at::TensorOptions().device(backbone.device).dtype(backbone.compute_dtype);
  if (decl.kind == RowsKind::kKeyValue) {
    rows.k = torch::zeros({lanes, count, decl.key_heads, backbone.head_width}, options);
    rows.v = torch::zeros_like(rows.k);
  } else {
    rows.hidden = torch::zeros({lanes, count, backbone.width}, options);
  }
  if ((decl.attributes & MNEME_ATTRIBUTE_POSITION) != 0)
    rows.position = torch::zeros({lanes, count}, options.dtype(at::kLong));
  if ((decl.attributes & MNEME_ATTRIBUTE_MASS) != 0)
    rows.mass = torch::zeros({lanes, count}, options.dtype(at::kFloat));
  return rows;
}

template <typename F>
void TierState::for_each_slot(F f) {
  for_each_scope(*this, [&](ScopeState& scope, bool is_model, std::int64_t index) {
    for (std::size_t s = 0; s < scope.slots.size(); ++s) {
      const SlotDecl& decl = instance_->slots[s];
      if (decl.is_model_scope == is_model) f(decl, scope.slots[s], index);
    }
  });
}

TierState::TierState(const Tier& tier, Phase phase, std::int64_t lanes,
                     const BackboneInfo& backbone)
    : tier_(&tier),
      instance_(&tier.instance(phase)),
      lanes_(lanes),
      backbone_(backbone),
      layers_(tier.served().size()) {
  for_each_scope(*this, [&](ScopeState& scope, bool is_model, std::int64_t) {
    scope.slots.resize(instance_->slots.size());
    scope.queues.resize(instance_->queues.size());
    for (std::size_t q = 0; q < scope.queues.size(); ++q) {
      if (instance_->queues[q].is_model_scope == is_model)
        fill_queue_start(scope, static_cast<std::int64_t>(q));
    }
  });
  for_each_slot([&](const SlotDecl& decl, at::Tensor& value, std::int64_t index) {
    value = start_value(decl, index);
  });
}

at::Tensor TierState::start_value(const SlotDecl& decl, std::int64_t served_index) const {
  std::vector<std::int64_t> dims = decl.dims;
  for (std::int64_t& dim : dims) {
    if (dim == MNEME_LANES) dim = lanes_;
    if (dim == MNEME_ANY) dim = 0;
  }
  const at::Device device = decl.is_counts ? at::Device(at::kCPU) : backbone_.device;
  const auto options = at::TensorOptions().device(device).dtype(held_dtype(decl, backbone_));
  if (decl.start == MNEME_START_PARAMETER) {
    const at::Tensor& parameter = tier_->parameter(decl.start_parameter, served_index);
    const at::Tensor whole = decl.has_lanes() ? parameter.unsqueeze(0).expand(dims) : parameter;
    return whole.to(options.dtype()).clone(at::MemoryFormat::Contiguous);
  }
  return decl.start == MNEME_START_CONSTANT ? torch::full(dims, decl.start_value, options)
                                            : torch::zeros(dims, options);
}

void TierState::fill_queue_start(ScopeState& scope, std::int64_t queue) {
  const QueueDecl& decl = instance_->queues[static_cast<std::size_t>(queue)];
  if (decl.start_rows == 0) return;
  auto block = std::make_shared<RowsBlock>();
  block->rows = zero_rows(decl, decl.start_rows, lanes_, backbone_);
  scope.queues[static_cast<std::size_t>(queue)].append(std::move(block));
}

void TierState::make_room_for_start(RowsQueue& queue, const QueueDecl& decl) const {
  const std::int64_t missing = decl.start_rows - queue.size();
  if (missing <= 0) return;
  auto block = std::make_shared<RowsBlock>();
  block->rows = zero_rows(decl, missing, lanes_, backbone_);
  block->rows.valid =
      torch::zeros({lanes_, missing}, block->rows.main().options().dtype(at::kBool));
  block->rows.counts.assign(static_cast<std::size_t>(lanes_), 0);
  queue.prepend(std::move(block));
}

void TierState::reset(const std::vector<std::uint8_t>& reset, bool do_others_go_on) {
  const bool all = !do_others_go_on &&
                   std::all_of(reset.begin(), reset.end(), [](std::uint8_t r) { return r != 0; });
  const at::Tensor mask = all ? at::Tensor() : bool_tensor(reset, backbone_.device);
  for_each_slot([&](const SlotDecl& decl, at::Tensor& value, std::int64_t index) {
    if (!decl.has_lanes()) return;
    at::Tensor start = start_value(decl, index);
    if (all) {
      value = start;
      return;
    }
    // MNEME_ANY extents: the present extents are filled with the start value.
    if (start.sizes() != value.sizes())
      start = torch::full_like(value, decl.start == MNEME_START_CONSTANT ? decl.start_value : 0.0);
    std::vector<std::int64_t> shape(static_cast<std::size_t>(value.dim()), 1);
    shape[0] = lanes_;
    value = torch::where(mask.to(value.device()).view(shape), start, value);
  });
  for_each_scope(*this, [&](ScopeState& scope, bool is_model, std::int64_t) {
    for (std::size_t q = 0; q < scope.queues.size(); ++q) {
      const QueueDecl& decl = instance_->queues[q];
      if (decl.is_model_scope != is_model) continue;
      if (!all) make_room_for_start(scope.queues[q], decl);
      scope.queues[q].reset(reset, decl.start_rows, do_others_go_on);
      if (all) fill_queue_start(scope, static_cast<std::int64_t>(q));
    }
    scope.waiting.reset(reset, 0, do_others_go_on);
  });
}

void TierState::clear_segment_slots() {
  for_each_slot([&](const SlotDecl& decl, at::Tensor& value, std::int64_t index) {
    if (decl.is_segment_lifetime) value = start_value(decl, index);
  });
}

void TierState::detach(bool cut_through) {
  for_each_slot([&](const SlotDecl& decl, at::Tensor& value, std::int64_t) {
    if (!decl.is_through || cut_through) value = value.detach();
  });
}

void TierState::select(const std::vector<std::int64_t>& lanes) {
  const at::Tensor index = torch::tensor(lanes, at::kLong).to(backbone_.device);
  lanes_ = static_cast<std::int64_t>(lanes.size());
  for_each_slot([&](const SlotDecl& decl, at::Tensor& value, std::int64_t) {
    if (decl.has_lanes()) value = value.index_select(0, index.to(value.device()));
  });
  for_each_scope(*this, [&](ScopeState& scope, bool, std::int64_t) {
    for (RowsQueue& queue : scope.queues) queue.select(lanes);
    scope.waiting.select(lanes);
  });
}

std::int64_t TierState::bytes() const {
  std::int64_t total = 0;
  for_each_scope(*this, [&](const ScopeState& scope, bool, std::int64_t) {
    for (const at::Tensor& slot : scope.slots) {
      if (slot.defined()) total += slot.numel() * static_cast<std::int64_t>(slot.element_size());
    }
    for (const RowsQueue& queue : scope.queues) total += queue.bytes();
    total += scope.waiting.bytes();
  });
  return total;
}

std::int64_t TierState::cached_projection_bytes() const {
  std::int64_t total = 0;
  for_each_scope(*this, [&](const ScopeState& scope, bool, std::int64_t) {
    for (const RowsQueue& queue : scope.queues) {
      for (const BlockPtr& block : queue.blocks()) {
        for (const auto& [layer, p] : block->projections)
          total += 2 * p.k.numel() * static_cast<std::int64_t>(p.k.element_size());
      }
    }
  });
  return total;
}

}  // namespace mneme::memory
