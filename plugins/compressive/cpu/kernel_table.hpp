// The kernels of one instruction set. Each set is one source file that includes the same .inl
// files.
#pragma once

#include <cstdint>
#include <vector>

#include "pool_args.hpp"
#include "reconstruction_args.hpp"

namespace compressive::cpu {

inline constexpr int64_t kQueryTile = 48;  // queries that a CPU kernel works on together

// What the pieces of one reconstruction error leave for the sums over them. A piece is one group of
// queries of one head of one lane, (lane * H + head) * groups + group.
struct ReconstructionParts {
  int64_t groups = 1;
  double* errors = nullptr;   // [B,H,groups]
  void* gradients = nullptr;  // [B,H,groups,2,N,d], keys' then values'; null with one group, which
                              // writes the gradients themselves
};

// A function works on one piece, alone: results do not depend on which thread runs a piece, or
// when. `scratch` has at least so many bytes as *_scratch says, at any address; it belongs to one
// piece at a time and needs no initial value.
struct KernelTable {
  const char* name;

  uint64_t (*reconstruct_scratch)(const ReconstructionShape&);
  void (*reconstruct)(const ReconstructionShape&, const ReconstructionBuffers&,
                      const ReconstructionParts&, void* scratch, int64_t piece);
  // The groups' gradients of one head of one lane, summed in their order.
  void (*sum_groups)(const ReconstructionShape&, const ReconstructionBuffers&,
                     const ReconstructionParts&, int64_t head);
  // A piece is one new row of one lane, 0 .. B * N - 1.
  void (*scale_gradients)(const ReconstructionShape&, const ReconstructionGradients&, int64_t row);

  // A piece is one window of one lane, 0 .. B * (m / c) - 1. The last of a lane does the backward
  // pass of the rows behind it as well.
  void (*pool)(const PoolShape&, const PoolBuffers&, int64_t window);
  void (*pool_backward)(const PoolShape&, const PoolGradients&, int64_t window);
};

// Those that this processor can run, the fastest first; the portable one is always there. Any
// thread.
const std::vector<const KernelTable*>& kernel_tables();

extern const KernelTable kPortableKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;    // AVX2 and FMA
extern const KernelTable kAvx512Kernels;  // AVX-512 F
#endif

}  // namespace compressive::cpu
