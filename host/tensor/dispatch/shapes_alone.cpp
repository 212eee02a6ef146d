#include "host/tensor/dispatch/shapes_alone.hpp"

#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

using c10::DispatchKey;

constexpr std::array kComposed = {DispatchKey::CompositeImplicitAutograd,
                                  DispatchKey::CompositeExplicitAutograd,
                                  DispatchKey::CompositeExplicitAutogradNonFunctional};

// On the CPU without meta tensors; one zero stands for all numbers of a tensor that is only read.
c10::IValue on_cpu(const c10::IValue& value, bool is_written) {
  const auto zeros = [&](const at::Tensor& t) {
    if (!t.defined() || !t.is_meta()) return t;
    const auto options = t.options().device(at::kCPU);
    return is_written ? at::zeros(t.sizes(), options) : at::zeros({}, options).expand(t.sizes());
  };
  if (value.isTensor()) return zeros(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : value.toTensorVector()) out.push_back(zeros(t));
    return out;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> out;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      out.push_back(t ? std::optional(zeros(*t)) : t);
    return out;
  }
  if (value.isDevice() && value.toDevice().is_meta()) return c10::Device(at::kCPU);
  return value;
}

c10::IValue on_meta(const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) return value.toTensor().to(at::kMeta);
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> out;
  for (const at::Tensor& t : value.toTensorVector()) out.push_back(t.to(at::kMeta));
  return out;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// A result that is an argument stays this argument, which may have got another shape.
void compute_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const auto& returns = op.schema().returns();
  const std::vector<c10::IValue> given = torch::jit::pop(*stack, arguments.size());
  for (std::size_t i = 0; i < given.size(); ++i)
    stack->push_back(on_cpu(given[i], is_written(arguments[i])));
  op.redispatchBoxed(c10::DispatchKeySet(DispatchKey::CPU), stack);
  std::vector<c10::IValue> results = torch::jit::pop(*stack, returns.size());
  for (std::size_t j = 0; j < results.size(); ++j) {
    results[j] = on_meta(results[j]);
    for (std::size_t i = 0; is_written(returns[j]) && i < given.size(); ++i) {
      if (is_written(arguments[i]) &&
          arguments[i].alias_info()->beforeSets() == returns[j].alias_info()->beforeSets())
        results[j] = at::Tensor(given[i].toTensor()).resize_(results[j].toTensor().sizes());
    }
    stack->push_back(std::move(results[j]));
  }
}

// Whether LibTorch has a kernel of this operation for the CPU and none that the meta device can use.
bool is_missing(const c10::OperatorHandle& op) {
  if (!op.hasKernelForDispatchKey(DispatchKey::CPU)) return false;
  if (op.hasKernelForDispatchKey(DispatchKey::Meta)) return false;
  for (const DispatchKey key : kComposed) {
    if (op.hasKernelForDispatchKey(key)) return false;
  }
  return true;
}

// Dropout of the meta device is that of CUDA, which the CPU has not.
std::tuple<at::Tensor, at::Tensor> fused_dropout(const at::Tensor& x, double,
                                                 std::optional<at::Generator>) {
  return {at::empty_like(x), at::empty_like(x, at::kByte)};
}
at::Tensor masked_scale(const at::Tensor& x, const at::Tensor&, double) {
  return at::empty_like(x);
}

}  // namespace

ShapesAlone::ShapesAlone()
    : kernels_(torch::Library::IMPL, "aten", DispatchKey::Meta, __FILE__, __LINE__) {
  kernels_.impl("_fused_dropout", &fused_dropout);
  kernels_.impl("_masked_scale", &masked_scale);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !is_missing(*op)) continue;
    kernels_.impl(c10::toString(name).c_str(),
                  torch::CppFunction::makeFromBoxedFunction<&compute_on_cpu>());
  }
}

}  // namespace mneme::tensor
