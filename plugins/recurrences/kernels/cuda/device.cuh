// What the recurrence's kernels on CUDA share (recurrence.hpp has the equations and letters): one
// chunk of one head, and products of its matrices.
#pragma once

#include "kernels/cuda/workspace.hpp"
#include "mneme_kernels/cuda/launch.hpp"
#include "mneme_kernels/cuda/tensor_core.cuh"
#include "mneme_kernels/cuda/tiles.cuh"

namespace recurrences::device {

using namespace mneme::cuda;  // NOLINT

constexpr int kTokens = static_cast<int>(kCudaChunk);
constexpr int kBlock = 16;    // tokens whose scores are met by products of factors
constexpr int kColumns = 32;  // of a product's results, of which a block's threads have 4 x 2 each

struct DeviceShape {
  int64_t length, groups, heads, keys, values, decays, chunks, kept;
  int64_t panels;  // of values, kColumns wide
};

// Null where a gradient is not wanted, or does not arrive.
template <typename T>
struct DevicePointers {
  const T *q, *k, *v, *decay, *state, *beta;
  T *out, *last_state;
  const T *grad_out, *grad_last_state;
  T *grad_q, *grad_k, *grad_v, *grad_decay, *grad_state, *grad_beta;
  CudaWorkspace<T> w;
};

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }

// The launch's dynamic shared memory.
template <typename Memory>
__device__ Memory& shared() {
  return *static_cast<Memory*>(dynamic_shared());
}

// One chunk of one head of one lane. Tokens, channels and values that do not exist read as zeros.
template <typename T>
struct Chunk {
  const DeviceShape& s;
  const DevicePointers<T>& p;
  int64_t lane, head, group, chunk;

  __device__ int64_t place() const { return lane * s.heads + head; }
  __device__ int tokens() const {
    const int64_t left = s.length - chunk * kTokens;
    return left < kTokens ? static_cast<int>(left) : kTokens;
  }
  __device__ bool has(int i) const { return chunk * kTokens + i < s.length; }
  __device__ int64_t token(int i) const { return lane * s.length + chunk * kTokens + i; }
  __device__ int64_t scalar(int i) const { return token(i) * s.heads + head; }
  // In [B,T,G,K] and [B,T,H,V].
  __device__ int64_t key_at(int i, int64_t c) const {
    return (token(i) * s.groups + group) * s.keys + c;
  }
  __device__ int64_t value_at(int i, int64_t v) const { return scalar(i) * s.values + v; }
  __device__ int64_t decay_at(int i, int64_t c) const {
    return scalar(i) * s.decays + (s.decays == 1 ? 0 : c);
  }
  __device__ T key(const T* rows, int i, int64_t c) const {
    return has(i) && c < s.keys ? rows[key_at(i, c)] : T(0);
  }
  __device__ T value(const T* rows, int i, int64_t v) const {
    return has(i) && v < s.values ? rows[value_at(i, v)] : T(0);
  }
  // A row of keys times exp(G) or exp(G_C - G).
  __device__ T scaled(const T* rows, const T* factors, int i, int64_t c) const {
    return has(i) && c < s.keys ? rows[key_at(i, c)] * factors[decay_at(i, c)] : T(0);
  }
  // exp(G_C).
  __device__ T whole(int64_t c) const { return p.w.start[decay_at(tokens() - 1, c)]; }
  __device__ bool is_delta() const { return p.beta != nullptr; }
  __device__ T beta(int i) const { return has(i) ? p.beta[scalar(i)] : T(0); }
  // U.
  __device__ T written(int i, int64_t v) const {
    return is_delta() ? beta(i) * value(p.w.errors, i, v) : value(p.v, i, v);
  }
  __device__ T grad_out(int i, int64_t v) const {
    return p.grad_out != nullptr ? value(p.grad_out, i, v) : T(0);
  }

  // Matrices [C,C] of the chunk.
  __device__ T* square(T* matrices) const {
    return matrices + (place() * s.chunks + chunk) * kTokens * kTokens;
  }
  // States [K,V] before and behind the chunk, and their gradients; null for the gradient of the
  // state before the first chunk where it is not wanted.
  __device__ const T* before() const {
    return chunk == 0 ? p.state + place() * size() : kept(chunk - 1);
  }
  __device__ T* after() const {
    return chunk + 1 == s.chunks ? p.last_state + place() * size() : kept(chunk);
  }
  __device__ T* grad_after() const {
    return p.w.grad_states + (place() * s.chunks + chunk) * size();
  }
  __device__ T* grad_before() const {
    if (chunk > 0) return grad_after() - size();
    return p.grad_state == nullptr ? nullptr : p.grad_state + place() * size();
  }
  __device__ T state(const T* from, int64_t c, int64_t v) const {
    return c < s.keys && v < s.values ? from[c * s.values + v] : T(0);
  }

  __device__ int64_t size() const { return s.keys * s.values; }
  __device__ T* kept(int64_t i) const { return p.w.states + (place() * s.kept + i) * size(); }
};

// Of head `place` of [B,H].
template <typename T>
__device__ Chunk<T> chunk_at(const DeviceShape& s, const DevicePointers<T>& p, int64_t place,
                             int64_t chunk) {
  const int64_t head = place % s.heads;
  return {s, p, place / s.heads, head, head / (s.heads / s.groups), chunk};
}
// Chunk `piece` of [B,H,n].
template <typename T>
__device__ Chunk<T> chunk_of(const DeviceShape& s, const DevicePointers<T>& p, int64_t piece) {
  return chunk_at(s, p, piece / s.chunks, piece % s.chunks);
}

// Operands of a product, 32 deep (mneme_kernels/cuda/tiles.cuh: kChunk), and rows of a panel that
// threads hand to each other. The odd strides keep stores apart.
template <typename T>
struct Operands {
  T left[kChunk][kTokens + 1];
  T right[kChunk][kColumns + 1];
};
template <typename T>
using Rows = T[kTokens][kColumns + 1];
template <typename T>
struct PanelMemory {
  Operands<T> operands;
  Rows<T> rows;
};

// Which index of an operand's numbers neighbours in memory: the one that a product sums over, or
// the other.
enum class Along { kSum, kResult };

template <Along along, int size, typename T, typename Value>
__device__ void fill(T (*to)[size + 1], int64_t depth, const Value& value) {
  for (int i = static_cast<int>(threadIdx.x); i < size * kChunk; i += kThreads) {
    const int k = along == Along::kSum ? i % kChunk : i / size;
    const int x = along == Along::kSum ? i / kChunk : i % size;
    to[k][x] = k < depth ? value(x, k) : T(0);
  }
}

// sums += sum over k < depth of left(row, k) right(column, k), of 64 rows and kColumns columns;
// ends with a barrier.
template <Along left_along, Along right_along, typename T, typename Left, typename Right>
__device__ void product(Operands<T>& m, int64_t depth, const Left& left, const Right& right,
                        T (&sums)[4][2]) {
  for (int64_t first = 0; first < depth; first += kChunk) {
    fill<left_along, kTokens>(m.left, depth - first,
                              [&](int row, int k) { return left(row, first + k); });
    fill<right_along, kColumns>(m.right, depth - first,
                                [&](int column, int k) { return right(column, first + k); });
    __syncthreads();
    multiply(m.left, m.right, sums);
    __syncthreads();
  }
}

// Calls body(i, j, row, column) for the thread's results.
template <typename Body>
__device__ void for_results(const Body& body) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) body(i, j, patch_row<4>(i), patch_column(j));
  }
}

// to = diag(the chunk's decay) from + sums: states, or their gradients, of channels `first` on and of
// the panel.
template <typename T>
__device__ void pass_state(const Chunk<T>& c, int64_t first, int64_t panel, const T* from,
                           const T (&sums)[4][2], T* to) {
  for_results([&](int i, int j, int row, int column) {
    const int64_t channel = first + row, value = panel + column;
    if (channel >= c.s.keys || value >= c.s.values) return;
    const int64_t at = channel * c.s.values + value;
    to[at] = c.whole(channel) * from[at] + sums[i][j];
  });
}

// G of kColumns channels of the decays from `first` on, in f64; behind the last token as at it.
// Begins behind and ends in front of a barrier of the caller's.
template <typename T>
__device__ void add_up_decays(const Chunk<T>& c, int64_t first, double (*sums)[kColumns + 1]) {
  constexpr int kParts = kThreads / kColumns;
  constexpr int kEach = kTokens / kParts;  // tokens of a thread
  const int x = static_cast<int>(threadIdx.x) % kColumns;
  const int part = static_cast<int>(threadIdx.x) / kColumns;
  double own[kEach];
  double sum = 0.0;
  for (int e = 0; e < kEach; ++e) {
    const int i = part * kEach + e;
    const bool is_there = c.has(i) && first + x < c.s.decays;
    sum += is_there ? static_cast<double>(c.p.decay[c.decay_at(i, first + x)]) : 0.0;
    own[e] = sum;
  }
  sums[part][x] = sum;
  __syncthreads();
  sum = 0.0;
  for (int earlier = 0; earlier < part; ++earlier) sum += sums[earlier][x];
  __syncthreads();
  for (int e = 0; e < kEach; ++e) sums[part * kEach + e][x] = sum + own[e];
}

// kColumns channels of a chunk's keys, and their decays where there is one for each.
template <typename T>
struct Slice {
  double sums[kTokens][kColumns + 1];  // G
  T ahead[kTokens][kColumns + 1];      // exp of its difference from the block's first token
  T q[kTokens][kColumns + 1];
  T k[kTokens][kColumns + 1];

  __device__ T between(int i, int j, int x) const {
    return exponential(static_cast<T>(sums[i][x] - sums[j][x]));
  }
};

// Channels from `first` on; begins and ends with a barrier.
template <bool by_channel, typename T>
__device__ void load_slice(const Chunk<T>& c, int64_t first, Slice<T>& to) {
  __syncthreads();
  if (by_channel) {
    add_up_decays(c, first, to.sums);
    __syncthreads();
  }
  for (int at = static_cast<int>(threadIdx.x); at < kTokens * kColumns; at += kThreads) {
    const int i = at / kColumns, x = at % kColumns;
    to.q[i][x] = c.key(c.p.q, i, first + x);
    to.k[i][x] = c.key(c.p.k, i, first + x);
    if (by_channel) to.ahead[i][x] = to.between(i, i / kBlock * kBlock, x);
  }
  __syncthreads();
}

// The launches of the kernels of chunk.cu and keys.cu, for float and double.
//
// Factors start and end, scores, under the delta rule the inverse, and, backward, both.
template <typename T>
cudaError_t prepare_chunks(cudaStream_t stream, int64_t places, const DeviceShape& s,
                           const DevicePointers<T>& p, bool is_by_channel);
// Gradients of q, k and decays; those of the scores lie in p.w.scores and p.w.inverse.
template <typename T>
cudaError_t differentiate_keys(cudaStream_t stream, int64_t lanes, const DeviceShape& s,
                               const DevicePointers<T>& p, bool is_by_channel);
// p.w.errors of all chunks (forward.cu).
template <typename T>
cudaError_t correct_chunks(cudaStream_t stream, int64_t places, const DeviceShape& s,
                           const DevicePointers<T>& p);

inline DeviceShape device_shape(const RecurrenceShape& s) {
  return {s.length,    s.groups,      s.heads,
          s.key_width, s.value_width, s.decay_width(),
          s.chunks(),  s.kept(),      tiles_of(s.value_width, kColumns)};
}
template <typename T>
DevicePointers<T> inputs_of(const mneme::KernelCall& call) {
  DevicePointers<T> p = {};
  const T** const inputs[] = {&p.q, &p.k, &p.v, &p.decay, &p.state, &p.beta};
  for (uint32_t i = 0; i < Recurrence::kInputs; ++i) {
    if (!call.input(i).is_absent()) *inputs[i] = call.input(i).data<T>();
  }
  return p;
}
// Calls body(T) with the inputs' type.
template <typename Body>
cudaError_t with_type(const RecurrenceShape& s, const Body& body) {
  return s.is_f64 ? body(double{}) : body(float{});
}

}  // namespace recurrences::device
