// The look-ahead's backward pass, with the probabilities recomputed.
//
//   Equation       P = 2^(score - s'); dA = P (dC' v^T - inner), inner = dC' . C' - ds';
//                  dv = P^T dC'; dk = scale dA^T (q + u); dtable = scale (dA by offsets)^T (q + w);
//                  dq = scale (dA k + dA table), its two terms summed over lanes and queries du, dw
//   Shapes         as forward; inner [B,M,H]; parts of du and dw [B,H,query tiles,2,d]
//   Presumptions   as forward, for tiles of keys and of offsets as well
//   Decomposition  every result has one block that sums it, over tiles in their order: no atomics,
//                  the same bits always. A block has 64 keys (32 in f64), queries or offsets and 64
//                  columns; those with offsets take scores by query and offset, with the keys read
//                  skewed, and go through the lanes as well
//   Shared memory  41 KiB
//   Flops          each of the three kernels recomputes scores and dC' v^T, 6 B H M W d; 10 B H M W
//   d
//                  for the sums
#pragma once

#include "cuda/differentiate.cuh"

namespace lamemo::cuda {

// A warp a query of a head.
template <typename T, typename E>
__global__ void __launch_bounds__(kThreads)
    inner_kernel(DeviceShape s, DevicePointers<T, E> p, GradientPointers<T, E> g) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (at >= s.lanes * s.queries * s.heads) return;
  T sum = T(0);
  for (int64_t j = threadIdx.x % 32; g.context != nullptr && j < s.width; j += 32) {
    sum += g.context[at * s.width + j] * p.context[at * s.width + j];
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, step);
  if (threadIdx.x % 32 == 0) g.inner[at] = g.lse == nullptr ? sum : sum - g.lse[at];
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2 : 1)
    key_kernel(DeviceShape s, DevicePointers<T, E> p, GradientPointers<T, E> g) {
  __shared__ GradientMemory<T> memory;
  const int64_t tiles = (s.keys + kTile<T> - 1) / kTile<T>;
  const int64_t panel = blockIdx.x % s.panels * kPanel;
  const int64_t key = blockIdx.x / s.panels % tiles * kTile<T>;
  const int64_t place = blockIdx.x / s.panels / tiles;
  const GradientHead<T, E> head = {{s, p, place / s.heads, place % s.heads}, g};
  const Head<T, E>& f = head.forward;
  T of_keys[kEach<T>][4] = {};
  T of_values[kEach<T>][4] = {};
  // The last key is attended by the queries up to this one.
  const int64_t last = s.first + key + kTile<T> - 1 - s.least;
  for (int64_t query = 0; query < s.queries && query <= last; query += kTile<T>) {
    T probabilities[kEach<T>][kEach<T>];
    T slopes[kEach<T>][kEach<T>];
    differentiate<false>(memory.scores, head, query, key, probabilities, slopes);
    store_weights<false>(memory.sum, probabilities);
    add_weighted(
        memory.sum, s.width - panel,
        [&](int r, int j) { return head.change(query + r, panel + j); }, of_values);
    store_weights<false>(memory.sum, slopes);
    add_weighted(
        memory.sum, s.width - panel,
        [&](int r, int j) {
          return f.query(query + r, p.content_bias, panel + j, static_cast<T>(s.scale));
        },
        of_keys);
  }
  for (int i = 0; i < kEach<T>; ++i) {
    const int64_t c = key + patch_row<kEach<T>>(i);
    for (int j = 0; j < 4; ++j) {
      const int64_t column = panel + patch_column(j);
      if (c >= s.keys || column >= s.width) continue;
      const int64_t to = f.at(s.keys, c) * s.width + column;
      if (g.k != nullptr) mneme::cuda::narrow(of_keys[i][j], g.k[to]);
      if (g.v != nullptr) mneme::cuda::narrow(of_values[i][j], g.v[to]);
    }
  }
}

// Sum over a tile's queries of one of the biases' terms, columns panel .. panel + kPanel - 1.
template <typename T>
__device__ void sum_queries(WeightedSum<T>& m, const T (&terms)[kEach<T>][4], int64_t columns,
                            T* to) {
  for (int j = 0; j < 4; ++j) {
    T sum = T(0);
    for (int i = 0; i < kEach<T>; ++i) sum += terms[i][j];
    m.rows[threadIdx.x / 16][patch_column(j)] = sum;
  }
  __syncthreads();
  if (threadIdx.x < kPanel && threadIdx.x < columns) {
    T sum = T(0);
    for (int r = 0; r < 16; ++r) sum += m.rows[r][threadIdx.x];
    to[threadIdx.x] = sum;
  }
  __syncthreads();
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2 : 1)
    query_kernel(DeviceShape s, DevicePointers<T, E> p, GradientPointers<T, E> g) {
  __shared__ GradientMemory<T> memory;
  const int64_t panel = blockIdx.x % s.panels * kPanel;
  const int64_t tile = blockIdx.x / s.panels % s.query_tiles;
  const int64_t place = blockIdx.x / s.panels / s.query_tiles;
  const GradientHead<T, E> head = {{s, p, place / s.heads, place % s.heads}, g};
  const Head<T, E>& f = head.forward;
  const int64_t query = tile * kTile<T>;
  T by_content[kEach<T>][4] = {};
  T by_position[kEach<T>][4] = {};
  int64_t c = query + s.least - s.first;
  c = c > 0 ? c / kTile<T> * kTile<T> : 0;
  for (; c < s.keys; c += kTile<T>) {
    T probabilities[kEach<T>][kEach<T>];
    T slopes[kEach<T>][kEach<T>];
    differentiate<false>(memory.scores, head, query, c, probabilities, slopes);
    store_weights<true>(memory.sum, slopes);
    add_weighted(
        memory.sum, s.width - panel, [&](int r, int j) { return f.key(p.k, c + r, panel + j); },
        by_content);
    const int64_t low = f.offset_row(c, query) - (kTile<T> - 1);
    add_weighted_skewed(
        memory.sum, s.width - panel, [&](int r, int j) { return f.position(low + r, panel + j); },
        by_position);
  }
  const auto scale = static_cast<T>(s.scale);
  for (int i = 0; i < kEach<T>; ++i) {
    const int64_t row = query + patch_row<kEach<T>>(i);
    for (int j = 0; j < 4; ++j) {
      const int64_t column = panel + patch_column(j);
      by_content[i][j] *= scale;
      by_position[i][j] *= scale;
      if (g.q == nullptr || row >= s.queries || column >= s.width) continue;
      mneme::cuda::narrow(by_content[i][j] + by_position[i][j],
                          g.q[f.at(s.queries, row) * s.width + column]);
    }
  }
  T* parts = g.bias_parts + (place * s.query_tiles + tile) * 2 * s.width + panel;
  sum_queries(memory.sum, by_content, s.width - panel, parts);
  sum_queries(memory.sum, by_position, s.width - panel, parts + s.width);
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2 : 1)
    table_kernel(DeviceShape s, DevicePointers<T, E> p, GradientPointers<T, E> g) {
  __shared__ GradientMemory<T> memory;
  const int64_t tiles = (s.offsets + kTile<T> - 1) / kTile<T>;
  const int64_t panel = blockIdx.x % s.panels * kPanel;
  const int64_t offset = blockIdx.x / s.panels % tiles * kTile<T>;
  const int64_t head_index = blockIdx.x / s.panels / tiles;
  T sums[kEach<T>][4] = {};
  // Queries that see a key at one of the tile's offsets.
  const int64_t low = s.first - s.least - (offset + kTile<T> - 1);
  const int64_t last = s.first + s.keys - 1 - s.least - offset;
  const int64_t begin = low > 0 ? low / kTile<T> * kTile<T> : 0;
  for (int64_t lane = 0; lane < s.lanes; ++lane) {
    const GradientHead<T, E> head = {{s, p, lane, head_index}, g};
    for (int64_t query = begin; query < s.queries && query <= last; query += kTile<T>) {
      T probabilities[kEach<T>][kEach<T>];
      T slopes[kEach<T>][kEach<T>];
      differentiate<true>(memory.scores, head, query, offset, probabilities, slopes);
      store_weights<false>(memory.sum, slopes);
      add_weighted(
          memory.sum, s.width - panel,
          [&](int r, int j) {
            return head.forward.query(query + r, p.position_bias, panel + j,
                                      static_cast<T>(s.scale));
          },
          sums);
    }
  }
  for (int i = 0; i < kEach<T>; ++i) {
    const int64_t r = offset + patch_row<kEach<T>>(i);
    for (int j = 0; j < 4; ++j) {
      const int64_t column = panel + patch_column(j);
      if (r >= s.offsets || column >= s.width) continue;
      mneme::cuda::narrow(sums[i][j], g.table[(head_index * s.offsets + r) * s.width + column]);
    }
  }
}

// A thread a column of a head's bias: its parts of all lanes and tiles of queries, in their order.
template <typename T, typename E>
__global__ void __launch_bounds__(kThreads) bias_kernel(DeviceShape s, GradientPointers<T, E> g) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= s.heads * 2 * s.width) return;
  const int64_t head = index / (2 * s.width);
  const int64_t column = index % (2 * s.width);
  T sum = T(0);
  for (int64_t lane = 0; lane < s.lanes; ++lane) {
    const T* parts = g.bias_parts + (lane * s.heads + head) * s.query_tiles * 2 * s.width + column;
    for (int64_t tile = 0; tile < s.query_tiles; ++tile) sum += parts[tile * 2 * s.width];
  }
  T* to = column < s.width ? g.content_bias : g.position_bias;
  if (to != nullptr) to[head * s.width + column % s.width] = sum;
}

}  // namespace lamemo::cuda
