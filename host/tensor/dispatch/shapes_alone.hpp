// Computing with shapes and no numbers: the meta device of LibTorch, made complete.
#pragma once

#include <torch/library.h>

namespace mneme::tensor {

// While one lives, every operation of LibTorch takes tensors of the meta device: LibTorch alone has
// no kernel for some of them, as index_select or dropout. These compute on the CPU with zeros and
// give tensors of the meta device again. One at a time in a process; threads of others must not
// compute with meta tensors meanwhile.
class ShapesAlone {
 public:
  ShapesAlone();

 private:
  torch::Library kernels_;
};

}  // namespace mneme::tensor
