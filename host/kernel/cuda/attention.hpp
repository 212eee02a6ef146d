// The forward pass of attention.hpp on CUDA, in bf16 on tensor cores. Its inputs and results, but
// for the array of pieces, lie in the device's memory.
#pragma once

#include <cstdint>

#include "host/kernel/attention.hpp"

namespace mneme::kernel {

struct CudaAttention {
  static constexpr int kMostPieces = 8;
  static constexpr std::int64_t kMostWidth = 128;

  // Whether the program was built with its CUDA sources; without them there is nothing to call.
  static bool is_built();
  // Bytes on the device, without a value, for as long as the work lasts. Of the shape alone.
  static std::uint64_t workspace(const AttentionShape& shape);
  // Puts the work on `stream`, a cudaStream_t of the current device, and returns null, or what the
  // CUDA runtime says: "invalid argument" for wider heads, more pieces and, in bf16,
  // a table that is not row by row.
  // Deterministic.
  static const char* attend(const AttentionShape& shape, const AttentionInputs& inputs,
                            const AttentionResults& results, void* workspace, void* stream);
};

}  // namespace mneme::kernel
