// The gradients of the recurrence's q, k and decays on CUDA, one kernel behind those of
// backward.cu.
//
//   Equation       dq = exp(G) (dout S^T) + rows of dA;
//                  dk as a row = -exp(G) (dV S^T) + rows of dL;
//                  dk as a column = exp(G_C - G) (U dS'^T) + columns of dA and dL;
//                  ddecay_i = whole + sum over j >= i of (q_j dq_j + k_j (dk_j as a row - as a
//                  column)), whole = exp(G_C) S dS' + sum of k exp(G_C - G) (U dS'^T)
//   Shapes         as in forward.cu
//   Presumptions   B * G * ceil(T / 64) < 2^31
//   Decomposition  a block has one chunk of one group of heads, which it adds up one after the
//                  other, and 32 channels of the keys at a time: 4 x 2 of them a thread, for tokens
//                  of one block of 16. Scores between two blocks are scaled towards the later
//                  one's first token, as in chunk.cu
//   Shared memory  42 KiB (f32), 67 KiB (f64)
//   Flops          a chunk and head 128 K (3 V + 130); with a decay for each channel 1632 K
//                  exponentials too
#include "kernels/cuda/device.cuh"

namespace recurrences::device {
namespace {

template <typename T>
struct KeyMemory {
  union {
    Operands<T> operands;
    Slice<T> slice;
  };
  T whole[kColumns];  // what all decays of a channel add besides
};

// A thread's, at rows patch_row<4> and columns patch_column.
template <typename T>
struct KeyGradients {
  T q[4][2];
  T row[4][2];     // of k as a row of scores and in k exp(G)
  T column[4][2];  // of k as a column and in k exp(G_C - G)
};

// Through the states before and behind the chunk.
template <typename T>
__device__ void through_states(const Chunk<T>& c, int64_t first, Operands<T>& m,
                               KeyGradients<T>& g) {
  const T* const before = c.before();
  const T* const after = c.grad_after();
  const auto turned = [&](const T* state) {
    return [&c, state, first](int x, int64_t v) { return c.state(state, first + x, v); };
  };
  product<Along::kSum, Along::kSum>(
      m, c.s.values, [&](int i, int64_t v) { return c.grad_out(i, v); }, turned(before), g.q);
  product<Along::kSum, Along::kSum>(
      m, c.s.values, [&](int i, int64_t v) { return c.written(i, v); }, turned(after), g.column);
  if (c.is_delta()) {
    product<Along::kSum, Along::kSum>(
        m, c.s.values, [&](int i, int64_t v) { return -c.beta(i) * c.value(c.p.w.steps, i, v); },
        turned(before), g.row);
  }
  for_results([&](int i, int j, int row, int column) {
    const bool is_there = c.has(row) && first + column < c.s.keys;
    const int64_t at = is_there ? c.decay_at(row, first + column) : 0;
    const T start = is_there ? c.p.w.start[at] : T(0);
    g.q[i][j] *= start;
    g.row[i][j] *= start;
    g.column[i][j] *= is_there ? c.p.w.end[at] : T(0);
  });
}

// The thread's part of exp(G_C) S dS' of channel first + threadIdx / 8.
template <typename T>
__device__ T through_whole(const Chunk<T>& c, int64_t first) {
  const int64_t channel = first + threadIdx.x / 8;
  const T* const before = c.before();
  const T* const after = c.grad_after();
  if (channel >= c.s.keys) return T(0);
  T sum = T(0);
  for (int64_t v = threadIdx.x % 8; v < c.s.values; v += 8) {
    sum += before[channel * c.s.values + v] * after[channel * c.s.values + v];
  }
  return sum * c.whole(channel);
}

// Gradients of scores, from the workspace.
template <typename T>
struct ScoreGradients {
  const T *q, *k;  // dA, dL; k null without the delta rule

  __device__ T of_q(int i, int j) const { return q[i * kTokens + j]; }
  __device__ T of_k(int i, int j) const { return k == nullptr ? T(0) : k[i * kTokens + j]; }
};

// The thread's tokens as rows of scores.
template <bool by_channel, typename T>
__device__ void through_rows(const ScoreGradients<T>& from, const Slice<T>& m, KeyGradients<T>& g) {
  const int row = patch_row<4>(0), start = row / kBlock * kBlock;
  KeyGradients<T> sums = {};
  for (int j = 0; j < start; ++j) {
    for (int x = 0; x < 2; ++x) {
      T key = m.k[j][patch_column(x)];
      if (by_channel) key *= m.between(start, j, patch_column(x));
      for (int i = 0; i < 4; ++i) {
        sums.q[i][x] += from.of_q(row + i, j) * key;
        sums.row[i][x] += from.of_k(row + i, j) * key;
      }
    }
  }
  for_results([&](int i, int x, int, int column) {
    const T ahead = by_channel ? m.ahead[row + i][column] : T(1);
    g.q[i][x] += sums.q[i][x] * ahead;
    g.row[i][x] += sums.row[i][x] * ahead;
  });
  for (int j = start; j < start + kBlock; ++j) {
    for_results([&](int i, int x, int, int column) {
      if (j > row + i) return;
      T key = m.k[j][column];
      if (by_channel) key *= m.between(row + i, j, column);
      g.q[i][x] += from.of_q(row + i, j) * key;
      g.row[i][x] += from.of_k(row + i, j) * key;
    });
  }
}

// The thread's tokens as columns of scores.
template <bool by_channel, typename T>
__device__ void through_columns(const ScoreGradients<T>& from, const Slice<T>& m,
                                KeyGradients<T>& g) {
  const int row = patch_row<4>(0), start = row / kBlock * kBlock;
  for (int block = start + kBlock; block < kTokens; block += kBlock) {
    T sums[4][2] = {};
    for (int i = block; i < block + kBlock; ++i) {
      for (int x = 0; x < 2; ++x) {
        const int column = patch_column(x);
        const T ahead = by_channel ? m.ahead[i][column] : T(1);
        const T q = m.q[i][column] * ahead, k = m.k[i][column] * ahead;
        for (int j = 0; j < 4; ++j) {
          sums[j][x] += from.of_q(i, row + j) * q + from.of_k(i, row + j) * k;
        }
      }
    }
    for_results([&](int j, int x, int, int column) {
      g.column[j][x] += by_channel ? sums[j][x] * m.between(block, row + j, column) : sums[j][x];
    });
  }
  for (int i = start; i < start + kBlock; ++i) {
    for_results([&](int j, int x, int, int column) {
      if (row + j > i) return;
      const T sum = from.of_q(i, row + j) * m.q[i][column] + from.of_k(i, row + j) * m.k[i][column];
      g.column[j][x] += by_channel ? sum * m.between(i, row + j, column) : sum;
    });
  }
}

// Gradients of the decays of `count` channels from `first` on: `q` holds those of G, `k` what the
// factors towards the chunk's end add to the whole.
template <typename T>
__device__ void store_decays(const Chunk<T>& c, int64_t first, int64_t count,
                             const KeyMemory<T>& m) {
  const int x = static_cast<int>(threadIdx.x);
  if (x >= count || x >= kColumns) return;
  T sum = m.whole[x];
  for (int i = 0; i < c.tokens(); ++i) sum += m.slice.k[i][x];
  for (int i = c.tokens() - 1; i >= 0; --i) {
    sum += m.slice.q[i][x];
    c.p.grad_decay[c.decay_at(i, first + x)] = sum;
  }
}

// What a head's decay gets from all channels; a thread's part.
template <typename T>
struct HeadSums {
  T of_sums[4];  // G of the thread's rows
  T to_end[4];
  T whole;
};

// Puts these to where store_decays looks for them; begins and ends with a barrier.
template <typename T>
__device__ void gather(const HeadSums<T>& sums, KeyMemory<T>& m) {
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    const T of_sums = sum_of_row(sums.of_sums[i]), to_end = sum_of_row(sums.to_end[i]);
    if (threadIdx.x % 16 != 0) continue;
    m.slice.q[patch_row<4>(i)][0] = of_sums;
    m.slice.k[patch_row<4>(i)][0] = to_end;
  }
  T whole = sums.whole;
  for (int step = 16; step > 0; step /= 2) whole += __shfl_xor_sync(0xFFFFFFFFU, whole, step);
  if (threadIdx.x % 32 == 0) m.whole[threadIdx.x / 32] = whole;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kThreads / 32; ++warp) m.whole[0] += m.whole[warp];
  }
  __syncthreads();
}

// kColumns channels from `first` on. Begins with a barrier.
template <bool by_channel, typename T>
__device__ void differentiate(const Chunk<T>& c, int64_t first, bool adds, KeyMemory<T>& m,
                              HeadSums<T>& sums) {
  KeyGradients<T> g = {};
  __syncthreads();
  through_states(c, first, m.operands, g);
  T whole = through_whole(c, first);
  load_slice<by_channel>(c, first, m.slice);
  T to_end[4][2];
  for_results([&](int i, int x, int row, int column) {
    to_end[i][x] = m.slice.k[row][column] * g.column[i][x];
  });
  const ScoreGradients<T> from = {c.square(c.p.w.scores),
                                  c.is_delta() ? c.square(c.p.w.inverse) : nullptr};
  through_rows<by_channel>(from, m.slice, g);
  through_columns<by_channel>(from, m.slice, g);
  __syncthreads();
  for_results([&](int i, int x, int row, int column) {
    const T of_sums = m.slice.q[row][column] * g.q[i][x] +
                      m.slice.k[row][column] * (g.row[i][x] - g.column[i][x]);
    m.slice.q[row][column] = of_sums;
    m.slice.k[row][column] = to_end[i][x];
    sums.of_sums[i] += of_sums;
    sums.to_end[i] += to_end[i][x];
    if (!c.has(row) || first + column >= c.s.keys) return;
    const int64_t at = c.key_at(row, first + column);
    const T k = g.row[i][x] + g.column[i][x];
    if (c.p.grad_q != nullptr) c.p.grad_q[at] = adds ? c.p.grad_q[at] + g.q[i][x] : g.q[i][x];
    if (c.p.grad_k != nullptr) c.p.grad_k[at] = adds ? c.p.grad_k[at] + k : k;
  });
  sums.whole += whole;
  if constexpr (by_channel) {
    if (c.p.grad_decay == nullptr) return;
    for (int step = 4; step > 0; step /= 2) whole += __shfl_xor_sync(0xFFFFFFFFU, whole, step);
    if (threadIdx.x % 8 == 0) m.whole[threadIdx.x / 8] = whole;
    __syncthreads();
    store_decays(c, first, c.s.keys - first, m);
  }
}

template <typename T, bool by_channel>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2 : 1)
    keys_kernel(DeviceShape s, DevicePointers<T> p) {
  KeyMemory<T>& m = shared<KeyMemory<T>>();
  const int64_t place = blockIdx.x / s.chunks, heads = s.heads / s.groups;
  for (int64_t head = 0; head < heads; ++head) {
    const Chunk<T> c = chunk_at(s, p, place * heads + head, blockIdx.x % s.chunks);
    HeadSums<T> sums = {};
    for (int64_t first = 0; first < s.keys; first += kColumns) {
      differentiate<by_channel>(c, first, head > 0, m, sums);
    }
    if (by_channel || p.grad_decay == nullptr) continue;
    gather(sums, m);
    store_decays(c, 0, 1, m);
  }
}

}  // namespace

template <typename T>
cudaError_t differentiate_keys(cudaStream_t stream, int64_t lanes, const DeviceShape& s,
                               const DevicePointers<T>& p, bool is_by_channel) {
  return launch_with_shared(lanes * s.groups * s.chunks, kThreads, sizeof(KeyMemory<T>), stream,
                            is_by_channel ? keys_kernel<T, true> : keys_kernel<T, false>, s, p);
}
template cudaError_t differentiate_keys(cudaStream_t, int64_t, const DeviceShape&,
                                        const DevicePointers<float>&, bool);
template cudaError_t differentiate_keys(cudaStream_t, int64_t, const DeviceShape&,
                                        const DevicePointers<double>&, bool);

}  // namespace recurrences::device
