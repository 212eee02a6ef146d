// Attention without gradient in bf16 on tensor cores (attention.hpp has the equation). No
// allocation, no synchronisation, the same launches for the same shapes, the same bits for the same
// inputs.
//
//   Equation       (q_i + u) . k_j + (q_i + w) . r_{T-1-i+j'}, with both sums of queries rounded to
//                  bf16 and products in f32; softmax in f32; its numerators rounded to bf16 for the
//                  product with the values. Dropout's mask is drawn where
//                  it is used, after the sum of the numerators
//   Shapes         q, z [B,T,H,d]; keys and values [B,m,G,d] a piece; table [H,W,d]; lse [B,H,T]
//   Presumptions   d <= 128; compute capability 8.0; at most kMostPieces pieces; blocks < 2^31
//   Decomposition  a block has 64 queries of one head, a warp 16 of them, in registers. It takes
//                  64 columns at a time, whose keys, values and rows of the table are copied while
//                  it computes with those before. A warp multiplies its queries by the 79 rows of
//                  the table that they need, and writes the products to shared memory each query's
//                  row shifted to its columns: the initial values of the scores' products
//   Shared memory  80 KiB for d <= 64, 136 KiB above
//   Flops          2 B H T K d of each of keys and values, 2.5 of positions; B H T K exponentials
#include <cstdint>

#include "host/kernel/cuda/relative/tiles.cuh"
#include "mneme_kernels/cuda/launch.hpp"

namespace mneme::kernel {
namespace device {

// Of the block's tiles of columns from `tile` on, the first that a query sees.
__device__ inline std::int64_t next_seen(const Problem& a, const Place& p, std::int64_t tile,
                                         std::int64_t end) {
  while (tile < end && !are_seen(a.s, p.query, columns_of(a.s, tile))) ++tile;
  return tile;
}

template <int width>
__device__ void write_rows(const Problem& a, const Place& p, const RunningRows<width>& r) {
  const std::int64_t part = p.part * a.s.lanes * a.s.heads * a.s.queries;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = sum_of_group(r.total[half]);
    const std::int64_t query = p.query + row_of_warp() + group() + half * 8;
    if (query >= a.s.queries) continue;
    const std::int64_t row = (p.lane * a.s.heads + p.head) * a.s.queries + query;
    const std::int64_t z = ((p.lane * a.s.queries + query) * a.s.heads + p.head) * a.s.width;
    if (pair() == 0 && a.parts == 1) write_lse(a, row, r.most[half], total);
    if (pair() == 0 && a.parts > 1) {
      a.most[part + row] = r.most[half];
      a.totals[part + row] = total;
    }
    const float share = total > 0.0F ? 1.0F / total : 0.0F;
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      const int c = n * 8 + pair();
      const float first = r.sums[n][half * 2], second = r.sums[n][half * 2 + 1];
      if (a.parts == 1) {
        store_pair(a.s, a.z + z, c, first * share, second * share);
        continue;
      }
      float* const sums = a.sums + part * a.s.width + z;
      if (c < a.s.width) sums[c] = first;
      if (c + 1 < a.s.width) sums[c + 1] = second;
    }
  }
}

// Rows of a tile and, meanwhile, of the next.
template <int width>
using Stages = TileMemory<width, 2>;

template <int width>
__global__ void __launch_bounds__(kThreadsOfTile) relative_attention_kernel(Problem a) {
  auto& memory = *static_cast<Stages<width>*>(dynamic_shared());
  const Place place = place_of(a);
  const std::int64_t tiles = column_tiles(a.s);
  const std::int64_t end = tiles * (place.part + 1) / a.parts;
  std::int64_t tile = next_seen(a, place, tiles * place.part / a.parts, end);
  const auto begin_tile = [&](int stage, bool has_chunk) {
    if (tile == end) return;
    const Columns columns = columns_of(a.s, tile);
    begin_columns(memory, a, place, columns, stage);
    begin_chunks(memory, a, place, columns, has_chunk);
    commit_copies();
  };
  begin_tile(0, false);
  Queries<width> queries;
  load_queries(a, place, queries);
  RunningRows<width> running;
  for (int stage = 0; tile < end; stage ^= 1) {
    const Columns columns = columns_of(a.s, tile);
    const bool has_positions = have_positions(a, columns);
    wait_for_copies<0>();
    __syncthreads();  // all have waited, and have read what the next copies replace
    tile = next_seen(a, place, tile + 1, end);
    begin_tile(stage ^ 1, columns.have_places);
    Scores scores;
    if (has_positions) place_positions(memory, queries.position, chunk_of(a, columns));
    __syncwarp();
    start_scores<false>(memory, has_positions, scores);
#pragma unroll
    for (int n = 0; n < kTile / 8; n += 2) {
      multiply_rows<width>(queries.content, &memory.keys[stage][n * 8], scores[n], scores[n + 1]);
    }
    finish_scores<false>(a, place, columns, scores);
    add_scores(scores, running);
    KeptScores<false>(a, place, columns).drop(a, scores);
    multiply_columns<width>(scores, memory.values[stage], running.sums);
  }
  write_rows(a, place, running);
}

template <int width>
cudaError_t launch_width(const Problem& a, cudaStream_t stream) {
  const std::int64_t blocks = a.s.lanes * a.s.heads * a.tiles * a.parts;
  return launch_with_shared(blocks, kThreadsOfTile, static_cast<int>(sizeof(Stages<width>)), stream,
                            relative_attention_kernel<width>, a);
}

cudaError_t launch_on_tensor_cores(Problem a, cudaStream_t stream) {
  a.are_rows_aligned = are_aligned(a);
  return a.s.width <= 64 ? launch_width<64>(a, stream) : launch_width<128>(a, stream);
}

}  // namespace device
}  // namespace mneme::kernel
