// The recurrence's backward pass on CUDA, but for the gradients of q, k and decays (keys.cu). At
// most five kernels: what chunks have before their states are known (chunk.cu), errors
// (forward.cu), the gradients of a head's states from its last chunk to its first, those of scores
// and of beta, and keys.cu. No allocation, no synchronisation, the same launches for the same
// shapes and wanted gradients, the same bits for the same inputs.
//
//   Equation       dU = A^T dout + (k exp(G_C - G)) dS'; steps = (I + diag(beta) L)^-T dU and
//                  dV = diag(beta) steps under the delta rule, else dV = dU;
//                  dS = diag(exp(G_C)) dS' + (q exp(G))^T dout - (k exp(G))^T dV;
//                  dA = dout U^T, dL = -dV U^T, dbeta_i = steps_i errors_i
//   Shapes         as in forward.cu; dS' [B,H,n,K,V]; dA, dL [B,H,n,64,64], times their factors
//                  with one decay a head
//   Presumptions   as in forward.cu
//   Decomposition  as in forward.cu; gradients of scores: a block has one chunk of one head
//   Shared memory  21 KiB (f32), 42 KiB (f64); gradients of scores 29 KiB, 41 KiB
//   Workspace      a token and head 64 + K V / 64 elements and 2, or 2 K with a decay for each
//                  channel; under the delta rule 128 + 2 V more
//   Flops          a chunk and head 128 V (4 K + 320), without the delta rule 128 V (2 K + 128)
#include "kernels/cuda/device.cuh"

namespace recurrences::device {
namespace {

// dS' of a head's last chunk, or where there is none the gradient of S_0.
template <typename T>
__device__ void begin_states(const Chunk<T>& last, int64_t panel) {
  T* const to = last.s.chunks > 0   ? last.grad_after()
                : last.p.grad_state ? last.p.grad_state + last.place() * last.size()
                                    : nullptr;
  if (to == nullptr) return;
  const T* const from = last.p.grad_last_state;
  for (int64_t first = 0; first < last.s.keys; first += kTokens) {
    for_results([&](int, int, int row, int column) {
      const int64_t channel = first + row, value = panel + column;
      if (channel >= last.s.keys || value >= last.s.values) return;
      const int64_t at = channel * last.s.values + value;
      to[at] = from != nullptr ? from[last.place() * last.size() + at] : T(0);
    });
  }
}

// dV of the panel -> rows, and to where it is wanted; steps.
template <typename T>
__device__ void differentiate_values(const Chunk<T>& c, int64_t panel, PanelMemory<T>& m) {
  const T* const scores = c.square(c.p.w.scores);
  const T* const after = c.grad_after();
  T sums[4][2] = {};
  product<Along::kResult, Along::kResult>(
      m.operands, c.tokens(), [&](int i, int64_t j) { return scores[j * kTokens + i]; },
      [&](int x, int64_t j) { return c.grad_out(static_cast<int>(j), panel + x); }, sums);
  product<Along::kSum, Along::kResult>(
      m.operands, c.s.keys, [&](int i, int64_t j) { return c.scaled(c.p.k, c.p.w.end, i, j); },
      [&](int x, int64_t j) { return c.state(after, j, panel + x); }, sums);
  if (c.is_delta()) {
    for_results([&](int i, int j, int row, int column) { m.rows[row][column] = sums[i][j]; });
    __syncthreads();
    const T* const inverse = c.square(c.p.w.scaled_inverse);
    T steps[4][2] = {};
    product<Along::kResult, Along::kResult>(
        m.operands, c.tokens(), [&](int i, int64_t j) { return inverse[j * kTokens + i]; },
        [&](int x, int64_t j) { return m.rows[j][x]; }, steps);
    for_results([&](int i, int j, int row, int column) {
      sums[i][j] = c.beta(row) * steps[i][j];
      if (c.has(row) && panel + column < c.s.values) {
        c.p.w.steps[c.value_at(row, panel + column)] = steps[i][j];
      }
    });
  }
  for_results([&](int i, int j, int row, int column) {
    m.rows[row][column] = sums[i][j];
    if (c.p.grad_v != nullptr && c.has(row) && panel + column < c.s.values) {
      c.p.grad_v[c.value_at(row, panel + column)] = sums[i][j];
    }
  });
}

// dS from dS', of the panel; `rows` holds dV.
template <typename T>
__device__ void retreat(const Chunk<T>& c, int64_t panel, PanelMemory<T>& m) {
  const T* const after = c.grad_after();
  T* const before = c.grad_before();
  for (int64_t first = 0; before != nullptr && first < c.s.keys; first += kTokens) {
    T sums[4][2] = {};
    const auto row_of = [&](const T* rows, int channel, int64_t i) {
      return c.scaled(rows, c.p.w.start, static_cast<int>(i), first + channel);
    };
    product<Along::kResult, Along::kResult>(
        m.operands, c.tokens(), [&](int x, int64_t i) { return row_of(c.p.q, x, i); },
        [&](int x, int64_t i) { return c.grad_out(static_cast<int>(i), panel + x); }, sums);
    if (c.is_delta()) {
      product<Along::kResult, Along::kResult>(
          m.operands, c.tokens(), [&](int x, int64_t i) { return -row_of(c.p.k, x, i); },
          [&](int x, int64_t i) { return m.rows[i][x]; }, sums);
    }
    pass_state(c, first, panel, after, sums, before);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) states_kernel(DeviceShape s, DevicePointers<T> p) {
  PanelMemory<T>& m = shared<PanelMemory<T>>();
  const int64_t panel = blockIdx.x % s.panels * kColumns;
  Chunk<T> c = chunk_at(s, p, blockIdx.x / s.panels, s.chunks - 1);
  begin_states(c, panel);
  __syncthreads();
  for (; c.chunk >= 0; --c.chunk) {
    differentiate_values(c, panel, m);
    __syncthreads();
    retreat(c, panel, m);
    __syncthreads();
  }
}

template <typename T>
struct ScoreMemory {
  Operands<T> operands;
  double sums[kTokens][kColumns + 1];  // G, in the first column
};

// dA and dL in place of A and of the inverse.
template <typename T>
__device__ void differentiate_scores(const Chunk<T>& c, bool is_by_channel, ScoreMemory<T>& m) {
  for (int first = 0; first < kTokens; first += kColumns) {
    const auto store = [&](T(&sums)[4][2], bool keeps_diagonal, T sign, T* to) {
      for_results([&](int i, int j, int row, int x) {
        const int column = first + x;
        const bool is_kept = column < row || (keeps_diagonal && column == row);
        T factor = is_kept ? sign : T(0);
        if (is_kept && !is_by_channel) {
          factor *= exponential(static_cast<T>(m.sums[row][0] - m.sums[column][0]));
        }
        to[row * kTokens + column] = factor * sums[i][j];
      });
    };
    const auto written = [&](int x, int64_t v) { return c.written(first + x, v); };
    T of_q[4][2] = {}, of_k[4][2] = {};
    product<Along::kSum, Along::kSum>(
        m.operands, c.s.values, [&](int i, int64_t v) { return c.grad_out(i, v); }, written, of_q);
    store(of_q, true, T(1), c.square(c.p.w.scores));
    if (!c.is_delta()) continue;
    product<Along::kSum, Along::kSum>(
        m.operands, c.s.values,
        [&](int i, int64_t v) { return c.beta(i) * c.value(c.p.w.steps, i, v); }, written, of_k);
    store(of_k, false, T(-1), c.square(c.p.w.inverse));
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    scores_kernel(DeviceShape s, DevicePointers<T> p, bool is_by_channel) {
  ScoreMemory<T>& m = shared<ScoreMemory<T>>();
  const Chunk<T> c = chunk_of(s, p, blockIdx.x);
  if (!is_by_channel) {
    add_up_decays(c, 0, m.sums);
    __syncthreads();
  }
  differentiate_scores(c, is_by_channel, m);
  if (p.grad_beta == nullptr) return;
  for (int i = 0; i < 4; ++i) {
    const int row = patch_row<4>(i);
    T sum = T(0);
    for (int64_t v = threadIdx.x % 16; v < s.values; v += 16) {
      sum += c.value(p.w.steps, row, v) * c.value(p.w.errors, row, v);
    }
    sum = sum_of_row(sum);
    if (threadIdx.x % 16 == 0 && c.has(row)) p.grad_beta[c.scalar(row)] = sum;
  }
}

template <typename T>
cudaError_t backward(const mneme::KernelCall& call, const RecurrenceShape& shape,
                     mneme::cpu::Arena& arena) {
  const DeviceShape s = device_shape(shape);
  const cudaStream_t stream = stream_of(call);
  const int64_t places = shape.lanes * shape.heads;
  DevicePointers<T> p = inputs_of<T>(call);
  p.grad_out = call.grad_output(0).data<T>();
  p.grad_last_state = call.grad_output(1).data<T>();
  T** const gradients[] = {&p.grad_q,     &p.grad_k,     &p.grad_v,
                           &p.grad_decay, &p.grad_state, &p.grad_beta};
  for (uint32_t i = 0; i < Recurrence::kInputs; ++i) *gradients[i] = call.grad_input(i).data<T>();
  p.w = CudaWorkspace<T>::backward(arena, shape);
  p.w.states = call.saved(0).data<T>();
  cudaError_t status = prepare_chunks(stream, places, s, p, shape.is_by_channel);
  if (status == cudaSuccess && shape.is_delta) status = correct_chunks(stream, places, s, p);
  if (status == cudaSuccess) {
    status = launch_with_shared(places * s.panels, kThreads, sizeof(PanelMemory<T>), stream,
                                states_kernel<T>, s, p);
  }
  const bool wants_keys = p.grad_q != nullptr || p.grad_k != nullptr || p.grad_decay != nullptr;
  if (status != cudaSuccess || !(wants_keys || p.grad_beta != nullptr)) return status;
  status = launch_with_shared(places * s.chunks, kThreads, sizeof(ScoreMemory<T>), stream,
                              scores_kernel<T>, s, p, shape.is_by_channel);
  if (status != cudaSuccess || !wants_keys) return status;
  return differentiate_keys(stream, shape.lanes, s, p, shape.is_by_channel);
}

}  // namespace
}  // namespace recurrences::device

namespace recurrences {

void Recurrence::backward_cuda(const mneme::KernelCall& call) const {
  const RecurrenceShape s = cuda_shape_of(call);
  check_cuda_inputs(call);
  mneme::cuda::check_buffers(call, {call.saved(0)}, cuda_backward_workspace(s));
  mneme::cpu::Arena arena(call.workspace());
  mneme::cuda::check_launch(device::with_type(
      s, [&](auto type) { return device::backward<decltype(type)>(call, s, arena); }));
}

}  // namespace recurrences
