#include "host/kernel/adam.hpp"

namespace mneme::kernel {

#ifndef MNEME_HAS_CUDA
const AdamKernels* AdamKernels::for_cuda() { return nullptr; }
#endif

}  // namespace mneme::kernel
