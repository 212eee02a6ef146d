// The expectation's backward pass on CUDA: the order of each head's queries (densities.cuh), then
// the gradients in two kernels, both of which compute r where they use it. No allocation, no
// synchronisation, the same launches for the same shapes and wanted gradients, the same bits for
// the same inputs.
//
//   Equation       dr_n = dctx . V_n;  dmu = -sum_n dr_n r_n t / v_n;
//                  ds2 = sum_n dr_n r_n (t^2 / v_n - 1) / (2 v_n);  dV_n = sum_q r_n dctx
//                  with t = mu - mu_n, v_n = sigma_n^2 + s2
//   Shapes         mu, s2, dmu, ds2, order [B,H,T]; V, dV [B,N,H,d]; dctx [B,T,H,d]
//   Requires       T, N / W < 2^31; B * H * ceil(T / 64) and B * H * W * ceil(N / W / 64) *
//                  ceil(d / 64) < 2^31
//   Decomposition  densities: a block has 64 queries of one head, neighbours in `order`; width by
//                  width, 64 functions at a time, a 64 x 64 piece of dr is summed over columns, 4 x
//                  4 a thread, and used up at once. values: a block has 64 functions of one width
//                  and 64 columns of one head, and sums over the queries in their order. Functions
//                  beyond the cutoff are not visited; no atomics on numbers: the same bits always
//   Shared memory  21 KiB (f32), 39 KiB (f64)
//   Flops          4 B H T N d and B H T N (1 + ceil(d / 64)) exponentials at most
#include "kernels/cuda/densities.cuh"
#include "kernels/expectation.hpp"

namespace continuous_ltm {
namespace device {
namespace {

struct GradientShape {
  int64_t heads;    // H
  int64_t queries;  // T
  int64_t width;    // d
  int64_t basis;    // N
  int64_t tiles;    // of queries for the densities, of one width's functions for the values
  int64_t panels;   // ceil(d / kPanel)
};

template <typename T, typename E>
struct GradientPointers {
  const int32_t* order;
  const T* mu;
  const T* variance;
  const E* values;
  const E* context_grad;
  T* mu_grad;        // null where not wanted
  T* variance_grad;  // likewise
  E* values_grad;
};

// A thread's part of sum dr r t and sum dr r (t^2 / v - 1) over functions of one width.
template <typename T>
__device__ void add_functions(const Queries<T>& queries, const Centres<T>& centres,
                              const T (&dr)[kPatch][kPatch], T (&mu_sum)[kPatch],
                              T (&variance_sum)[kPatch]) {
  for (int i = 0; i < kPatch; ++i) {
    const int q = patch_row<kPatch>(i);
    for (int j = 0; j < kPatch; ++j) {
      const T distance = distance_of(queries, q, centres, patch_column(j));
      const T change = dr[i][j] * weight_of(queries, q, distance);
      mu_sum[i] += change * distance;
      variance_sum[i] += change * (distance * distance * queries.inverse[q] - T(1));
    }
  }
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads, 2)
    density_gradients_kernel(DeviceGrid grid, GradientShape s, GradientPointers<T, E> p) {
  __shared__ Queries<T> queries;
  __shared__ Centres<T> centres;
  __shared__ T context[kChunk][kTile + 1];
  __shared__ T values[kChunk][kTile + 1];
  const int64_t tile = blockIdx.x % s.tiles;
  const int64_t head = blockIdx.x / s.tiles;
  const int64_t row = s.heads * s.width;
  const int64_t column = head % s.heads * s.width;
  const E* context_rows = p.context_grad + head / s.heads * s.queries * row + column;
  const E* value_rows = p.values + head / s.heads * s.basis * row + column;
  load_queries(queries, p.order + head * s.queries, p.mu + head * s.queries,
               p.variance + head * s.queries, tile * kTile, s.queries, kTile);
  T mu_grad[kPatch] = {};
  T variance_grad[kPatch] = {};
  for (int32_t w = 0; w < grid.widths; ++w) {
    set_width(queries, grid, w);
    T mu_sum[kPatch] = {};
    T variance_sum[kPatch] = {};
    for (int32_t c = queries.first; c < queries.last; c += kTile) {
      const int count = queries.last - c < kTile ? queries.last - c : kTile;
      load_centres(centres, grid, c, kTile);
      T dr[kPatch][kPatch] = {};
      for (int64_t j = 0; j < s.width; j += kChunk) {
        fill_turned<kTile>(context, s.width - j, [&](int r, int k) {
          return r < queries.count ? widen(context_rows[queries.place[r] * row + j + k]) : T(0);
        });
        fill_turned<kTile>(values, s.width - j, [&](int r, int k) {
          const int64_t n = static_cast<int64_t>(c + r) * grid.widths + w;
          return r < count ? widen(value_rows[n * row + j + k]) : T(0);
        });
        __syncthreads();
        multiply(context, values, dr);
        __syncthreads();
      }
      add_functions(queries, centres, dr, mu_sum, variance_sum);
      __syncthreads();
    }
    for (int i = 0; i < kPatch; ++i) {
      const T inverse = queries.inverse[patch_row<kPatch>(i)];
      mu_grad[i] -= mu_sum[i] * inverse;
      variance_grad[i] += variance_sum[i] * inverse * T(0.5);
    }
  }
  for (int i = 0; i < kPatch; ++i) {
    const T of_mu = sum_of_row(mu_grad[i]);
    const T of_variance = sum_of_row(variance_grad[i]);
    if (threadIdx.x % 16 != 0 || patch_row<kPatch>(i) >= queries.count) continue;
    const int64_t to = head * s.queries + queries.place[patch_row<kPatch>(i)];
    if (p.mu_grad != nullptr) p.mu_grad[to] = of_mu;
    if (p.variance_grad != nullptr) p.variance_grad[to] = of_variance;
  }
}

// Weights [query][function] of one block of queries, and their rows of the context's gradient.
template <typename T, typename E>
__device__ void load_queries_part(const Queries<T>& queries, const Centres<T>& centres, int count,
                                  const E* context_rows, int64_t row, int64_t columns,
                                  T (&weights)[kChunk][kTile], T (&context)[kChunk][kPanel]) {
  for (int i = static_cast<int>(threadIdx.x); i < kChunk * kTile; i += kThreads) {
    const int q = i / kTile;
    const int k = i % kTile;
    weights[q][k] = q < queries.count && k < count
                        ? weight_of(queries, q, distance_of(queries, q, centres, k))
                        : T(0);
    context[q][k] =
        q < queries.count && k < columns ? widen(context_rows[queries.place[q] * row + k]) : T(0);
  }
}
static_assert(kTile == kPanel);

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads)
    value_gradients_kernel(DeviceGrid grid, GradientShape s, GradientPointers<T, E> p) {
  __shared__ Queries<T> queries;
  __shared__ Centres<T> centres;
  __shared__ T weights[kChunk][kTile];
  __shared__ T context[kChunk][kPanel];
  const int64_t column = blockIdx.x % s.panels * kPanel;
  const int64_t piece = blockIdx.x / s.panels % (s.tiles * grid.widths);
  const int64_t head = blockIdx.x / s.panels / (s.tiles * grid.widths);
  const auto w = static_cast<int32_t>(piece % grid.widths);
  const auto first = static_cast<int32_t>(piece / grid.widths * kTile);
  const int count = grid.centres - first < kTile ? grid.centres - first : kTile;
  const int64_t row = s.heads * s.width;
  const int64_t first_column = head % s.heads * s.width + column;
  const E* context_rows = p.context_grad + head / s.heads * s.queries * row + first_column;
  load_centres(centres, grid, first, kTile);
  T sums[kPatch][kPatch] = {};
  for (int64_t begin = 0; begin < s.queries; begin += kChunk) {
    load_queries(queries, p.order + head * s.queries, p.mu + head * s.queries,
                 p.variance + head * s.queries, begin, s.queries, kChunk);
    set_width(queries, grid, w);
    if (queries.first >= first + count || queries.last <= first) continue;
    load_queries_part(queries, centres, count, context_rows, row, s.width - column, weights,
                      context);
    __syncthreads();
    multiply(weights, context, sums);
    __syncthreads();
  }
  for (int i = 0; i < kPatch; ++i) {
    if (patch_row<kPatch>(i) >= count) continue;
    const int64_t n = static_cast<int64_t>(first + patch_row<kPatch>(i)) * grid.widths + w;
    E* to = p.values_grad + (head / s.heads * s.basis + n) * row + first_column;
    for (int j = 0; j < kPatch; ++j) {
      if (column + patch_column(j) < s.width) narrow(sums[i][j], to[patch_column(j)]);
    }
  }
}

template <typename T, typename E>
class Backward {
 public:
  Backward(const ExpectationShape& shape, const ExpectationBuffers& buffers,
           const ExpectationGradients& gradients, int32_t* order, cudaStream_t stream)
      : grid_(device_grid(shape.grid, sizeof(T) == sizeof(double))),
        heads_(shape.lanes * shape.heads),
        sizes_{shape.heads,
               shape.queries,
               shape.head_width,
               shape.grid.basis(),
               0,
               tiles_of(shape.head_width, kPanel)},
        pointers_{order,
                  static_cast<const T*>(buffers.mu),
                  static_cast<const T*>(buffers.variance),
                  static_cast<const E*>(buffers.values),
                  static_cast<const E*>(gradients.context),
                  static_cast<T*>(gradients.mu),
                  static_cast<T*>(gradients.variance),
                  static_cast<E*>(gradients.values)},
        order_(order),
        stream_(stream) {}

  cudaError_t run() {
    cudaError_t status =
        launch(heads_ * sizes_.queries > 0 ? heads_ : 0, 32, stream_, order_kernel<T, T>, grid_,
               sizes_.queries, pointers_.mu, pointers_.variance, order_);
    if (status == cudaSuccess) status = densities();
    if (status == cudaSuccess) status = values();
    return status;
  }

 private:
  cudaError_t densities() {
    if (pointers_.mu_grad == nullptr && pointers_.variance_grad == nullptr) return cudaSuccess;
    sizes_.tiles = tiles_of(sizes_.queries, kTile);
    return launch(heads_ * sizes_.tiles, kThreads, stream_, density_gradients_kernel<T, E>, grid_,
                  sizes_, pointers_);
  }
  cudaError_t values() {
    if (pointers_.values_grad == nullptr) return cudaSuccess;
    sizes_.tiles = tiles_of(grid_.centres, kTile);
    return launch(heads_ * grid_.widths * sizes_.tiles * sizes_.panels, kThreads, stream_,
                  value_gradients_kernel<T, E>, grid_, sizes_, pointers_);
  }

  DeviceGrid grid_;
  int64_t heads_;
  GradientShape sizes_;
  GradientPointers<T, E> pointers_;
  int32_t* order_;
  cudaStream_t stream_;
};

}  // namespace
}  // namespace device

void Expectation::backward_cuda(const mneme::KernelCall& call) const {
  const ExpectationShape shape = shape_of(call);
  const ExpectationBuffers buffers = buffers_of(call);
  const ExpectationGradients gradients = gradients_of(call);
  const cudaStream_t stream = mneme::cuda::stream_of(call);
  // Without columns or queries no gradient arrives either; what is wanted is zeros.
  if (gradients.context == nullptr) {
    for (uint32_t i = 0; i < kInputs; ++i) mneme::cuda::clear(call.grad_input(i), stream);
    return;
  }
  mneme::cuda::check_buffers(call, {call.input(0), call.input(1), call.input(2)},
                             shape.cuda_workspace());
  if (!device::is_usable(shape.grid) || shape.queries > device::kMaxIndices) {
    mneme::cuda::check_launch(cudaErrorInvalidValue);
  }
  auto* order = static_cast<int32_t*>(call.workspace());
  mneme::cuda::check_launch(mneme::cuda::with_elements(shape.element, [&](auto sum, auto element) {
    return device::Backward<decltype(sum), decltype(element)>(shape, buffers, gradients, order,
                                                              stream)
        .run();
  }));
}

}  // namespace continuous_ltm
