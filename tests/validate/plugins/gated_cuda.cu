#include "gated_cuda.hpp"
#include "mneme_kernels/cuda/launch.hpp"

namespace mneme::test {
namespace {

constexpr int kThreads = 64;

struct Matrix {
  int64_t lanes, width, lane, column;  // extents; strides of `mean`
};

// opened: null where no backward follows.
template <typename T>
__global__ void forward_kernel(Matrix m, const T* gate, const T* mean, const T* shift, T* out,
                               T* opened, T added) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= m.lanes * m.width) return;
  const int64_t d = i % m.width, b = i / m.width;
  const T open = tanh(gate[d]);
  out[i] = open * mean[b * m.lane + d * m.column] + added;
  if (shift != nullptr) out[i] += shift[d];
  if (b == 0 && opened != nullptr) opened[d] = open;
}

template <typename T>
__global__ void backward_kernel(Matrix m, const T* mean, const T* opened, const T* grad_out,
                                T* grad_gate, T* grad_mean, T* grad_shift) {
  const int64_t d = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (d >= m.width) return;
  T sum = 0, shift = 0;
  for (int64_t b = 0; b < m.lanes; ++b) {
    const T grad = grad_out[b * m.width + d];
    sum += grad * mean[b * m.lane + d * m.column];
    shift += grad;
    if (grad_mean != nullptr) grad_mean[b * m.width + d] = opened[d] * grad;
  }
  if (grad_gate != nullptr) grad_gate[d] = (1 - opened[d] * opened[d]) * sum;
  if (grad_shift != nullptr) grad_shift[d] = shift;
}

Matrix matrix_of(const View& mean) {
  return {mean.dim(0), mean.dim(1), mean.stride(0), mean.stride(1)};
}

cudaStream_t stream_for(const KernelCall& call, const std::string& fault) {
  return fault == "cuda_stream" ? nullptr : cuda::stream_of(call);
}

void end(const KernelCall& call, const std::string& fault) {
  if (fault == "cuda_waits") cuda::check_launch(cudaStreamSynchronize(cuda::stream_of(call)));
}

template <typename T>
void forward(const KernelCall& call, const std::string& fault) {
  const Matrix m = matrix_of(call.input(1));
  const T added = fault == "cuda_result" ? T(0.01) : T(0);
  cuda::check_launch(
      cuda::launch(cuda::tiles_of(m.lanes * m.width, kThreads), kThreads, stream_for(call, fault),
                   forward_kernel<T>, m, static_cast<const T*>(call.input(0).data<T>()),
                   static_cast<const T*>(call.input(1).data<T>()),
                   static_cast<const T*>(call.input(2).data<T>()), call.output(0).data<T>(),
                   call.keeps_saved() ? call.saved(0).data<T>() : static_cast<T*>(nullptr), added));
}

template <typename T>
void backward(const KernelCall& call, const std::string& fault) {
  const Matrix m = matrix_of(call.input(1));
  cuda::check_launch(cuda::launch(
      cuda::tiles_of(m.width, kThreads), kThreads, stream_for(call, fault), backward_kernel<T>, m,
      static_cast<const T*>(call.input(1).data<T>()),
      static_cast<const T*>(call.saved(0).data<T>()),
      static_cast<const T*>(call.grad_output(0).data<T>()), call.grad_input(0).data<T>(),
      call.grad_input(1).data<T>(), call.grad_input(2).data<T>()));
}

}  // namespace

void gated_forward_cuda(const KernelCall& call, const std::string& fault) {
  call.input(0).dtype() == DType::kF64 ? forward<double>(call, fault) : forward<float>(call, fault);
  end(call, fault);
}

void gated_backward_cuda(const KernelCall& call, const std::string& fault) {
  call.input(0).dtype() == DType::kF64 ? backward<double>(call, fault)
                                       : backward<float>(call, fault);
  end(call, fault);
}

}  // namespace mneme::test
