// The kernel that checks rows for NaN and infinity before they are stored.
#pragma once

#include <cmath>
#include <string>

#include "mneme/cpp/kernel.hpp"
#include "mneme_kernels/infer.hpp"

namespace continuous_ltm {

namespace detail {

// The sum is finite unless a value is not, or the values overflow it; only then each is looked at.
template <typename T>
bool has_finite_sum(const T* values, int64_t count) {
  T partial[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t k = 0; k < 8; ++k) partial[k] += values[i + k];
  }
  T sum{};
  for (const T part : partial) sum += part;
  for (; i < count; ++i) sum += values[i];
  return std::isfinite(sum);
}

template <typename T>
void check_lane(const T* values, int64_t lane, int64_t rows, int64_t width) {
  if (has_finite_sum(values, rows * width)) return;
  for (int64_t i = 0; i < rows * width; ++i) {
    if (std::isfinite(values[i])) continue;
    mneme::fail(MNEME_E_NUMERIC,
                "lane " + std::to_string(lane) + ": row " + std::to_string(i / width) + " of the " +
                    std::to_string(rows) + " rows to store holds " + std::to_string(values[i]) +
                    " at " + std::to_string(i % width) +
                    "; the layers below diverged (lower train.lr or set train.clip)");
  }
}

}  // namespace detail

// Inputs   0 rows [b,m,D], f32 or f64   1 the lanes' numbers [b] i64, for the message
// Output   0 [b] f64, all 0
//
// Fails with MNEME_E_NUMERIC, naming the lane, at the first value that is NaN or infinite: once
// regressed it would spread over the lane's whole memory. CPU only; on CUDA, where a hook must not
// wait for a value, the tier reports a metric instead.
struct FiniteRows {
  static constexpr const char* kName = "continuous_ltm_finite_rows";
  static constexpr uint32_t kInputs = 2;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
};

inline void FiniteRows::infer(mneme::KernelPlan& plan) const {
  const mneme::TypedShape rows = plan.input(0);
  check_rank("rows", rows.shape, 3, "[B, m, D]");
  mneme::check_dtype("rows", rows.dtype, {mneme::DType::kF32, mneme::DType::kF64}, "f32 or f64");
  const mneme::TypedShape lanes = plan.input(1);
  check_shape("lanes", lanes.shape, {rows.shape[0]});
  mneme::check_dtype("lanes", lanes.dtype, {mneme::DType::kI64}, "i64");
  plan.output(0, mneme::DType::kF64, {rows.shape[0]});
}

inline void FiniteRows::forward_cpu(const mneme::KernelCall& call) const {
  const mneme::View rows = call.input(0);
  const int64_t count = rows.dim(1);
  const int64_t width = rows.dim(2);
  for (int64_t b = 0; b < rows.dim(0); ++b) {
    const int64_t lane = call.input(1).data<int64_t>()[b];
    if (rows.dtype() == mneme::DType::kF64) {
      detail::check_lane(rows.data<double>() + b * count * width, lane, count, width);
    } else {
      detail::check_lane(rows.data<float>() + b * count * width, lane, count, width);
    }
    call.output(0).data<double>()[b] = 0.0;
  }
}

}  // namespace continuous_ltm
