// Group mneme.op/1.
#include <algorithm>

#include "host/base/error.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/hook_context.hpp"
#include "host/ops/ops.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

mneme_status resolve(mneme_setup* /*setup*/, const char* const* names, uint32_t count,
                     mneme_op* out, mneme_error* error) {
  return guard(error, [&] {
    need(names, "names");
    need(out, "out");
    std::vector<std::string> missing;
    for (uint32_t i = 0; i < count; ++i) {
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

int32_t supports(mneme_op op, uint32_t dtype, uint32_t device_type) {
  return ops::op_supports(op, dtype, device_type) ? 1 : 0;
}

// A needed input that is no tensor is refused by the op itself, unless the likely cause is known
// here: an input of the hook that the tier does not want.
void check_wanted(const mneme_ctx* ctx, mneme_op op, uint32_t input) {
  if (op == 0 || op > ops::op_schemas().size()) return;
  const ops::OpSchema& schema = ops::op_schemas()[op - 1];
  if (schema.inputs.empty()) return;
  const ops::InputSchema& place = schema.inputs[std::min<std::size_t>(input, schema.inputs.size() - 1)];
  if (place.is_optional) return;
  const std::string lacking = ctx->handles.unwanted();
  if (lacking.empty()) return;
  throw CallError(MNEME_E_INVALID_ARGUMENT, str("op ", schema.name, ": input \"", place.name,
                                                "\" is no tensor (handle 0); ", lacking));
}

mneme_status call(mneme_ctx* opaque, mneme_op op, const mneme_tensor* inputs, uint32_t n_in,
                  const mneme_attr* attrs, uint32_t n_attrs, mneme_tensor* outputs, uint32_t n_out,
                  mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    if (n_in > 0) need(inputs, "inputs");
    if (n_out > 0) need(outputs, "outputs");
    c10::SmallVector<at::Tensor, 8> tensors;
    tensors.reserve(n_in);
    for (uint32_t i = 0; i < n_in; ++i) {
      if (inputs[i] == 0) check_wanted(ctx, op, i);
      tensors.push_back(inputs[i] == 0 ? at::Tensor() : ctx->handles.get(inputs[i]));
    }
    c10::SmallVector<at::Tensor, 2> results(n_out);
    ops::run_op(op, {tensors.data(), tensors.size()}, {attrs, n_attrs},
           ctx->shared->stack->backbone().device, {results.data(), results.size()});
    for (uint32_t i = 0; i < n_out; ++i) outputs[i] = ctx->handles.give(std::move(results[i]));
  });
}

}  // namespace

const mneme_op_api* op_api() {
  static const mneme_op_api api = {sizeof(mneme_op_api), 0, resolve, supports, call};
  return &api;
}

}  // namespace mneme::memory
