// Histogram of attention: mass of all heads' valid densities in each bin.
//
//   Equation       below[b][h][k] = sum_q F((e_k - mu) / sigma) over valid q, F the standard
//                  normal's cdf; mass[b][k] = max(sum_h below[b][h][k + 1] - below[b][h][k], 0)
//   Shapes         mu, s2 [B,H,T]; valid [B,T]; below [B,H,bins+1]; mass [B,bins]
//   Requires       B * H * ceil((bins + 1) / 128) < 2^31
//   Decomposition  below: a block has one head and 128 edges, a thread one edge and all queries in
//                  their order, 128 at a time through shared memory. Then a thread has one bin of
//                  one lane and adds its heads in their order
//   Launches       two, which fill the masses whole: no allocation, no synchronisation, the same
//                  launches for the same shapes, the same bits for the same inputs
//   Shared memory  2 KiB
//   Bytes          two densities B * H * T, below written and read once; B H T (bins + 1) cdfs in
//                  double
#include "kernels/histogram.hpp"
#include "mneme_kernels/cuda/launch.hpp"

namespace continuous_ltm {
namespace {

constexpr int kEdges = 128;  // threads of a block

__device__ double edge_of(int64_t k, int64_t bins) {
  if (k == 0) return -1e-6;
  if (k >= bins) return 1.0 + 1e-6;
  return static_cast<double>(k) / static_cast<double>(bins);
}

template <typename T>
__global__ void __launch_bounds__(kEdges)
    below_kernel(HistogramShape s, int64_t panels, const T* mu, const T* variance,
                 const uint8_t* valid, double* below) {
  __shared__ double mean[kEdges];
  __shared__ double over_sigma[kEdges];  // 0 marks a query that does not count
  const int64_t head = blockIdx.x / panels;
  const int64_t k = blockIdx.x % panels * kEdges + threadIdx.x;
  const double edge = edge_of(k, s.bins);
  mu += head * s.queries;
  variance += head * s.queries;
  valid += head / s.heads * s.queries;
  double sum = 0.0;
  for (int64_t begin = 0; begin < s.queries; begin += kEdges) {
    const int64_t q = begin + threadIdx.x;
    const bool counts = q < s.queries && valid[q] != 0;
    mean[threadIdx.x] = counts ? static_cast<double>(mu[q]) : 0.0;
    over_sigma[threadIdx.x] = counts ? 1.0 / sqrt(static_cast<double>(variance[q])) : 0.0;
    __syncthreads();
    for (int i = 0; i < kEdges; ++i) {
      // Not equal for NaN as well.
      if (over_sigma[i] != 0.0) sum += normcdf((edge - mean[i]) * over_sigma[i]);
    }
    __syncthreads();
  }
  if (k <= s.bins) below[head * (s.bins + 1) + k] = sum;
}

__global__ void mass_kernel(HistogramShape s, const double* below, double* mass) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= s.lanes * s.bins) return;
  const int64_t lane = index / s.bins;
  const int64_t k = index % s.bins;
  double low = 0.0;
  double high = 0.0;
  for (int64_t h = 0; h < s.heads; ++h) {
    const double* edges = below + (lane * s.heads + h) * (s.bins + 1);
    low += edges[k];
    high += edges[k + 1];
  }
  mass[index] = high - low < 0.0 ? 0.0 : high - low;  // NaN stays
}

}  // namespace

void Histogram::forward_cuda(const mneme::KernelCall& call) const {
  using namespace mneme::cuda;  // NOLINT
  const HistogramShape s = shape_of(call);
  const HistogramBuffers buffers = buffers_of(call);
  check_buffers(call, {call.input(0), call.input(1), call.input(2), call.output(0)},
                static_cast<uint64_t>(s.lanes * s.heads * (s.bins + 1)) * sizeof(double));
  const cudaStream_t stream = stream_of(call);
  auto* below = static_cast<double*>(call.workspace());
  const auto sum = [&](auto element) {
    using T = decltype(element);
    const int64_t panels = tiles_of(s.bins + 1, kEdges);
    return launch(s.lanes * s.heads * panels, kEdges, stream, below_kernel<T>, s, panels,
                  static_cast<const T*>(buffers.mu), static_cast<const T*>(buffers.variance),
                  buffers.valid, below);
  };
  check_launch(s.is_f64 ? sum(double{}) : sum(float{}));
  check_launch(launch(tiles_of(s.lanes * s.bins, kEdges), kEdges, stream, mass_kernel, s, below,
                      buffers.mass));
}

}  // namespace continuous_ltm
