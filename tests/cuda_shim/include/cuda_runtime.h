// What nvcc includes in front of a .cu file, for a C++ compiler: keywords, variables and functions
// of device code, and launches.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <type_traits>
#include <utility>

#define MNEME_CUDA_SHIM 1
#define __CUDACC__ 1
#define __host__
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)

#define __syncthreads() ::mneme::cuda_shim::sync_block(__FILE__, __LINE__)
#define __syncwarp() \
  static_cast<void>(::mneme::cuda_shim::exchange(__FILE__, __LINE__, 0xFFFFFFFFU, {}))
#define __shfl_sync(mask, value, from) \
  ::mneme::cuda_shim::shuffle(__FILE__, __LINE__, mask, value, from)
#define __shfl_xor_sync(mask, value, with) \
  ::mneme::cuda_shim::shuffle_xor(__FILE__, __LINE__, mask, value, with)
#define __shfl_up_sync(mask, value, by) \
  ::mneme::cuda_shim::shuffle_up(__FILE__, __LINE__, mask, value, by)
#define __shfl_down_sync(mask, value, by) \
  ::mneme::cuda_shim::shuffle_down(__FILE__, __LINE__, mask, value, by)
#define __match_any_sync(mask, value) ::mneme::cuda_shim::match_any(__FILE__, __LINE__, mask, value)

inline const mneme::cuda_shim::Extents& threadIdx = mneme::cuda_shim::g_thread;
inline const mneme::cuda_shim::Extents& blockIdx = mneme::cuda_shim::g_block;
inline const mneme::cuda_shim::Extents& blockDim = mneme::cuda_shim::g_block_extents;
inline const mneme::cuda_shim::Extents& gridDim = mneme::cuda_shim::g_grid_extents;

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

using std::exp2;
using std::log;
using std::log2;
using std::sqrt;

inline double normcdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }

template <typename T>
T atomicAdd(T* at, T value) {
  return std::exchange(*at, *at + value);
}
template <typename T>
T atomicMin(T* at, T value) {
  return std::exchange(*at, std::min(*at, value));
}
template <typename T>
T atomicMax(T* at, T value) {
  return std::exchange(*at, std::max(*at, value));
}

namespace mneme::cuda_shim {

template <typename T>
uint64_t bits_of(const T& value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <typename T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <typename T>
T value_of(const Words* values, unsigned from, unsigned mask, const char* file, int line) {
  if ((mask >> from & 1U) == 0) fail("a value of a lane that is not in the mask", file, line);
  return from_bits<T>(values[from][0]);
}
template <typename T>
T shuffle(const char* file, int line, unsigned mask, T value, int from) {
  const Words* const values = exchange(file, line, mask, {bits_of(value)});
  return value_of<T>(values, static_cast<unsigned>(from) % kWarp, mask, file, line);
}
template <typename T>
T shuffle_xor(const char* file, int line, unsigned mask, T value, int with) {
  const Words* const values = exchange(file, line, mask, {bits_of(value)});
  return value_of<T>(values, lane() ^ static_cast<unsigned>(with), mask, file, line);
}
template <typename T>
T shuffle_up(const char* file, int line, unsigned mask, T value, int by) {
  const Words* const values = exchange(file, line, mask, {bits_of(value)});
  const unsigned own = lane(), steps = static_cast<unsigned>(by);
  return own < steps ? value : value_of<T>(values, own - steps, mask, file, line);
}
template <typename T>
T shuffle_down(const char* file, int line, unsigned mask, T value, int by) {
  const Words* const values = exchange(file, line, mask, {bits_of(value)});
  const unsigned from = lane() + static_cast<unsigned>(by);
  return from >= kWarp ? value : value_of<T>(values, from, mask, file, line);
}
template <typename T>
unsigned match_any(const char* file, int line, unsigned mask, T value) {
  const Words* const values = exchange(file, line, mask, {bits_of(value)});
  unsigned same = 0;
  for (unsigned l = 0; l < kWarp; ++l) {
    if ((mask >> l & 1U) != 0 && values[l][0] == bits_of(value)) same |= 1U << l;
  }
  return same;
}

// Bytes of dynamic shared memory that a launch of a kernel may have.
inline std::size_t& most_shared(const void* kernel) {
  static std::map<const void*, std::size_t> allowed;
  return allowed.try_emplace(kernel, std::size_t{48} << 10).first->second;
}

}  // namespace mneme::cuda_shim

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute, int bytes) {
  if (bytes < 0 || bytes > 227 << 10) return cudaErrorInvalidValue;  // of an H100
  mneme::cuda_shim::most_shared(reinterpret_cast<const void*>(kernel)) =
      static_cast<std::size_t>(bytes);
  return cudaSuccess;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const dim3 grid = config->gridDim, block = config->blockDim;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > mneme::cuda_shim::kMaxThreads || grid.x == 0 || grid.y == 0 ||
      grid.z == 0 || grid.x > 2147483647U || grid.y > 65535U || grid.z > 65535U) {
    return cudaErrorInvalidConfiguration;
  }
  if (config->dynamicSmemBytes >
      mneme::cuda_shim::most_shared(reinterpret_cast<const void*>(kernel))) {
    return cudaErrorInvalidValue;
  }
  const std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  mneme::cuda_shim::run_grid({grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
                             config->dynamicSmemBytes, [&] { std::apply(kernel, values); });
  return cudaSuccess;
}
