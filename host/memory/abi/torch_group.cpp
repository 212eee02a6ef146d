// Group mneme.torch/1.

#include <dlfcn.h>

#include <string>

#include "host/base/error.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/hook_call.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

std::string library_of_torch() {
  Dl_info info{};
  const void* const known = reinterpret_cast<const void*>(&at::get_num_threads);
  const bool is_found = ::dladdr(known, &info) != 0 && info.dli_fname != nullptr;
  return is_found ? info.dli_fname : "";
}

mneme_status impl_of(mneme_ctx* opaque, mneme_tensor t, void** out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    *out = ctx->handles.get(t).unsafeGetTensorImpl();
  });
}

void check_shared(const at::Tensor& tensor, at::Device device) {
  if (tensor.device() != device)
    throw CallError(MNEME_E_DEVICE, str("the tensor is on ", tensor.device().str(),
                                        ", the segment on ", device.str()));
  if (tensor.layout() != at::kStrided)
    throw CallError(MNEME_E_INVALID_ARGUMENT, "the tensor is sparse: expected one with strides");
  if (tensor.is_inference())
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    "the tensor was made in inference mode, where no gradient can pass: use "
                    "torch.no_grad() in place of torch.inference_mode()");
  if (tensor.unsafeGetTensorImpl()->is_python_dispatch())
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    "the tensor's type has code of its own in Python (__torch_dispatch__): "
                    "expected a plain one");
  if (tensor::dtype_code_of(tensor.scalar_type()) == 0)
    throw CallError(MNEME_E_DTYPE,
                    str("the tensor has dtype ", tensor::dtype_text(tensor.scalar_type()),
                        ": expected one of MNEME_F32 to MNEME_BOOL"));
}

mneme_status handle_of(mneme_ctx* opaque, void* impl, mneme_tensor* out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(impl, "impl");
    need(out, "out");
    using Owned = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
    at::Tensor tensor(Owned::unsafe_reclaim_from_nonowning(static_cast<c10::TensorImpl*>(impl)));
    check_shared(tensor, ctx->shared->stack->backbone().device);
    *out = ctx->handles.give(std::move(tensor));
  });
}

}  // namespace

const mneme_torch_api* torch_api() {
  static const std::string library = library_of_torch();
  static const mneme_torch_api api = {sizeof(mneme_torch_api), 0,       TORCH_VERSION,
                                      library.c_str(),         impl_of, handle_of};
  return &api;
}

}  // namespace mneme::memory
