// Kernels whose calls are kept: functions that stand between the host and a plugin's own.

#include <algorithm>
#include <cstdio>
#include <deque>
#include <utility>

#include "host/memory/abi/groups.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/interposer.hpp"

namespace mneme::validate {

mneme_status made_error(mneme_error* error) {
  if (error != nullptr) {
    error->code = MNEME_E_OUT_OF_MEMORY;
    std::snprintf(error->message, sizeof error->message, "%s", kMadeError);
  }
  return MNEME_E_OUT_OF_MEMORY;
}

namespace {

// A kernel as the plugin registered it. What the host gets calls through to it.
struct Registered {
  std::string name;
  mneme_kernel_decl decl;
};

std::deque<Registered>& registered() {
  static std::deque<Registered> all;  // addresses stay; the process is one check's
  return all;
}

const Registered& of(void* user) { return *static_cast<const Registered*>(user); }

at::ScalarType dtype_of(const mneme_view& view) {
  switch (view.dtype_code) {
    case 0:
      return view.dtype_bits == 64 ? at::kLong : at::kInt;
    case 2:
      return view.dtype_bits == 64 ? at::kDouble : view.dtype_bits == 32 ? at::kFloat : at::kHalf;
    case 4:
      return at::kBFloat16;
    default:
      return at::kBool;
  }
}

// Contiguous; undefined for an absent input.
at::Tensor copy_of(const mneme_view& view) {
  if (view.dtype_bits == 0) return {};
  const auto rank = static_cast<std::size_t>(view.ndim);
  const at::IntArrayRef shape(view.shape, rank), strides(view.strides, rank);
  const at::Tensor out = at::empty(shape, dtype_of(view));
  if (out.nbytes() > 0) out.copy_(at::from_blob(view.data, shape, strides, out.options()));
  return out;
}

bool has_same_shapes(const KernelCall& a, const KernelCall& b) {
  return a.name == b.name && a.integers == b.integers &&
         std::ranges::equal(a.inputs, b.inputs,
                            [](const at::Tensor& left, const at::Tensor& right) {
                              if (!left.defined() || !right.defined())
                                return left.defined() == right.defined();
                              return left.sizes() == right.sizes() && left.dtype() == right.dtype();
                            });
}

mneme_status infer(void* user, mneme_kernel_plan* plan, mneme_error* error) {
  return of(user).decl.infer(of(user).decl.user, plan, error);
}
template <auto kFunction>
mneme_status pass_on(void* user, const mneme_kernel_call* call, mneme_error* error) {
  return (of(user).decl.*kFunction)(of(user).decl.user, call, error);
}

mneme_status forward_recorded(void* user, const mneme_kernel_call* call, mneme_error* error) {
  Interposer& all = interposer();
  const Registered& kernel = of(user);
  if (all.kept_most > 0) {
    KernelCall kept{.name = kernel.name,
                    .decl = kernel.decl,
                    .inputs = {},
                    .integers = {call->integers, call->integers + call->n_integers},
                    .reals = {call->reals, call->reals + call->n_reals}};
    for (std::uint32_t i = 0; i < kernel.decl.n_inputs; ++i)
      kept.inputs.push_back(copy_of(call->inputs[i]));
    // The first ones, whose memory is often empty, and the latest.
    std::int64_t alike = 0;
    KernelCall* last = nullptr;
    for (KernelCall& one : all.kept) {
      if (!has_same_shapes(one, kept)) continue;
      ++alike;
      last = &one;
    }
    if (alike < all.kept_most) {
      all.kept.push_back(std::move(kept));
    } else {
      *last = std::move(kept);
    }
  }
  return kernel.decl.forward_cpu(kernel.decl.user, call, error);
}

}  // namespace

mneme_status add_kernel(mneme_setup* setup, const mneme_kernel_decl* decl, mneme_kernel* out,
                        mneme_error* error) {
  if (interposer().fails("kernel.add")) return made_error(error);
  mneme_kernel_decl given = *decl;
  const bool is_whole = interposer().watches_kernels && given.name != nullptr &&
                        given.infer != nullptr && given.forward_cpu != nullptr &&
                        given.struct_size == sizeof(given);
  if (!is_whole) return memory::kernel_api()->add(setup, decl, out, error);  // it says why
  Registered& kernel = registered().emplace_back(Registered{given.name, given});
  given.user = &kernel;
  given.infer = infer;
  given.forward_cpu = forward_recorded;
  if (given.backward_cpu != nullptr) given.backward_cpu = pass_on<&mneme_kernel_decl::backward_cpu>;
  if (given.forward_cuda != nullptr) given.forward_cuda = pass_on<&mneme_kernel_decl::forward_cuda>;
  if (given.backward_cuda != nullptr)
    given.backward_cuda = pass_on<&mneme_kernel_decl::backward_cuda>;
  return memory::kernel_api()->add(setup, &given, out, error);
}

}  // namespace mneme::validate
