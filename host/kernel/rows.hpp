// What surrounds the matrix products of a layer, with gradients: bias, activation and dropout;
// dropout, residual sum and norm; rotary turns. Each is one pass over its rows, and dropout masks
// are drawn again in the backward pass in place of being kept.
//
//   activation  out = drop(f(x + bias)); f relu, gelu, gelu by tanh, or of two halves of the row
//               silu(x_1 + bias_1) (x_2 + bias_2), or that with gelu by tanh
//   sum         y = h + drop(x + bias)
//   norm        out = (y - mean) scale weight + shift, scale = 1 / sqrt(variance + epsilon);
//               RMS norm: mean = 0, and the variance is the mean of the squares
//   turn        out_1 = x_1 cos - x_2 sin, out_2 = x_2 cos + x_1 sin; x_1 and x_2 are the halves of
//               a head. The gradient of x is the arriving one, turned back: by -sin
//
// All rows are contiguous, but for those of turns. "S", the type of sums, parameters and
// statistics, is f64 for f64, else f32; f64 goes with f64 alone.
#pragma once

#include <cstdint>

#include "host/kernel/attention.hpp"
#include "host/kernel/dropout.hpp"

namespace mneme::kernel {

enum class Activation { kRelu, kGelu, kGeluTanh, kSwiglu, kGeglu, kRelu2 };

// Whether it is of two halves.
constexpr bool is_gated(Activation function) {
  return function == Activation::kSwiglu || function == Activation::kGeglu;
}

struct ActivationRows {
  Element element = Element::kF32;  // of x, out and their gradients
  Activation function = Activation::kRelu;
  std::int64_t rows = 0;
  std::int64_t width = 0;      // of out
  const void* x = nullptr;     // [rows,inputs]
  const void* bias = nullptr;  // [inputs] S; null = 0
  Dropout dropout;

  [[nodiscard]] std::int64_t inputs() const { return is_gated(function) ? 2 * width : width; }
};

struct ActivationGradients {
  const void* out = nullptr;  // [rows,width], arriving
  void* x = nullptr;          // [rows,inputs]
  void* bias = nullptr;       // [inputs] S; null = not wanted
};

struct SumRows {
  Element residual = Element::kF32;  // of h, y and their gradients
  Element element = Element::kF32;   // of x and its gradient
  Element result = Element::kF32;    // of the norm's result and its gradient
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const void* h = nullptr;     // [rows,width]; null = 0
  const void* x = nullptr;     // [rows,width]; null = 0, without dropout
  const void* bias = nullptr;  // [width] S; null = 0
  Dropout dropout;
  const void* weight = nullptr;  // [width] S; null = no norm
  const void* shift = nullptr;   // [width] S; null = 0
  bool is_rms = false;
  double epsilon = 0.0;
};

struct SumResults {
  void* y = nullptr;      // [rows,width]; null = not wanted
  void* out = nullptr;    // [rows,width], of the norm, which reads y as it is rounded
  void* mean = nullptr;   // [rows] S; null = not wanted
  void* scale = nullptr;  // [rows] S; null = not wanted
};

struct SumGradients {
  const void* y = nullptr;    // [rows,width], arriving at y; null = 0
  const void* out = nullptr;  // arriving at the norm's result; null = 0
  SumResults kept;    // with `out`: y, scale and, but for an RMS norm, mean of the forward pass
  void* h = nullptr;  // leaving; null = not wanted
  void* x = nullptr;
  void* weight = nullptr;  // [width] S
  void* shift = nullptr;
  void* bias = nullptr;
};

// Heads [sizes,width] whose numbers lie side by side. Strides are in numbers.
struct TurnRows {
  Element element = Element::kF32;  // of all arrays
  bool is_back = false;             // turned by the negative angles
  std::int64_t width = 0;           // even
  std::int64_t sizes[3] = {0, 0, 0};
  const void* x = nullptr;
  std::int64_t x_strides[3] = {0, 0, 0};
  const void* cos = nullptr;  // width / 2 numbers for each head
  const void* sin = nullptr;
  std::int64_t angle_strides[3] = {0, 0, 0};  // of both; 0 = the same along this dimension
  std::int64_t out_strides[3] = {0, 0, 0};
};

// A mask of `entries` numbers of 2, 4 or 8 bytes: `kept` or zeros. Runs of `length` entries lie
// `stride` words apart in the stream.
struct MaskRows {
  std::int64_t entries = 0;
  std::int64_t length = 1;
  std::int64_t stride = 0;
  std::int64_t bytes = 4;  // of an entry
  std::uint64_t kept = 0;  // its bits, in the low bytes
  Dropout dropout;         // its factor is not used
  void* out = nullptr;
};

// One implementation. Functions return null, or what failed. On CUDA all arrays lie in the memory
// of the current device, the work is put on `stream`, a cudaStream_t, and rows are at most
// kMostRowWidth wide where there is a norm; there is no allocation, no synchronisation, the same
// launches for the same shapes, the same bits for the same inputs.
struct RowKernels {
  // Bytes, without a value, that gradients of `columns` parameters need: `inputs` of an activation
  // with a bias, three times the width of a sum.
  std::uint64_t (*workspace)(std::int64_t rows, std::int64_t columns, Element element);
  const char* (*activate)(const ActivationRows&, void* out, void* stream);
  const char* (*activate_backward)(const ActivationRows&, const ActivationGradients&,
                                   void* workspace, void* stream);
  const char* (*add)(const SumRows&, const SumResults&, void* stream);
  const char* (*add_backward)(const SumRows&, const SumGradients&, void* workspace, void* stream);
  const char* (*mask)(const MaskRows&, void* stream);
  const char* (*turn)(const TurnRows&, void* out, void* stream);
};

inline constexpr std::int64_t kMostRowWidth = 4096;

// Those for CUDA; null in a program that was built without CUDA sources.
const RowKernels* cuda_row_kernels();
// By their definitions: in f64, loop by loop, on arrays of the CPU. For tests.
const RowKernels& row_definitions();

}  // namespace mneme::kernel
