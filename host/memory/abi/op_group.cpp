// Groups mneme.op/1 and mneme.tensor/1.

#include <algorithm>
#include <limits>

#include "host/base/error.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/hook_call.hpp"
#include "host/memory/abi/kernel_function.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/memory/tier/setup.hpp"
#include "host/ops/op_table.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

mneme_status resolve(mneme_setup* opaque, const char* const* names, std::uint32_t count,
                     mneme_op* out, mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* /*setup*/) {
    need(names, "names");
    need(out, "out");
    std::vector<std::string> missing;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (names[i] == nullptr)
        throw CallError(MNEME_E_INVALID_ARGUMENT, str("names[", i, "] is NULL"));
      out[i] = ops::find_op(names[i]);
      if (out[i] != 0) continue;
      const std::string near = ops::nearest_op(names[i]);
      missing.push_back(near.empty() ? std::string(names[i])
                                     : str(names[i], " (did you mean ", near, "?)"));
    }
    if (!missing.empty())
      throw CallError(MNEME_E_UNSUPPORTED, str("this host lacks the ops: ", join(missing, ", "),
                                               "; 'mneme abi ops' prints what it has"));
  });
}

std::int32_t supports(mneme_op op, std::uint32_t dtype, std::uint32_t device_type) {
  return ops::op_supports(op, dtype, device_type) ? 1 : 0;
}

// The op itself refuses a missing input. Here only the likely cause is named: an input of the hook
// that the tier does not want.
void check_wanted(const mneme_ctx* ctx, mneme_op op, std::uint32_t input) {
  if (op == 0 || op > ops::op_schemas().size()) return;
  const ops::OpSchema& schema = ops::op_schemas()[op - 1];
  if (schema.inputs.empty()) return;
  const ops::InputSchema& place =
      schema.inputs[std::min<std::size_t>(input, schema.inputs.size() - 1)];
  if (place.is_optional) return;
  const std::string lacking = ctx->handles.unwanted();
  if (lacking.empty()) return;
  throw CallError(MNEME_E_INVALID_ARGUMENT, str("op ", schema.name, ": input \"", place.name,
                                                "\" is no tensor (handle 0); ", lacking));
}

mneme_status call(mneme_ctx* opaque, mneme_op op, const mneme_tensor* inputs, std::uint32_t n_in,
                  const mneme_attr* attrs, std::uint32_t n_attrs, mneme_tensor* outputs,
                  std::uint32_t n_out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    if (n_in > 0) need(inputs, "inputs");
    if (n_out > 0) need(outputs, "outputs");
    c10::SmallVector<at::Tensor, 8> tensors;
    tensors.reserve(n_in);
    for (std::uint32_t i = 0; i < n_in; ++i) {
      if (inputs[i] == 0) check_wanted(ctx, op, i);
      tensors.push_back(inputs[i] == 0 ? at::Tensor() : ctx->handles.get(inputs[i]));
    }
    c10::SmallVector<at::Tensor, 2> results(n_out);
    ops::run_op(op, {tensors.data(), tensors.size()}, {attrs, n_attrs},
                ctx->shared->stack->backbone().device, {results.data(), results.size()});
    for (std::uint32_t i = 0; i < n_out; ++i) outputs[i] = ctx->handles.give(std::move(results[i]));
  });
}

}  // namespace

const mneme_op_api* op_api() {
  static const mneme_op_api api = {sizeof(mneme_op_api), 0, resolve, supports, call};
  return &api;
}

// --- Group mneme.tensor/1 ---

namespace {

at::Device device_of(const mneme_ctx* ctx) { return ctx->shared->stack->backbone().device; }

at::Tensor upload(const mneme_shape* given, const void* data, std::uint64_t bytes,
                  at::Device device) {
  const auto shape = normalised(given, "shape");
  if (bytes > 0) need(data, "data");
  if (shape.rank > MNEME_MAX_RANK)
    throw CallError(MNEME_E_SHAPE,
                    str("rank: expected at most ", MNEME_MAX_RANK, ", got ", shape.rank));
  const at::ScalarType type = ops::scalar_type_of(shape.dtype);
  std::uint64_t needed = c10::elementSize(type);
  for (std::uint32_t i = 0; i < shape.rank; ++i) {
    if (shape.dims[i] < 0)
      throw CallError(MNEME_E_SHAPE, str("dims[", i, "] is negative: ", shape.dims[i]));
    if (shape.dims[i] > 0 && needed > std::numeric_limits<std::uint64_t>::max() /
                                          static_cast<std::uint64_t>(shape.dims[i]))
      throw CallError(MNEME_E_SHAPE, "the shape overflows 64 bits");
    needed *= static_cast<std::uint64_t>(shape.dims[i]);
  }
  if (needed != bytes)
    throw CallError(MNEME_E_SHAPE,
                    str("bytes: expected ", needed, " for this shape and dtype, got ", bytes));
  at::Tensor out = torch::empty(at::IntArrayRef(shape.dims, shape.rank), type);
  if (bytes > 0) std::memcpy(out.mutable_data_ptr(), data, bytes);
  return tensor::to_device(out, device);
}

mneme_status shape(mneme_ctx* opaque, mneme_tensor t, mneme_shape* out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    check_fillable(out, "mneme_shape");
    const at::Tensor& tensor = ctx->handles.get(t);
    if (tensor.dim() > MNEME_MAX_RANK)
      throw CallError(MNEME_E_SHAPE,
                      str("the tensor has rank ", tensor.dim(), ", more than ", MNEME_MAX_RANK));
    write_struct(out, shape_of(tensor), out->struct_size);
  });
}

mneme_status retain(mneme_ctx* opaque, mneme_tensor t, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) { ctx->handles.retain(t); });
}

mneme_status release(mneme_ctx* opaque, mneme_tensor t, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) { ctx->handles.release(t); });
}

mneme_status from_data(mneme_ctx* opaque, const mneme_shape* shape, const void* data,
                       std::uint64_t bytes, mneme_tensor* out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    *out = ctx->handles.give(upload(shape, data, bytes, device_of(ctx)));
  });
}

mneme_status constant_find(mneme_ctx* opaque, const char* key, mneme_tensor* out,
                           mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    need(key, "key");
    const auto found = ctx->instance->constants.find({key, device_of(ctx).str()});
    *out = found == ctx->instance->constants.end() ? 0 : ctx->handles.borrow(found->second);
  });
}

mneme_status constant_put(mneme_ctx* opaque, const char* key, const mneme_shape* shape,
                          const void* data, std::uint64_t bytes, mneme_tensor* out,
                          mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    need(key, "key");
    const at::Device device = device_of(ctx);
    at::Tensor value = upload(shape, data, bytes, device);
    *out = ctx->handles.borrow(value);
    ctx->instance->constants[{key, device.str()}] = std::move(value);
  });
}

}  // namespace

const mneme_tensor_api* tensor_api() {
  static const mneme_tensor_api api = {
      sizeof(mneme_tensor_api), 0, shape, retain, release, from_data, constant_find, constant_put};
  return &api;
}

}  // namespace mneme::memory
