// The host's threads, for kernels on the CPU.
#pragma once

#include <type_traits>

#include "mneme/cpp/host.hpp"

namespace mneme {
inline namespace sdk_0_1 {

// Calls body(begin, end) on disjoint ranges that cover 0 .. count - 1, each of at least `grain`
// pieces but the last, on the host's own threads; returns when all are done. The body may not throw
// and may not call the host, and results may not depend on how the ranges are cut. Without a host
// (a kernel that is tested alone), or on one without this group, it calls body once.
template <typename Body>
void parallel_for(int64_t count, int64_t grain, const Body& body,
                  CallSite site = CallSite::here()) {
  static_assert(std::is_nothrow_invocable_v<const Body&, int64_t, int64_t>,
                "a body of parallel_for is noexcept");
  if (count <= 0) return;
  const mneme_parallel_api* api =
      detail::optional_group(detail::groups.parallel, MNEME_GROUP_PARALLEL, site);
  if (api == nullptr) {
    body(int64_t{0}, count);
    return;
  }
  api->run(
      detail::groups.host, count, grain,
      [](void* user, int64_t begin, int64_t end) { (*static_cast<const Body*>(user))(begin, end); },
      const_cast<Body*>(&body));
}

}  // namespace sdk_0_1
}  // namespace mneme
