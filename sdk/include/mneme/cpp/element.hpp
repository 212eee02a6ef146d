// The element types of a kernel's tensors, for .cu files and the inner parts of CPU kernels, which
// stay free of the rest of the SDK.
#pragma once

#include <cstdint>

namespace mneme {
inline namespace sdk_0_1 {

enum class ElementType : int32_t { kF32, kF64, kBF16, kF16 };

}  // namespace sdk_0_1
}  // namespace mneme
