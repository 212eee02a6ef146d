// Group mneme.layer/1: context blocks, operations of the backbone's layer.
#include <array>

#include "host/base/error.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/hook_call.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// A score bias: the last dim equals the expected one, each other does or is 1. A mask is refused,
// because a cast would add 1 where it is true.
void check_bias(const char* what, const at::Tensor& t,
                const std::array<std::int64_t, 4>& expected) {
  bool fits = t.dim() == 4;
  for (std::size_t i = 0; fits && i < 4; ++i) {
    const std::int64_t size = t.size(static_cast<std::int64_t>(i));
    fits = size == expected[i] || (size == 1 && i < 3);
  }
  if (!fits) {
    throw CallError(MNEME_E_SHAPE,
                    str(what, ": expected [", expected[0], "|1, ", expected[1], "|1, ", expected[2],
                        "|1, ", expected[3], "], got ", list_text(t.sizes().vec())));
  }
  if (t.scalar_type() == at::kBool) {
    throw CallError(MNEME_E_DTYPE,
                    str(what,
                        ": expected numbers that are added to scores, got bool: of a mask "
                        "make 0 and -inf with where/1"));
  }
}

void check_distance(const at::Tensor& distance, std::int64_t lanes, std::int64_t tokens,
                    std::int64_t rows) {
  const auto fits = [&](std::int64_t dim, std::int64_t size) {
    return distance.size(dim) == size || distance.size(dim) == 1;
  };
  const bool is_of_tokens = distance.dim() == 3 && fits(1, tokens);
  if ((distance.dim() != 2 && !is_of_tokens) || !fits(0, lanes) || distance.size(-1) != rows) {
    throw CallError(MNEME_E_SHAPE,
                    str("block.distance: expected [", lanes, "|1, ", rows, "] or [", lanes, "|1, ",
                        tokens, "|1, ", rows, "], got ", list_text(distance.sizes().vec())));
  }
  if (distance.scalar_type() != at::kLong)
    throw CallError(MNEME_E_DTYPE, str("block.distance: expected i64, got ",
                                       tensor::dtype_text(distance.scalar_type())));
}

void emit_queue(mneme_ctx* ctx, const mneme_block& block, const ContextBlock& like) {
  const std::vector<QueueDecl>& queues = ctx->instance->queues;
  const std::size_t place = ctx->instance->ids.place(Declared::kQueue, block.queue, queues.size());
  const RowsQueue& queue =
      ctx->state->scope(queues[place].is_model_scope, ctx->tier->served_index(ctx->layer))
          .queues[place];
  if (like.position == PositionKind::kExplicit)
    check_distance(like.distance, ctx->shared->lanes, ctx->shared->length, queue.size());
  std::int64_t from = 0;
  for (const BlockPtr& piece : queue.blocks()) {
    ContextBlock out = like;
    out.rows = piece->rows;
    out.block = piece;
    ctx->check_output_rows("rows of a context block", out.rows, Holds::kFinite);
    if (like.position == PositionKind::kExplicit)
      out.distance = like.distance.narrow(-1, from, piece->rows.count);
    if (like.bias.defined()) {
      check_bias("block.bias", like.bias,
                 {ctx->shared->lanes, ctx->shared->stack->backbone().heads, ctx->shared->length,
                  queue.size()});
      out.bias = like.bias.narrow(3, from, piece->rows.count);
    }
    from += piece->rows.count;
    ctx->context->blocks.push_back(std::move(out));
  }
}

mneme_status emit_block(mneme_ctx* opaque, const mneme_block* given, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    if (ctx->context == nullptr)
      throw CallError(MNEME_E_STATE, "blocks are emitted in the context hook only");
    const auto in = normalised(given, "mneme_block");
    ContextBlock out;
    out.position = static_cast<PositionKind>(in.position_kind);
    out.bias = ctx->handles.get_optional(in.bias);
    out.distance = ctx->handles.get_optional(in.distance);
    ctx->check_output("bias of a context block", out.bias, Holds::kAbsent);
    if (out.position == PositionKind::kExplicit && !out.distance.defined()) {
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      "block.distance is 0: MNEME_POSITION_EXPLICIT needs distances");
    }
    if (in.queue != 0) {
      emit_queue(ctx, in, out);
      return;
    }
    out.rows = ctx->rows_in(normalised(in.rows, "block.rows"));
    ctx->check_output_rows("rows of a context block", out.rows, Holds::kFinite);
    if (out.position == PositionKind::kExplicit)
      check_distance(out.distance, ctx->shared->lanes, ctx->shared->length, out.rows.count);
    if (out.bias.defined()) {
      check_bias("block.bias", out.bias,
                 {ctx->shared->lanes, ctx->shared->stack->backbone().heads, ctx->shared->length,
                  out.rows.count});
    }
    if (out.rows.count > 0) ctx->context->blocks.push_back(std::move(out));
  });
}

mneme_status emit_token_bias(mneme_ctx* opaque, mneme_tensor handle, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    if (ctx->context == nullptr)
      throw CallError(MNEME_E_STATE, "a token bias is emitted in the context hook only");
    if ((ctx->instance->traits().flags & MNEME_TIER_TOKEN_BIAS) == 0)
      throw CallError(MNEME_E_STATE,
                      "a token bias needs MNEME_TIER_TOKEN_BIAS in the tier's traits");
    const at::Tensor& bias = ctx->handles.get(handle);
    check_bias("token bias", bias,
               {ctx->shared->lanes, ctx->shared->stack->backbone().heads, ctx->shared->length,
                ctx->shared->segment.offset + ctx->shared->length});
    ctx->check_output("token bias", bias, Holds::kAbsent);
    at::Tensor& sum = ctx->context->token_bias;
    sum = sum.defined() ? sum + bias : bias;
  });
}

// Errors: CallError in a layer whose attention a tier replaces.
void need_attention(const mneme_ctx* ctx, const char* function) {
  if (const Tier* const tier = ctx->shared->stack->replacing_tier(ctx->layer))
    throw CallError(MNEME_E_UNSUPPORTED,
                    str(function, ": layer ", ctx->layer, " has no attention: tier ", tier->name(),
                        " replaces it"));
}

// Q, K, V and O are numbered alike as projections and as weights.
std::string no_projection(const mneme_ctx* ctx, const char* function, std::uint32_t which) {
  constexpr std::array kNames = {"queries", "keys", "values", "results at MNEME_SITE_HEADS"};
  const std::string text =
      str(function, ": layer ", ctx->layer, " has no projection of ", kNames.at(which - 1));
  const Tier* const tier = ctx->shared->stack->replacing_tier(ctx->layer);
  if (tier == nullptr) return text;
  return str(text, ": tier ", tier->name(), ", which replaces its attention, ",
             which == MNEME_PROJECT_O ? "reads at MNEME_SITE_OUT" : "does not want them");
}

mneme_status norm(mneme_ctx* opaque, mneme_tensor rows, std::uint32_t flags, mneme_tensor* out,
                  mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    check_flags("norm", flags, MNEME_NO_WEIGHT_GRADIENT, "MNEME_NO_WEIGHT_GRADIENT");
    *out = ctx->handles.give(ctx->layer_services().norm(ctx->handles.get(rows),
                                                        (flags & MNEME_NO_WEIGHT_GRADIENT) == 0));
  });
}

mneme_status project(mneme_ctx* opaque, std::uint32_t which, mneme_tensor rows, std::uint32_t flags,
                     mneme_tensor* out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    if (which < MNEME_PROJECT_Q || which > MNEME_PROJECT_O)
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("project: expected one of MNEME_PROJECT_*, got ", which));
    check_flags("project", flags, MNEME_NO_WEIGHT_GRADIENT, "MNEME_NO_WEIGHT_GRADIENT");
    at::Tensor result =
        ctx->layer_services().project(static_cast<Projector>(which), ctx->handles.get(rows),
                                      (flags & MNEME_NO_WEIGHT_GRADIENT) == 0);
    if (!result.defined())
      throw CallError(MNEME_E_UNSUPPORTED, no_projection(ctx, "project", which));
    const bool is_key = which == MNEME_PROJECT_K || which == MNEME_PROJECT_V;
    *out = ctx->handles.give(is_key ? ctx->instance->seen_keys(result) : std::move(result));
  });
}

std::string no_relative_positions(const mneme_ctx* ctx, const char* what) {
  return str(what, ": the layer has position biases and a table of positions only with ",
             "model.position = \"relative\" or \"disentangled\", not with \"",
             ctx->shared->stack->backbone().position, "\"");
}

// The weight of keys or values with the heads that the hook's tier has; the width of one is that of
// the tier that replaces the attention, if one does.
at::Tensor seen_weight(const mneme_ctx* ctx, const at::Tensor& weight,
                       std::int64_t (Instance::*width)() const) {
  const Tier* const tier = ctx->shared->stack->replacing_tier(ctx->layer);
  const Instance& of = tier == nullptr ? *ctx->instance : tier->instance(Phase::kTraining);
  return ctx->instance->seen_key_weight(weight, (of.*width)());
}

mneme_status weight(mneme_ctx* opaque, std::uint32_t which, std::uint32_t flags, mneme_tensor* out,
                    mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    if (which < MNEME_WEIGHT_Q || which > MNEME_WEIGHT_POSITION_BIAS)
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("weight: expected one of MNEME_WEIGHT_*, got ", which));
    check_flags("weight", flags, MNEME_NO_WEIGHT_GRADIENT, "MNEME_NO_WEIGHT_GRADIENT");
    if (which >= MNEME_WEIGHT_CONTENT_BIAS) need_attention(ctx, "weight");
    at::Tensor value = ctx->layer_services().weight(static_cast<LayerWeight>(which));
    if (!value.defined() && which <= MNEME_WEIGHT_O)
      throw CallError(MNEME_E_UNSUPPORTED, no_projection(ctx, "weight", which));
    if (!value.defined() && which >= MNEME_WEIGHT_CONTENT_BIAS)
      throw CallError(MNEME_E_UNSUPPORTED, no_relative_positions(ctx, "weight"));
    if (!value.defined())
      throw CallError(MNEME_E_UNSUPPORTED, "weight: an RMS norm has no bias: model.norm_kind");
    if (which == MNEME_WEIGHT_K) value = seen_weight(ctx, value, &Instance::key_width);
    if (which == MNEME_WEIGHT_V) value = seen_weight(ctx, value, &Instance::value_width);
    *out = ctx->handles.borrow((flags & MNEME_NO_WEIGHT_GRADIENT) != 0 ? value.detach() : value);
  });
}

mneme_status positions(mneme_ctx* opaque, std::int64_t least, std::int64_t count,
                       std::uint32_t flags, mneme_tensor* out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    check_flags("positions", flags, MNEME_POSITIONS_SIGNED, "MNEME_POSITIONS_*");
    if (count < 1)
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("positions: count: expected at least 1, got ", count));
    need_attention(ctx, "positions");
    at::Tensor value =
        ctx->layer_services().positions(least, count, (flags & MNEME_POSITIONS_SIGNED) != 0);
    if (!value.defined())
      throw CallError(MNEME_E_UNSUPPORTED, no_relative_positions(ctx, "positions"));
    *out = ctx->handles.give(std::move(value));
  });
}

void check_attention(const AttentionCall& call, const BackboneInfo& backbone,
                     std::int64_t key_heads, std::int64_t lanes) {
  const auto check = [&](const char* what, const at::Tensor& t,
                         const std::vector<std::int64_t>& expected) {
    if (t.defined() && t.sizes() != at::IntArrayRef(expected))
      throw CallError(MNEME_E_SHAPE, str("attention: ", what, ": expected ", list_text(expected),
                                         ", got ", list_text(t.sizes().vec())));
  };
  for (const at::Tensor* t : {&call.q, &call.k, &call.v}) {
    if (t->dim() != 4)
      throw CallError(MNEME_E_SHAPE, str("attention: q, k and v are [B,rows,H,d], got ",
                                         list_text(t->sizes().vec())));
  }
  const std::int64_t queries = call.q.size(1);
  const std::int64_t keys = call.k.size(1);
  check("q", call.q, {lanes, queries, backbone.heads, backbone.head_width});
  check("k", call.k, {lanes, keys, key_heads, backbone.head_width});
  check("v", call.v, {lanes, keys, key_heads, backbone.head_width});
  check("key_valid", call.key_valid, {lanes, keys});
  check("content_bias", call.content_bias, {backbone.heads, backbone.head_width});
  check("position_bias", call.position_bias, {backbone.heads, backbone.head_width});
  check("virtual_logit", call.virtual_logit, {lanes, backbone.heads, queries});
  check("virtual_value", call.virtual_value, {lanes, queries, backbone.heads, backbone.head_width});
  if (call.bias.defined())
    check_bias("attention: bias", call.bias, {lanes, backbone.heads, queries, keys});
  if (call.virtual_logit.defined() != call.virtual_value.defined())
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    "attention: virtual_logit and virtual_value go together");
  if (call.first_key < 0 || call.last_key >= std::max<std::int64_t>(keys, 1))
    throw CallError(
        MNEME_E_INVALID_ARGUMENT,
        str("attention: expected first_key of at least 0 and first_key + key_count of at most ",
            keys, ", got ", call.first_key, " and ", call.last_key + 1));
}

mneme_status attention(mneme_ctx* opaque, const mneme_attention* given, mneme_tensor* z,
                       mneme_tensor* lse, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(z, "z");
    need(lse, "lse");
    const auto in = normalised(given, "mneme_attention");
    need_attention(ctx, "attention");
    const auto& handles = ctx->handles;
    AttentionCall call;
    call.q = handles.get(in.q);
    call.k = handles.get(in.k);
    call.v = handles.get(in.v);
    call.mask = static_cast<AttentionMask>(in.mask);
    call.query_offset = in.query_offset;
    call.window_before = in.window_before;
    call.window_after = in.window_after;
    call.first_key = in.first_key;
    if (in.key_count < 0)
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("attention: key_count: expected at least 0, got ", in.key_count));
    const std::int64_t keys = call.k.dim() == 4 ? call.k.size(1) : 0;
    call.last_key = in.key_count == 0 ? keys - 1 : in.first_key + in.key_count - 1;
    call.positions = (in.flags & MNEME_ATTENTION_POSITIONS) != 0;
    call.with_content_bias = (in.flags & MNEME_ATTENTION_CONTENT_BIAS) != 0;
    call.dropout = (in.flags & MNEME_ATTENTION_DROPOUT) != 0;
    call.key_valid = handles.get_optional(in.key_valid);
    call.bias = handles.get_optional(in.bias);
    call.content_bias = handles.get_optional(in.content_bias);
    call.position_bias = handles.get_optional(in.position_bias);
    call.virtual_logit = handles.get_optional(in.virtual_logit);
    call.virtual_value = handles.get_optional(in.virtual_value);
    call.scale = in.scale;
    check_attention(call, ctx->shared->stack->backbone(), ctx->instance->key_heads(),
                    ctx->shared->lanes);
    AttentionResult result = ctx->layer_services().attention(call);
    *z = ctx->handles.give(std::move(result.z));
    *lse = ctx->handles.give(std::move(result.lse));
  });
}

mneme_status scale(mneme_ctx* opaque, double* out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    *out = ctx->layer_services().scale();
  });
}

mneme_status release(mneme_ctx* opaque, const mneme_rows* given, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    if ((ctx->instance->traits().flags & MNEME_TIER_RELEASES) == 0)
      throw CallError(MNEME_E_STATE, "release needs MNEME_TIER_RELEASES in the tier's traits");
    if (ctx->released == nullptr || ctx->layer < 0)
      throw CallError(MNEME_E_STATE, "release may be called in absorb and ride only");
    const auto in = normalised(given, "mneme_rows");
    if (in.kind != MNEME_ROWS_HIDDEN)
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      "release takes layer-input rows (MNEME_ROWS_HIDDEN)");
    if (in.hidden == 0 && in.rows == 0) return;
    ctx->released->push_back(ctx->rows_in(in).detached());
    ctx->check_output_rows("released rows", ctx->released->back(), Holds::kInfinite);
  });
}

}  // namespace

const mneme_layer_api* layer_api() {
  static const mneme_layer_api api = {sizeof(mneme_layer_api),
                                      0,
                                      emit_block,
                                      emit_token_bias,
                                      norm,
                                      project,
                                      weight,
                                      attention,
                                      release,
                                      positions,
                                      scale};
  return &api;
}

}  // namespace mneme::memory
