// A block's queries, its tiles of columns, and their scores on CUDA: what attention.cu computes
// with.
#pragma once

#include <cstdint>

#include "host/kernel/cuda/attention.hpp"
#include "mneme_kernels/cuda/tiles.cuh"

namespace mneme::kernel {
namespace device {

using namespace mneme::cuda;  // NOLINT

constexpr int kTile = 64;           // queries of a block, columns that it works on together
constexpr int kStride = kTile + 4;  // of a tile's rows in shared memory
constexpr int kPlaces = 2 * kTile;  // rows of the table that a tile needs, and one
constexpr int kMostPanels = CudaAttention::kMostWidth / kTile;  // of a head's values
constexpr double kLog2E = 1.4426950408889634074;
// Numbers of a row, or rows of values, that pass through shared memory together.
template <typename T>
constexpr int kDepth = sizeof(T) == 4 ? 32 : 8;

template <typename T>
struct alignas(16) Quad {
  T at[4];
};
template <typename T>
__device__ Quad<T>& quad(T* at) {
  return *reinterpret_cast<Quad<T>*>(at);
}

// What a block needs of a problem. The pieces' array is in the host's memory.
template <typename T, typename E>
struct Arguments {
  AttentionShape s;
  AttentionInputs in;
  KeyPiece pieces[CudaAttention::kMostPieces];
  E* z;
  T* lse;
  std::int64_t tiles;     // of queries
  std::int64_t parts;     // of their columns, each of a block's
  T* sums;                // [parts,B,T,H,d] values that are no quotients yet; null for one part
  T* most;                // [parts,B,H,T] largest scores, base 2
  T* totals;              // [parts,B,H,T]
  bool are_rows_aligned;  // to 16 bytes; of keys, values and the table in bf16
};

// The scores and values of bf16, on tensor cores.
cudaError_t launch_on_tensor_cores(Arguments<float, __nv_bfloat16> a, cudaStream_t stream);

template <typename T, typename E>
struct alignas(16) Memory {
  union {
    struct {                           // number by number
      T content[kDepth<T>][kStride];   // queries with u
      T position[kDepth<T>][kStride];  // with w
      T keys[kDepth<T>][kStride];
      T places[kDepth<T>][kPlaces + 4];
    } scores;
    struct {
      T probabilities[kTile][kStride];  // query by query
      T rows[kDepth<T>][kMostPanels * kTile];
    } values;
  };
  const E* k[kTile];  // of the columns; null where there is none
  const E* v[kTile];
};

// The thread's 4 x 4 of a tile.
__device__ inline int first_row() { return static_cast<int>(threadIdx.x) / 16 * 4; }
__device__ inline int first_column() { return static_cast<int>(threadIdx.x) % 16 * 4; }

// What a block works on.
struct Place {
  std::int64_t lane, head, query, part;  // query: the tile's first
};
template <typename T, typename E>
__device__ Place place_of(const Arguments<T, E>& a) {
  const std::int64_t block = blockIdx.x;
  return {block / a.parts / a.tiles / a.s.heads, block / a.parts / a.tiles % a.s.heads,
          block / a.parts % a.tiles * kTile, block % a.parts};
}

// Columns that a tile has: all of them without places, or all with.
struct Columns {
  std::int64_t first;
  std::int64_t count;
  bool have_places;
};
__host__ __device__ inline std::int64_t column_tiles(const AttentionShape& s) {
  return (s.free + kTile - 1) / kTile + (s.keys - s.free + kTile - 1) / kTile;
}
__device__ inline Columns columns_of(const AttentionShape& s, std::int64_t tile) {
  const std::int64_t of_free = (s.free + kTile - 1) / kTile;
  const bool have_places = tile >= of_free;
  const std::int64_t first = have_places ? s.free + (tile - of_free) * kTile : tile * kTile;
  const std::int64_t end = have_places ? s.keys : s.free;
  return {first, end - first < kTile ? end - first : kTile, have_places};
}
// Whether any query of the block sees any of them by the rule of places.
__device__ inline bool are_seen(const AttentionShape& s, std::int64_t query, const Columns& c) {
  if (!c.have_places) return true;
  const std::int64_t before = s.keys - s.free - s.queries;
  const std::int64_t last = (query + kTile < s.queries ? query + kTile : s.queries) - 1;
  const std::int64_t place = c.first - s.free;
  if (place > before + last) return false;
  return s.window == 0 || before + query - (place + c.count - 1) < s.window;
}

template <typename E>
__device__ const E* row_of(const Rows& rows, std::int64_t lane, std::int64_t head,
                           std::int64_t row) {
  return static_cast<const E*>(rows.data) + lane * rows.lane + head * rows.head + row * rows.row;
}

// Of a tile's column x; null where there is none.
template <typename E>
struct KeyAndValue {
  const E* k;
  const E* v;
};
template <typename T, typename E>
__device__ KeyAndValue<E> column_of(const Arguments<T, E>& a, const Place& p, const Columns& c,
                                    int x) {
  if (x >= c.count) return {nullptr, nullptr};
  std::int64_t row = c.first + x;
  int piece = 0;
  while (row >= a.pieces[piece].rows) row -= a.pieces[piece++].rows;
  const std::int64_t head = p.head / (a.s.heads / a.s.key_heads);
  return {row_of<E>(a.pieces[piece].k, p.lane, head, row),
          row_of<E>(a.pieces[piece].v, p.lane, head, row)};
}

template <typename T, typename E>
__device__ void find_rows(Memory<T, E>& m, const Arguments<T, E>& a, const Place& p,
                          const Columns& c) {
  const int x = static_cast<int>(threadIdx.x);
  if (x >= kTile) return;
  const KeyAndValue<E> column = column_of(a, p, c, x);
  m.k[x] = column.k;
  m.v[x] = column.v;
}

// Numbers of a row that pass through shared memory from number c on, in fours.
template <typename T>
__device__ int depth_of(std::int64_t width, std::int64_t c) {
  const std::int64_t left = (width - c + 3) / 4 * 4;
  return left < kDepth<T> ? static_cast<int>(left) : kDepth<T>;
}

// Numbers c .. c + depth - 1 of queries and keys, turned. Neighbouring threads take 8 numbers of 4
// rows, whose places in shared memory are in 32 banks.
template <typename T, typename E>
__device__ void load_rows_of_scores(Memory<T, E>& m, const Arguments<T, E>& a, const Place& p,
                                    std::int64_t c, int depth) {
  const auto* u = static_cast<const T*>(a.in.content_bias);
  const auto* w = static_cast<const T*>(a.in.position_bias);
  for (int x = static_cast<int>(threadIdx.x) / 8; x < kTile; x += kThreads / 8) {
    const std::int64_t query = p.query + x;
    const E* q = query < a.s.queries ? row_of<E>(a.in.q, p.lane, p.head, query) : nullptr;
    const E* k = m.k[x];
    for (int j = static_cast<int>(threadIdx.x) % 8; j < depth; j += 8) {
      const bool is_there = c + j < a.s.width;
      const std::int64_t of_bias = p.head * a.s.width + c + j;
      const T own = is_there && q != nullptr ? static_cast<T>(widen(q[c + j])) : T(0);
      m.scores.content[j][x] = own + (is_there && u != nullptr ? u[of_bias] : T(0));
      m.scores.position[j][x] = own + (is_there && w != nullptr ? w[of_bias] : T(0));
      m.scores.keys[j][x] = is_there && k != nullptr ? static_cast<T>(widen(k[c + j])) : T(0);
    }
  }
}

// Rows of the table from the one of the tile's last query and first column on.
template <typename T, typename E>
__device__ void load_places(Memory<T, E>& m, const Arguments<T, E>& a, const Place& p,
                            const Columns& columns, std::int64_t c, int depth) {
  const std::int64_t first = a.s.queries - kTile - p.query + columns.first - a.s.free;
  const T* table = static_cast<const T*>(a.in.table) + p.head * a.in.table_head;
  for (int i = static_cast<int>(threadIdx.x); i < depth * kPlaces; i += kThreads) {
    const int j = i / kPlaces;
    const int x = i % kPlaces;
    const std::int64_t row = first + x;
    const bool is_there = c + j < a.s.width && row >= 0 && row < a.in.table_rows;
    m.scores.places[j][x] = is_there ? table[(c + j) * a.in.table_row + row] : T(0);
  }
}

template <bool has_places, typename T, typename E>
__device__ void multiply_scores(Memory<T, E>& m, int depth, T (&scores)[4][4]) {
  const int row = first_row();
  const int column = first_column();
#pragma unroll 4
  for (int c = 0; c < depth; ++c) {
    const Quad<T> q = quad(&m.scores.content[c][row]);
    const Quad<T> k = quad(&m.scores.keys[c][column]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) scores[i][j] += q.at[i] * k.at[j];
    }
    if (!has_places) continue;
    const Quad<T> w = quad(&m.scores.position[c][row]);
    T* const places = &m.scores.places[c][kTile - 4 + column - row];
    const Quad<T> low = quad(places);
    const Quad<T> high = quad(places + 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int x = 3 - i + j;
        scores[i][j] += w.at[i] * (x < 4 ? low.at[x] : high.at[x - 4]);
      }
    }
  }
}

// Products of the tile; begins and ends with a barrier.
template <typename T, typename E>
__device__ void score(Memory<T, E>& m, const Arguments<T, E>& a, const Place& p,
                      const Columns& columns, T (&scores)[4][4]) {
  const bool has_places = columns.have_places && a.in.table != nullptr;
  __syncthreads();
  for (std::int64_t c = 0; c < a.s.width; c += kDepth<T>) {
    const int depth = depth_of<T>(a.s.width, c);
    load_rows_of_scores(m, a, p, c, depth);
    if (has_places) load_places(m, a, p, columns, c, depth);
    __syncthreads();
    if (has_places) {
      multiply_scores<true>(m, depth, scores);
    } else {
      multiply_scores<false>(m, depth, scores);
    }
    __syncthreads();
  }
}

// Whether every score of the block's queries and these columns is seen, and its product alone.
template <typename T, typename E>
__device__ bool are_products(const Arguments<T, E>& a, const Place& p, const Columns& c) {
  if (c.count < kTile || a.in.valid != nullptr || a.in.bias != nullptr) return false;
  if (!c.have_places) return true;
  const std::int64_t newest = a.s.keys - a.s.free - a.s.queries + p.query - (c.first - a.s.free);
  return newest >= kTile - 1 && a.in.slopes == nullptr &&
         (a.s.window == 0 || newest + kTile - 1 < a.s.window);
}

// The score of a query and a column from their products, base 2; -inf where it is not seen.
template <typename T, typename E>
__device__ T finished(const Arguments<T, E>& a, const Place& p, const Columns& columns, int row,
                      int x, T product) {
  const std::int64_t query = p.query + row;
  const std::int64_t column = columns.first + x;
  if (x >= columns.count || query >= a.s.queries) return -INFINITY;
  if (a.in.valid != nullptr && a.in.valid[p.lane * a.s.keys + column] == 0) return -INFINITY;
  T rest = T(0);
  if (columns.have_places) {
    const std::int64_t before = a.s.keys - a.s.free - a.s.queries;
    const std::int64_t distance = before + query - (column - a.s.free);
    if (distance < 0 || (a.s.window > 0 && distance >= a.s.window)) return -INFINITY;
    if (a.in.slopes != nullptr) {
      const std::int64_t counted = a.s.clamp > 0 && distance > a.s.clamp ? a.s.clamp : distance;
      rest = -static_cast<const T*>(a.in.slopes)[p.head] * static_cast<T>(counted);
    }
  }
  if (a.in.bias != nullptr) {
    const std::int64_t* stride = a.in.bias_stride;
    rest += static_cast<const T*>(a.in.bias)[p.head * stride[0] + p.lane * stride[1] +
                                             query * stride[2] + column * stride[3]];
  }
  return static_cast<T>(kLog2E) * (static_cast<T>(a.s.scale) * product + rest);
}

// What is known of a query in the end: its largest score, base 2, and the sum of powers above it.
template <typename T, typename E>
__device__ void write_lse(const Arguments<T, E>& a, std::int64_t row, T most, T total) {
  if (a.lse == nullptr) return;
  a.lse[row] = total > T(0) ? (most + log2(total)) / static_cast<T>(kLog2E) : -INFINITY;
}

}  // namespace device
}  // namespace mneme::kernel
