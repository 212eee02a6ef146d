// What hooks call of the backbone's layer that they run in (mneme/layer.h).
#include "python/bridge/bridge.hpp"

namespace mneme::python {
namespace {

// (queue or 0, rows or None, position kind, distance or None, bias or None)
Ref emit_block(Items& items) {
  mneme_block block = MNEME_INIT(mneme_block);
  block.queue = items.number();
  std::vector<int64_t> counts;
  mneme_rows rows = MNEME_INIT(mneme_rows);
  if (!items.is_none()) {
    rows = items.rows(counts);
    block.rows = &rows;
  }
  block.position_kind = items.number();
  block.distance = items.tensor();
  block.bias = items.tensor();
  call_host(groups.layer->emit_block, ctx(), &block);
  return none();
}

// (bias)
Ref emit_token_bias(Items& items) {
  const mneme_tensor bias = items.tensor();
  call_host(groups.layer->emit_token_bias, ctx(), bias);
  return none();
}

// (rows, flags) -> tensor
Ref norm(Items& items) {
  const mneme_tensor rows = items.tensor();
  mneme_tensor out = 0;
  call_host(groups.layer->norm, ctx(), rows, items.number(), &out);
  return to_python(Handle{out});
}

// (which, rows, flags) -> tensor
Ref project(Items& items) {
  const uint32_t which = items.number();
  const mneme_tensor rows = items.tensor();
  mneme_tensor out = 0;
  call_host(groups.layer->project, ctx(), which, rows, items.number(), &out);
  return to_python(Handle{out});
}

// (which, flags) -> tensor
Ref weight(Items& items) {
  const uint32_t which = items.number();
  mneme_tensor out = 0;
  call_host(groups.layer->weight, ctx(), which, items.number(), &out);
  return to_python(Handle{out});
}

// (least, count, flags) -> tensor
Ref positions(Items& items) {
  const int64_t least = items.integer();
  const int64_t count = items.integer();
  mneme_tensor out = 0;
  call_host(groups.layer->positions, ctx(), least, count, items.number(), &out);
  return to_python(Handle{out});
}

// () -> number
Ref scale(Items& /*items*/) {
  double out = 0;
  call_host(groups.layer->scale, ctx(), &out);
  return to_python(out);
}

// (flags, q, k, v, mask, query_offset, window_before, window_after, first_key, key_count, key_valid,
// bias, content_bias, position_bias, virtual_logit, virtual_value, scale) -> (z, lse)
Ref attention(Items& items) {
  mneme_attention call = MNEME_INIT(mneme_attention);
  call.flags = items.number();
  call.q = items.tensor();
  call.k = items.tensor();
  call.v = items.tensor();
  call.mask = items.number();
  call.query_offset = items.integer();
  call.window_before = items.integer();
  call.window_after = items.integer();
  call.first_key = items.integer();
  call.key_count = items.integer();
  call.key_valid = items.tensor();
  call.bias = items.tensor();
  call.content_bias = items.tensor();
  call.position_bias = items.tensor();
  call.virtual_logit = items.tensor();
  call.virtual_value = items.tensor();
  call.scale = items.real();
  mneme_tensor z = 0;
  mneme_tensor lse = 0;
  call_host(groups.layer->attention, ctx(), &call, &z, &lse);
  return tuple(Handle{z}, Handle{lse});
}

// (rows)
Ref release(Items& items) {
  std::vector<int64_t> counts;
  const mneme_rows rows = items.rows(counts);
  call_host(groups.layer->release, ctx(), &rows);
  return none();
}

}  // namespace

void add_layer_functions(Object* dict) {
  add_function<emit_block>(dict, "emit_block");
  add_function<emit_token_bias>(dict, "emit_token_bias");
  add_function<norm>(dict, "norm");
  add_function<project>(dict, "project");
  add_function<weight>(dict, "weight");
  add_function<positions>(dict, "positions");
  add_function<scale>(dict, "scale");
  add_function<attention>(dict, "attention");
  add_function<release>(dict, "release");
}

}  // namespace mneme::python
