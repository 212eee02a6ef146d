// What both passes of the look-ahead share: shapes, pointers, and the scores of a tile.
#pragma once

#include <cstdint>

#include "kernels/look_ahead.hpp"
#include "mneme_kernels/cuda/launch.hpp"
#include "mneme_kernels/cuda/tiles.cuh"

namespace lamemo::device {

using namespace mneme::cuda;  // NOLINT

// Queries, keys or offsets that are worked on together; more bytes would not fit shared memory.
template <typename T>
constexpr int kTile = sizeof(T) == 4 ? 64 : 32;
template <typename T>
constexpr int kEach = kTile<T> / 16;  // of them, a thread's
// Where row and column of a tile together choose a row of an operand: all rows it has, and one.
template <typename T>
constexpr int kSpan = 2 * kTile<T>;

struct DeviceShape {
  int64_t lanes, queries, keys, heads, width, offsets, first, least;  // as in LookAheadShape
  int64_t query_tiles;
  int64_t panels;  // of the width, one at least
  double scale;
};

template <typename T, typename E>
struct DevicePointers {
  const E* q;
  const E* k;
  const E* v;
  const E* table;
  const T* content_bias;
  const T* position_bias;
  const uint8_t* valid;
  const T* carried_lse;
  const T* carried;
  T* context;
  T* lse;
};

__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }

// multiply() with right[k][column j + row i], or, is_falling, [column j - row i + kTile - 1].
template <bool is_falling, typename T>
__device__ void multiply_skewed(const T (*left)[kTile<T> + 1], const T (*right)[kSpan<T> + 1],
                                T (&sums)[kEach<T>][kEach<T>]) {
#pragma unroll 4
  for (int k = 0; k < kChunk; ++k) {
#pragma unroll
    for (int i = 0; i < kEach<T>; ++i) {
      const int row = patch_row<kEach<T>>(i);
      const T a = left[k][row];
#pragma unroll
      for (int j = 0; j < kEach<T>; ++j) {
        const int column = patch_column(j);
        sums[i][j] += a * right[k][is_falling ? column - row + kTile<T> - 1 : column + row];
      }
    }
  }
}

// One head of one lane: where rows lie, and what of them there is. Rows that do not exist read as
// zeros.
template <typename T, typename E>
struct Head {
  const DeviceShape& s;
  const DevicePointers<T, E>& p;
  int64_t lane;
  int64_t head;

  __device__ int64_t at(int64_t rows, int64_t row) const {  // in [B,rows,H]
    return (lane * rows + row) * s.heads + head;
  }
  __device__ bool has_key(int64_t c) const {
    return c >= 0 && c < s.keys && p.valid[lane * s.keys + c] != 0;
  }
  __device__ bool attends(int64_t query, int64_t c) const {
    return query < s.queries && has_key(c) && s.first + c - query >= s.least;
  }
  // q_i plus one of the biases, times `factor`.
  __device__ T query(int64_t i, const T* bias, int64_t j, T factor) const {
    if (i >= s.queries) return T(0);
    const T q = static_cast<T>(widen(p.q[at(s.queries, i) * s.width + j]));
    return (q + bias[head * s.width + j]) * factor;
  }
  __device__ T key(const E* rows, int64_t c, int64_t j) const {
    if (!has_key(c)) return T(0);
    return static_cast<T>(widen(rows[at(s.keys, c) * s.width + j]));
  }
  __device__ T position(int64_t r, int64_t j) const {
    if (r < 0 || r >= s.offsets) return T(0);
    return static_cast<T>(widen(p.table[(head * s.offsets + r) * s.width + j]));
  }
  // Row of the table for key c and query i.
  __device__ int64_t offset_row(int64_t c, int64_t i) const { return s.first + c - i - s.least; }
};

// Operands of a tile's scores: queries with either bias, and rows that the tile's columns choose
// alone or together with its rows.
template <typename T>
struct ScoreChunk {
  T content[kChunk][kTile<T> + 1];
  T position[kChunk][kTile<T> + 1];
  T straight[kChunk][kTile<T> + 1];
  T skewed[kChunk][kSpan<T> + 1];
};

// Exponents of 2 for queries from `query` on and keys from `column` on or, by_offset, offsets (rows
// of the table); also where a query attends no such key. Ends with a barrier.
template <bool by_offset, typename T, typename E>
__device__ void score(ScoreChunk<T>& chunk, const Head<T, E>& head, int64_t query, int64_t column,
                      T (&scores)[kEach<T>][kEach<T>]) {
  const T factor = static_cast<T>(head.s.scale * 1.4426950408889634074);
  const int64_t low = by_offset ? query + column + head.s.least - head.s.first
                                : head.offset_row(column, query) - (kTile<T> - 1);
  for (int64_t first = 0; first < head.s.width; first += kChunk) {
    const int64_t columns = head.s.width - first;
    fill_turned<kTile<T>>(chunk.content, columns, [&](int r, int j) {
      return head.query(query + r, head.p.content_bias, first + j, factor);
    });
    fill_turned<kTile<T>>(chunk.position, columns, [&](int r, int j) {
      return head.query(query + r, head.p.position_bias, first + j, factor);
    });
    fill_turned<kTile<T>>(chunk.straight, columns, [&](int r, int j) {
      return by_offset ? head.position(column + r, first + j)
                       : head.key(head.p.k, column + r, first + j);
    });
    fill_turned<kSpan<T>>(chunk.skewed, columns, [&](int r, int j) {
      return by_offset ? head.key(head.p.k, low + r, first + j) : head.position(low + r, first + j);
    });
    __syncthreads();
    multiply(by_offset ? chunk.position : chunk.content, chunk.straight, scores);
    multiply_skewed<!by_offset>(by_offset ? chunk.content : chunk.position, chunk.skewed, scores);
    __syncthreads();
  }
}

template <typename T>
DeviceShape device_shape(const LookAheadShape& s) {
  const int64_t panels = tiles_of(s.head_width, kPanel);
  return {s.lanes,
          s.queries,
          s.keys,
          s.heads,
          s.head_width,
          s.offsets,
          s.first,
          s.least,
          tiles_of(s.queries, kTile<T>),
          panels > 0 ? panels : 1,
          s.scale};
}

template <typename T, typename E>
DevicePointers<T, E> device_pointers(const LookAheadBuffers& b) {
  return {static_cast<const E*>(b.q),
          static_cast<const E*>(b.k),
          static_cast<const E*>(b.v),
          static_cast<const E*>(b.table),
          static_cast<const T*>(b.content_bias),
          static_cast<const T*>(b.position_bias),
          b.valid,
          static_cast<const T*>(b.carried_lse),
          static_cast<const T*>(b.carried),
          static_cast<T*>(b.context),
          static_cast<T*>(b.lse)};
}

}  // namespace lamemo::device
