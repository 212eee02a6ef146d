// The gated delta rule on CUDA (delta_rule.hpp has the equations).
//
//   Shapes         q, k, v [B,T,H,d]; alpha, beta [B,T,H]; states [B,H,d,d]; d <= 128
//   Decomposition  a block for each head of each lane, which walks over the tokens. Its 8 warps
//                  hold the state in registers: warp w has the rows w, w + 8, ..., lane l of a warp
//                  the columns l, l + 32, ...
//   Forward        a row meets no other row, so warps never wait for each other
//   Backward       chunk by chunk from the last: the chunk's states are computed again into the
//                  workspace, where each thread reads what it wrote itself; then token by token
//                  backwards, with the gradient of the state in registers. Sums over rows (dq, dk,
//                  dalpha, dbeta) go through shared memory, warp by warp in their order
//   Shared memory  backward: up to 16.2 KiB (f64, d above 64), forward: none
//   Workspace      backward: B * H * kChunk * d^2 elements
#include <type_traits>

#include "delta_rule.hpp"
#include "mneme_kernels/cuda/launch.hpp"

namespace gated_delta {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;  // of a block

__device__ int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
__device__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ int row_of(int r) { return r * kWarps + warp(); }
__device__ int column_of(int c) { return c * kWarp + lane(); }

// The same value in every lane, summed in a fixed order.
template <typename T>
__device__ T sum_of_warp(T value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  }
  return value;
}

// What a thread has of a matrix [d,d] and of a vector [d] of columns; 0 beyond d. Of heads up to 32
// wide n = 1, up to 64 n = 2, up to 128 n = 4.
template <typename T, int n>
struct Matrix {
  T at[4 * n][n];
};
template <typename T, int n>
struct Columns {
  T at[n];
};

template <typename T, int n>
__device__ void load(const T* from, int64_t d, Matrix<T, n>& to) {
#pragma unroll
  for (int r = 0; r < 4 * n; ++r) {
#pragma unroll
    for (int c = 0; c < n; ++c) {
      const bool is_there = from != nullptr && row_of(r) < d && column_of(c) < d;
      to.at[r][c] = is_there ? from[row_of(r) * d + column_of(c)] : T(0);
    }
  }
}
template <typename T, int n>
__device__ void store(const Matrix<T, n>& from, int64_t d, T* to) {
#pragma unroll
  for (int r = 0; r < 4 * n; ++r) {
#pragma unroll
    for (int c = 0; c < n; ++c) {
      if (row_of(r) < d && column_of(c) < d) to[row_of(r) * d + column_of(c)] = from.at[r][c];
    }
  }
}
template <typename T, int n>
__device__ Columns<T, n> load_columns(const T* from, int64_t d) {
  Columns<T, n> to;
#pragma unroll
  for (int c = 0; c < n; ++c) to.at[c] = column_of(c) < d ? from[column_of(c)] : T(0);
  return to;
}
template <typename T, int n>
__device__ T dot(const T (&row)[n], const Columns<T, n>& x) {
  T sum = T(0);
#pragma unroll
  for (int c = 0; c < n; ++c) sum += row[c] * x.at[c];
  return sum_of_warp(sum);
}

// As DeltaRuleShape, for device code.
struct DeviceShape {
  int64_t length, heads, width, kept;

  __device__ int64_t state_elements() const { return width * width; }
  __device__ int64_t token(int64_t piece, int64_t t) const {
    return (piece / heads * length + t) * heads + piece % heads;
  }
};

DeviceShape device_shape(const DeltaRuleShape& s) { return {s.length, s.heads, s.width, s.kept()}; }

// Null where a gradient is not wanted, or does not arrive.
template <typename T>
struct Pointers {
  const T *q, *k, *v, *alpha, *beta, *state;
  T *out, *after, *kept;
  const T *grad_out, *grad_after;
  T *dq, *dk, *dv, *dalpha, *dbeta, *dstate;
  T* states;  // [B,H,kChunk,d,d]
};

// Reads into out [d], unless null, and writes token `at`.
template <typename T, int n>
__device__ void advance(const Pointers<T>& p, int64_t at, int64_t d, T* out, Matrix<T, n>& state) {
  const Columns<T, n> k = load_columns<T, n>(p.k + at * d, d);
  const Columns<T, n> q = load_columns<T, n>(p.q + at * d, d);
  const T alpha = p.alpha[at], beta = p.beta[at];
#pragma unroll
  for (int r = 0; r < 4 * n; ++r) {
    const int row = row_of(r);
    const T u = dot(state.at[r], k);
    if (out != nullptr) {
      const T read = dot(state.at[r], q);
      if (lane() == 0 && row < d) out[row] = read;
    }
    const T value = row < d ? p.v[at * d + row] : T(0);
    const T write = beta * (value - alpha * u);
#pragma unroll
    for (int c = 0; c < n; ++c) state.at[r][c] = alpha * state.at[r][c] + write * k.at[c];
  }
}

template <typename T, int n>
__global__ void __launch_bounds__(kWarps* kWarp) forward_kernel(DeviceShape s, Pointers<T> p) {
  const int64_t piece = blockIdx.x, d = s.width, size = s.state_elements();
  Matrix<T, n> state;
  load(p.state + piece * size, d, state);
  for (int64_t t = 0; t < s.length; ++t) {
    if (t > 0 && t % kChunk == 0) {
      store(state, d, p.kept + (piece * s.kept + t / kChunk - 1) * size);
    }
    const int64_t at = s.token(piece, t);
    advance(p, at, d, p.out + at * d, state);
  }
  store(state, d, p.after + piece * size);
}

// What one warp adds to a token's gradients.
template <typename T, int n>
struct Share {
  T dq[n * kWarp], dk[n * kWarp], dalpha, dbeta;
};

// One token backwards: `grad` goes from dL/dS_t to dL/dS_(t-1), `share` gets the sums over the
// warp's rows.
template <typename T, int n>
__device__ void go_back(const Pointers<T>& p, int64_t at, int64_t d, const Matrix<T, n>& state,
                        Matrix<T, n>& grad, Share<T, n>& share) {
  const Columns<T, n> k = load_columns<T, n>(p.k + at * d, d);
  const Columns<T, n> q = load_columns<T, n>(p.q + at * d, d);
  const T alpha = p.alpha[at], beta = p.beta[at];
  Columns<T, n> dq = {}, dk = {};
  T product = T(0), dalpha = T(0), dbeta = T(0);
#pragma unroll
  for (int r = 0; r < 4 * n; ++r) {
    const int row = row_of(r);
    const bool is_there = row < d;
    const T u = dot(state.at[r], k);
    const T w = dot(grad.at[r], k);
    const T error = (is_there ? p.v[at * d + row] : T(0)) - alpha * u;
    const T from_out = is_there && p.grad_out != nullptr ? p.grad_out[at * d + row] : T(0);
    const T to_error = beta * w;
    if (is_there && lane() == 0 && p.dv != nullptr) p.dv[at * d + row] = to_error;
    dbeta += error * w;
    dalpha -= u * to_error;
#pragma unroll
    for (int c = 0; c < n; ++c) {
      T& g = grad.at[r][c];
      product += g * state.at[r][c];
      dq.at[c] += from_out * state.at[r][c];
      dk.at[c] += beta * error * g - alpha * to_error * state.at[r][c];
      g = alpha * (g - to_error * k.at[c]) + from_out * q.at[c];
    }
  }
  product = sum_of_warp(product);
#pragma unroll
  for (int c = 0; c < n; ++c) {
    share.dq[column_of(c)] = dq.at[c];
    share.dk[column_of(c)] = dk.at[c];
  }
  if (lane() == 0) {
    share.dalpha = dalpha + product;
    share.dbeta = dbeta;
  }
}

// Adds the warps' shares of one token.
template <typename T, int n>
__device__ void add_shares(const Pointers<T>& p, int64_t at, int64_t d,
                           const Share<T, n> (&shares)[kWarps]) {
  const int j = static_cast<int>(threadIdx.x);
  T dq = T(0), dk = T(0), dalpha = T(0), dbeta = T(0);
  if (j < d) {
    for (int w = 0; w < kWarps; ++w) {
      dq += shares[w].dq[j];
      dk += shares[w].dk[j];
    }
    if (p.dq != nullptr) p.dq[at * d + j] = dq;
    if (p.dk != nullptr) p.dk[at * d + j] = dk;
  }
  if (j == 0) {
    for (int w = 0; w < kWarps; ++w) {
      dalpha += shares[w].dalpha;
      dbeta += shares[w].dbeta;
    }
    if (p.dalpha != nullptr) p.dalpha[at] = dalpha;
    if (p.dbeta != nullptr) p.dbeta[at] = dbeta;
  }
}

template <typename T, int n>
__global__ void __launch_bounds__(kWarps* kWarp) backward_kernel(DeviceShape s, Pointers<T> p) {
  __shared__ Share<T, n> shares[kWarps];
  const int64_t piece = blockIdx.x, d = s.width, size = s.state_elements();
  T* states = p.states + piece * kChunk * size;
  Matrix<T, n> grad, state;
  load(p.grad_after != nullptr ? p.grad_after + piece * size : nullptr, d, grad);
  for (int64_t chunk = s.length > 0 ? s.kept : -1; chunk >= 0; --chunk) {
    const int64_t first = chunk * kChunk;
    const int64_t last = first + kChunk < s.length ? first + kChunk : s.length;
    load(chunk == 0 ? p.state + piece * size : p.kept + (piece * s.kept + chunk - 1) * size, d,
         state);
    for (int64_t t = first; t < last; ++t) {
      store(state, d, states + (t - first) * size);
      if (t + 1 < last) advance<T, n>(p, s.token(piece, t), d, nullptr, state);
    }
    for (int64_t t = last - 1; t >= first; --t) {
      const int64_t at = s.token(piece, t);
      load(static_cast<const T*>(states + (t - first) * size), d, state);
      go_back(p, at, d, state, grad, shares[warp()]);
      __syncthreads();
      add_shares(p, at, d, shares);
      __syncthreads();
    }
  }
  if (p.dstate != nullptr) store(grad, d, p.dstate + piece * size);
}

template <typename T>
Pointers<T> pointers_of(const mneme::KernelCall& call) {
  Pointers<T> p = {};
  const T** const inputs[] = {&p.q, &p.k, &p.v, &p.alpha, &p.beta, &p.state};
  for (uint32_t i = 0; i < DeltaRule::kInputs; ++i) *inputs[i] = call.input(i).data<T>();
  p.kept = call.saved(0).data<T>();
  return p;
}

// Calls body(T, number of columns of a thread).
template <typename Body>
cudaError_t for_call(const mneme::KernelCall& call, const Body& body) {
  const int64_t d = call.input(0).dim(3);
  const auto with_type = [&](auto type) {
    if (d <= 32) return body(type, std::integral_constant<int, 1>{});
    if (d <= 64) return body(type, std::integral_constant<int, 2>{});
    return body(type, std::integral_constant<int, 4>{});
  };
  return call.input(0).dtype() == mneme::DType::kF64 ? with_type(double{}) : with_type(float{});
}

}  // namespace

void DeltaRule::forward_cuda(const mneme::KernelCall& call) const {
  for (uint32_t i = 0; i < kInputs; ++i) mneme::cuda::check_buffers(call, {call.input(i)});
  mneme::cuda::check_buffers(call, {call.output(0), call.output(1), call.saved(0)});
  const DeltaRuleShape s = shape_of(call);
  mneme::cuda::check_launch(for_call(call, [&](auto type, auto columns) {
    using T = decltype(type);
    Pointers<T> p = pointers_of<T>(call);
    p.out = call.output(0).data<T>();
    p.after = call.output(1).data<T>();
    return mneme::cuda::launch(s.pieces(), kWarps * kWarp, mneme::cuda::stream_of(call),
                               forward_kernel<T, decltype(columns)::value>, device_shape(s), p);
  }));
}

void DeltaRule::backward_cuda(const mneme::KernelCall& call) const {
  const DeltaRuleShape s = shape_of(call);
  for (uint32_t i = 0; i < kInputs; ++i) mneme::cuda::check_buffers(call, {call.input(i)});
  mneme::cuda::check_buffers(call, {call.saved(0)},
                             static_cast<uint64_t>(s.pieces() * kChunk * s.state_elements() *
                                                   call.input(0).element_size()));
  mneme::cuda::check_launch(for_call(call, [&](auto type, auto columns) {
    using T = decltype(type);
    Pointers<T> p = pointers_of<T>(call);
    p.grad_out = call.grad_output(0).data<T>();
    p.grad_after = call.grad_output(1).data<T>();
    T** const gradients[] = {&p.dq, &p.dk, &p.dv, &p.dalpha, &p.dbeta, &p.dstate};
    for (uint32_t i = 0; i < kInputs; ++i) *gradients[i] = call.grad_input(i).data<T>();
    p.states = static_cast<T*>(call.workspace());
    return mneme::cuda::launch(s.pieces(), kWarps * kWarp, mneme::cuda::stream_of(call),
                               backward_kernel<T, decltype(columns)::value>, device_shape(s), p);
  }));
}

}  // namespace gated_delta
