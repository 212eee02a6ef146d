// The reconstruction error on CUDA: both attentions and their difference; the derivatives are in
// reconstruction_device.cuh. Two kernels forward, three with wants_gradient, one backward: no
// allocation, no synchronisation, the same launches for the same shapes and wanted gradients, the
// same bits for the same inputs.
//
//   Equation       a = softmax(scale q K^T) V over the old and over the new rows, by running maxima
//                  and sums; error = sum (a_new - a_old)^2; with gradients change = 2 (a_new -
//                  a_old), normaliser = log2 sum_n 2^score, inner = sum_d change a_new
//   Shapes         q, change [B,T,H,d]; K, V [B,E,H,d] and [B,N,H,d]; normaliser [B,H,T]; inner
//                  [B,H,T,panels]; errors [B,H,tiles,panels]
//   Presumptions   B * H * ceil(T / 64) * ceil(d / 64) < 2^31
//   Decomposition  a block has 64 queries and 64 columns of one head, and takes 64 rows (32 in f64)
//                  at a time: 4 x 4 scores a thread, whose exponentials go to shared memory and
//                  through the product with the values into 4 x 4 results a thread. Heads wider
//                  than 64 compute their scores once a panel
//   Shared memory  33 KiB (f32), 42 KiB (f64)
//   Flops          2 B H T (E + N) d (1 + panels) and B H T (E + N) panels exponentials
#include "kernels/cuda/reconstruction_device.cuh"
#include "kernels/reconstruction.hpp"
#include "mneme_kernels/cuda/launch.hpp"

namespace compressive {
namespace device {

// Chunks of queries and keys, later one of values.
template <typename T>
union ChunkMemory {
  struct {
    T q[kChunk][kQueries + 1];
    T k[kChunk][kRows<T> + 1];
  } scores;
  T values[kChunk][kPanel];
};

template <typename T>
struct CompareMemory {
  ChunkMemory<T> chunk;
  T probabilities[kRows<T>][kQueries + 1];
};

// A tile of queries and a panel of columns over one set of rows; a thread's part.
template <typename T>
struct Attention {
  T sums[4][4] = {};
  T most[4];
  T sum[4] = {};

  __device__ T at(int i, int j) const { return sums[i][j] / sum[i]; }
};

template <typename T, typename E>
struct TileInputs {
  const E* q;       // the tile's first query
  const E* k;       // the head's first key
  const E* v;       // the head's first value, from the panel's first column
  int64_t queries;  // of the tile
  int64_t rows;     // that there are
  int64_t width;    // d
  int64_t columns;  // of the panel and what is behind it
  int64_t stride;   // H * d
  T scale;          // times log2(e)
};

// Scores of rows first .. first + kRows - 1; ends with a barrier.
template <typename T, typename E>
__device__ void score(CompareMemory<T>& m, const TileInputs<T, E>& in, int64_t first,
                      T (&scores)[4][kRows<T> / 16]) {
  for (int64_t j = 0; j < in.width; j += kChunk) {
    load_turned<kQueries>(m.chunk.scores.q, in.q + j, in.stride, in.queries, in.width - j);
    load_turned<kRows<T>>(m.chunk.scores.k, in.k + first * in.stride + j, in.stride,
                          in.rows - first, in.width - j);
    __syncthreads();
    multiply(m.chunk.scores.q, m.chunk.scores.k, scores);
    __syncthreads();
  }
}

// Scores to unnormalised probabilities in shared memory, and what was summed before to the same
// maximum. Rows that are not there have none.
template <typename T>
__device__ void add_to_softmax(CompareMemory<T>& m, T scale, int64_t count,
                               T (&scores)[4][kRows<T> / 16], Attention<T>& a) {
  constexpr int kEach = kRows<T> / 16;
  for (int i = 0; i < 4; ++i) {
    T most = a.most[i];
    for (int j = 0; j < kEach; ++j) {
      scores[i][j] = patch_column(j) < count ? scores[i][j] * scale : -INFINITY;
      most = scores[i][j] > most ? scores[i][j] : most;
    }
    most = max_of_row(most);
    const T shrink = power_of_two(a.most[i] - most);
    T sum = T(0);
    for (int j = 0; j < kEach; ++j) {
      const T p = power_of_two(scores[i][j] - most);
      m.probabilities[patch_column(j)][patch_row<4>(i)] = p;
      sum += p;
    }
    a.sum[i] = a.sum[i] * shrink + sum_of_row(sum);
    for (int j = 0; j < 4; ++j) a.sums[i][j] *= shrink;
    a.most[i] = most;
  }
}

template <typename T, typename E>
__device__ void attend(CompareMemory<T>& m, const TileInputs<T, E>& in, Attention<T>& a) {
  for (int i = 0; i < 4; ++i) a.most[i] = -INFINITY;
  for (int64_t first = 0; first < in.rows; first += kRows<T>) {
    T scores[4][kRows<T> / 16] = {};
    score(m, in, first, scores);
    add_to_softmax(m, in.scale, in.rows - first, scores, a);
    for (int k = 0; k < kRows<T>; k += kChunk) {
      load_rows(m.chunk.values, in.v + (first + k) * in.stride, in.stride, in.rows - first - k,
                in.columns);
      __syncthreads();
      multiply(m.probabilities + k, m.chunk.values, a.sums);
      __syncthreads();
    }
  }
}

// Sum over the block, in a fixed order; thread 0 has it.
__device__ inline double sum_of_block(double value) {
  __shared__ double parts[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0.0;
  for (const double part : parts) value += part;
  return value;
}

// The thread's squares, and what the gradients need.
template <typename T, typename E>
__device__ double finish(const DeviceShape& s, const DevicePointers<T, E>& p, int64_t block,
                         const TileInputs<T, E>& in, const Attention<T>& of_old,
                         const Attention<T>& of_new) {
  const int64_t panel = block % s.panels;
  const int64_t tile = block / s.panels % s.tiles;
  const int64_t head = block / s.panels / s.tiles;
  double error = 0.0;
  for (int i = 0; i < 4; ++i) {
    const int64_t query = tile * kQueries + patch_row<4>(i);
    const bool is_there = patch_row<4>(i) < in.queries;
    T* change = p.change + (head / s.heads * s.queries + query) * in.stride +
                head % s.heads * s.width + panel * kPanel;
    T inner = T(0);
    for (int j = 0; j < 4; ++j) {
      if (!is_there || patch_column(j) >= in.columns) continue;
      const T difference = of_new.at(i, j) - of_old.at(i, j);
      error += static_cast<double>(difference) * static_cast<double>(difference);
      inner += T(2) * difference * of_new.at(i, j);
      if (p.k_grad != nullptr) change[patch_column(j)] = T(2) * difference;
    }
    inner = sum_of_row(inner);
    if (p.k_grad == nullptr || !is_there || threadIdx.x % 16 != 0) continue;
    p.inner[(head * s.queries + query) * s.panels + panel] = inner;
    if (panel == 0) {
      p.normaliser[head * s.queries + query] = of_new.most[i] + logarithm_of_two(of_new.sum[i]);
    }
  }
  return error;
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2 : 1)
    compare_kernel(DeviceShape s, DevicePointers<T, E> p) {
  __shared__ CompareMemory<T> memory;
  const int64_t block = blockIdx.x;
  const int64_t panel = block % s.panels;
  const int64_t tile = block / s.panels % s.tiles;
  const int64_t head = block / s.panels / s.tiles;
  const int64_t lane = head / s.heads;
  const RowCounts counts = counts_of(s, p.counts, lane);
  double error = 0.0;
  if (counts.of_new > 0) {
    const int64_t stride = s.heads * s.width;
    const int64_t column = head % s.heads * s.width;
    const int64_t query = tile * kQueries;
    TileInputs<T, E> in;
    in.q = p.q + (lane * s.queries + query) * stride + column;
    in.queries = s.queries - query < kQueries ? s.queries - query : kQueries;
    in.width = s.width;
    in.columns = s.width - panel * kPanel;
    in.stride = stride;
    in.scale = static_cast<T>(s.scale * 1.4426950408889634074);
    in.k = p.k_old + lane * s.old_rows * stride + column;
    in.v = p.v_old + lane * s.old_rows * stride + column + panel * kPanel;
    in.rows = counts.of_old;
    Attention<T> of_old;
    attend(memory, in, of_old);
    in.k = p.k_new + lane * s.new_rows * stride + column;
    in.v = p.v_new + lane * s.new_rows * stride + column + panel * kPanel;
    in.rows = counts.of_new;
    Attention<T> of_new;
    attend(memory, in, of_new);
    error = finish(s, p, block, in, of_old, of_new);
  }
  error = sum_of_block(error);
  if (threadIdx.x == 0) p.errors[block] = error;
}

// One warp a lane: its blocks' errors, in a fixed order.
template <typename T>
__global__ void __launch_bounds__(32)
    sum_errors_kernel(int64_t blocks_of_lane, const double* errors, T* error) {
  errors += blockIdx.x * blocks_of_lane;
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < blocks_of_lane; i += 32) sum += errors[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, step);
  if (threadIdx.x == 0) error[blockIdx.x] = static_cast<T>(sum);
}

// The workspace's parts, in the order in which they lie; bytes.
struct Parts {
  uint64_t errors;
  uint64_t change;
  uint64_t normaliser;
  uint64_t inner;

  explicit Parts(const ReconstructionShape& s) {
    const uint64_t size = s.is_f64() ? 8 : 4;
    const int64_t queries = s.lanes * s.heads * s.queries;
    const int64_t panels = tiles_of(s.head_width, kPanel);
    const uint64_t wanted = s.wants_gradient ? size : 0;
    errors = static_cast<uint64_t>(s.lanes * s.heads * tiles_of(s.queries, kQueries) * panels) * 8;
    change = static_cast<uint64_t>(s.elements()) * wanted;
    normaliser = static_cast<uint64_t>(queries) * wanted;
    inner = static_cast<uint64_t>(queries * panels) * wanted;
  }
};

template <typename T, typename E>
DevicePointers<T, E> pointers_of(const ReconstructionShape& shape, const ReconstructionBuffers& b,
                                 void* workspace) {
  const Parts parts(shape);
  auto* at = static_cast<unsigned char*>(workspace);
  DevicePointers<T, E> p = {};
  p.q = static_cast<const E*>(b.q);
  p.k_old = static_cast<const E*>(b.k_old);
  p.v_old = static_cast<const E*>(b.v_old);
  p.k_new = static_cast<const E*>(b.k_new);
  p.v_new = static_cast<const E*>(b.v_new);
  p.counts = b.counts;
  p.error = static_cast<T*>(b.error);
  p.errors = reinterpret_cast<double*>(at);
  if (!shape.wants_gradient) return p;
  p.k_grad = static_cast<T*>(b.k_grad);
  p.v_grad = static_cast<T*>(b.v_grad);
  p.change = reinterpret_cast<T*>(at + parts.errors);
  p.normaliser = reinterpret_cast<T*>(at + parts.errors + parts.change);
  p.inner = reinterpret_cast<T*>(at + parts.errors + parts.change + parts.normaliser);
  return p;
}

template <typename T, typename E>
cudaError_t launch_forward(const ReconstructionShape& shape, const ReconstructionBuffers& buffers,
                           void* workspace, cudaStream_t stream) {
  const DeviceShape s = {shape.heads,
                         shape.queries,
                         shape.head_width,
                         shape.old_rows,
                         shape.new_rows,
                         tiles_of(shape.queries, kQueries),
                         tiles_of(shape.head_width, kPanel),
                         shape.scale};
  const DevicePointers<T, E> p = pointers_of<T, E>(shape, buffers, workspace);
  const int64_t of_lane = s.heads * s.tiles * s.panels;
  const int64_t rows = shape.lanes * s.heads * tiles_of(s.new_rows, kRows<T>) * s.panels;
  if (shape.lanes == 0) return cudaSuccess;
  cudaError_t status = launch(shape.lanes * of_lane, kThreads, stream, compare_kernel<T, E>, s, p);
  if (status == cudaSuccess) {
    status = launch(shape.lanes, 32, stream, sum_errors_kernel<T>, of_lane, p.errors, p.error);
  }
  if (status != cudaSuccess || !shape.wants_gradient) return status;
  return launch(rows, kThreads, stream, gradient_kernel<T, E>, s, p);
}

template <typename T, typename E>
cudaError_t launch_scale(const ReconstructionShape& s, const void* arriving, const void* saved,
                         void* grad, cudaStream_t stream) {
  const int64_t count = s.new_elements();
  if (grad == nullptr || count == 0) return cudaSuccess;
  return launch(tiles_of(count, kThreads), kThreads, stream, scale_kernel<T, E>, count,
                count / s.lanes, static_cast<const T*>(arriving), static_cast<const T*>(saved),
                static_cast<E*>(grad));
}

}  // namespace device

// The blocks' errors and, with wants_gradient, the derivatives by the new attention, the queries'
// softmax normalisers and inner products.
uint64_t Reconstruction::cuda_workspace(const ReconstructionShape& shape) {
  const device::Parts parts(shape);
  return parts.errors + parts.change + parts.normaliser + parts.inner;
}

void Reconstruction::forward_cuda(const mneme::KernelCall& call) const {
  const ReconstructionShape shape = shape_of(call);
  const ReconstructionBuffers buffers = buffers_of(call);
  for (uint32_t i = 0; i < kInputs; ++i) mneme::cuda::check_buffers(call, {call.input(i)});
  mneme::cuda::check_buffers(call, {call.output(0), call.saved(0), call.saved(1)},
                             cuda_workspace(shape));
  mneme::cuda::check_launch(
      mneme::cuda::with_elements_but_f16(shape.element, [&](auto sum, auto element) {
        return device::launch_forward<decltype(sum), decltype(element)>(
            shape, buffers, call.workspace(), mneme::cuda::stream_of(call));
      }));
}

void Reconstruction::backward_cuda(const mneme::KernelCall& call) const {
  const ReconstructionShape shape = shape_of(call);
  const ReconstructionGradients gradients = gradients_of(call);
  const cudaStream_t stream = mneme::cuda::stream_of(call);
  mneme::cuda::check_buffers(call, {call.saved(0), call.saved(1)});
  const auto scale = [&](const void* saved, void* grad) {
    mneme::cuda::check_launch(
        mneme::cuda::with_elements_but_f16(shape.element, [&](auto sum, auto element) {
          return device::launch_scale<decltype(sum), decltype(element)>(shape, gradients.arriving,
                                                                        saved, grad, stream);
        }));
  };
  scale(gradients.k_saved, gradients.k_new);
  scale(gradients.v_saved, gradients.v_new);
}

}  // namespace compressive
