#include "kernels/histogram.hpp"

#include <algorithm>
#include <string>

#include "kernels/expectation.hpp"
#include "mneme_kernels/cpu/strands.hpp"
#include "mneme_kernels/infer.hpp"

namespace continuous_ltm {
namespace {

// Bytes of one head's sums at the edges and of what computing them needs.
uint64_t bytes_of_head(const HistogramShape& shape) {
  return 2 * static_cast<uint64_t>(shape.padded_edges()) * sizeof(double);
}

// Sums the heads' masses below the edges, in their order, and takes the differences.
void take_differences(const HistogramShape& shape, const double* below, double* mass) {
  const int64_t stride = 2 * shape.padded_edges();
  for (int64_t lane = 0; lane < shape.lanes; ++lane, mass += shape.bins) {
    double previous = 0.0;
    for (int64_t k = 0; k <= shape.bins; ++k) {
      double sum = 0.0;
      for (int64_t h = 0; h < shape.heads; ++h) sum += below[(lane * shape.heads + h) * stride + k];
      // Written so that a NaN stays: the rounding of two equal sums may leave -1e-16.
      if (k > 0) mass[k - 1] = sum - previous < 0.0 ? 0.0 : sum - previous;
      previous = sum;
    }
  }
}

}  // namespace

Histogram::Histogram(int64_t bins, mneme::cpu::InstructionSet set)
    : bins_(bins), kernels_(&mneme::cpu::kernels<HistogramKernels>(set)) {
  if (bins < 1) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT, "bins: expected at least 1, got " + std::to_string(bins));
  }
}

HistogramBuffers Histogram::buffers_of(const mneme::KernelCall& call) {
  HistogramBuffers buffers;
  buffers.mu = call.input(0).data<void>();
  buffers.variance = call.input(1).data<void>();
  buffers.valid = call.input(2).data<uint8_t>();
  buffers.mass = call.output(0).data<double>();
  return buffers;
}

void Histogram::infer(mneme::KernelPlan& plan) const {
  const mneme::TypedShape mu = plan.input(0);
  const mneme::TypedShape valid = plan.input(2);
  check_densities(mu, plan.input(1));
  check_shape("valid", valid.shape, {mu.shape[0], mu.shape[2]});
  mneme::check_dtype("valid", valid.dtype, {mneme::DType::kBool}, "bool");
  HistogramShape shape;
  shape.bins = bins_;
  plan.output(0, mneme::DType::kF64, {mu.shape[0], bins_});
  // Enough for CUDA as well, which keeps one sum an edge.
  plan.workspace(static_cast<uint64_t>(mu.shape[0] * mu.shape[1]) * bytes_of_head(shape));
}

HistogramShape Histogram::shape_of(const mneme::KernelCall& call) const {
  HistogramShape shape;
  shape.lanes = call.input(0).dim(0);
  shape.heads = call.input(0).dim(1);
  shape.queries = call.input(0).dim(2);
  shape.bins = bins_;
  shape.is_f64 = call.input(0).dtype() == mneme::DType::kF64;
  return shape;
}

void Histogram::forward_cpu(const mneme::KernelCall& call) const {
  const HistogramShape shape = shape_of(call);
  const HistogramBuffers buffers = buffers_of(call);
  auto* below = static_cast<double*>(call.workspace());
  mneme::cpu::for_each_piece(shape.lanes * shape.heads, 1, [&](int64_t head) {
    kernels_->mass_below(shape, buffers, below + head * 2 * shape.padded_edges(), head);
  });
  take_differences(shape, below, buffers.mass);
}

}  // namespace continuous_ltm
