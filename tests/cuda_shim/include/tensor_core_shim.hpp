// The functions of mneme_kernels/cuda/tensor_core.cuh, which says what they do, by the layouts of
// the PTX ISA.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mneme/cpp/failure.hpp"
#include "tests/cuda_shim/device.hpp"

namespace mneme {
inline namespace sdk_0_1 {
namespace cuda {

// The two numbers of a register.
struct Pair {
  __nv_bfloat16 low, high;
};

inline unsigned pack_bf16(float low, float high) {
  const Pair pair = {__nv_bfloat16(low), __nv_bfloat16(high)};
  return static_cast<unsigned>(cuda_shim::bits_of(pair));
}

inline void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                         CallSite site = CallSite::here()) {
  const auto two = [](unsigned low, unsigned high) { return uint64_t{high} << 32 | low; };
  const cuda_shim::Words* const lanes = cuda_shim::exchange(
      site.file, site.line, 0xFFFFFFFFU, {two(a[0], a[1]), two(a[2], a[3]), two(b[0], b[1])});
  const auto number = [](uint64_t bits) {
    return static_cast<double>(cuda_shim::from_bits<float>((bits & 0xFFFFU) << 16));
  };
  // The lane's two rows are those of 4 lanes, each of its two columns that of 4 others.
  const cuda_shim::Words* const of_rows = lanes + cuda_shim::lane() / 4 * 4;
  const cuda_shim::Words* const of_columns = lanes + cuda_shim::lane() % 4 * 8;
  double sums[4] = {d[0], d[1], d[2], d[3]};
  for (unsigned k = 0; k < 16; ++k) {
    const unsigned from = k % 8 / 2, half = k % 2 * 16, in_column = k / 8 * 32 + half;
    const uint64_t rows = of_rows[from][k / 8] >> half;
    const double low = number(rows), high = number(rows >> 32);
    const double left = number(of_columns[from][2] >> in_column);
    const double right = number(of_columns[4 + from][2] >> in_column);
    sums[0] += low * left;
    sums[1] += low * right;
    sums[2] += high * left;
    sums[3] += high * right;
  }
  for (unsigned i = 0; i < 4; ++i) d[i] = static_cast<float>(sums[i]);
}

// What all lanes' rows of `count` matrices hold.
inline const cuda_shim::Words* rows_of_matrices(unsigned count, const void* row, CallSite site) {
  cuda_shim::Words own = {};
  if (cuda_shim::lane() < count * 8) {
    if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
      cuda_shim::fail("a row of a matrix at a misaligned address", site.file, site.line);
    }
    std::memcpy(own.data(), row, 16);
  }
  return cuda_shim::exchange(site.file, site.line, 0xFFFFFFFFU, own);
}
inline __nv_bfloat16 number_of_row(const cuda_shim::Words& row, unsigned column) {
  __nv_bfloat16 out;
  std::memcpy(&out, reinterpret_cast<const unsigned char*>(row.data()) + column * sizeof(out),
              sizeof(out));
  return out;
}

template <std::size_t count>
void load_matrices(unsigned (&to)[count], const void* row, CallSite site = CallSite::here()) {
  static_assert(count == 1 || count == 2 || count == 4);
  const cuda_shim::Words* const rows = rows_of_matrices(count, row, site);
  const unsigned g = cuda_shim::lane() / 4, t = cuda_shim::lane() % 4;
  for (unsigned m = 0; m < count; ++m) {
    const cuda_shim::Words& own = rows[m * 8 + g];
    const Pair pair = {number_of_row(own, 2 * t), number_of_row(own, 2 * t + 1)};
    to[m] = static_cast<unsigned>(cuda_shim::bits_of(pair));
  }
}
template <std::size_t count>
void load_turned(unsigned (&to)[count], const void* row, CallSite site = CallSite::here()) {
  static_assert(count == 1 || count == 2 || count == 4);
  const cuda_shim::Words* const rows = rows_of_matrices(count, row, site);
  const unsigned g = cuda_shim::lane() / 4, t = cuda_shim::lane() % 4;
  for (unsigned m = 0; m < count; ++m) {
    const cuda_shim::Words* const own = rows + m * 8 + 2 * t;
    const Pair pair = {number_of_row(own[0], g), number_of_row(own[1], g)};
    to[m] = static_cast<unsigned>(cuda_shim::bits_of(pair));
  }
}

template <int bytes>
void copy_async(void* to, const void* from, int read = bytes, CallSite site = CallSite::here()) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  cuda_shim::copy_async(to, from, bytes, static_cast<unsigned>(read), site.file, site.line);
}
inline void commit_copies() { cuda_shim::commit_copies(); }
template <int newest>
void wait_for_copies() {
  cuda_shim::wait_for_copies(newest);
}

inline void sync_threads(int barrier, int threads, CallSite site = CallSite::here()) {
  cuda_shim::sync_threads(static_cast<unsigned>(barrier), static_cast<unsigned>(threads), site.file,
                          site.line);
}

inline void* dynamic_shared() { return cuda_shim::dynamic_shared(); }

}  // namespace cuda
}  // namespace sdk_0_1
}  // namespace mneme
