// What LibTorch's CPU allocator hands out: tensors, oneDNN's scratch, and the workspaces that the
// host lends to kernels. What MKL takes for itself is not seen.
#pragma once

#include <cstdint>

namespace mneme::bench {

// Replaces the CPU allocator by one that counts, for the rest of the process.
void count_allocations();

// Bytes that were allocated since count_allocations() and not freed yet.
int64_t held_bytes();

// The largest held_bytes() since the last call of restart_peak().
int64_t peak_bytes();
void restart_peak();

}  // namespace mneme::bench
