// Work on LibTorch's own threads, so that the host, its products and the plugins' kernels do not
// crowd each other out.
#pragma once

#include <cstdint>
#include <functional>

namespace mneme::tensor {

// Calls body(begin, end) for pieces that together are 0 .. count-1, each of `grain` or more but for
// the last, and returns when all are done. The pieces depend on the number of threads.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace mneme::tensor
