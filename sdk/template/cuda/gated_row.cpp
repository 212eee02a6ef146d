#include "gated_row.hpp"

#include <cmath>

#include "mneme_kernels/infer.hpp"

namespace my_memory {

void GatedRow::infer(mneme::KernelPlan& plan) const {
  const mneme::TypedShape gate = plan.input(0);
  const mneme::TypedShape last = plan.input(1);
  if (last.shape.rank() != 2) mneme::fail(MNEME_E_SHAPE, "last: expected [B, D]");
  mneme::check_shape("gate", gate.shape, {last.shape[1]});
  mneme::check_dtype("gate", gate.dtype, {mneme::DType::kF32, mneme::DType::kF64}, "f32 or f64");
  mneme::check_dtype("last", last.dtype, {gate.dtype}, "that of the gate");
  plan.output(0, last);
}

namespace {

template <typename T>
void forward(const mneme::KernelCall& call) {
  const T* gate = call.input(0).data<T>();
  const T* last = call.input(1).data<T>();
  T* out = call.output(0).data<T>();
  const int64_t lanes = call.input(1).dim(0), width = call.input(1).dim(1);
  for (int64_t b = 0; b < lanes; ++b) {
    for (int64_t d = 0; d < width; ++d)
      out[b * width + d] = std::tanh(gate[d]) * last[b * width + d];
  }
}

// Gradients that nobody wants have no data; the others are written whole.
template <typename T>
void backward(const mneme::KernelCall& call) {
  const T* gate = call.input(0).data<T>();
  const T* last = call.input(1).data<T>();
  const T* grad_out = call.grad_output(0).data<T>();
  T* grad_gate = call.grad_input(0).data<T>();
  T* grad_last = call.grad_input(1).data<T>();
  const int64_t lanes = call.input(1).dim(0), width = call.input(1).dim(1);
  for (int64_t d = 0; d < width; ++d) {
    const T opened = std::tanh(gate[d]);
    T sum = 0;
    for (int64_t b = 0; b < lanes; ++b) {
      const int64_t at = b * width + d;
      sum += grad_out[at] * last[at];
      if (grad_last != nullptr) grad_last[at] = opened * grad_out[at];
    }
    if (grad_gate != nullptr) grad_gate[d] = (1 - opened * opened) * sum;
  }
}

}  // namespace

void GatedRow::forward_cpu(const mneme::KernelCall& call) const {
  call.input(0).dtype() == mneme::DType::kF64 ? forward<double>(call) : forward<float>(call);
}

void GatedRow::backward_cpu(const mneme::KernelCall& call) const {
  call.input(0).dtype() == mneme::DType::kF64 ? backward<double>(call) : backward<float>(call);
}

}  // namespace my_memory
