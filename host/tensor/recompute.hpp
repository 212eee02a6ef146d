// A part of a graph that keeps its inputs alone and is computed a second time in the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace mneme::tensor {

// A function of its inputs alone, without side effects, that gives the same each time.
using PureFunction = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

// f(inputs). With gradient the graph holds the inputs in place of what f computes in between;
// backward calls f again. Differentiable once.
at::Tensor recomputed(PureFunction f, const std::vector<at::Tensor>& inputs);

}  // namespace mneme::tensor
