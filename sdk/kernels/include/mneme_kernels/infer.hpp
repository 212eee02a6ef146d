// Extents of kernels, and what their infer functions check besides ranks and shapes
// (mneme/cpp/kernel_checks.hpp).
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "mneme/cpp/kernel.hpp"
#include "mneme/cpp/kernel_checks.hpp"

namespace mneme {
inline namespace sdk_0_1 {

// The type that elements of a type are summed in.
inline DType sum_type(DType element) { return element == DType::kF64 ? DType::kF64 : DType::kF32; }

// Input i of a plan and of a call alike, so that one function template makes a kernel's extents
// from either.
inline TypedShape input_of(const KernelPlan& plan, uint32_t i) { return plan.input(i); }
inline TypedShape input_of(const KernelCall& call, uint32_t i) {
  const mneme_view& raw = call.input(i).raw();
  return {call.input(i).dtype(), Shape(raw.shape, static_cast<std::size_t>(raw.ndim))};
}

// `what`: the input's name. `expected`: the allowed types in words. Errors: Failure(MNEME_E_DTYPE).
inline void check_dtype(const std::string& what, DType got, std::initializer_list<DType> allowed,
                        const std::string& expected, CallSite site = CallSite::here()) {
  for (const DType dtype : allowed) {
    if (got == dtype) return;
  }
  fail(MNEME_E_DTYPE, what + ": expected " + expected + ", got dtype code " + code_of(got), site);
}

// Errors: Failure(MNEME_E_INVALID_ARGUMENT).
inline void check_finite(const char* what, double value, CallSite site = CallSite::here()) {
  if (std::isfinite(value)) return;
  fail(MNEME_E_INVALID_ARGUMENT,
       std::string(what) + ": expected a finite number, got " + std::to_string(value), site);
}

}  // namespace sdk_0_1
}  // namespace mneme
