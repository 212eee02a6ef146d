// What a kernel on tensor cores is made of, for devices of compute capability 8.0 and later:
// products of bf16 in f32, loads of their operands from shared memory, asynchronous copies, and
// barriers of a part of a block. Inline functions in place of assembly, so that kernels can be
// compiled for the CPU too (tests/cuda_shim).
//
// The lanes of a warp hold a matrix together [PTX ISA, mma.m16n8k16]; with g = lane / 4 and
// t = lane % 4, two neighbours in a register, the first in its lower half:
//
//   a  16 x 16  a[0] (g, 2t..)  a[1] (g + 8, 2t..)  a[2] (g, 2t + 8..)  a[3] (g + 8, 2t + 8..)
//   b  16 x 8   b[0] (2t.., g)  b[1] (2t + 8.., g)
//   d  16 x 8   d[0] (g, 2t)    d[1] (g, 2t + 1)    d[2] (g + 8, 2t)    d[3] (g + 8, 2t + 1)
//
// So the numbers of two d side by side, in pairs, are an a.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#if defined(MNEME_CUDA_SHIM)
#include "tensor_core_shim.hpp"
#else

namespace mneme {
inline namespace sdk_0_1 {
namespace cuda {

// Two numbers rounded to bf16, as a register of a or b.
__device__ inline unsigned pack_bf16(float low, float high) {
  unsigned out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

// d += a b. By all lanes of the warp, as the loads below.
__device__ inline void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// An address in shared memory as instructions take it.
__device__ inline unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// Matrices of 8 x 8 numbers in shared memory: lane l gives the address of row l % 8 of matrix l/8,
// at a multiple of 16 bytes (lanes behind the last matrix: any), and gets of each matrix the
// numbers (g, 2t) and (g, 2t + 1).
__device__ inline void load_matrices(unsigned (&to)[1], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(to[0])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void load_matrices(unsigned (&to)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void load_matrices(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
// The same of the transposed matrices: the numbers (2t, g) and (2t + 1, g).
__device__ inline void load_turned(unsigned (&to)[1], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(to[0])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void load_turned(unsigned (&to)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void load_turned(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// Copies `read` bytes to shared memory and zeros behind them, `bytes` (4, 8 or 16) in all, to and
// from multiples of `bytes`; nothing is read from `from` where `read` is 0. The thread sees them
// once it has waited, others behind a barrier after that.
template <int bytes>
__device__ void copy_async(void* to, const void* from, int read = bytes) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  if constexpr (bytes == 16) {  // past the first cache, where nobody reads them again
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(read)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "n"(bytes),
                   "r"(read)
                 : "memory");
  }
}
// Ends a group of the thread's copies, which may be empty.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Returns when at most the `newest` last groups of the thread are under way.
template <int newest>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(newest) : "memory");
}

// Returns when `threads` threads, a multiple of 32, have come to barrier 1 to 15 of the block.
__device__ inline void sync_threads(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// The launch's dynamic shared memory (launch_with_shared), at a multiple of 128 bytes.
__device__ inline void* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char mneme_dynamic_shared[];
  return mneme_dynamic_shared;
}

}  // namespace cuda
}  // namespace sdk_0_1
}  // namespace mneme

#endif
