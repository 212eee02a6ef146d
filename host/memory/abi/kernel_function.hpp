// A plugin's kernel as a node of the autograd graph, and tensors as kernels see them (mneme_view).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/abi.h"
#include "mneme/kernel.h"

namespace mneme::memory {

class FiniteWatch;  // finite_watch.hpp

// Before a kernel's name, the name of the scope (at::RecordScope::USER_SCOPE) that its forward pass
// runs in: profilers and the count of operations see it.
inline constexpr std::string_view kKernelScope = "kernel ";

// Runs `decl` on `inputs` (undefined = absent; contiguous copies are made where the kernel needs
// them) under the caller's grad mode. `where` names plugin, tier, hook and layer; it is kept for
// errors of backward. keep_alive holds what decl.user needs until then, and the caller keeps
// `watch` (may be null) as long. Errors: CallError from forward; Error(kPlugin) from backward,
// thrown through autograd.
std::vector<at::Tensor> run_kernel(const mneme_kernel_decl& decl, const std::string& name,
                                   const std::vector<at::Tensor>& inputs,
                                   std::vector<std::int64_t> integers, std::vector<double> reals,
                                   at::Device device, const std::string& where,
                                   std::shared_ptr<const void> keep_alive,
                                   FiniteWatch* watch = nullptr);

// Shape and dtype as `infer` gets them; dtype 0 and rank 0 of an undefined tensor.
mneme_shape shape_of(const at::Tensor& tensor);

// --- Tensors as kernels see them: mneme_view, in the normal form that mneme/abi.h promises ---

// Borrows the memory of `tensor`; data is NULL for a tensor without elements or on the meta
// device. The view points into `shape` and `strides`, which are filled.
mneme_view view_of(const at::Tensor& tensor, std::vector<std::int64_t>& shape,
                   std::vector<std::int64_t>& strides);

// Views with the arrays that they point to. The tensors must outlive them.
class Views {
 public:
  explicit Views(const std::vector<at::Tensor>& tensors);
  void add(const at::Tensor& tensor);
  // An absent input.
  void add_none(at::Device device);
  // A view of `meta`'s shape and dtype; without data when `tensor` is undefined.
  void add_or_absent(const at::Tensor& tensor, const at::Tensor& meta);
  [[nodiscard]] const mneme_view* data() const { return views_.data(); }

 private:
  std::deque<std::vector<std::int64_t>> arrays_;
  std::vector<mneme_view> views_;
};

}  // namespace mneme::memory
