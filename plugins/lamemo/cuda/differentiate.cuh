// The derivatives by a tile's scores, recomputed: what all of the look-ahead's gradients are made
// of.
#pragma once

#include "cuda/tiles.cuh"

namespace lamemo::cuda {

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

}  // namespace lamemo::cuda
