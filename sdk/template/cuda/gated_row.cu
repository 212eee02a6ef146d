// gated_row on CUDA: a thread a column d, which walks over the lanes.
#include "gated_row.hpp"
#include "mneme_kernels/cuda/launch.hpp"

namespace my_memory {
namespace {

constexpr int kThreads = 128;

template <typename T>
__global__ void forward_kernel(int64_t lanes, int64_t width, const T* gate, const T* last, T* out) {
  const int64_t d = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (d >= width) return;
  const T opened = tanh(gate[d]);
  for (int64_t b = 0; b < lanes; ++b) out[b * width + d] = opened * last[b * width + d];
}

template <typename T>
__global__ void backward_kernel(int64_t lanes, int64_t width, const T* gate, const T* last,
                                const T* grad_out, T* grad_gate, T* grad_last) {
  const int64_t d = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (d >= width) return;
  const T opened = tanh(gate[d]);
  T sum = 0;
  for (int64_t b = 0; b < lanes; ++b) {
    const int64_t at = b * width + d;
    sum += grad_out[at] * last[at];
    if (grad_last != nullptr) grad_last[at] = opened * grad_out[at];
  }
  if (grad_gate != nullptr) grad_gate[d] = (1 - opened * opened) * sum;
}

template <typename T>
void forward(const mneme::KernelCall& call) {
  const int64_t lanes = call.input(1).dim(0), width = call.input(1).dim(1);
  mneme::cuda::check_launch(mneme::cuda::launch(
      mneme::cuda::tiles_of(width, kThreads), kThreads, mneme::cuda::stream_of(call),
      forward_kernel<T>, lanes, width, static_cast<const T*>(call.input(0).data<T>()),
      static_cast<const T*>(call.input(1).data<T>()), call.output(0).data<T>()));
}

template <typename T>
void backward(const mneme::KernelCall& call) {
  const int64_t lanes = call.input(1).dim(0), width = call.input(1).dim(1);
  mneme::cuda::check_launch(mneme::cuda::launch(
      mneme::cuda::tiles_of(width, kThreads), kThreads, mneme::cuda::stream_of(call),
      backward_kernel<T>, lanes, width, static_cast<const T*>(call.input(0).data<T>()),
      static_cast<const T*>(call.input(1).data<T>()),
      static_cast<const T*>(call.grad_output(0).data<T>()), call.grad_input(0).data<T>(),
      call.grad_input(1).data<T>()));
}

}  // namespace

void GatedRow::forward_cuda(const mneme::KernelCall& call) const {
  mneme::cuda::check_buffers(call, {call.input(0), call.input(1), call.output(0)});
  call.input(0).dtype() == mneme::DType::kF64 ? forward<double>(call) : forward<float>(call);
}

void GatedRow::backward_cuda(const mneme::KernelCall& call) const {
  mneme::cuda::check_buffers(call, {call.input(0), call.input(1), call.grad_output(0)});
  call.input(0).dtype() == mneme::DType::kF64 ? backward<double>(call) : backward<float>(call);
}

}  // namespace my_memory
