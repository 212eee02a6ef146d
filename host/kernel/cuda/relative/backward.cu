// Gradients of attention in bf16 on tensor cores, by recomputing the probabilities from the
// log-sum-exp, and dropout's mask m from its counters (attention.hpp has the equation). No
// allocation, no synchronisation, the same launches for the same shapes, the same bits for the same
// inputs: nothing is added atomically.
//
//   Equation       p_ij = exp(s_ij - lse_i)   D_i = dz_i . z_i - dlse_i
//                  g_ij = scale p_ij (m_ij dz_i . v_j - D_i)
//                  dv_j = sum_i m_ij p_ij dz_i   dk_j = sum_i g_ij (q_i + u)
//                  dq_i = sum_j g_ij k_j      and g itself by rows of the table, with which the
//                  caller's products give the rest (attention.hpp of this folder)
//   Shapes         as the forward pass; g [H,B,T,W]
//   Presumptions   d <= 128; compute capability 8.0; at most kMostPieces pieces; blocks < 2^31
//   Decomposition  a kernel for D; one whose blocks have 64 queries and go through the columns, for
//                  dq and g; one whose blocks have 64 columns of a head of keys and go through the
//                  queries of all heads that share it, for dk and dv. The latter computes scores
//                  turned, so that its warps have 16 columns each
//   Shared memory  81 KiB for d <= 64, 137 KiB above
//   Flops          2 B H T K d of each of 7 products, and 2.5 B H T K d twice of positions
#include <cstdint>

#include "host/kernel/cuda/relative/tiles.cuh"
#include "mneme_kernels/cuda/launch.hpp"

namespace mneme::kernel {
namespace device {
namespace {

struct GradientProblem {
  Problem a;
  const Bf16* z;  // [B,T,H,d]
  const float* lse;
  const float* grad_lse;  // null = 0
  Rows grad_z;
  float* inner;                                       // D [B,H,T]
  Bf16* q;                                            // [B,T,H,d]
  KeyGradient gradients[CudaAttention::kMostPieces];  // of pieces
  Bf16* positions;                                    // g [H,B,T,W]; null without a table
};

template <int width>
struct alignas(16) GradientMemory {
  TileMemory<width, 1> tile;
  Row<width> content[kTile];   // queries with u
  Row<width> position[kTile];  // with w
  Row<width> grad_z[kTile];
  float log_sums[kTile];  // base 2; infinity for a query without keys, so that its p is 0
  float inner[kTile];
};

// A warp a row of z.
__global__ void __launch_bounds__(kThreads) inner_kernel(GradientProblem g) {
  const AttentionShape& s = g.a.s;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarpThreads) +
                           threadIdx.x / kWarpThreads;
  if (row >= s.lanes * s.heads * s.queries) return;
  const std::int64_t lane = row / s.queries / s.heads, head = row / s.queries % s.heads;
  const std::int64_t query = row % s.queries;
  const Bf16* const z = g.z + ((lane * s.queries + query) * s.heads + head) * s.width;
  const Bf16* const grad = row_of<Bf16>(g.grad_z, lane, head, query);
  float sum = 0.0F;
  for (std::int64_t c = lane_of_warp(); c < s.width; c += kWarpThreads) {
    sum += widen(z[c]) * widen(grad[c]);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, step);
  if (lane_of_warp() != 0) return;
  const bool has_keys = g.lse[row] != -INFINITY;
  g.inner[row] = has_keys ? sum - (g.grad_lse != nullptr ? g.grad_lse[row] : 0.0F) : 0.0F;
}

struct alignas(16) Eight {
  Bf16 at[8];
};
// Numbers c .. c + 7 of a row, zeros where there are none, with those of a bias.
__device__ inline Eight sums_of(const Problem& a, const Bf16* row, const float* bias, int c) {
  Eight out;
  const bool is_whole = a.are_rows_aligned && row != nullptr && c < a.s.width;
  if (is_whole) out = *reinterpret_cast<const Eight*>(row + c);
  for (int e = 0; e < 8; ++e) {
    const bool is_there = row != nullptr && c + e < a.s.width;
    const float own = is_whole ? widen(out.at[e]) : is_there ? widen(row[c + e]) : 0.0F;
    narrow(own + (bias != nullptr && is_there ? bias[c + e] : 0.0F), out.at[e]);
  }
  return out;
}

// Begins to fill the rows of the block's queries.
template <int width>
__device__ void begin_queries(GradientMemory<width>& m, const GradientProblem& g, const Place& p) {
  const Problem& a = g.a;
  const int x = static_cast<int>(threadIdx.x) / 2;
  const bool is_there = p.query + x < a.s.queries;
  const Bf16* const q = is_there ? row_of<Bf16>(a.in.q, p.lane, p.head, p.query + x) : nullptr;
  const auto of_head = [&](const void* bias) {
    return bias != nullptr ? static_cast<const float*>(bias) + p.head * a.s.width : nullptr;
  };
  for (int c = static_cast<int>(threadIdx.x) % 2 * 8; c < width; c += 16) {
    *reinterpret_cast<Eight*>(m.content[x] + c) = sums_of(a, q, of_head(a.in.content_bias), c);
    *reinterpret_cast<Eight*>(m.position[x] + c) = sums_of(a, q, of_head(a.in.position_bias), c);
  }
  const Bf16* const grad = is_there ? row_of<Bf16>(g.grad_z, p.lane, p.head, p.query + x) : nullptr;
  load_part<width>(a, grad, m.grad_z[x]);
  if (threadIdx.x % 2 != 0) return;
  const std::int64_t row = (p.lane * a.s.heads + p.head) * a.s.queries + p.query + x;
  const float lse = is_there ? g.lse[row] : -INFINITY;
  m.log_sums[x] = lse == -INFINITY ? INFINITY : lse * static_cast<float>(kLog2E);
  m.inner[x] = is_there ? g.inner[row] : 0.0F;
}

// 16 rows in shared memory as left operand: the numbers of a step.
template <int width>
__device__ void load_left(const Row<width>* rows, int step, unsigned (&to)[4]) {
  load_matrices(to, &rows[lane_of_warp() % 16][step * 16 + lane_of_warp() / 16 * 8]);
}

// sums += 16 rows times kTile rows, one by one.
template <int width>
__device__ void multiply_tile(const Row<width>* left, const Row<width>* right, Scores& sums) {
  const int lane = lane_of_warp();
#pragma unroll
  for (int step = 0; step < width / 16; ++step) {
    unsigned a[4];
    load_left<width>(left, step, a);
#pragma unroll
    for (int n = 0; n < kTile / 8; n += 2) {
      unsigned b[4];
      load_matrices(b, &right[n * 8 + lane / 16 * 8 + lane % 8][step * 16 + lane / 8 % 2 * 8]);
      multiply_add(sums[n], a, {b[0], b[1]});
      multiply_add(sums[n + 1], a, {b[2], b[3]});
    }
  }
}

// Terms of positions of all queries. Begins and ends without a barrier.
template <int width>
__device__ void place_all_positions(GradientMemory<width>& m, std::int64_t chunk) {
  unsigned left[width / 16][4];
#pragma unroll
  for (int step = 0; step < width / 16; ++step) {
    load_left<width>(m.position + row_of_warp(), step, left[step]);
  }
  place_positions(m.tile, left, chunk);
}

// Scores to m p, the factors of the values, and products dz . v to g.
template <bool is_turned, int width>
__device__ void differentiate(const GradientMemory<width>& m, const Problem& a, const Place& p,
                              const Columns& columns, Scores& scores, Scores& products) {
  const auto scale = static_cast<float>(a.s.scale);
  const KeptScores<is_turned> kept(a, p, columns);
  kept.drop(a, products);
#pragma unroll
  for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = cell_of<is_turned>(n, i).query;
      scores[n][i] = power_of_two(scores[n][i] - m.log_sums[query]);
      products[n][i] = scale * scores[n][i] * (products[n][i] - m.inner[query]);
    }
  }
  kept.drop(a, scores);
}

// The warp's g by rows of the table, through its rows of m.positions.
template <int width>
__device__ void write_positions(GradientMemory<width>& m, const GradientProblem& g, const Place& p,
                                const Columns& columns, const Scores& scores) {
  const AttentionShape& s = g.a.s;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kTile / 8 * 4; ++i) {
    const Cell cell = cell_of<false>(i / 4, i % 4);
    m.tile.positions[cell.query][cell.column] = scores[i / 4][i % 4];
  }
  __syncwarp();
  const std::int64_t rows = g.a.in.table_rows;
  for (int r = row_of_warp(); r < row_of_warp() + kRowsOfWarp; ++r) {
    const std::int64_t query = p.query + r;
    if (query >= s.queries) return;
    Bf16* const to = g.positions + ((p.head * s.lanes + p.lane) * s.queries + query) * rows;
    const std::int64_t first = s.queries - 1 - query + columns.first - s.free;
    for (int x = lane_of_warp(); x < columns.count; x += kWarpThreads) {
      if (first + x < s.keys - s.free) narrow(m.tile.positions[r][x], to[first + x]);
    }
  }
}

template <int width>
__global__ void __launch_bounds__(kThreadsOfTile) query_gradient_kernel(GradientProblem g) {
  auto& memory = *static_cast<GradientMemory<width>*>(dynamic_shared());
  const Problem& a = g.a;
  const Place place = place_of(a);
  const std::int64_t tiles = column_tiles(a.s);
  begin_queries(memory, g, place);
  float sums[width / 8][4] = {};
  bool has_chunk = false;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const Columns columns = columns_of(a.s, tile);
    if (!are_seen(a.s, place.query, columns)) continue;
    const bool has_positions = have_positions(a, columns);
    __syncthreads();  // all have read the tile before
    begin_columns(memory.tile, a, place, columns, 0);
    begin_chunks(memory.tile, a, place, columns, has_chunk);
    has_chunk = columns.have_places;
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    if (has_positions) place_all_positions(memory, chunk_of(a, columns));
    __syncwarp();
    Scores scores;
    Scores products = {};
    start_scores<false>(memory.tile, has_positions, scores);
    multiply_tile<width>(memory.content + row_of_warp(), memory.tile.keys[0], scores);
    finish_scores<false>(a, place, columns, scores);
    multiply_tile<width>(memory.grad_z + row_of_warp(), memory.tile.values[0], products);
    differentiate<false>(memory, a, place, columns, scores, products);
    if (has_positions) write_positions(memory, g, place, columns, products);
    multiply_columns<width>(products, memory.tile.keys[0], sums);
  }
#pragma unroll
  for (int i = 0; i < width / 8 * 2; ++i) {
    const std::int64_t query = place.query + row_of_warp() + group() + i % 2 * 8;
    if (query >= a.s.queries) continue;
    Bf16* const row =
        g.q + ((place.lane * a.s.queries + query) * a.s.heads + place.head) * a.s.width;
    store_pair(a.s, row, i / 2 * 8 + pair(), sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]);
  }
}

// Of the warp's columns.
template <int width>
__device__ void write_columns(const GradientProblem& g, const Place& p, const Columns& columns,
                              const float (&grad_k)[width / 8][4],
                              const float (&grad_v)[width / 8][4]) {
  const AttentionShape& s = g.a.s;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int x = row_of_warp() + group() + half * 8;
    if (x >= columns.count) continue;
    std::int64_t row = columns.first + x;
    int piece = 0;
    while (row >= g.a.pieces[piece].rows) row -= g.a.pieces[piece++].rows;
    const std::int64_t key_head = p.head / (s.heads / s.key_heads);
    const std::int64_t at =
        ((p.lane * g.a.pieces[piece].rows + row) * s.key_heads + key_head) * s.width;
    auto* const k = static_cast<Bf16*>(g.gradients[piece].k);
    auto* const v = static_cast<Bf16*>(g.gradients[piece].v);
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      const int c = n * 8 + pair(), i = half * 2;
      if (k != nullptr) store_pair(s, k + at, c, grad_k[n][i], grad_k[n][i + 1]);
      if (v != nullptr) store_pair(s, v + at, c, grad_v[n][i], grad_v[n][i + 1]);
    }
  }
}

template <int width>
__global__ void __launch_bounds__(kThreadsOfTile) column_gradient_kernel(GradientProblem g) {
  auto& memory = *static_cast<GradientMemory<width>*>(dynamic_shared());
  const Problem& a = g.a;
  const std::int64_t tiles = column_tiles(a.s), shared = a.s.heads / a.s.key_heads;
  const std::int64_t of_lane = static_cast<std::int64_t>(blockIdx.x) / tiles;
  const Columns columns = columns_of(a.s, static_cast<std::int64_t>(blockIdx.x) % tiles);
  Place place = {of_lane / a.s.key_heads, of_lane % a.s.key_heads * shared, 0, 0};
  const bool has_positions = have_positions(a, columns);
  begin_columns(memory.tile, a, place, columns, 0);
  float grad_k[width / 8][4] = {};
  float grad_v[width / 8][4] = {};
  for (std::int64_t i = 0; i < shared * a.tiles; ++i) {
    place.head = of_lane % a.s.key_heads * shared + i / a.tiles;
    place.query = i % a.tiles * kTile;
    if (!are_seen(a.s, place.query, columns)) continue;
    __syncthreads();  // all have read the queries before
    begin_queries(memory, g, place);
    begin_chunks(memory.tile, a, place, columns, false);
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    if (has_positions) place_all_positions(memory, chunk_of(a, columns));
    __syncthreads();  // a warp reads the terms of all queries
    Scores scores;
    Scores products = {};
    start_scores<true>(memory.tile, has_positions, scores);
    multiply_tile<width>(memory.tile.keys[0] + row_of_warp(), memory.content, scores);
    finish_scores<true>(a, place, columns, scores);
    multiply_tile<width>(memory.tile.values[0] + row_of_warp(), memory.grad_z, products);
    differentiate<true>(memory, a, place, columns, scores, products);
    multiply_columns<width>(scores, memory.grad_z, grad_v);
    multiply_columns<width>(products, memory.content, grad_k);
  }
  commit_copies();
  wait_for_copies<0>();  // those of columns that no query sees
  write_columns<width>(g, place, columns, grad_k, grad_v);
}

template <int width>
cudaError_t launch_width(const GradientProblem& g, cudaStream_t stream) {
  constexpr int kBytes = static_cast<int>(sizeof(GradientMemory<width>));
  const AttentionShape& s = g.a.s;
  const cudaError_t status = launch_with_shared(s.lanes * s.heads * g.a.tiles, kThreadsOfTile,
                                                kBytes, stream, query_gradient_kernel<width>, g);
  if (status != cudaSuccess) return status;
  return launch_with_shared(s.lanes * s.key_heads * column_tiles(s), kThreadsOfTile, kBytes, stream,
                            column_gradient_kernel<width>, g);
}

cudaError_t launch_gradient(GradientProblem& g, cudaStream_t stream) {
  g.a.are_rows_aligned = are_aligned(g.a) && is_aligned(g.a.in.q) && is_aligned(g.grad_z);
  const std::int64_t rows = g.a.s.lanes * g.a.s.heads * g.a.s.queries;
  const cudaError_t status =
      launch(tiles_of(rows, kThreads / kWarpThreads), kThreads, stream, inner_kernel, g);
  if (status != cudaSuccess) return status;
  return g.a.s.width <= 64 ? launch_width<64>(g, stream) : launch_width<128>(g, stream);
}

}  // namespace
}  // namespace device

std::uint64_t CudaAttention::backward_workspace(const AttentionShape& s) {
  return static_cast<std::uint64_t>(s.lanes * s.heads * s.queries) * sizeof(float);
}

const char* CudaAttention::backward(const AttentionShape& s, const AttentionInputs& in,
                                    const AttentionPass& pass, const CudaAttentionGradients& out,
                                    void* workspace, void* stream) {
  cudaError_t status = cudaErrorInvalidValue;
  if (s.element == Element::kBF16 && s.width <= kMostWidth && in.n_pieces <= kMostPieces &&
      in.bias == nullptr && (in.table == nullptr || in.table_by_row.data != nullptr)) {
    device::GradientProblem g = {};
    g.a.s = s;
    g.a.in = in;
    g.a.tiles = cuda::tiles_of(s.queries, device::kTile);
    g.a.parts = 1;
    for (std::int64_t p = 0; p < in.n_pieces; ++p) {
      g.a.pieces[p] = in.pieces[p];
      g.gradients[p] = out.pieces[p];
    }
    g.z = static_cast<const device::Bf16*>(pass.z);
    g.lse = static_cast<const float*>(pass.lse);
    g.grad_lse = static_cast<const float*>(pass.grad_lse);
    g.grad_z = pass.grad_z;
    g.inner = static_cast<float*>(workspace);
    g.q = static_cast<device::Bf16*>(out.q);
    g.positions = static_cast<device::Bf16*>(out.positions);
    status = device::launch_gradient(g, static_cast<cudaStream_t>(stream));
  }
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

}  // namespace mneme::kernel
