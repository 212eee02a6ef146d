// Group mneme.parallel/1: LibTorch's own threads, so that a plugin's kernels and the host's products
// do not crowd each other out.
#include <algorithm>

#include "host/memory/groups/groups.hpp"
#include "host/torch.hpp"

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
