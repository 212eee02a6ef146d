// A kernel's own functions on memory that shows what they read and write: outputs filled with a
// pattern before the call, and around every tensor pages that may not be touched, or on a CUDA
// device bytes that must stay.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "host/validate/interposer.hpp"

namespace mneme::validate {

struct KernelMemory {
  // Where a tensor lies between the two pages around it that may not be touched.
  enum class Place { kAtStart, kAtEnd };
  Place place = Place::kAtEnd;
  unsigned char fill = 0xff;  // bytes of outputs, saved tensors, gradients, workspace: NaN
  // Inputs of decl.strided_inputs lie with their first and last dimensions exchanged.
  bool is_strided = false;
  bool keeps_saved = true;       // false: forward is told MNEME_KERNEL_NO_BACKWARD
  at::Device device = at::kCPU;  // with CUDA: its CUDA functions, on the current stream
  // Called before the tensors of forward, and before those of backward, are written: puts work on
  // the stream that they then wait for.
  std::function<void()> delay = {};
};

struct KernelResult {
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> saved;
  std::vector<at::Tensor> grad_inputs;  // undefined where none was wanted
  // What was written that may not be, "input 2"; "" = nothing.
  std::string damaged;
  // "forward" or "backward": it returned when all work on the stream was done; "" = neither, or
  // memory.delay was empty.
  std::string waited;
};

struct BackwardHow {
  std::vector<bool> is_wanted = {};    // of each input; empty = all that can have a gradient
  std::vector<bool> is_arriving = {};  // of each output; empty = all of a floating-point type
};

// Whether an input can have a gradient: it is there, real, and none of decl.constant_inputs.
[[nodiscard]] bool can_have_gradient(const KernelCall& call, std::size_t input);

// infer and forward on these inputs; undefined = absent. Throws Failed when one of them gives an
// error, or infer a shape that cannot be.
[[nodiscard]] KernelResult forward_alone(const KernelCall& call,
                                         const std::vector<at::Tensor>& inputs,
                                         const KernelMemory& memory = {});
// Then backward for these gradients of the outputs, where the kernel has one and memory.keeps_saved.
[[nodiscard]] KernelResult run_alone(const KernelCall& call, const std::vector<at::Tensor>& inputs,
                                     const std::vector<at::Tensor>& grad_outputs,
                                     const KernelMemory& memory = {}, const BackwardHow& how = {});

// infer alone, for inputs of these shapes: its status, and the text of its error.
struct Inferred {
  mneme_status status = MNEME_OK;
  std::string message;
  std::vector<mneme_shape> outputs, saved;
  std::uint64_t workspace = 0, backward_workspace = 0;
};
[[nodiscard]] Inferred infer_alone(const KernelCall& call, const std::vector<mneme_shape>& inputs,
                                   const KernelMemory& memory = {});

}  // namespace mneme::validate
