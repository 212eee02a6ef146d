// The recurrence's forward pass on CUDA. Three kernels: what chunks have before their states are
// known (chunk.cu), the states of a head from chunk to chunk, and results of all chunks. Up to 4
// tokens, such as a step of generation, take one kernel that goes token by token. No allocation, no
// synchronisation, the same launches for the same shapes, the same bits for the same inputs.
//
//   Equation       errors = (I + L diag(beta))^-1 (V - (k exp(G)) S), U = diag(beta) errors under
//                  the delta rule; S' = diag(exp(G_C)) S + (k exp(G_C - G))^T U;
//                  out = (q exp(G)) S + A U
//   Shapes         v, out, errors [B,T,H,V]; states [B,H,K,V]
//   Presumptions   B * H * ceil(T / 64) * ceil(V / 32) < 2^31
//   Decomposition  a block has 32 columns of the values of one head: of all chunks, one after the
//                  other, or of one chunk; products of 64 x 32 results, 4 x 2 a thread, whose
//                  operands go through shared memory 32 deep. Columns never meet
//   Shared memory  21 KiB (f32), 42 KiB (f64); steps 1 KiB, 2 KiB
//   Workspace      a token and head 64 elements and 2, or 2 K with a decay for each channel; under
//                  the delta rule 64 + V more; where no backward follows K V for each 64 tokens
//   Flops          a chunk and head 128 V (3 K + 128), without the delta rule 128 V (2 K + 64)
#include "kernels/cuda/device.cuh"

namespace recurrences::device {
namespace {

// errors of the panel of values from `panel` on; `rows` is free then.
template <typename T>
__device__ void correct(const Chunk<T>& c, int64_t panel, PanelMemory<T>& m) {
  T sums[4][2] = {};
  const T* const before = c.before();
  product<Along::kSum, Along::kResult>(
      m.operands, c.s.keys, [&](int i, int64_t j) { return c.scaled(c.p.k, c.p.w.start, i, j); },
      [&](int x, int64_t j) { return c.state(before, j, panel + x); }, sums);
  for_results([&](int i, int j, int row, int column) {
    m.rows[row][column] = c.value(c.p.v, row, panel + column) - sums[i][j];
  });
  __syncthreads();
  T errors[4][2] = {};
  const T* const inverse = c.square(c.p.w.inverse);
  product<Along::kSum, Along::kResult>(
      m.operands, c.tokens(), [&](int i, int64_t j) { return inverse[i * kTokens + j]; },
      [&](int x, int64_t j) { return m.rows[j][x]; }, errors);
  for_results([&](int i, int j, int row, int column) {
    if (c.has(row) && panel + column < c.s.values) {
      c.p.w.errors[c.value_at(row, panel + column)] = errors[i][j];
    }
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) correct_kernel(DeviceShape s, DevicePointers<T> p) {
  correct(chunk_of(s, p, blockIdx.x / s.panels), blockIdx.x % s.panels * kColumns,
          shared<PanelMemory<T>>());
}

// S' from S, of the panel; `rows` holds U.
template <typename T>
__device__ void advance(const Chunk<T>& c, int64_t panel, PanelMemory<T>& m) {
  const T* const before = c.before();
  T* const after = c.after();
  for (int64_t first = 0; first < c.s.keys; first += kTokens) {
    T sums[4][2] = {};
    product<Along::kResult, Along::kResult>(
        m.operands, c.tokens(),
        [&](int channel, int64_t i) {
          return c.scaled(c.p.k, c.p.w.end, static_cast<int>(i), first + channel);
        },
        [&](int x, int64_t i) { return m.rows[i][x]; }, sums);
    pass_state(c, first, panel, before, sums, after);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) scan_kernel(DeviceShape s, DevicePointers<T> p) {
  PanelMemory<T>& m = shared<PanelMemory<T>>();
  const int64_t panel = blockIdx.x % s.panels * kColumns;
  Chunk<T> c = chunk_at(s, p, blockIdx.x / s.panels, 0);
  for (; c.chunk < s.chunks; ++c.chunk) {
    if (c.is_delta()) correct(c, panel, m);
    for_results([&](int, int, int row, int column) {
      m.rows[row][column] = c.written(row, panel + column);
    });
    __syncthreads();
    advance(c, panel, m);
    __syncthreads();
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) out_kernel(DeviceShape s, DevicePointers<T> p) {
  PanelMemory<T>& m = shared<PanelMemory<T>>();
  const int64_t panel = blockIdx.x % s.panels * kColumns;
  const Chunk<T> c = chunk_of(s, p, blockIdx.x / s.panels);
  const T* const before = c.before();
  const T* const scores = c.square(p.w.scores);
  T sums[4][2] = {};
  product<Along::kSum, Along::kResult>(
      m.operands, s.keys, [&](int i, int64_t j) { return c.scaled(p.q, p.w.start, i, j); },
      [&](int x, int64_t j) { return c.state(before, j, panel + x); }, sums);
  product<Along::kSum, Along::kResult>(
      m.operands, c.tokens(), [&](int i, int64_t j) { return scores[i * kTokens + j]; },
      [&](int x, int64_t j) { return c.written(static_cast<int>(j), panel + x); }, sums);
  for_results([&](int i, int j, int row, int column) {
    if (c.has(row) && panel + column < s.values) {
      p.out[c.value_at(row, panel + column)] = sums[i][j];
    }
  });
}

constexpr int kParts = kThreads / kColumns;  // threads that share a column

// Over the threads of a column, in a fixed order; ends with a barrier.
template <typename T>
__device__ T sum_of_column(T (&parts)[kParts][kColumns], int part, int x, T value) {
  parts[part][x] = value;
  __syncthreads();
  T sum = T(0);
  for (const auto& row : parts) sum += row[x];
  __syncthreads();
  return sum;
}

// The definition itself; a thread has every eighth channel of one value.
template <typename T>
__global__ void __launch_bounds__(kThreads) step_kernel(DeviceShape s, DevicePointers<T> p) {
  __shared__ T parts[kParts][kColumns];
  const int x = static_cast<int>(threadIdx.x) % kColumns;
  const int part = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t value = blockIdx.x % s.panels * kColumns + x, place = blockIdx.x / s.panels;
  const Chunk<T> c = chunk_at(s, p, place, 0);
  const int64_t keys = value < s.values ? s.keys : 0;
  T* const to = p.last_state + place * c.size() + value;
  const T* from = p.state + place * c.size() + value;
  const auto decayed = [&](int t, int64_t i) {
    return exponential(p.decay[c.decay_at(t, i)]) * from[i * s.values];
  };
  for (int64_t i = part; s.length == 0 && i < keys; i += kParts) {
    to[i * s.values] = from[i * s.values];
  }
  for (int t = 0; t < s.length; ++t) {
    T u = c.value(p.v, t, value);
    if (c.is_delta()) {
      T read = T(0);
      for (int64_t i = part; i < keys; i += kParts) read += p.k[c.key_at(t, i)] * decayed(t, i);
      u = c.beta(t) * (u - sum_of_column(parts, part, x, read));
    }
    T out = T(0);
    for (int64_t i = part; i < keys; i += kParts) {
      const T next = decayed(t, i) + p.k[c.key_at(t, i)] * u;
      to[i * s.values] = next;
      out += p.q[c.key_at(t, i)] * next;
    }
    out = sum_of_column(parts, part, x, out);
    if (part == 0 && value < s.values) p.out[c.value_at(t, value)] = out;
    from = to;
  }
}

template <typename T>
cudaError_t forward(const mneme::KernelCall& call, const RecurrenceShape& shape,
                    mneme::cpu::Arena& arena) {
  const DeviceShape s = device_shape(shape);
  const cudaStream_t stream = stream_of(call);
  const int64_t places = shape.lanes * shape.heads;
  DevicePointers<T> p = inputs_of<T>(call);
  p.out = call.output(0).data<T>();
  p.last_state = call.output(1).data<T>();
  p.w = CudaWorkspace<T>::forward(arena, shape, call.keeps_saved());
  if (call.keeps_saved()) p.w.states = call.saved(0).data<T>();
  if (shape.length <= kCudaSteps) {
    return launch(places * s.panels, kThreads, stream, step_kernel<T>, s, p);
  }
  const int bytes = sizeof(PanelMemory<T>);
  cudaError_t status = prepare_chunks(stream, places, s, p, shape.is_by_channel);
  if (status != cudaSuccess) return status;
  status = launch_with_shared(places * s.panels, kThreads, bytes, stream, scan_kernel<T>, s, p);
  if (status != cudaSuccess) return status;
  return launch_with_shared(places * s.chunks * s.panels, kThreads, bytes, stream, out_kernel<T>, s,
                            p);
}

}  // namespace

template <typename T>
cudaError_t correct_chunks(cudaStream_t stream, int64_t places, const DeviceShape& s,
                           const DevicePointers<T>& p) {
  return launch_with_shared(places * s.chunks * s.panels, kThreads, sizeof(PanelMemory<T>), stream,
                            correct_kernel<T>, s, p);
}
template cudaError_t correct_chunks(cudaStream_t, int64_t, const DeviceShape&,
                                    const DevicePointers<float>&);
template cudaError_t correct_chunks(cudaStream_t, int64_t, const DeviceShape&,
                                    const DevicePointers<double>&);

}  // namespace recurrences::device

namespace recurrences {

void Recurrence::check_cuda_inputs(const mneme::KernelCall& call) {
  for (uint32_t i = 0; i < kInputs; ++i) {
    if (!call.input(i).is_absent()) mneme::cuda::check_buffers(call, {call.input(i)});
  }
}

void Recurrence::forward_cuda(const mneme::KernelCall& call) const {
  const RecurrenceShape s = cuda_shape_of(call);
  check_cuda_inputs(call);
  mneme::cuda::check_buffers(call, {call.output(0), call.output(1), call.saved(0)},
                             cuda_workspace(s, call.keeps_saved()));
  mneme::cpu::Arena arena(call.workspace());
  mneme::cuda::check_launch(device::with_type(
      s, [&](auto type) { return device::forward<decltype(type)>(call, s, arena); }));
}

}  // namespace recurrences
