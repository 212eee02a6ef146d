// What the reconstruction error's kernels share: shapes and pointers.
#pragma once

#include <cstdint>

#include "mneme_kernels/cuda/tiles.cuh"

namespace compressive::device {

using namespace mneme::cuda;  // NOLINT

constexpr int kQueries = 64;  // of a block
// Rows that are worked on together: twice as many bytes would not fit a block's shared memory.
template <typename T>
constexpr int kRows = sizeof(T) == 4 ? 64 : 32;

__device__ inline float logarithm_of_two(float x) { return log2f(x); }
__device__ inline double logarithm_of_two(double x) { return log2(x); }

struct DeviceShape {
  int64_t heads;     // H
  int64_t queries;   // T
  int64_t width;     // d
  int64_t old_rows;  // E
  int64_t new_rows;  // N
  int64_t tiles;     // of queries, ceil(T / kQueries)
  int64_t panels;    // ceil(d / kPanel)
  double scale;
};

template <typename T, typename E>
struct DevicePointers {
  const E* q;
  const E* k_old;
  const E* v_old;
  const E* k_new;
  const E* v_new;
  const int64_t* counts;
  T* error;
  T* k_grad;  // null without gradients, and the next three
  T* v_grad;
  T* change;       // [B,T,H,d] derivatives by the new attention
  T* normaliser;   // [B,H,T] log2 of the sum of 2^score over the new rows
  T* inner;        // [B,H,T,panels] sums over a panel of change times the new attention
  double* errors;  // [B,H,tiles,panels]
};

// Old and new rows that a lane has; none when there are none of either.
struct RowCounts {
  int64_t of_old;
  int64_t of_new;
};
__device__ inline RowCounts counts_of(const DeviceShape& s, const int64_t* counts, int64_t lane) {
  const int64_t of_old = counts[2 * lane] < s.old_rows ? counts[2 * lane] : s.old_rows;
  const int64_t of_new = counts[2 * lane + 1] < s.new_rows ? counts[2 * lane + 1] : s.new_rows;
  if (of_old <= 0 || of_new <= 0) return {0, 0};
  return {of_old, of_new};
}

// The derivatives of the error by the new keys and values, with the probabilities recomputed, and
// the backward pass that scales them.
//
//   Equation       P = 2^(score - normaliser);  dV = P^T change;  dS = P (change V^T - inner);
//                  dK = scale dS^T q
//   Shapes         change, q [B,T,H,d]; K, V, dK, dV [B,N,H,d]; normaliser [B,H,T]; inner
//                  [B,H,T,panels]
//   Presumptions   B * H * ceil(N / 64 or 32) * ceil(d / 64) < 2^31
//   Decomposition  a block has 64 new rows (32 in f64) and 64 columns of one head and sums over the
//                  queries in their order, 32 at a time: no atomics, the same bits always
//   Shared memory  29 KiB (f32), 34 KiB (f64)
//   Flops          4 B H T N d (1 + panels) and B H T N panels exponentials

template <typename T>
union GradientChunk {
  struct {
    T rows[kChunk][kRows<T> + 1];
    T queries[kChunk][kChunk + 1];
  } turned;
  T panel[kChunk][kPanel];
};

template <typename T>
struct GradientMemory {
  GradientChunk<T> chunk;
  T probabilities[kChunk][kRows<T> + 1];
  T slopes[kChunk][kRows<T> + 1];
};

// Products of kRows rows with kChunk queries: of keys with q, of values with changes. Ends with a
// barrier.
template <typename T, typename E, typename Q>
__device__ void multiply_rows(GradientMemory<T>& m, const E* rows, int64_t count, const Q* queries,
                              int64_t query_count, int64_t width, int64_t stride,
                              T (&out)[kRows<T> / 16][2]) {
  for (int64_t j = 0; j < width; j += kChunk) {
    load_turned<kRows<T>>(m.chunk.turned.rows, rows + j, stride, count, width - j);
    load_turned<kChunk>(m.chunk.turned.queries, queries + j, stride, query_count, width - j);
    __syncthreads();
    multiply(m.chunk.turned.rows, m.chunk.turned.queries, out);
    __syncthreads();
  }
}

// A block's place and what it sums over.
template <typename T, typename E>
struct GradientInputs {
  const E* q;  // the head's first
  const T* change;
  const E* k;  // the block's first row
  const E* v;
  const T* normaliser;  // the head's first
  const T* inner;
  int64_t rows;  // of the block
  int64_t queries;
  int64_t width;
  int64_t stride;
  int64_t panel;
  int64_t panels;
  T scale;  // times log2(e)
};

// Probabilities and slopes of queries first .. first + kChunk - 1 to shared memory.
template <typename T, typename E>
__device__ void differentiate(GradientMemory<T>& m, const GradientInputs<T, E>& in, int64_t first) {
  constexpr int kEach = kRows<T> / 16;
  const int64_t count = in.queries - first;
  T scores[kEach][2] = {};
  T slopes[kEach][2] = {};
  multiply_rows(m, in.k, in.rows, in.q + first * in.stride, count, in.width, in.stride, scores);
  multiply_rows(m, in.v, in.rows, in.change + first * in.stride, count, in.width, in.stride,
                slopes);
  for (int j = 0; j < 2; ++j) {
    const int query = patch_column(j);
    const bool is_there = query < count;
    const T normaliser = is_there ? in.normaliser[first + query] : T(0);
    T inner = T(0);
    for (int64_t panel = 0; is_there && panel < in.panels; ++panel) {
      inner += in.inner[(first + query) * in.panels + panel];
    }
    for (int i = 0; i < kEach; ++i) {
      const int row = patch_row<kEach>(i);
      const bool counts = is_there && row < in.rows;
      const T p = counts ? power_of_two(scores[i][j] * in.scale - normaliser) : T(0);
      m.probabilities[query][row] = p;
      m.slopes[query][row] = counts ? p * (slopes[i][j] - inner) : T(0);
    }
  }
}

template <typename T, typename E>
__device__ void add_queries(GradientMemory<T>& m, const GradientInputs<T, E>& in, int64_t first,
                            T (&of_keys)[kRows<T> / 16][4], T (&of_values)[kRows<T> / 16][4]) {
  const int64_t at = first * in.stride + in.panel * kPanel;
  const int64_t columns = in.width - in.panel * kPanel;
  differentiate(m, in, first);
  load_rows(m.chunk.panel, in.change + at, in.stride, in.queries - first, columns);
  __syncthreads();
  multiply(m.probabilities, m.chunk.panel, of_values);
  __syncthreads();
  load_rows(m.chunk.panel, in.q + at, in.stride, in.queries - first, columns);
  __syncthreads();
  multiply(m.slopes, m.chunk.panel, of_keys);
  __syncthreads();
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads) gradient_kernel(DeviceShape s, DevicePointers<T, E> p) {
  constexpr int kEach = kRows<T> / 16;
  __shared__ GradientMemory<T> memory;
  const int64_t panel = blockIdx.x % s.panels;
  const int64_t row_tiles = (s.new_rows + kRows<T> - 1) / kRows<T>;
  const int64_t row = blockIdx.x / s.panels % row_tiles * kRows<T>;
  const int64_t head = blockIdx.x / s.panels / row_tiles;
  const int64_t lane = head / s.heads;
  const int64_t stride = s.heads * s.width;
  const int64_t column = head % s.heads * s.width;
  const int64_t of_queries = lane * s.queries * stride + column;
  const int64_t of_rows = (lane * s.new_rows + row) * stride + column;
  GradientInputs<T, E> in;
  in.q = p.q + of_queries;
  in.change = p.change + of_queries;
  in.k = p.k_new + of_rows;
  in.v = p.v_new + of_rows;
  in.normaliser = p.normaliser + head * s.queries;
  in.inner = p.inner + head * s.queries * s.panels;
  in.rows = counts_of(s, p.counts, lane).of_new - row;
  in.queries = s.queries;
  in.width = s.width;
  in.stride = stride;
  in.panel = panel;
  in.panels = s.panels;
  in.scale = static_cast<T>(s.scale * 1.4426950408889634074);
  T of_keys[kEach][4] = {};
  T of_values[kEach][4] = {};
  if (in.rows > 0) {
    for (int64_t first = 0; first < s.queries; first += kChunk) {
      add_queries(memory, in, first, of_keys, of_values);
    }
  }
  for (int i = 0; i < kEach; ++i) {
    const int r = patch_row<kEach>(i);
    if (row + r >= s.new_rows) continue;
    for (int j = 0; j < 4; ++j) {
      const int64_t c = panel * kPanel + patch_column(j);
      if (c >= s.width) continue;
      p.k_grad[of_rows + r * stride + c] = of_keys[i][j] * static_cast<T>(s.scale);
      p.v_grad[of_rows + r * stride + c] = of_values[i][j];
    }
  }
}

// to = from * arriving[lane]; a thread an element. Null reads as zeros.
template <typename T, typename E>
__global__ void __launch_bounds__(kThreads)
    scale_kernel(int64_t count, int64_t of_lane, const T* arriving, const T* from, E* to) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= count) return;
  narrow(arriving == nullptr ? T(0) : from[index] * arriving[index / of_lane], to[index]);
}

}  // namespace compressive::device
