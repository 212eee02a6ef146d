// What hooks call for the tier's own state and parameters, and for random numbers, losses, probes
// and constants.
#include "python/bridge/bridge.hpp"

namespace mneme::python {
namespace {

// (id) -> tensor
Ref parameter(Items& items) {
  mneme_tensor out = 0;
  call_host(groups.state->parameter, ctx(), items.number(), &out);
  return to_python(Handle{out});
}

// (id) -> tensor
Ref slot_get(Items& items) {
  mneme_tensor out = 0;
  call_host(groups.state->slot_get, ctx(), items.number(), &out);
  return to_python(Handle{out});
}

// (id, tensor)
Ref slot_set(Items& items) {
  const mneme_slot id = items.number();
  const mneme_tensor value = items.tensor();
  call_host(groups.state->slot_set, ctx(), id, value);
  return none();
}

// (id) -> numbers of the lanes
Ref counts_get(Items& items) {
  const mneme_slot id = items.number();
  mneme_ctx* const call = ctx();
  std::vector<int64_t> values(static_cast<std::size_t>(running.segment->lanes));
  call_host(groups.state->counts_get, call, id, values.data(), values.size());
  return tuple_of(values.data(), static_cast<int64_t>(values.size()));
}

// (id, numbers of the lanes)
Ref counts_set(Items& items) {
  const mneme_slot id = items.number();
  const std::vector<int64_t> values = items.integers();
  call_host(groups.state->counts_set, ctx(), id, values.data(), values.size());
  return none();
}

// (id) -> rows in it
Ref queue_size(Items& items) {
  int64_t rows = 0;
  call_host(groups.state->queue_size, ctx(), items.number(), &rows);
  return to_python(rows);
}

// (id) -> rows, as one piece
Ref queue_rows(Items& items) {
  mneme_rows rows = MNEME_INIT(mneme_rows);
  call_host(groups.state->queue_rows, ctx(), items.number(), &rows);
  return to_python(rows, running.segment->lanes);
}

// (id) -> its blocks, oldest first
Ref queue_blocks(Items& items) {
  const mneme_queue id = items.number();
  std::vector<mneme_rows> blocks;
  uint32_t count = 8;
  while (blocks.size() < count) {
    blocks.resize(count, MNEME_INIT(mneme_rows));
    call_host(groups.state->queue_blocks, ctx(), id, blocks.data(),
              static_cast<uint32_t>(sizeof(mneme_rows)), static_cast<uint32_t>(blocks.size()),
              &count);
  }
  Ref out = made(py.PyTuple_New(count));
  for (uint32_t i = 0; i < count; ++i)
    py.PyTuple_SetItem(out.get(), i, to_python(blocks[i], running.segment->lanes).release());
  return out;
}

// (id, rows)
Ref queue_append(Items& items) {
  const mneme_queue id = items.number();
  std::vector<int64_t> counts;
  const mneme_rows rows = items.rows(counts);
  call_host(groups.state->queue_append, ctx(), id, &rows);
  return none();
}

// (id, n, whether the rows are wanted) -> rows or None
Ref queue_pop_oldest(Items& items) {
  const mneme_queue id = items.number();
  const int64_t count = items.integer();
  mneme_rows rows = MNEME_INIT(mneme_rows);
  const bool is_wanted = items.boolean();
  call_host(groups.state->queue_pop_oldest, ctx(), id, count, is_wanted ? &rows : nullptr);
  return is_wanted ? to_python(rows, running.segment->lanes) : none();
}

// (id, rows, carried)
Ref queue_assign(Items& items) {
  const mneme_queue id = items.number();
  std::vector<int64_t> counts;
  const mneme_rows rows = items.rows(counts);
  call_host(groups.state->queue_assign, ctx(), id, &rows, items.integer());
  return none();
}

using Report = mneme_status (*)(mneme_ctx*, const char*, mneme_tensor, mneme_tensor, mneme_error*);

Ref report(Report function, Items& items) {
  const char* const name = items.text();
  const mneme_tensor value = items.tensor();
  const mneme_tensor weight = items.tensor();
  call_host(function, ctx(), name, value, weight);
  return none();
}

// (name, value, weight or None)
Ref aux(Items& items) { return report(groups.report->aux, items); }
Ref metric(Items& items) { return report(groups.report->metric, items); }

using Draw = mneme_status (*)(mneme_ctx*, const char*, const mneme_shape*, mneme_tensor*,
                              mneme_error*);

Ref draw(Draw function, Items& items) {
  const char* const name = items.text();
  mneme_shape shape = MNEME_INIT(mneme_shape);
  items.shape(shape.rank, shape.dims);
  shape.dtype = items.number();
  mneme_tensor out = 0;
  call_host(function, ctx(), name, &shape, &out);
  return to_python(Handle{out});
}

// (name, shape, dtype) -> tensor
Ref uniform(Items& items) { return draw(groups.random->uniform, items); }
Ref normal(Items& items) { return draw(groups.random->normal, items); }

// (name) -> whether somebody wants the probe
Ref wants_probe(Items& items) {
  const char* const name = items.text();
  const bool is_wanted = groups.probe != nullptr && groups.probe->wanted(ctx(), name) != 0;
  return made(py.PyBool_FromLong(is_wanted ? 1 : 0));
}

// (name, tensor)
Ref probe(Items& items) {
  const char* const name = items.text();
  const mneme_tensor value = items.tensor();
  if (groups.probe != nullptr) call_host(groups.probe->publish, ctx(), name, value);
  return none();
}

// (key) -> tensor or None
Ref constant_find(Items& items) {
  mneme_tensor out = 0;
  call_host(groups.tensor->constant_find, ctx(), items.text(), &out);
  return to_python(Handle{out});
}

// (key, shape, dtype, address of the values on the CPU, bytes) -> tensor
Ref constant_put(Items& items) {
  const char* const key = items.text();
  mneme_shape shape = MNEME_INIT(mneme_shape);
  items.shape(shape.rank, shape.dims);
  shape.dtype = items.number();
  const void* const data = reinterpret_cast<const void*>(items.bits());
  const uint64_t bytes = items.bits();
  mneme_tensor out = 0;
  call_host(groups.tensor->constant_put, ctx(), key, &shape, data, bytes, &out);
  return to_python(Handle{out});
}

// () -> tokens, valid_count, reset of the lanes (mneme_segment)
Ref lanes(Items& /*items*/) {
  ctx();
  const mneme_segment& segment = *running.segment;
  std::vector<int64_t> reset(segment.reset, segment.reset + segment.lanes);
  return tuple(tuple_of(segment.tokens, segment.lanes),
               tuple_of(segment.valid_count, segment.lanes), tuple_of(reset.data(), segment.lanes));
}

}  // namespace

void add_state_functions(Object* dict) {
  add_function<parameter>(dict, "parameter");
  add_function<slot_get>(dict, "slot_get");
  add_function<slot_set>(dict, "slot_set");
  add_function<counts_get>(dict, "counts_get");
  add_function<counts_set>(dict, "counts_set");
  add_function<queue_size>(dict, "queue_size");
  add_function<queue_rows>(dict, "queue_rows");
  add_function<queue_blocks>(dict, "queue_blocks");
  add_function<queue_append>(dict, "queue_append");
  add_function<queue_pop_oldest>(dict, "queue_pop_oldest");
  add_function<queue_assign>(dict, "queue_assign");
  add_function<aux>(dict, "aux");
  add_function<metric>(dict, "metric");
  add_function<uniform>(dict, "uniform");
  add_function<normal>(dict, "normal");
  add_function<wants_probe>(dict, "wants_probe");
  add_function<probe>(dict, "probe");
  add_function<constant_find>(dict, "constant_find");
  add_function<constant_put>(dict, "constant_put");
  add_function<lanes>(dict, "lanes");
}

}  // namespace mneme::python
