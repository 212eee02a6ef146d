// Groups mneme.kernel/1 and mneme.parallel/1 (the host's threads for kernels).

#include "host/base/error.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/hook_call.hpp"
#include "host/memory/abi/kernel_function.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/memory/tier/setup.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

mneme_status add(mneme_setup* opaque, const mneme_kernel_decl* given, mneme_kernel* out,
                 mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(out, "out");
    const auto in = normalised(given, "mneme_kernel_decl");
    if (in.name == nullptr || *in.name == '\0')
      throw CallError(MNEME_E_INVALID_ARGUMENT, "a kernel needs a name");
    if (in.infer == nullptr || in.forward_cpu == nullptr)
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("kernel ", in.name, ": infer and forward_cpu are required"));
    if (in.n_inputs > MNEME_KERNEL_MAX_PORTS || in.n_outputs > MNEME_KERNEL_MAX_PORTS ||
        in.n_saved > MNEME_KERNEL_MAX_PORTS || in.n_outputs == 0) {
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("kernel ", in.name, ": expected 1 to ", MNEME_KERNEL_MAX_PORTS,
                          " outputs and at most as many inputs and saved tensors"));
    }
    const auto check_ports = [&](const char* field, std::uint64_t bits, std::uint32_t ports) {
      if (const auto unknown = plugin::unknown_bits(field, bits, (std::uint64_t{1} << ports) - 1,
                                                    "the kernel's ports"))
        refuse_unknown(str("mneme_kernel_decl \"", in.name, '"'), *unknown);
    };
    check_ports("keep_inputs", in.keep_inputs, in.n_inputs);
    check_ports("keep_outputs", in.keep_outputs, in.n_outputs);
    check_ports("constant_inputs", in.constant_inputs, in.n_inputs);
    check_ports("optional_inputs", in.optional_inputs, in.n_inputs);
    check_ports("strided_inputs", in.strided_inputs, in.n_inputs);
    KernelDecl decl{in.name, in};
    decl.decl.name = nullptr;  // the plugin's text need not outlive the call
    Instance& instance = *setup->instance;
    *out = instance.ids.id(Declared::kKernel, instance.kernels.size());
    instance.kernels.push_back(std::move(decl));
  });
}

mneme_status call(mneme_ctx* opaque, mneme_kernel kernel, const mneme_tensor* inputs,
                  std::uint32_t n_in, const std::int64_t* integers, std::uint32_t n_integers,
                  const double* reals, std::uint32_t n_reals, mneme_tensor* outputs,
                  std::uint32_t n_out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    const std::vector<KernelDecl>& kernels = ctx->instance->kernels;
    const KernelDecl& decl =
        kernels[ctx->instance->ids.place(Declared::kKernel, kernel, kernels.size())];
    if (n_in != decl.decl.n_inputs || n_out != decl.decl.n_outputs) {
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("kernel ", decl.name, ": expected ", decl.decl.n_inputs, " inputs and ",
                          decl.decl.n_outputs, " outputs, got ", n_in, " and ", n_out));
    }
    if (n_in > 0) need(inputs, "inputs");
    need(outputs, "outputs");
    if (n_integers > 0) need(integers, "integers");
    if (n_reals > 0) need(reals, "reals");
    std::vector<at::Tensor> tensors;
    for (std::uint32_t i = 0; i < n_in; ++i) {
      const bool may_lack = (decl.decl.optional_inputs >> i & 1) != 0;
      tensors.push_back(may_lack ? ctx->handles.get_optional(inputs[i])
                                 : ctx->handles.get(inputs[i]));
    }
    std::vector<at::Tensor> results =
        run_kernel(decl.decl, decl.name, tensors, {integers, integers + n_integers},
                   {reals, reals + n_reals}, ctx->shared->stack->backbone().device, ctx->where(),
                   ctx->instance->shared_from_this(), ctx->shared->input->watch);
    for (std::uint32_t i = 0; i < n_out; ++i) outputs[i] = ctx->handles.give(std::move(results[i]));
  });
}

}  // namespace

const mneme_kernel_api* kernel_api() {
  static const mneme_kernel_api api = {sizeof(mneme_kernel_api), 0, add, call};
  return &api;
}

// --- Group mneme.parallel/1 ---

namespace {

void run(const mneme_host* /*host*/, std::int64_t count, std::int64_t grain,
         mneme_parallel_body body, void* user) {
  if (body == nullptr) return;
  tensor::parallel_for(count, grain,
                       [&](std::int64_t begin, std::int64_t end) { body(user, begin, end); });
}

}  // namespace

const mneme_parallel_api* parallel_api() {
  static const mneme_parallel_api api = {sizeof(mneme_parallel_api), 0, run};
  return &api;
}

}  // namespace mneme::memory
