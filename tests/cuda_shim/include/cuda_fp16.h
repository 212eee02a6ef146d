// CUDA's f16, as storage and conversions.
#pragma once

#include "mneme/cpp/half.hpp"

using __half = mneme::Float16;

inline float __half2float(__half value) { return value; }
inline __half __float2half_rn(float value) { return __half(value); }
