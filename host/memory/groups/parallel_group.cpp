// Group mneme.parallel/1: LibTorch's own threads, so that a plugin's kernels and the host's products
// do not crowd each other out.
//
// at::parallel_for is an inline function that uses threads only in a file compiled with OpenMP
// (host/memory/CMakeLists.txt); the runtime is the one that LibTorch loads, by its soname. A
// compiler without OpenMP gives a correct, serial version.
#include <ATen/Parallel.h>

#include <algorithm>

#include "host/memory/groups/groups.hpp"

namespace mneme::memory {
namespace {

void run(const mneme_host* /*host*/, int64_t count, int64_t grain, mneme_parallel_body body,
         void* user) {
  if (count <= 0 || body == nullptr) return;
  at::parallel_for(0, count, std::max<int64_t>(grain, 1),
                   [&](int64_t begin, int64_t end) { body(user, begin, end); });
}

}  // namespace

const mneme_parallel_api* parallel_api() {
  static const mneme_parallel_api api = {sizeof(mneme_parallel_api), 0, run};
  return &api;
}

}  // namespace mneme::memory
