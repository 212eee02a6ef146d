// Histogram of attention: mass of all heads' valid densities in each bin.
//
//   Equation       below[b][h][k] = sum_q F((e_k - mu) / sigma) over valid q, F the standard
//                  normal's cdf; mass[b][k] = max(sum_h below[b][h][k + 1] - below[b][h][k], 0)
//   Shapes         mu, s2 [B,H,T]; valid [B,T]; below [B,H,bins+1]; mass [B,bins]
//   Presumptions   B * H * ceil((bins + 1) / 128) < 2^31
//   Decomposition  below: a block has one head and 128 edges, a thread one edge and all queries in
//                  their order, 128 at a time through shared memory. Then a thread has one bin of
//                  one lane and adds its heads in their order
//   Shared memory  2 KiB
//   Bytes          two densities B * H * T, below written and read once; B H T (bins + 1) cdfs in
//                  double
#include "cuda/histogram.cuh"

namespace continuous_ltm::cuda {
namespace {

constexpr int kEdges = 128;  // threads of a block
constexpr int64_t kMostBlocks = 2147483647;

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

template <typename T>
cudaError_t launch(const HistogramShape& s, const HistogramBuffers& b, double* below,
                   cudaStream_t stream) {
  const int64_t panels = (s.bins + kEdges) / kEdges;
  const int64_t blocks = s.lanes * s.heads * panels;
  const int64_t outputs = (s.lanes * s.bins + kEdges - 1) / kEdges;
  if (blocks > kMostBlocks || outputs > kMostBlocks) return cudaErrorInvalidValue;
  if (blocks > 0) {
    below_kernel<<<static_cast<unsigned>(blocks), kEdges, 0, stream>>>(
        s, panels, static_cast<const T*>(b.mu), static_cast<const T*>(b.variance), b.valid, below);
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) return status;
  }
  if (outputs == 0) return cudaSuccess;
  mass_kernel<<<static_cast<unsigned>(outputs), kEdges, 0, stream>>>(s, below, b.mass);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_histogram(const HistogramShape& shape, const HistogramBuffers& buffers,
                             void* workspace, cudaStream_t stream) {
  if (shape.lanes < 0 || shape.heads < 0 || shape.queries < 0 || shape.bins < 1) {
    return cudaErrorInvalidValue;
  }
  const bool has_queries = shape.lanes * shape.heads * shape.queries > 0;
  if (has_queries &&
      (buffers.mu == nullptr || buffers.variance == nullptr || buffers.valid == nullptr)) {
    return cudaErrorInvalidValue;
  }
  if ((shape.lanes > 0 && buffers.mass == nullptr) ||
      (shape.lanes * shape.heads > 0 && workspace == nullptr)) {
    return cudaErrorInvalidValue;
  }
  auto* below = static_cast<double*>(workspace);
  return shape.is_f64 ? launch<double>(shape, buffers, below, stream)
                      : launch<float>(shape, buffers, below, stream);
}

}  // namespace continuous_ltm::cuda
