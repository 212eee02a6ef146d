#include "host/ops/ops.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {

at::ScalarType scalar_type_of(uint32_t dtype) {
  switch (dtype) {
    case MNEME_F32:
      return at::kFloat;
    case MNEME_BF16:
      return at::kBFloat16;
    case MNEME_F16:
      return at::kHalf;
    case MNEME_F64:
      return at::kDouble;
    case MNEME_I32:
      return at::kInt;
    case MNEME_I64:
      return at::kLong;
    case MNEME_BOOL:
      return at::kBool;
    default:
      throw OpError(MNEME_E_DTYPE, {.failed = "unknown dtype code",
                                    .expected = "MNEME_F32 (1) .. MNEME_BOOL (7)",
                                    .got = str(dtype)});
  }
}

uint32_t dtype_code_of(at::ScalarType type) noexcept {
  switch (type) {
    case at::kFloat:
      return MNEME_F32;
    case at::kBFloat16:
      return MNEME_BF16;
    case at::kHalf:
      return MNEME_F16;
    case at::kDouble:
      return MNEME_F64;
    case at::kInt:
      return MNEME_I32;
    case at::kLong:
      return MNEME_I64;
    case at::kBool:
      return MNEME_BOOL;
    default:
      return 0;
  }
}

const char* dtype_name(uint32_t dtype) noexcept {
  static constexpr const char* kNames[] = {"?", "f32", "bf16", "f16", "f64", "i32", "i64", "bool"};
  return dtype <= MNEME_BOOL ? kNames[dtype] : kNames[0];
}

}  // namespace mneme::ops
