#include "host/kernel/sampling.hpp"

namespace mneme::kernel {

#ifndef MNEME_HAS_CUDA
const SamplingKernels* SamplingKernels::for_cuda() { return nullptr; }
#endif

}  // namespace mneme::kernel
