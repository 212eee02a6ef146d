// The look-ahead's backward pass on CUDA, with the probabilities recomputed. At most five kernels,
// which fill the results whole: no allocation, no synchronisation, the same launches for the same
// shapes and wanted gradients, the same bits for the same inputs.
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
//   Flops          each of the three kernels recomputes scores and dC' v^T, 6 B H M W d; 10 B H
//                  M W d for the sums
#include "kernels/cuda/look_ahead_tiles.cuh"

namespace lamemo {
namespace device {
namespace {

// What the backward pass works on besides the inputs and results of the forward pass; a gradient
// that is not wanted is null.
template <typename T, typename E>
struct GradientPointers {
  const T* context;  // that arrive; null reads as zeros
  const T* lse;
  E* q;
  E* k;
  E* v;
  E* table;
  T* content_bias;
  T* position_bias;
  T* inner;       // [B,M,H] dC' . C' - ds'
  T* bias_parts;  // [B,H,query tiles,2,d]
};

template <typename T>
struct WeightedSum {
  T weights[kTile<T>][kTile<T> + 1];  // probabilities or slopes
  T rows[kChunk + kTile<T>][kPanel];  // what they weight, skewed where there are more than kChunk
};

template <typename T>
union GradientMemory {
  ScoreChunk<T> scores;
  WeightedSum<T> sum;
};

template <typename T, typename E>
struct GradientHead {
  Head<T, E> forward;
  const GradientPointers<T, E>& g;

  __device__ T change(int64_t i, int64_t j) const {
    if (g.context == nullptr || i >= forward.s.queries) return T(0);
    return g.context[forward.at(forward.s.queries, i) * forward.s.width + j];
  }
};

// sums[i][j] += dC' of query i . value of key j; columns as in score(). Ends with a barrier.
template <bool by_offset, typename T, typename E>
__device__ void multiply_values(ScoreChunk<T>& chunk, const GradientHead<T, E>& head, int64_t query,
                                int64_t column, T (&sums)[kEach<T>][kEach<T>]) {
  const Head<T, E>& f = head.forward;
  const int64_t low = query + column + f.s.least - f.s.first;
  for (int64_t first = 0; first < f.s.width; first += kChunk) {
    const int64_t columns = f.s.width - first;
    fill_turned<kTile<T>>(chunk.content, columns,
                          [&](int r, int j) { return head.change(query + r, first + j); });
    if constexpr (by_offset) {
      fill_turned<kSpan<T>>(chunk.skewed, columns,
                            [&](int r, int j) { return f.key(f.p.v, low + r, first + j); });
    } else {
      fill_turned<kTile<T>>(chunk.straight, columns,
                            [&](int r, int j) { return f.key(f.p.v, column + r, first + j); });
    }
    __syncthreads();
    if constexpr (by_offset) {
      multiply_skewed<false>(chunk.content, chunk.skewed, sums);
    } else {
      multiply(chunk.content, chunk.straight, sums);
    }
    __syncthreads();
  }
}

// P and P (dC' . v - inner) for queries from `query` on and columns as in score(); zeros where a
// query attends no such key.
template <bool by_offset, typename T, typename E>
__device__ void differentiate(ScoreChunk<T>& chunk, const GradientHead<T, E>& head, int64_t query,
                              int64_t column, T (&probabilities)[kEach<T>][kEach<T>],
                              T (&slopes)[kEach<T>][kEach<T>]) {
  const Head<T, E>& f = head.forward;
  for (int i = 0; i < kEach<T>; ++i) {
    for (int j = 0; j < kEach<T>; ++j) probabilities[i][j] = slopes[i][j] = T(0);
  }
  score<by_offset>(chunk, f, query, column, probabilities);
  multiply_values<by_offset>(chunk, head, query, column, slopes);
  for (int i = 0; i < kEach<T>; ++i) {
    const int64_t row = query + patch_row<kEach<T>>(i);
    const int64_t at = f.at(f.s.queries, row < f.s.queries ? row : 0);
    const T lse = f.p.lse[at] * static_cast<T>(1.4426950408889634074);
    const T inner = head.g.inner[at];
    for (int j = 0; j < kEach<T>; ++j) {
      const int64_t place = column + patch_column(j);
      const int64_t key = by_offset ? row + place + f.s.least - f.s.first : place;
      const bool counts = f.attends(row, key) && (!by_offset || place < f.s.offsets);
      const T p = counts ? power_of_two(probabilities[i][j] - lse) : T(0);
      slopes[i][j] = counts ? p * (slopes[i][j] - inner) : T(0);
      probabilities[i][j] = p;
    }
  }
}

// To weights[query][column] or, is_turned, [column][query].
template <bool is_turned, typename T>
__device__ void store_weights(WeightedSum<T>& m, const T (&from)[kEach<T>][kEach<T>]) {
  for (int i = 0; i < kEach<T>; ++i) {
    for (int j = 0; j < kEach<T>; ++j) {
      const int row = patch_row<kEach<T>>(i);
      const int column = patch_column(j);
      m.weights[is_turned ? column : row][is_turned ? row : column] = from[i][j];
    }
  }
}

// sums[i][j] += sum_r weights[r][row i] * value(r, column j). Begins and ends with a barrier.
template <typename T, typename Value>
__device__ void add_weighted(WeightedSum<T>& m, int64_t columns, const Value& value,
                             T (&sums)[kEach<T>][4]) {
  for (int k = 0; k < kTile<T>; k += kChunk) {
    fill_rows(m.rows, kChunk, columns, [&](int r, int j) { return value(k + r, j); });
    __syncthreads();
    multiply(m.weights + k, m.rows, sums);
    __syncthreads();
  }
}

// The same with value(r - row i + kTile - 1, column j): rows of the table by key r and query i.
template <typename T, typename Value>
__device__ void add_weighted_skewed(WeightedSum<T>& m, int64_t columns, const Value& value,
                                    T (&sums)[kEach<T>][4]) {
  for (int k = 0; k < kTile<T>; k += kChunk) {
    fill_rows(m.rows, kChunk + kTile<T> - 1, columns,
              [&](int r, int j) { return value(k + r, j); });
    __syncthreads();
#pragma unroll 4
    for (int r = 0; r < kChunk; ++r) {
#pragma unroll
      for (int i = 0; i < kEach<T>; ++i) {
        const int row = patch_row<kEach<T>>(i);
        const T weight = m.weights[k + r][row];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sums[i][j] += weight * m.rows[r - row + kTile<T> - 1][patch_column(j)];
        }
      }
    }
    __syncthreads();
  }
}

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
      if (g.k != nullptr) narrow(of_keys[i][j], g.k[to]);
      if (g.v != nullptr) narrow(of_values[i][j], g.v[to]);
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
      narrow(by_content[i][j] + by_position[i][j], g.q[f.at(s.queries, row) * s.width + column]);
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
      narrow(sums[i][j], g.table[(head_index * s.offsets + r) * s.width + column]);
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

template <typename T>
struct Counts {
  int64_t inner;
  int64_t bias_parts;

  explicit Counts(const LookAheadShape& s)
      : inner(s.lanes * s.queries * s.heads),
        bias_parts(s.lanes * s.heads * tiles_of(s.queries, kTile<T>) * 2 * s.head_width) {}
  uint64_t bytes() const { return static_cast<uint64_t>(inner + bias_parts) * sizeof(T); }
};

template <typename T, typename E>
GradientPointers<T, E> gradient_pointers(const LookAheadShape& shape, const LookAheadGradients& g,
                                         void* workspace) {
  T* inner = static_cast<T*>(workspace);
  return {static_cast<const T*>(g.context),
          static_cast<const T*>(g.lse),
          static_cast<E*>(g.q),
          static_cast<E*>(g.k),
          static_cast<E*>(g.v),
          static_cast<E*>(g.table),
          static_cast<T*>(g.content_bias),
          static_cast<T*>(g.position_bias),
          inner,
          inner + Counts<T>(shape).inner};
}

template <typename T, typename E>
cudaError_t launch_all(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                       const LookAheadGradients& gradients, void* workspace, cudaStream_t stream) {
  const DeviceShape s = device_shape<T>(shape);
  const DevicePointers<T, E> p = device_pointers<T, E>(buffers);
  const GradientPointers<T, E> g = gradient_pointers<T, E>(shape, gradients, workspace);
  const int64_t lane_heads = s.lanes * s.heads;
  cudaError_t status = launch(tiles_of(lane_heads * s.queries, kThreads / 32), kThreads, stream,
                              inner_kernel<T, E>, s, p, g);
  if (status == cudaSuccess && (g.k != nullptr || g.v != nullptr)) {
    status = launch(lane_heads * tiles_of(s.keys, kTile<T>) * s.panels, kThreads, stream,
                    key_kernel<T, E>, s, p, g);
  }
  const bool wants_biases = g.content_bias != nullptr || g.position_bias != nullptr;
  if (status == cudaSuccess && (g.q != nullptr || wants_biases)) {
    status = launch(lane_heads * s.query_tiles * s.panels, kThreads, stream, query_kernel<T, E>, s,
                    p, g);
  }
  if (status == cudaSuccess && g.table != nullptr) {
    status = launch(s.heads * tiles_of(s.offsets, kTile<T>) * s.panels, kThreads, stream,
                    table_kernel<T, E>, s, p, g);
  }
  if (status == cudaSuccess && wants_biases) {
    status = launch(tiles_of(s.heads * 2 * s.width, kThreads), kThreads, stream, bias_kernel<T, E>,
                    s, g);
  }
  return status;
}

}  // namespace
}  // namespace device

// The queries' inner products and the query tiles' parts of the biases' gradients.
uint64_t LookAhead::cuda_workspace(const LookAheadShape& shape) {
  return shape.is_f64() ? device::Counts<double>(shape).bytes()
                        : device::Counts<float>(shape).bytes();
}

void LookAhead::backward_cuda(const mneme::KernelCall& call) const {
  const LookAheadShape shape = shape_of(call);
  const LookAheadBuffers buffers = buffers_of(call);
  const LookAheadGradients gradients = gradients_of(call);
  const cudaStream_t stream = mneme::cuda::stream_of(call);
  check_cuda_buffers(call);
  mneme::cuda::check_buffers(call, {}, cuda_workspace(shape));
  mneme::cuda::check_launch(
      mneme::cuda::with_elements_but_f16(shape.element, [&](auto sum, auto element) {
        return device::launch_all<decltype(sum), decltype(element)>(shape, buffers, gradients,
                                                                    call.workspace(), stream);
      }));
}

}  // namespace lamemo
