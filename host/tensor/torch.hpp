// LibTorch as our .cpp files use it: tensors, factory functions, gradients, threads. Every file
// that includes a header of LibTorch instantiates its templates, precompiled or not. So
// <torch/types.h>, which brings the registration of operators, is left out, and the definition of
// autograd functions is host/tensor/torch_function.hpp: an empty file takes 1.2 seconds of
// processor time with this header precompiled and 2.3 with those two in it (g++ 12).
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/version.h>

namespace torch {
using namespace at;  // as <torch/types.h> does
}  // namespace torch
