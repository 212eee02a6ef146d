// Scratch memory of one piece of work, and the whole numbers that its extents are made of.
#pragma once

#include <cstdint>

#include "mneme/cpu/inline.hpp"

namespace mneme {
inline namespace sdk_0_1 {
namespace cpu {
namespace {

// Hands out scratch memory array by array. Without a base it only counts.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<unsigned char*>(base)) {
    used_ = (64 - reinterpret_cast<uintptr_t>(base) % 64) % 64;
  }
  template <typename T>
  T* take(int64_t count) {
    unsigned char* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (static_cast<uint64_t>(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  // Enough at any address.
  uint64_t bytes() const { return used_ + 64; }

 private:
  unsigned char* base_;
  uint64_t used_;
};

MNEME_INLINE int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}
MNEME_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
MNEME_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

template <typename T>
MNEME_INLINE void clear(T* values, int64_t count) {
  __builtin_memset(values, 0, static_cast<uint64_t>(count) * sizeof(T));
}

}  // namespace
}  // namespace cpu
}  // namespace sdk_0_1
}  // namespace mneme
