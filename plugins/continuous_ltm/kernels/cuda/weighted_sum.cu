// Weighted sums of the functions' values: the expectation's forward pass, and the signal at
// positions, which is an expectation under densities without width.
//
//   Equation       out[b][q][h] = sum_n N(mu; mu_n, sigma_n^2 + s2) V[b][n][h]
//   Shapes         mu, s2 [B,H,T]; V [B,N,H,d]; out [B,T,H,d]; order [B,H,T]
//   Requires       T, N / W < 2^31; B * H * ceil(T / 64) * ceil(d / 64) < 2^31
//   Decomposition  a block has 64 queries of one head, neighbours in `order`, and 64 columns; a
//                  thread 4 x 4 results. Width by width, 32 functions at a time: their values and
//                  the 64 x 32 weights go to shared memory, then through the product. Functions
//                  beyond the cutoff of all 64 queries are not visited
//   Shared memory  18 KiB (f32), 36 KiB (f64)
//   Bytes          V once a block of queries: B * H * ceil(T / 64) * N * d elements at most, from
//                  L2; T * d elements written. Flops: 2 B H T N d and B H T N ceil(d / 64)
//                  exponentials at most
//
// Both launches are the same for the same shapes, without allocation or synchronisation, and give
// the same bits for the same inputs.
#include "kernels/cuda/densities.cuh"
#include "kernels/expectation.hpp"
#include "kernels/signal.hpp"

namespace continuous_ltm {
namespace device {
namespace {

struct SumShape {
  int64_t heads;    // H
  int64_t queries;  // T
  int64_t width;    // d
  int64_t basis;    // N
  int64_t tiles;    // ceil(T / kTile)
  int64_t panels;   // ceil(d / kPanel)
};

template <typename T, typename E, typename Mean>
struct SumPointers {
  const int32_t* order;
  const Mean* mu;
  const T* variance;  // null: zeros
  const E* values;
  E* out;
};

template <typename T, typename E, typename Mean>
__global__ void __launch_bounds__(kThreads)
    weighted_sum_kernel(DeviceGrid grid, SumShape s, SumPointers<T, E, Mean> p) {
  __shared__ Queries<T> queries;
  __shared__ Centres<T> centres;
  __shared__ T weights[kChunk][kTile];
  __shared__ T values[kChunk][kPanel];
  const int64_t column = blockIdx.x % s.panels * kPanel;
  const int64_t tile = blockIdx.x / s.panels % s.tiles;
  const int64_t head = blockIdx.x / s.panels / s.tiles;
  const int64_t row = s.heads * s.width;
  const int64_t first_column = head % s.heads * s.width + column;
  const E* from = p.values + head / s.heads * s.basis * row + first_column;
  load_queries(queries, p.order + head * s.queries, p.mu + head * s.queries,
               p.variance == nullptr ? nullptr : p.variance + head * s.queries, tile * kTile,
               s.queries, kTile);
  T sums[kPatch][kPatch] = {};
  for (int32_t w = 0; w < grid.widths; ++w) {
    set_width(queries, grid, w);
    for (int32_t c = queries.first; c < queries.last; c += kChunk) {
      const int count = queries.last - c < kChunk ? queries.last - c : kChunk;
      load_centres(centres, grid, c, kChunk);
      load_rows(values, from + (static_cast<int64_t>(c) * grid.widths + w) * row, grid.widths * row,
                count, s.width - column);
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kChunk * kTile; i += kThreads) {
        const int k = i / kTile;
        const int q = i % kTile;
        weights[k][q] =
            k < count ? weight_of(queries, q, distance_of(queries, q, centres, k)) : T(0);
      }
      __syncthreads();
      multiply(weights, values, sums);
      __syncthreads();
    }
  }
  for (int i = 0; i < kPatch; ++i) {
    if (patch_row<kPatch>(i) >= queries.count) continue;
    E* to = p.out + (head / s.heads * s.queries + queries.place[patch_row<kPatch>(i)]) * row +
            first_column;
    for (int j = 0; j < kPatch; ++j) {
      if (column + patch_column(j) < s.width) narrow(sums[i][j], to[patch_column(j)]);
    }
  }
}

// The order of the queries, then the sums.
template <typename T, typename E, typename Mean>
cudaError_t launch_sum(const BasisGrid& basis, int64_t lanes, const SumShape& s,
                       const SumPointers<T, E, Mean>& p, int32_t* order, cudaStream_t stream) {
  if (!is_usable(basis) || s.queries > kMaxIndices) return cudaErrorInvalidValue;
  const DeviceGrid grid = device_grid(basis, sizeof(T) == sizeof(double));
  const int64_t blocks = lanes * s.heads * s.tiles * s.panels;
  if (blocks > kMaxBlocks) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  const cudaError_t status = launch(lanes * s.heads, 32, stream, order_kernel<T, Mean>, grid,
                                    s.queries, p.mu, p.variance, order);
  if (status != cudaSuccess) return status;
  return launch(blocks, kThreads, stream, weighted_sum_kernel<T, E, Mean>, grid, s, p);
}

}  // namespace
}  // namespace device

void Expectation::forward_cuda(const mneme::KernelCall& call) const {
  using namespace device;  // NOLINT
  const ExpectationShape shape = shape_of(call);
  const ExpectationBuffers buffers = buffers_of(call);
  mneme::cuda::check_buffers(call, {call.input(0), call.input(1), call.input(2), call.output(0)},
                             shape.cuda_workspace());
  const SumShape sizes = {shape.heads,
                          shape.queries,
                          shape.head_width,
                          shape.grid.basis(),
                          tiles_of(shape.queries, kTile),
                          tiles_of(shape.head_width, kPanel)};
  auto* order = static_cast<int32_t*>(call.workspace());
  check_launch(with_elements(shape.element, [&](auto sum, auto element) {
    using T = decltype(sum);
    using E = decltype(element);
    const SumPointers<T, E, T> pointers = {
        order, static_cast<const T*>(buffers.mu), static_cast<const T*>(buffers.variance),
        static_cast<const E*>(buffers.values), static_cast<E*>(buffers.context)};
    return launch_sum(shape.grid, shape.lanes, sizes, pointers, order, stream_of(call));
  }));
}

void Signal::forward_cuda(const mneme::KernelCall& call) const {
  using namespace device;  // NOLINT
  const SignalShape shape = shape_of(call);
  const SignalBuffers buffers = buffers_of(call);
  check_buffers(call, {call.input(0), call.input(1), call.output(0)}, shape.cuda_workspace());
  const SumShape sizes = {1,
                          shape.samples,
                          shape.width,
                          shape.grid.basis(),
                          tiles_of(shape.samples, kTile),
                          tiles_of(shape.width, kPanel)};
  auto* order = static_cast<int32_t*>(call.workspace());
  const auto run = [&](auto element) {
    using T = decltype(element);
    const SumPointers<T, T, double> pointers = {order, buffers.positions, nullptr,
                                                static_cast<const T*>(buffers.coefficients),
                                                static_cast<T*>(buffers.rows)};
    return launch_sum(shape.grid, shape.lanes, sizes, pointers, order, stream_of(call));
  };
  check_launch(shape.is_f64 ? run(double{}) : run(float{}));
}

}  // namespace continuous_ltm
