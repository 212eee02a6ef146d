// at::parallel_for is an inline function that uses threads only in a file compiled with OpenMP
// (host/memory/CMakeLists.txt); the runtime is the one that LibTorch loads, by its soname. A
// compiler without OpenMP gives a correct, serial version.
#include "host/tensor/parallel.hpp"

#include <ATen/Parallel.h>

#include <algorithm>

namespace mneme::tensor {

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  at::parallel_for(0, count, std::max<int64_t>(grain, 1), body);
}

}  // namespace mneme::tensor
