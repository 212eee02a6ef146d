// host/tensor/torch.hpp with torch::autograd::Function, for the few files that define a backward
// pass.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "host/tensor/torch.hpp"
