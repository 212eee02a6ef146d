// Numbers of the element types, as definitions in f64 read and write them.
#pragma once

#include <cstdint>

#include "host/kernel/attention.hpp"
#include "mneme/cpp/half.hpp"

namespace mneme::kernel {

inline double value_of(const void* data, Element element, std::int64_t i) {
  if (element == Element::kF64) return static_cast<const double*>(data)[i];
  if (element == Element::kF32) return static_cast<const float*>(data)[i];
  return static_cast<float>(static_cast<const BFloat16*>(data)[i]);
}

// Nothing where there is no room.
inline void write_value(void* data, Element element, std::int64_t i, double value) {
  if (data == nullptr) return;
  if (element == Element::kF64) {
    static_cast<double*>(data)[i] = value;
  } else if (element == Element::kF32) {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  } else {
    static_cast<BFloat16*>(data)[i] = BFloat16(static_cast<float>(value));
  }
}

// An array of them, which may be absent.
class Numbers {
 public:
  Numbers(void* data, Element element) : data_(data), element_(element) {}
  Numbers(const void* data, Element element) : Numbers(const_cast<void*>(data), element) {}

  [[nodiscard]] double at(std::int64_t i) const { return value_of(data_, element_, i); }
  void put(std::int64_t i, double value) const { write_value(data_, element_, i, value); }

 private:
  void* data_;
  Element element_;
};

}  // namespace mneme::kernel
