// What a chunk of the recurrence has before its state is known, on CUDA: the factors exp(G) and
// exp(G_C - G), the scores A and, under the delta rule, inverses in place of its substitution. Both
// passes launch it; every chunk of every head at the same time.
//
//   Equation       A = scores(q, k), L = scores(k, k) below the diagonal; (I + L diag(beta))^-1
//                  and, backward, (I + diag(beta) L)^-1, by substitution row by row
//   Shapes         q, k [B,T,G,K]; decay [B,T,H] or [B,T,H,K]; matrices [B,H,n,64,64]
//   Presumptions   B * H * ceil(T / 64) < 2^31
//   Decomposition  a block has one chunk of one head; a thread 4 x 4 scores, 4 rows of one block
//                  of 16 tokens and a column of each of the four. Sums of decays are in f64. With
//                  one for each channel, scores between two blocks are products of rows and columns
//                  that are scaled towards the rows' first token, those within a block have the
//                  exponential of each difference; no exponent is above 0 where no decay is
//   Shared memory  42 KiB (f32), 66 KiB (f64)
//   Flops          a chunk and head 15,360 K, and 258,048 for each inverse; with a decay for each
//                  channel 1120 K exponentials too
#include "kernels/cuda/device.cuh"

namespace recurrences::device {
namespace {

template <typename T>
using Square = T[kTokens][kTokens + 1];

template <typename T>
union ChunkMemory {
  Slice<T> slice;
  Square<T> square;
};

template <typename T>
struct Scores {
  T of_q[4][4];
  T of_k[4][4];
};

// Adds the channels of a slice to the scores at rows patch_row<4> and columns patch_column.
template <bool by_channel, typename T>
__device__ void add_scores(const Slice<T>& slice, Scores<T>& to) {
  const int first = patch_row<4>(0);
  const int own = first / kBlock;  // block of the rows
  for (int x = 0; x < kColumns; ++x) {
    T q[4], k[4], ahead[4];
    for (int i = 0; i < 4; ++i) {
      q[i] = slice.q[first + i][x];
      k[i] = slice.k[first + i][x];
      ahead[i] = by_channel ? slice.ahead[first + i][x] : T(1);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j > own) continue;
      const int column = patch_column(j);
      T key = slice.k[column][x];
      if (by_channel && j < own) key *= slice.between(own * kBlock, column, x);
      for (int i = 0; i < 4; ++i) {
        T factor = ahead[i];
        if (by_channel && j == own) {
          factor = column <= first + i ? slice.between(first + i, column, x) : T(0);
        }
        to.of_q[i][j] += q[i] * factor * key;
        to.of_k[i][j] += k[i] * factor * key;
      }
    }
  }
}

// With one decay a head: the factors of the sums, which are the first column of the slice's.
template <typename T>
__device__ void weigh_scores(const Slice<T>& slice, Scores<T>& to) {
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int row = patch_row<4>(i), column = patch_column(j);
      const T factor = column <= row ? slice.between(row, column, 0) : T(0);
      to.of_q[i][j] *= factor;
      to.of_k[i][j] *= factor;
    }
  }
}

// start and end of kColumns channels, or of the head.
template <typename T>
__device__ void store_factors(const Chunk<T>& c, int64_t first, const Slice<T>& slice) {
  for (int at = static_cast<int>(threadIdx.x); at < kTokens * kColumns; at += kThreads) {
    const int i = at / kColumns, x = at % kColumns;
    if (!c.has(i) || first + x >= c.s.decays) continue;
    const int64_t to = c.decay_at(i, first + x);
    c.p.w.start[to] = exponential(static_cast<T>(slice.sums[i][x]));
    c.p.w.end[to] = slice.between(kTokens - 1, i, x);
  }
}

// Of a matrix whose diagonal is 1, with zeros above it: row i of the inverse is its own of the unit
// matrix less the rows before it times the matrix's row i. Four threads sum for each column. Begins
// behind a barrier and ends with one.
template <typename T>
__device__ void invert(Square<T>& m) {
  const int column = static_cast<int>(threadIdx.x) / 4, part = static_cast<int>(threadIdx.x) % 4;
  for (int row = 1; row < kTokens; ++row) {
    T sum = T(0);
    for (int i = part; i < row; i += 4) sum += m[row][i] * m[i][column];
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    __syncthreads();
    if (part == 0 && column < row) m[row][column] = -sum;
    __syncthreads();
  }
}

// The inverse of I + L diag(beta), or, `by_rows`, of I + diag(beta) L. Begins with a barrier.
template <bool by_rows, typename T>
__device__ void store_inverse(const Chunk<T>& c, const Scores<T>& scores, Square<T>& m, T* to) {
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int row = patch_row<4>(i), column = patch_column(j);
      const T beta = c.beta(by_rows ? row : column);
      m[row][column] = column < row ? beta * scores.of_k[i][j] : T(column == row ? 1 : 0);
    }
  }
  __syncthreads();
  invert<T>(m);
  for (int at = static_cast<int>(threadIdx.x); at < kTokens * kTokens; at += kThreads) {
    to[at] = m[at / kTokens][at % kTokens];
  }
}

template <typename T, bool by_channel>
__global__ void __launch_bounds__(kThreads) chunk_kernel(DeviceShape s, DevicePointers<T> p) {
  ChunkMemory<T>& m = shared<ChunkMemory<T>>();
  const Chunk<T> c = chunk_of(s, p, blockIdx.x);
  Scores<T> scores = {};
  if (!by_channel) {
    add_up_decays(c, 0, m.slice.sums);
    __syncthreads();
    store_factors(c, 0, m.slice);
  }
  for (int64_t first = 0; first < s.keys; first += kColumns) {
    load_slice<by_channel>(c, first, m.slice);
    if (by_channel) store_factors(c, first, m.slice);
    add_scores<by_channel>(m.slice, scores);
  }
  if (!by_channel) weigh_scores(m.slice, scores);
  T* to = c.square(p.w.scores);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int row = patch_row<4>(i), column = patch_column(j);
      to[row * kTokens + column] = column <= row ? scores.of_q[i][j] : T(0);
    }
  }
  if (!c.is_delta()) return;
  store_inverse<false>(c, scores, m.square, c.square(p.w.inverse));
  if (p.w.scaled_inverse != nullptr) {
    store_inverse<true>(c, scores, m.square, c.square(p.w.scaled_inverse));
  }
}

}  // namespace

template <typename T>
cudaError_t prepare_chunks(cudaStream_t stream, int64_t places, const DeviceShape& s,
                           const DevicePointers<T>& p, bool is_by_channel) {
  return launch_with_shared(places * s.chunks, kThreads, sizeof(ChunkMemory<T>), stream,
                            is_by_channel ? chunk_kernel<T, true> : chunk_kernel<T, false>, s, p);
}
template cudaError_t prepare_chunks(cudaStream_t, int64_t, const DeviceShape&,
                                    const DevicePointers<float>&, bool);
template cudaError_t prepare_chunks(cudaStream_t, int64_t, const DeviceShape&,
                                    const DevicePointers<double>&, bool);

}  // namespace recurrences::device
