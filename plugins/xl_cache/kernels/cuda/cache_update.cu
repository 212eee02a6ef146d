// Cache update: joint rows (old [B,M,D], then fresh [B,T,D]) -> evicted [B,E,D], kept [B,K,D], with
// their validity; rows that are not valid become zeros.
//
//   Equation       joint[b][r] = r < M ? old[b][r] : fresh[b][r - M];
//                  r < E -> evicted[b][r], else kept[b][r - E]
//   Presumptions   any B, M, T, K >= 0 and D; contiguous; D * element size is copied in units of
//                  16, 8, 4, 2 or 1 bytes, the largest that divides the row and every buffer's
//                  address
//   Decomposition  a block holds blockDim.y rows of the joint sequence of all lanes; blockDim.x
//                  threads copy a row
//   Launches       one, which fills kept and evicted whole: no allocation, no synchronisation, the
//                  same launch for the same shapes and alignment
//   Shared memory  none
//   Bytes          2 * B * (M + T) * (D * element size + 1); no flops
#include "kernels/cache_update.hpp"
#include "mneme_kernels/cuda/launch.hpp"

namespace xl_cache {
namespace {

constexpr int kThreads = 256;

struct Joint {
  int64_t all_rows;  // B * (M + T)
  int64_t old;
  int64_t fresh;
  int64_t kept;
  int64_t evicted;
  int64_t units;  // units of a row
};

template <typename Unit>
struct Pointers {
  const Unit* old_rows;
  const uint8_t* old_valid;
  const Unit* fresh_rows;
  const uint8_t* fresh_valid;
  Unit* kept_rows;
  uint8_t* kept_valid;
  Unit* evicted_rows;
  uint8_t* evicted_valid;
};

__device__ inline void clear(uint4& unit) { unit = make_uint4(0, 0, 0, 0); }
template <typename Unit>
__device__ inline void clear(Unit& unit) {
  unit = 0;
}

template <typename Unit>
__global__ void cache_update_kernel(Joint s, Pointers<Unit> p) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.y;
  const int64_t per_lane = s.old + s.fresh;
  for (int64_t index = first; index < s.all_rows; index += stride) {
    const int64_t lane = index / per_lane;
    const int64_t row = index - lane * per_lane;
    const bool is_old = row < s.old;
    const int64_t from = is_old ? lane * s.old + row : lane * s.fresh + (row - s.old);
    const bool is_kept = row >= s.evicted;
    const int64_t to = is_kept ? lane * s.kept + (row - s.evicted) : lane * s.evicted + row;
    const bool is_valid = (is_old ? p.old_valid[from] : p.fresh_valid[from]) != 0;
    const Unit* source = (is_old ? p.old_rows : p.fresh_rows) + from * s.units;
    Unit* target = (is_kept ? p.kept_rows : p.evicted_rows) + to * s.units;
    for (int64_t u = threadIdx.x; u < s.units; u += blockDim.x) {
      Unit value;
      if (is_valid) {
        value = source[u];
      } else {
        clear(value);
      }
      target[u] = value;
    }
    if (threadIdx.x == 0) (is_kept ? p.kept_valid : p.evicted_valid)[to] = is_valid ? 1 : 0;
  }
}

template <typename Unit>
cudaError_t launch(const CacheUpdateShape& shape, const CacheUpdateBuffers& b,
                   cudaStream_t stream) {
  const Joint joint = {shape.lanes * (shape.old + shape.fresh),
                       shape.old,
                       shape.fresh,
                       shape.kept,
                       shape.evicted(),
                       shape.row_bytes / static_cast<int64_t>(sizeof(Unit))};
  const Pointers<Unit> pointers = {static_cast<const Unit*>(b.old_rows),   b.old_valid,
                                   static_cast<const Unit*>(b.fresh_rows), b.fresh_valid,
                                   static_cast<Unit*>(b.kept_rows),        b.kept_valid,
                                   static_cast<Unit*>(b.evicted_rows),     b.evicted_valid};
  int across = 1;
  while (across < kThreads && across < joint.units) across *= 2;
  const dim3 threads(static_cast<unsigned>(across), static_cast<unsigned>(kThreads / across));
  const int64_t wanted = (joint.all_rows + threads.y - 1) / threads.y;
  const dim3 blocks(
      static_cast<unsigned>(wanted < mneme::cuda::kMaxBlocks ? wanted : mneme::cuda::kMaxBlocks));
  return mneme::cuda::launch(blocks, threads, stream, cache_update_kernel<Unit>, joint, pointers);
}

bool is_multiple(const CacheUpdateShape& shape, const CacheUpdateBuffers& b, uintptr_t unit) {
  const auto at = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  const uintptr_t all = static_cast<uintptr_t>(shape.row_bytes) | at(b.old_rows) |
                        at(b.fresh_rows) | at(b.kept_rows) | at(b.evicted_rows);
  return all % unit == 0;
}

cudaError_t launch_widest(const CacheUpdateShape& shape, const CacheUpdateBuffers& buffers,
                          cudaStream_t stream) {
  if (is_multiple(shape, buffers, 16)) return launch<uint4>(shape, buffers, stream);
  if (is_multiple(shape, buffers, 8)) return launch<uint64_t>(shape, buffers, stream);
  if (is_multiple(shape, buffers, 4)) return launch<uint32_t>(shape, buffers, stream);
  if (is_multiple(shape, buffers, 2)) return launch<uint16_t>(shape, buffers, stream);
  return launch<uint8_t>(shape, buffers, stream);
}

}  // namespace

void CacheUpdate::forward_cuda(const mneme::KernelCall& call) const {
  const CacheUpdateShape shape = shape_of(call);
  if (shape.lanes * (shape.old + shape.fresh) == 0) return;
  for (const uint32_t i : {0U, 1U, 2U, 3U}) {
    mneme::cuda::check_buffers(call, {call.input(i), call.output(i)});
  }
  mneme::cuda::check_launch(launch_widest(shape, buffers_of(call), mneme::cuda::stream_of(call)));
}

}  // namespace xl_cache
