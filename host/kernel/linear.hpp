// Products of a segment's few rows with a weight, y = x w^T + b, in f32 on the CPU. Of the weight
// each row is read once, where it lies; a general product would first pack it, which takes longer
// than to multiply it with so few rows. For up to kLinearDotRows rows the weight may be in bf16,
// half the bytes to read; its numbers are exact in f32.
#pragma once

#include <cstdint>

#include "mneme_kernels/cpu/instruction_sets.hpp"

namespace mneme::kernel {

inline constexpr std::int64_t kLinearDotRows = 4;
inline constexpr std::int64_t kLinearDotInputs = 16;  // at least, of a weight in bf16

struct LinearArgs {
  std::int64_t rows = 0;     // m
  std::int64_t inputs = 0;   // n
  std::int64_t outputs = 0;  // p
  const float* x = nullptr;
  std::int64_t x_row = 0;
  const float* w = nullptr;               // [p,n], rows w_row apart ...
  const std::uint16_t* w_bf16 = nullptr;  // ... or in bf16, when w is null
  std::int64_t w_row = 0;
  const float* bias = nullptr;  // [p]; null = 0
  float* y = nullptr;           // [m,p], rows y_row apart
  std::int64_t y_row = 0;
};

// Threads share outputs best in multiples of kLinearUnit, and inputs in multiples of
// kLinearInputUnit.
inline constexpr std::int64_t kLinearUnit = 12;
inline constexpr std::int64_t kLinearInputUnit = 16;

// The functions of one instruction set, for any thread. The value of an output does not depend on
// how rows and outputs are distributed.
struct LinearKernels {
  // Bytes of the rows as `multiply` reads them, at any address.
  std::uint64_t (*prepared_bytes)(const LinearArgs&);
  // Inputs begin .. end - 1 of the rows. With at most kLinearDotRows rows all of them are prepared
  // together with the first.
  void (*prepare)(const LinearArgs&, void* prepared, std::int64_t begin, std::int64_t end);
  // Outputs begin .. end - 1; after `prepare` of all inputs.
  void (*multiply)(const LinearArgs&, const void* prepared, std::int64_t begin, std::int64_t end);
  MNEME_DECLARE_KERNELS(LinearKernels);
};

}  // namespace mneme::kernel
