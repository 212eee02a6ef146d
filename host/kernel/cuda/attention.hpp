// The passes of attention.hpp on CUDA, in bf16 on tensor cores. Inputs and results, but for the
// arrays of pieces, lie in the device's memory.
#pragma once

#include <cstdint>

#include "host/kernel/attention.hpp"

namespace mneme::kernel {

// With G = positions and R the table, the caller's products give the gradients into
//   q: q + G R   R: sum over lanes and queries of G^T (q + w)   u: sum of q   w: sum of G R
struct CudaAttentionGradients {
  void* q = nullptr;                    // [B,T,H,d], through the products with keys
  const KeyGradient* pieces = nullptr;  // one for each piece, all of whose rows are written
  void* positions = nullptr;            // [H,B,T,table_rows], zeros before; null without a table
};

struct CudaAttention {
  static constexpr int kMostPieces = 8;
  static constexpr std::int64_t kMostWidth = 128;

  // Whether the program was built with its CUDA sources; without them there is nothing to call.
  static bool is_built();
  // Bytes on the device, without a value, for as long as the work lasts. Of the shape alone.
  static std::uint64_t workspace(const AttentionShape& shape);
  // Puts the work on `stream`, a cudaStream_t of the current device, and returns null, or what the
  // CUDA runtime says: "invalid argument" for wider heads, more pieces, in bf16 a
  // table that is not row by row, and dropout in other elements.
  // Deterministic.
  static const char* attend(const AttentionShape& shape, const AttentionInputs& inputs,
                            const AttentionResults& results, void* workspace, void* stream);
  // The same of the gradients, in bf16 and without score biases alone. table_by_row of the pass is
  // not read.
  static std::uint64_t backward_workspace(const AttentionShape& shape);
  static const char* backward(const AttentionShape& shape, const AttentionInputs& inputs,
                              const AttentionPass& pass, const CudaAttentionGradients& gradients,
                              void* workspace, void* stream);
};

}  // namespace mneme::kernel
