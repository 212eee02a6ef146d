// Memory of one piece of work, and the whole numbers that its extents are made of. With internal
// linkage, because kernels that are compiled once an instruction set use it too (begin.inl).
#pragma once

#include <cstdint>

#define MNEME_INLINE inline __attribute__((always_inline))
// Loops over registers have to disappear at -O2 as well.
#ifdef __clang__
#define MNEME_UNROLL _Pragma("unroll")
#else
#define MNEME_UNROLL _Pragma("GCC unroll 24")
#endif

namespace mneme {
inline namespace sdk_0_1 {
namespace cpu {
namespace {

// Hands out a block of memory array by array, each at a multiple of 64 bytes. Without a block it
// only counts.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<unsigned char*>(base)) {
    used_ = (64 - reinterpret_cast<uintptr_t>(base) % 64) % 64;
  }
  template <typename T>
  T* take(int64_t count) {
    unsigned char* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (static_cast<uint64_t>(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  // What has not been handed out.
  void* rest() const { return base_ == nullptr ? nullptr : base_ + used_; }
  // Enough at any address.
  uint64_t bytes() const { return used_ + 64; }

 private:
  unsigned char* base_;
  uint64_t used_;
};

MNEME_INLINE int64_t divide_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
MNEME_INLINE int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}
MNEME_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
MNEME_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Rows in workspace are padded to a multiple of kColumnUnit.
constexpr int64_t kColumnUnit = 16;
MNEME_INLINE int64_t padded_columns(int64_t count) { return round_up(count, kColumnUnit); }
// Length of rows that are read column by column: an odd number of units, so that the columns do not
// fall on the same lines of a cache.
MNEME_INLINE int64_t turned_columns(int64_t count) {
  return (divide_up(count, kColumnUnit) | 1) * kColumnUnit;
}

template <typename T>
MNEME_INLINE void clear(T* values, int64_t count) {
  __builtin_memset(values, 0, static_cast<uint64_t>(count) * sizeof(T));
}

}  // namespace
}  // namespace cpu
}  // namespace sdk_0_1
}  // namespace mneme
