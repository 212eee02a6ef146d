#include "host/kernel/cross_entropy.hpp"

namespace mneme::kernel {

#ifndef MNEME_HAS_CUDA
const CrossEntropyKernels* CrossEntropyKernels::for_cuda() { return nullptr; }
#endif

}  // namespace mneme::kernel
