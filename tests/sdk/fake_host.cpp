#include "tests/sdk/fake_host.hpp"

#include <sstream>

#include "mneme/sdk.h"

namespace mneme::test {
namespace {

FakeHost& host() { return FakeHost::get(); }

template <typename... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

mneme_status refuse(mneme_error* error, mneme_status code, const std::string& message) {
  error->native_code = 7;
  return mneme_sdk_fail(error, code, "host/fake.cpp", 42, message.c_str());
}

std::string shape_text(const int64_t* dims, uint64_t rank) {
  std::string out = "[";
  for (uint64_t i = 0; i < rank; ++i) out += (i > 0 ? "," : "") + std::to_string(dims[i]);
  return out + "]";
}

// ---- tensor ----

mneme_status tensor_shape(mneme_ctx*, mneme_tensor t, mneme_shape* out, mneme_error* error) {
  const auto found = host().tensors.find(t);
  if (found == host().tensors.end()) {
    return refuse(error, MNEME_E_INVALID_ARGUMENT, "dead handle");
  }
  out->dtype = found->second.dtype;
  out->rank = static_cast<uint32_t>(found->second.shape.size());
  for (uint32_t i = 0; i < out->rank; ++i) out->dims[i] = found->second.shape[i];
  return MNEME_OK;
}

mneme_status tensor_retain(mneme_ctx*, mneme_tensor t, mneme_error* error) {
  const auto found = host().tensors.find(t);
  if (found == host().tensors.end()) return refuse(error, MNEME_E_INVALID_ARGUMENT, "dead handle");
  ++found->second.references;
  return MNEME_OK;
}

mneme_status tensor_release(mneme_ctx*, mneme_tensor t, mneme_error* error) {
  if (t == 0) return MNEME_OK;
  const auto found = host().tensors.find(t);
  if (found == host().tensors.end() || found->second.is_borrowed) {
    host().log.push_back("bad release");
    return refuse(error, MNEME_E_INVALID_ARGUMENT, "dead or borrowed handle");
  }
  if (--found->second.references == 0) host().tensors.erase(found);
  return MNEME_OK;
}

mneme_status tensor_from_data(mneme_ctx*, const mneme_shape* shape, const void*, uint64_t bytes,
                              mneme_tensor* out, mneme_error*) {
  host().log.push_back(
      join("from_data ", shape_text(shape->dims, shape->rank), " ", shape->dtype, " ", bytes));
  *out = host().own({shape->dims, shape->dims + shape->rank}, shape->dtype);
  return MNEME_OK;
}

mneme_status constant_find(mneme_ctx*, const char* key, mneme_tensor* out, mneme_error*) {
  const auto found = host().constants.find(key);
  *out = found == host().constants.end() ? 0 : found->second;
  return MNEME_OK;
}

mneme_status constant_put(mneme_ctx*, const char* key, const mneme_shape* shape, const void*,
                          uint64_t, mneme_tensor* out, mneme_error*) {
  host().log.push_back(join("constant ", key));
  *out = host().borrowed({shape->dims, shape->dims + shape->rank}, shape->dtype);
  host().constants[key] = *out;
  return MNEME_OK;
}

// ---- op ----

mneme_status op_resolve(mneme_setup*, const char* const* names, uint32_t count, mneme_op* out,
                        mneme_error* error) {
  for (uint32_t i = 0; i < count; ++i) {
    if (host().missing_op == names[i]) {
      return refuse(error, MNEME_E_UNSUPPORTED, join("missing: ", names[i]));
    }
  }
  host().log.push_back(join("resolve ", count));
  host().resolved.assign(names, names + count);
  for (uint32_t i = 0; i < count; ++i) out[i] = i + 1;
  return MNEME_OK;
}

int32_t op_supports(mneme_op, uint32_t, uint32_t) { return 1; }

std::string value_text(const mneme_attr& attr) {
  switch (attr.type) {
    case MNEME_ATTR_INT:
      return std::to_string(attr.integer);
    case MNEME_ATTR_REAL:
      return join(attr.real);
    case MNEME_ATTR_INTS:
      return shape_text(attr.ints, attr.count);
    default:
      return attr.text;
  }
}

mneme_status op_call(mneme_ctx*, mneme_op op, const mneme_tensor* inputs, uint32_t n_in,
                     const mneme_attr* attrs, uint32_t n_attrs, mneme_tensor* outputs,
                     uint32_t n_out, mneme_error* error) {
  if (op == 0 || op > host().resolved.size()) {
    return refuse(error, MNEME_E_INVALID_ARGUMENT, "op was not resolved");
  }
  OpRecord record;
  record.name = host().resolved[op - 1];
  record.inputs = n_in;
  record.outputs = n_out;
  record.handles.assign(inputs, inputs + n_in);
  std::string text = record.name + "(";
  for (uint32_t i = 0; i < n_in; ++i) text += (i > 0 ? "," : "") + std::to_string(inputs[i]);
  text += ")";
  for (uint32_t i = 0; i < n_attrs; ++i) {
    record.attrs.emplace_back(attrs[i].name, attrs[i].type);
    const std::string value = value_text(attrs[i]);
    record.values.emplace(attrs[i].name, value);
    text += join(" ", attrs[i].name, "=", value);
  }
  if (host().failing_op == "*" || record.name == host().failing_op) {
    return refuse(error, MNEME_E_SHAPE, record.name + ": shapes do not fit");
  }
  for (uint32_t i = 0; i < n_out; ++i) {
    outputs[i] = host().own();
    text += " -> " + std::to_string(outputs[i]);
  }
  host().ops.push_back(std::move(record));
  host().log.push_back(std::move(text));
  return MNEME_OK;
}

// ---- config ----

template <typename Out>
mneme_status number(const char* key, Out* out, mneme_error* error) {
  const auto found = host().options.find(key);
  if (found == host().options.end()) {
    return refuse(error, MNEME_E_INVALID_ARGUMENT, join("no option ", key));
  }
  *out = static_cast<Out>(found->second);
  return MNEME_OK;
}
mneme_status config_integer(mneme_setup*, const char* key, int64_t* out, mneme_error* error) {
  return number(key, out, error);
}
mneme_status config_real(mneme_setup*, const char* key, double* out, mneme_error* error) {
  return number(key, out, error);
}
mneme_status config_boolean(mneme_setup*, const char* key, int32_t* out, mneme_error* error) {
  return number(key, out, error);
}
mneme_status config_text(mneme_setup*, const char* key, const char** out, mneme_error*) {
  *out = host().texts[key].c_str();
  return MNEME_OK;
}
mneme_status config_integers(mneme_setup*, const char*, const int64_t** out, uint64_t* count,
                             mneme_error*) {
  static const int64_t values[] = {1, 2, 3};
  *out = values;
  *count = 3;
  return MNEME_OK;
}
mneme_status config_reals(mneme_setup*, const char*, const double** out, uint64_t* count,
                          mneme_error*) {
  static const double values[] = {0.5};
  *out = values;
  *count = 1;
  return MNEME_OK;
}

// ---- state ----

mneme_status add_parameter(mneme_setup*, const mneme_parameter_decl* decl, mneme_parameter* out,
                           mneme_error*) {
  host().log.push_back(join("parameter ", decl->name, " ", shape_text(decl->dims, decl->rank),
                            " scope=", decl->scope, " init=", decl->init, " mean=", decl->mean,
                            " deviation=", decl->deviation, " lr=", decl->lr_factor));
  *out = 1;
  return MNEME_OK;
}
mneme_status add_slot(mneme_setup*, const mneme_slot_decl* decl, mneme_slot* out, mneme_error*) {
  host().log.push_back(join("slot ", decl->name, " ", shape_text(decl->dims, decl->rank), " dtype=",
                            decl->dtype, " gradient=", decl->gradient, " start=", decl->start,
                            " value=", decl->start_value, " parameter=", decl->start_parameter));
  *out = 1;
  return MNEME_OK;
}
mneme_status add_queue(mneme_setup*, const mneme_queue_decl* decl, mneme_queue* out, mneme_error*) {
  host().log.push_back(join("queue ", decl->name, " kind=", decl->kind,
                            " capacity=", decl->capacity, " start=", decl->start_rows));
  *out = 1;
  return MNEME_OK;
}
mneme_status parameter(mneme_ctx*, mneme_parameter id, mneme_tensor* out, mneme_error*) {
  *out = host().borrowed({4});
  host().log.push_back(join("parameter_get ", id, " -> ", *out));
  return MNEME_OK;
}
mneme_status slot_get(mneme_ctx*, mneme_slot id, mneme_tensor* out, mneme_error*) {
  *out = host().borrowed({2, 4});
  host().log.push_back(join("slot_get ", id, " -> ", *out));
  return MNEME_OK;
}
mneme_status slot_set(mneme_ctx*, mneme_slot id, mneme_tensor value, mneme_error*) {
  host().log.push_back(join("slot_set ", id, " ", value));
  return MNEME_OK;
}
mneme_status counts_get(mneme_ctx*, mneme_slot, int64_t* values, uint64_t count, mneme_error*) {
  std::fill_n(values, count, 7);
  return MNEME_OK;
}
mneme_status counts_set(mneme_ctx*, mneme_slot id, const int64_t* values, uint64_t count,
                        mneme_error*) {
  host().log.push_back(join("counts_set ", id, " ", shape_text(values, count)));
  return MNEME_OK;
}
mneme_status queue_size(mneme_ctx*, mneme_queue, int64_t* rows, mneme_error*) {
  *rows = host().queue_rows;
  return MNEME_OK;
}
void fill_rows(mneme_rows* out, int64_t rows) {
  out->rows = rows;
  out->hidden = rows > 0 ? host().borrowed({2, rows, 4}) : 0;
  out->valid = rows > 0 && host().masks_rows ? host().borrowed({2, rows}, MNEME_BOOL) : 0;
}
// As many blocks as rows, of one row each.
mneme_status queue_blocks(mneme_ctx*, mneme_queue, mneme_rows* out, uint32_t stride,
                          uint32_t capacity, uint32_t* count, mneme_error*) {
  *count = static_cast<uint32_t>(host().queue_rows);
  for (uint32_t i = 0; i < *count && i < capacity; ++i) {
    fill_rows(reinterpret_cast<mneme_rows*>(reinterpret_cast<char*>(out) + i * stride), 1);
  }
  return MNEME_OK;
}
mneme_status queue_rows(mneme_ctx*, mneme_queue, mneme_rows* out, mneme_error*) {
  fill_rows(out, host().queue_rows);
  return MNEME_OK;
}
mneme_status queue_append(mneme_ctx*, mneme_queue, const mneme_rows* block, mneme_error*) {
  host().log.push_back(join("append ", block->rows, " rows"));
  host().queue_rows += block->rows;
  return MNEME_OK;
}
mneme_status queue_pop_oldest(mneme_ctx*, mneme_queue, int64_t n, mneme_rows* out, mneme_error*) {
  host().log.push_back(join(out != nullptr ? "pop " : "drop ", n));
  host().queue_rows -= n;
  if (out != nullptr) fill_rows(out, n);
  return MNEME_OK;
}
mneme_status queue_assign(mneme_ctx*, mneme_queue, const mneme_rows* block, int64_t carried,
                          mneme_error*) {
  host().log.push_back(join("assign ", block->rows, " rows, carried ", carried,
                            block->valid != 0 ? ", masked" : ""));
  host().queue_rows = block->rows;
  return MNEME_OK;
}

// ---- layer ----

mneme_status emit_block(mneme_ctx*, const mneme_block* block, mneme_error*) {
  host().log.push_back(join("emit queue=", block->queue,
                            " rows=", block->rows != nullptr ? block->rows->rows : 0,
                            " position=", block->position_kind, block->bias != 0 ? " bias" : "",
                            block->distance != 0 ? " distance" : ""));
  return MNEME_OK;
}
mneme_status emit_token_bias(mneme_ctx*, mneme_tensor, mneme_error*) {
  host().log.push_back("token_bias");
  return MNEME_OK;
}
mneme_status norm(mneme_ctx*, mneme_tensor rows, uint32_t flags, mneme_tensor* out, mneme_error*) {
  host().log.push_back(join("norm flags=", flags));
  *out = host().own(host().tensors.at(rows).shape);
  return MNEME_OK;
}
mneme_status project(mneme_ctx*, uint32_t which, mneme_tensor, uint32_t flags, mneme_tensor* out,
                     mneme_error*) {
  host().log.push_back(join("project ", which, " flags=", flags));
  *out = host().own();
  return MNEME_OK;
}
mneme_status weight(mneme_ctx*, uint32_t which, uint32_t, mneme_tensor* out, mneme_error*) {
  host().log.push_back(join("weight ", which));
  *out = host().borrowed({4, 4});
  return MNEME_OK;
}
mneme_status attention(mneme_ctx*, const mneme_attention* call, mneme_tensor* z, mneme_tensor* lse,
                       mneme_error*) {
  host().log.push_back(join("attention mask=", call->mask, " flags=", call->flags,
                            " offset=", call->query_offset, " keys=", call->key_count));
  *z = host().own();
  *lse = host().own();
  return MNEME_OK;
}
mneme_status release(mneme_ctx*, const mneme_rows* rows, mneme_error*) {
  host().log.push_back(join("release ", rows->rows, " rows", rows->valid != 0 ? ", masked" : ""));
  return MNEME_OK;
}
mneme_status aux(mneme_ctx*, const char* name, mneme_tensor, mneme_tensor weight, mneme_error*) {
  host().log.push_back(join("aux ", name, " weight=", weight));
  return MNEME_OK;
}
mneme_status metric(mneme_ctx*, const char* name, mneme_tensor, mneme_tensor, mneme_error*) {
  host().log.push_back(join("metric ", name));
  return MNEME_OK;
}

mneme_status layer_scale(mneme_ctx*, double* out, mneme_error*) {
  *out = 0.25;
  return MNEME_OK;
}
mneme_status positions(mneme_ctx*, int64_t least, int64_t count, uint32_t flags, mneme_tensor* out,
                       mneme_error*) {
  host().log.push_back(join("positions ", least, " ", count, " flags=", flags));
  *out = host().own();
  return MNEME_OK;
}

// ---- kernel, random, probe ----

mneme_status kernel_add(mneme_setup*, const mneme_kernel_decl* decl, mneme_kernel* out,
                        mneme_error*) {
  host().log.push_back(join("kernel ", decl->name, " ", decl->n_inputs, "->", decl->n_outputs,
                            " saved=", decl->n_saved, " keep=", decl->keep_inputs,
                            decl->backward_cpu != nullptr ? " backward" : "",
                            decl->forward_cuda != nullptr ? " cuda" : ""));
  *out = 1;
  return MNEME_OK;
}
mneme_status kernel_call(mneme_ctx*, mneme_kernel kernel, const mneme_tensor*, uint32_t n_in,
                         const int64_t* integers, uint32_t n_integers, const double*,
                         uint32_t n_reals, mneme_tensor* outputs, uint32_t n_out, mneme_error*) {
  host().log.push_back(join("kernel_call ", kernel, " ", n_in, "->", n_out, " ",
                            shape_text(integers, n_integers), " ", n_reals));
  // Kept and evicted rows, as xl_cache's kernel has them.
  for (uint32_t i = 0; i < n_out; ++i) {
    const int64_t rows = n_integers > 0 ? integers[0] : 1;
    outputs[i] = i % 2 == 0 ? host().own({2, rows, 4}) : host().own({2, rows}, MNEME_BOOL);
  }
  return MNEME_OK;
}
mneme_status draw(mneme_ctx*, const char* name, const mneme_shape* shape, mneme_tensor* out,
                  mneme_error*) {
  host().log.push_back(join("draw ", name, " ", shape_text(shape->dims, shape->rank)));
  *out = host().own();
  return MNEME_OK;
}
int32_t probe_wanted(mneme_ctx*, const char* name) { return host().wanted_probe == name ? 1 : 0; }
mneme_status probe_publish(mneme_ctx*, const char* name, mneme_tensor, mneme_error*) {
  host().log.push_back(join("publish ", name));
  return MNEME_OK;
}

template <typename Api, typename... Functions>
const void* table(Functions... functions) {
  static const Api api = {sizeof(Api), 0, functions...};
  return &api;
}

const void* get_group(const mneme_host*, const char* id) {
  const std::string name = id;
  if (name == host().missing_group) return nullptr;
  if (name == MNEME_GROUP_TENSOR) {
    return table<mneme_tensor_api>(tensor_shape, tensor_retain, tensor_release, tensor_from_data,
                                   constant_find, constant_put);
  }
  if (name == MNEME_GROUP_OP) return table<mneme_op_api>(op_resolve, op_supports, op_call);
  if (name == MNEME_GROUP_CONFIG) {
    return table<mneme_config_api>(config_integer, config_real, config_boolean, config_text,
                                   config_integers, config_reals);
  }
  if (name == MNEME_GROUP_STATE) {
    return table<mneme_state_api>(add_parameter, add_slot, add_queue, parameter, slot_get, slot_set,
                                  queue_size, queue_blocks, queue_rows, queue_append,
                                  queue_pop_oldest, queue_assign, counts_get, counts_set);
  }
  if (name == MNEME_GROUP_LAYER) {
    return table<mneme_layer_api>(emit_block, emit_token_bias, norm, project, weight, attention,
                                  release, positions, layer_scale);
  }
  if (name == MNEME_GROUP_KERNEL) return table<mneme_kernel_api>(kernel_add, kernel_call);
  if (name == MNEME_GROUP_RANDOM) return table<mneme_random_api>(draw, draw);
  if (name == MNEME_GROUP_REPORT) return table<mneme_report_api>(aux, metric);
  if (name == MNEME_GROUP_PROBE) return table<mneme_probe_api>(probe_wanted, probe_publish);
  return nullptr;
}

}  // namespace

FakeHost& FakeHost::get() {
  static FakeHost host;
  return host;
}

void FakeHost::clear() {
  const std::vector<std::string> kept = resolved;
  *this = FakeHost();
  resolved = kept;
}

mneme_host_offer FakeHost::offer() const {
  mneme_host_offer out = MNEME_INIT(mneme_host_offer);
  out.abi_min = MNEME_ABI_VERSION;
  out.abi_current = MNEME_ABI_VERSION;
  out.host = reinterpret_cast<const mneme_host*>(this);
  out.get_group = get_group;
  out.host_version = "fake";
  return out;
}

mneme_tensor FakeHost::borrowed(std::vector<int64_t> shape, uint32_t dtype) {
  tensors[next] = {std::move(shape), dtype, 0, true};
  return next++;
}

mneme_tensor FakeHost::own(std::vector<int64_t> shape, uint32_t dtype) {
  tensors[next] = {std::move(shape), dtype, 1, false};
  return next++;
}

int64_t FakeHost::live_references() const {
  int64_t count = 0;
  for (const auto& [handle, entry] : tensors) count += entry.references;
  return count;
}

}  // namespace mneme::test
