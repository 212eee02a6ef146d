// A plugin's kernel as a node of the autograd graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mneme/kernel.h"

namespace mneme::memory {

class FiniteWatch;  // finite_watch.hpp

// Runs `decl` on `inputs` (contiguous copies are made where needed) under the caller's grad mode.
// `where` names plugin, tier, hook and layer; it is kept for errors of backward; keep_alive holds
// what decl.user needs until then, `watch` (may be null) lives as long. Errors: CallError from
// forward; Error(kPlugin) from backward, thrown through autograd.
std::vector<at::Tensor> run_kernel(const mneme_kernel_decl& decl, const std::string& name,
                                   const std::vector<at::Tensor>& inputs,
                                   std::vector<int64_t> integers, std::vector<double> reals,
                                   at::Device device, const std::string& where,
                                   std::shared_ptr<const void> keep_alive,
                                   FiniteWatch* watch = nullptr);

}  // namespace mneme::memory
