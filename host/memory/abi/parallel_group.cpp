// Group mneme.parallel/1: the host's threads for a plugin's kernels.
#include "host/memory/abi/groups.hpp"
#include "host/tensor/parallel.hpp"

namespace mneme::memory {
namespace {

void run(const mneme_host* /*host*/, int64_t count, int64_t grain, mneme_parallel_body body,
         void* user) {
  if (body == nullptr) return;
  tensor::parallel_for(count, grain, [&](int64_t begin, int64_t end) { body(user, begin, end); });
}

}  // namespace

const mneme_parallel_api* parallel_api() {
  static const mneme_parallel_api api = {sizeof(mneme_parallel_api), 0, run};
  return &api;
}

}  // namespace mneme::memory
