// host/tensor/torch.hpp with torch::autograd::Function, for the few files that define a backward
// pass; and additions to it.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <optional>
#include <utility>

#include "host/tensor/torch.hpp"

namespace mneme::tensor {

// An input that may be absent: undefined tensors are no variables for torch::autograd::Function.
inline std::optional<at::Tensor> optional_input(const at::Tensor& t) {
  return t.defined() ? std::optional(t) : std::nullopt;
}

template <typename T>
struct KeptPointer : torch::CustomClassHolder {
  explicit KeptPointer(std::shared_ptr<T> given) : pointer(std::move(given)) {}
  std::shared_ptr<T> pointer;
};

// Keeps one pointer in the context of a function, from its forward to its backward pass.
template <typename T>
void keep_pointer(torch::autograd::AutogradContext* ctx, std::shared_ptr<T> pointer) {
  ctx->saved_data["pointer"] =
      c10::IValue::make_capsule(c10::make_intrusive<KeptPointer<T>>(std::move(pointer)));
}
// Null where none was kept.
template <typename T>
std::shared_ptr<T> kept_pointer(torch::autograd::AutogradContext* ctx) {
  const auto found = ctx->saved_data.find("pointer");
  if (found == ctx->saved_data.end()) return nullptr;
  return c10::static_intrusive_pointer_cast<KeptPointer<T>>(found->second.toCapsule())->pointer;
}

}  // namespace mneme::tensor
