// bf16 and f16 numbers on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "mneme/plugin.hpp"

namespace {

TEST(SdkHalf, RoundTripsEveryFiniteValue) {
  for (uint32_t bits = 0; bits < 0x10000U; ++bits) {
    mneme::BFloat16 b;
    b.bits = static_cast<uint16_t>(bits);
    const float as_float = b;
    if (as_float == as_float) {
      EXPECT_EQ(mneme::BFloat16(as_float).bits, b.bits);
    } else {
      EXPECT_NE(static_cast<float>(mneme::BFloat16(as_float)), as_float);
    }
    mneme::Float16 h;
    h.bits = static_cast<uint16_t>(bits);
    const float value = h;
    if (value == value) {
      EXPECT_EQ(mneme::Float16(value).bits, h.bits);
    } else {
      EXPECT_NE(static_cast<float>(mneme::Float16(value)), value);
    }
  }
}

TEST(SdkHalf, RoundsToNearestAndHalvesToEven) {
  for (uint32_t bits = 0; bits < 0x7BFFU;
       ++bits) {  // every pair of neighbours that are finite in f16
    mneme::Float16 low;
    mneme::Float16 high;
    low.bits = static_cast<uint16_t>(bits);
    high.bits = static_cast<uint16_t>(bits + 1);
    const float middle = (static_cast<float>(low) + static_cast<float>(high)) / 2;
    EXPECT_EQ(mneme::Float16(middle).bits, (bits % 2 == 0) ? low.bits : high.bits);
    EXPECT_EQ(mneme::Float16(std::nextafter(middle, 0.0F)).bits, low.bits);
    EXPECT_EQ(mneme::Float16(std::nextafter(middle, 1e9F)).bits, high.bits);
  }
  EXPECT_EQ(mneme::Float16(65519.0F).bits, 0x7BFFU);
  EXPECT_EQ(mneme::Float16(65520.0F).bits, 0x7C00U);
  EXPECT_EQ(mneme::BFloat16(1.00390625F).bits, 0x3F80U);  // half way, to even
  EXPECT_EQ(mneme::BFloat16(1.01171875F).bits, 0x3F82U);  // half way, to even
}

}  // namespace
