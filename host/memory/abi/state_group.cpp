// Group mneme.state/1 in hooks: parameters, slots and queues.
#include <algorithm>

#include "host/base/error.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/hook_call.hpp"
#include "host/memory/abi/state_declarations.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/same_view.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// The scope's state for a declaration; a layer-scope object needs a hook with a layer.
ScopeState& scope_of(mneme_ctx* ctx, bool is_model_scope, const std::string& name) {
  if (is_model_scope) return ctx->state->scope(true, -1);
  if (ctx->layer < 0)
    throw CallError(
        MNEME_E_STATE,
        str("\"", name,
            "\" belongs to a layer, and this hook has none: declare it with MNEME_SCOPE_MODEL"));
  return ctx->state->layer(ctx->tier->served_index(ctx->layer));
}

std::size_t slot_place(const mneme_ctx* ctx, mneme_slot id) {
  return ctx->instance->ids.place(Declared::kSlot, id, ctx->instance->slots.size());
}

const SlotDecl& slot_decl(const mneme_ctx* ctx, mneme_slot id) {
  return ctx->instance->slots[slot_place(ctx, id)];
}

at::Tensor& slot_of(mneme_ctx* ctx, mneme_slot id) {
  const SlotDecl& decl = slot_decl(ctx, id);
  return scope_of(ctx, decl.is_model_scope, decl.name).slots[slot_place(ctx, id)];
}

std::size_t queue_place(const mneme_ctx* ctx, mneme_queue id) {
  return ctx->instance->ids.place(Declared::kQueue, id, ctx->instance->queues.size());
}

const QueueDecl& queue_decl(const mneme_ctx* ctx, mneme_queue id) {
  return ctx->instance->queues[queue_place(ctx, id)];
}

RowsQueue& queue_of(mneme_ctx* ctx, mneme_queue id) {
  const QueueDecl& decl = queue_decl(ctx, id);
  return scope_of(ctx, decl.is_model_scope, decl.name).queues[queue_place(ctx, id)];
}

mneme_status parameter(mneme_ctx* opaque, mneme_parameter id, mneme_tensor* out,
                       mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    const std::vector<ParameterDecl>& parameters = ctx->instance->parameters;
    const std::size_t place = ctx->instance->ids.place(Declared::kParameter, id, parameters.size());
    const ParameterDecl& decl = parameters[place];
    if (!decl.is_model_scope && ctx->layer < 0)
      throw CallError(MNEME_E_STATE,
                      str("\"", decl.name, "\" belongs to a layer, and this hook has none"));
    *out = ctx->handles.borrow(ctx->tier->parameter(place, ctx->tier->served_index(ctx->layer)));
  });
}

const SlotDecl& tensor_slot(const mneme_ctx* ctx, mneme_slot id) {
  const SlotDecl& decl = slot_decl(ctx, id);
  if (decl.is_counts)
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    str("slot \"", decl.name, "\" holds counts: use counts_get and counts_set"));
  return decl;
}

mneme_status slot_get(mneme_ctx* opaque, mneme_slot id, mneme_tensor* out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    tensor_slot(ctx, id);
    *out = ctx->handles.borrow(slot_of(ctx, id));
  });
}

void check_slot_value(const SlotDecl& decl, const at::Tensor& old, const at::Tensor& value,
                      std::int64_t lanes) {
  const auto refuse_shape = [&] {
    std::vector<std::int64_t> expected = decl.dims;
    for (std::int64_t& dim : expected) {
      if (dim == MNEME_LANES) dim = lanes;
    }
    throw CallError(MNEME_E_SHAPE,
                    str("slot \"", decl.name, "\": expected shape ", list_text(expected), ", got ",
                        list_text(value.sizes().vec())));
  };
  if (value.dim() != static_cast<std::int64_t>(decl.dims.size())) refuse_shape();
  for (std::size_t i = 0; i < decl.dims.size(); ++i) {
    const std::int64_t want = decl.dims[i] == MNEME_LANES ? lanes : decl.dims[i];
    if (want != MNEME_ANY && value.size(static_cast<std::int64_t>(i)) != want) refuse_shape();
  }
  if (value.scalar_type() != old.scalar_type()) {
    throw CallError(MNEME_E_DTYPE, str("slot \"", decl.name, "\": expected dtype ",
                                       tensor::dtype_text(old.scalar_type()), ", got ",
                                       tensor::dtype_text(value.scalar_type()), " (use cast/1)"));
  }
}

mneme_status slot_set(mneme_ctx* opaque, mneme_slot id, mneme_tensor handle, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    const SlotDecl& decl = tensor_slot(ctx, id);
    at::Tensor& slot = slot_of(ctx, id);
    const at::Tensor& value = ctx->handles.get(handle);
    check_slot_value(decl, slot, value, ctx->shared->lanes);
    ctx->check_output("slot", value, Holds::kInfinite, decl.name);
    slot = value;
  });
}

// The tensor of a slot of counts; `count` is the size that the plugin passed.
at::Tensor& counts_of(mneme_ctx* ctx, mneme_slot id, std::uint64_t count) {
  const SlotDecl& decl = slot_decl(ctx, id);
  if (!decl.is_counts)
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    str("slot \"", decl.name, "\" holds a tensor: use slot_get and slot_set"));
  at::Tensor& slot = slot_of(ctx, id);
  if (count != static_cast<std::uint64_t>(slot.numel()))
    throw CallError(MNEME_E_SHAPE, str("slot \"", decl.name, "\" holds ", slot.numel(),
                                       " counts, got room for ", count));
  return slot;
}

mneme_status counts_get(mneme_ctx* opaque, mneme_slot id, std::int64_t* values, std::uint64_t count,
                        mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    if (count > 0) need(values, "values");
    const at::Tensor slot = counts_of(ctx, id, count).contiguous();
    std::copy_n(slot.const_data_ptr<std::int64_t>(), count, values);
  });
}

mneme_status counts_set(mneme_ctx* opaque, mneme_slot id, const std::int64_t* values,
                        std::uint64_t count, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    if (count > 0) need(values, "values");
    at::Tensor& slot = counts_of(ctx, id, count);
    // A new tensor, because the old one belongs to the committed state.
    at::Tensor fresh = torch::empty(slot.sizes(), at::kLong);
    std::copy_n(values, count, fresh.mutable_data_ptr<std::int64_t>());
    slot = fresh;
  });
}

mneme_status queue_size(mneme_ctx* opaque, mneme_queue id, std::int64_t* rows, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(rows, "rows");
    *rows = queue_of(ctx, id).size();
  });
}

mneme_status queue_blocks(mneme_ctx* opaque, mneme_queue id, mneme_rows* out, std::uint32_t stride,
                          std::uint32_t capacity, std::uint32_t* count, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    need(count, "count");
    const RowsQueue& queue = queue_of(ctx, id);
    const auto& blocks = queue.blocks();
    ctx->rows_read[id] = queue.size();
    *count = static_cast<std::uint32_t>(blocks.size());
    if (capacity > 0 && (stride < 8 || stride % 8 != 0))
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("queue_blocks: stride is ", stride, ": give sizeof(mneme_rows)"));
    for (std::uint32_t i = 0; i < *count && i < capacity; ++i) {
      write_struct(
          reinterpret_cast<mneme_rows*>(reinterpret_cast<char*>(out) + std::size_t{i} * stride),
          ctx->rows_out(blocks[i]->rows), stride);
    }
  });
}

mneme_status queue_rows(mneme_ctx* opaque, mneme_queue id, mneme_rows* out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    check_fillable(out, "mneme_rows");
    RowsQueue& queue = queue_of(ctx, id);
    ctx->rows_read[id] = queue.size();
    write_struct(out, ctx->rows_out(queue.joined()), out->struct_size);
  });
}

// Copies rows that are a view of a larger tensor, so that the rest of it can be freed.
at::Tensor compact(const at::Tensor& t) {
  if (!t.defined()) return t;
  const at::Tensor detached = t.detach();
  const auto own = static_cast<std::size_t>(detached.numel()) * detached.element_size();
  return detached.is_contiguous() && detached.storage().nbytes() <= own
             ? detached
             : detached.clone(at::MemoryFormat::Contiguous);
}

Rows owned(Rows rows) {
  for (const RowField& field : kRowFields) rows.*field.tensor = compact(rows.*field.tensor);
  return rows;
}

void check_kind(const mneme_ctx* ctx, mneme_queue id, const Rows& rows) {
  const QueueDecl& decl = queue_decl(ctx, id);
  if (rows.kind != decl.kind) {
    throw CallError(
        MNEME_E_INVALID_ARGUMENT,
        str("queue \"", decl.name, "\" holds rows of kind ", static_cast<std::uint32_t>(decl.kind),
            ", got kind ", static_cast<std::uint32_t>(rows.kind)));
  }
  if ((decl.attributes & MNEME_ATTRIBUTE_POSITION) != 0 && !rows.position.defined())
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    str("queue \"", decl.name, "\" keeps positions: give rows.position"));
  if ((decl.attributes & MNEME_ATTRIBUTE_MASS) != 0 && !rows.mass.defined())
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    str("queue \"", decl.name, "\" keeps attention mass: give rows.mass"));
}

// When `hidden` is x, or a view of some of its rows: the first row of x in it; else -1.
std::int64_t first_row_of_x(const mneme_ctx* ctx, const at::Tensor& hidden) {
  const at::Tensor& x = ctx->x;
  if (!x.defined() || !hidden.defined() || !hidden.is_alias_of(x) || hidden.dim() != 3 ||
      hidden.strides() != x.strides() || hidden.scalar_type() != x.scalar_type())
    return -1;
  const std::int64_t offset = hidden.storage_offset() - x.storage_offset();
  const std::int64_t stride = x.stride(1);
  if (offset < 0 || stride <= 0 || offset % stride != 0) return -1;
  const std::int64_t row = offset / stride;
  return row + hidden.size(1) <= x.size(1) ? row : -1;
}

// A queue of scope model belongs to no layer, so its rows inherit no keys and values: they are kept
// only for the layers in which the queue is emitted.
bool inherits_projections(const mneme_ctx* ctx, mneme_queue id) {
  return ctx->shared->caches_projections && !queue_decl(ctx, id).is_model_scope;
}

// Keys and values of rows [from, from + rows) of x, if this segment has computed them.
bool token_projection(const mneme_ctx* ctx, std::int64_t from, std::int64_t rows, Projection& out) {
  const auto found = ctx->shared->token_projections.find(ctx->layer);
  if (found == ctx->shared->token_projections.end()) return false;
  out = {found->second.k.narrow(1, from, rows), found->second.v.narrow(1, from, rows),
         found->second.weights_version};
  return true;
}

mneme_status queue_append(mneme_ctx* opaque, mneme_queue id, const mneme_rows* given,
                          mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    RowsQueue& queue = queue_of(ctx, id);
    Rows rows = ctx->rows_in(normalised(given, "mneme_rows"));
    check_kind(ctx, id, rows);
    ctx->check_output_rows("queue", rows, Holds::kInfinite, queue_decl(ctx, id).name);
    auto block = std::make_shared<RowsBlock>();
    const std::int64_t from =
        rows.kind == RowsKind::kHidden ? first_row_of_x(ctx, rows.hidden) : -1;
    Projection projection;
    if (from >= 0 && inherits_projections(ctx, id) &&
        token_projection(ctx, from, rows.count, projection)) {
      block->projections[ctx->layer] = {compact(projection.k), compact(projection.v),
                                        projection.weights_version};
    }
    const at::Tensor& documents = ctx->shared->input->documents;
    if (from >= 0 && documents.defined() && !rows.document.defined())
      rows.document = documents.narrow(1, from, rows.count);
    block->rows = owned(std::move(rows));
    queue.append(std::move(block));
  });
}

mneme_status queue_pop_oldest(mneme_ctx* opaque, mneme_queue id, std::int64_t n, mneme_rows* out,
                              mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    if (n < 0) throw CallError(MNEME_E_INVALID_ARGUMENT, str("pop_oldest: n is negative: ", n));
    if (out == nullptr) {
      queue_of(ctx, id).drop_oldest(n);
    } else {
      check_fillable(out, "mneme_rows");
      write_struct(out, ctx->rows_out(queue_of(ctx, id).pop_oldest(n)), out->struct_size);
    }
  });
}

// Keys and values of the queue's newest `carried` rows followed by the newest `fresh` rows of x;
// false when one of them is not kept.
bool carried_projection(const mneme_ctx* ctx, const RowsQueue& queue, std::int64_t carried,
                        std::int64_t fresh, Projection& out) {
  std::vector<at::Tensor> k;
  std::vector<at::Tensor> v;
  std::int64_t missing = carried;
  for (auto block = queue.blocks().rbegin(); block != queue.blocks().rend() && missing > 0;
       ++block) {
    const auto found = (*block)->projections.find(ctx->layer);
    if (found == (*block)->projections.end() ||
        found->second.weights_version != ctx->shared->stack->weights_version())
      return false;
    const std::int64_t n = std::min(missing, (*block)->rows.count);
    const std::int64_t from = (*block)->rows.count - n;
    k.insert(k.begin(), found->second.k.narrow(1, from, n));
    v.insert(v.begin(), found->second.v.narrow(1, from, n));
    missing -= n;
  }
  Projection tokens;
  if (fresh > 0) {
    if (!token_projection(ctx, ctx->shared->length - fresh, fresh, tokens)) return false;
    k.push_back(tokens.k);
    v.push_back(tokens.v);
  }
  if (missing > 0 || k.empty()) return false;
  out = {at::cat(k, 1), at::cat(v, 1), ctx->shared->stack->weights_version()};
  return true;
}

// Documents of the queue's newest `carried` rows followed by those of the newest `fresh` tokens;
// undefined where they are not all known. The rows themselves are not joined, and layers that hold
// the same rows get the same tensor.
at::Tensor carried_documents(const mneme_ctx* ctx, const RowsQueue& queue, std::int64_t carried,
                             std::int64_t fresh) {
  const at::Tensor& own = ctx->shared->input->documents;
  if (!own.defined() || carried < 0) return {};
  std::vector<at::Tensor> parts;
  std::int64_t missing = carried;
  for (auto block = queue.blocks().rbegin(); missing > 0; ++block) {
    const at::Tensor& held = (*block)->rows.document;
    if (!held.defined()) return {};
    const std::int64_t n = std::min(missing, held.size(1));
    parts.insert(parts.begin(), held.narrow(1, held.size(1) - n, n));
    missing -= n;
  }
  if (fresh > 0) parts.push_back(own.narrow(1, own.size(1) - fresh, fresh));
  if (parts.empty()) return {};
  auto& joined = ctx->shared->joined_documents;
  const auto known = std::ranges::find_if(joined, [&](const auto& one) {
    return std::ranges::equal(one.first, parts, tensor::is_same_view);
  });
  if (known != joined.end()) return known->second;
  return joined.emplace_back(parts, at::cat(parts, 1)).second;
}

mneme_status queue_assign(mneme_ctx* opaque, mneme_queue id, const mneme_rows* given,
                          std::int64_t carried, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    RowsQueue& queue = queue_of(ctx, id);
    Rows rows = ctx->rows_in(normalised(given, "mneme_rows"));
    check_kind(ctx, id, rows);
    ctx->check_output_rows("queue", rows, Holds::kInfinite, queue_decl(ctx, id).name);
    const std::int64_t fresh = rows.count - carried;
    if (carried > queue.size() || (carried >= 0 && (fresh < 0 || fresh > ctx->shared->length))) {
      throw CallError(
          MNEME_E_INVALID_ARGUMENT,
          str("assign: carried is ", carried, ", but the queue has ", queue.size(),
              " rows, the block ", rows.count, " and the segment ", ctx->shared->length));
    }
    auto block = std::make_shared<RowsBlock>();
    Projection projection;
    if (carried >= 0 && inherits_projections(ctx, id) &&
        carried_projection(ctx, queue, carried, fresh, projection)) {
      block->projections[ctx->layer] = std::move(projection);
    }
    if (!rows.document.defined()) {
      rows.document = carried_documents(ctx, queue, carried, fresh);
    }
    block->rows = owned(std::move(rows));
    queue.assign(std::move(block));
  });
}

}  // namespace

const mneme_state_api* state_api() {
  static const mneme_state_api api = {sizeof(mneme_state_api),
                                      0,
                                      add_parameter,
                                      add_slot,
                                      add_queue,
                                      parameter,
                                      slot_get,
                                      slot_set,
                                      queue_size,
                                      queue_blocks,
                                      queue_rows,
                                      queue_append,
                                      queue_pop_oldest,
                                      queue_assign,
                                      counts_get,
                                      counts_set};
  return &api;
}

}  // namespace mneme::memory
