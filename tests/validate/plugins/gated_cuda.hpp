// The kernel `gated` of flawed.cpp on CUDA, plain: a thread an element.
#pragma once

#include <string>

#include "mneme/cpp/kernel.hpp"

namespace mneme::test {

// Faults: "cuda_result", "cuda_stream" (on the default stream), "cuda_waits" (for its own work).
void gated_forward_cuda(const KernelCall& call, const std::string& fault);
void gated_backward_cuda(const KernelCall& call, const std::string& fault);

}  // namespace mneme::test
