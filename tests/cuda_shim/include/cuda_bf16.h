// CUDA's bf16, as storage and conversions.
#pragma once

#include "mneme/cpp/half.hpp"

using __nv_bfloat16 = mneme::BFloat16;

inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
