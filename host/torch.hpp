// LibTorch as our .cpp files use it: tensors, factory functions, autograd, grad modes. <torch/torch.h> brings all of
// torch::nn, torch::optim and torch::data with it and more than doubles a file's compile time (measured).
#pragma once

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <torch/version.h>
