// Element types: LibTorch's beside the ABI's codes (MNEME_F32 ...) and the types of safetensors
// files; and a scan of a tensor's values for NaN and infinities.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "host/base/file/safetensors.hpp"

namespace mneme::tensor {

// The type of an ABI code; nothing for an unknown code.
[[nodiscard]] std::optional<at::ScalarType> scalar_type_of(std::uint32_t code) noexcept;
[[nodiscard]] std::uint32_t dtype_code_of(at::ScalarType type) noexcept;  // 0 = the ABI has no code
// "f32" ...; "?" for an unknown code.
[[nodiscard]] const char* dtype_code_name(std::uint32_t code) noexcept;
// "f32" ..., for messages; LibTorch's name of a type that the ABI has no code for.
[[nodiscard]] const char* dtype_text(at::ScalarType type) noexcept;

// The type that holds a safetensors dtype; nothing for unsigned integers of 16 and more bits, for
// C64 and for floating-point numbers of 8 and fewer bits.
[[nodiscard]] std::optional<at::ScalarType> scalar_type_of(DType dtype) noexcept;
// Error (kRun) for types that the format lacks.
[[nodiscard]] DType to_dtype(at::ScalarType type);
// A copy of the view's values on the CPU. Error (kRun) for a dtype that no tensor has.
[[nodiscard]] at::Tensor to_tensor(const TensorView& view);

// Whether products written for f32 in the CPU's memory can read it, strides apart.
[[nodiscard]] bool is_cpu_f32(const at::Tensor& t);

// --- Scanning results for special values ---
// Scanning one in CPU memory costs a few nanoseconds and, when it holds no such value, saves the
// operations that treat them. Values on other devices are not read.

// False when `y`, a contiguous float CPU tensor, has no NaN at index 0 of dimension `dim`; true
// when it has one or cannot be examined.
[[nodiscard]] bool may_have_nan_rows(const at::Tensor& y, std::int64_t dim);
// The same for infinite elements anywhere.
[[nodiscard]] bool may_have_infinities(const at::Tensor& y);

}  // namespace mneme::tensor
