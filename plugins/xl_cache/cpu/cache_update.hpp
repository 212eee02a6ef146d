// The cache update on the CPU.
#pragma once

#include "cache_update_args.hpp"

namespace xl_cache::cpu {

// Fills kept and evicted whole. Rows are moved as bytes, so any element type works. Pure; any
// thread.
void update_cache(const CacheUpdateShape& shape, const CacheUpdateBuffers& buffers);

}  // namespace xl_cache::cpu
