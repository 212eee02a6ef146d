// Tensors for tests that call a plugin's kernel through the interface that the host uses, on the
// CPU and on CUDA.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mneme/cpp/kernel.hpp"
#include "tests/seed.hpp"
#ifdef MNEME_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace mneme::test {

enum class Device { kCpu, kCuda };

inline bool has_cuda_device() {
#ifdef MNEME_HAS_CUDA
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
#else
  return false;
#endif
}

// The seed of the test that runs, recorded with its result.
inline uint32_t test_seed() {
  const uint32_t seed = drawn_seed("values");
  testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

// Memory of one tensor on a device. `offset` bytes in front make the address unaligned. Every byte
// is 0xAB until written.
class Memory {
 public:
  Memory(Device device, std::size_t bytes, std::size_t offset)
      : device_(device), bytes_(bytes), offset_(offset), host_(bytes + offset, 0xAB) {
#ifdef MNEME_HAS_CUDA
    if (device_ == Device::kCuda) {
      EXPECT_EQ(cudaMalloc(&cuda_, host_.size() + 1), cudaSuccess);
      upload();
    }
#endif
  }
  ~Memory() {
#ifdef MNEME_HAS_CUDA
    if (cuda_ != nullptr) cudaFree(cuda_);
#endif
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() {
    if (bytes_ == 0) return nullptr;
    auto* base = device_ == Device::kCuda ? static_cast<unsigned char*>(cuda_) : host_.data();
    return base + offset_;
  }
  unsigned char* host() { return host_.data() + offset_; }
  void upload() {
#ifdef MNEME_HAS_CUDA
    if (device_ == Device::kCuda) {
      EXPECT_EQ(cudaMemcpy(cuda_, host_.data(), host_.size(), cudaMemcpyHostToDevice), cudaSuccess);
    }
#endif
  }
  void download() {
#ifdef MNEME_HAS_CUDA
    if (device_ == Device::kCuda) {
      EXPECT_EQ(cudaMemcpy(host_.data(), cuda_, host_.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    }
#endif
  }

 private:
  Device device_;
  std::size_t bytes_;
  std::size_t offset_;
  std::vector<unsigned char> host_;
  void* cuda_ = nullptr;
};

// A tensor in the host's normal form.
struct TestTensor {
  TestTensor(Device device, DType type, std::vector<int64_t> extents, std::size_t offset = 0)
      : dtype(type), shape(std::move(extents)) {
    memory = std::make_unique<Memory>(device, elements() * element_size(), offset * element_size());
    strides.assign(shape.size(), 1);
    for (std::size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
  }
  std::size_t elements() const {
    std::size_t product = 1;
    for (const int64_t extent : shape) product *= static_cast<std::size_t>(extent);
    return product;
  }
  std::size_t element_size() const {
    switch (dtype) {
      case DType::kBool:
        return 1;
      case DType::kF64:
      case DType::kI64:
        return 8;
      case DType::kF32:
        return 4;
      default:
        return 2;
    }
  }
  mneme_view view() {
    mneme_view out = {};
    out.data = memory->data();
    out.device_type = MNEME_DEVICE_CPU;
    out.ndim = static_cast<int32_t>(shape.size());
    out.dtype_code = dtype == DType::kI64    ? 0
                     : dtype == DType::kBool ? 6
                     : dtype == DType::kBF16 ? 4
                                             : 2;
    out.dtype_bits = static_cast<uint8_t>(element_size() * 8);
    out.dtype_lanes = 1;
    out.shape = shape.data();
    out.strides = strides.data();
    return out;
  }
  mneme_shape raw_shape() const { return Shape(shape).raw(dtype); }

  // Rounds to the tensor's type, once: through float where the type is narrower.
  void write(const std::vector<double>& values) {
    visit_float(dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const T value = rounded<T>(values[i]);
        std::memcpy(memory->host() + i * sizeof(T), &value, sizeof(T));
      }
    });
    memory->upload();
  }
  void write(const std::vector<uint8_t>& values) {
    if (!values.empty()) std::memcpy(memory->host(), values.data(), values.size());
    memory->upload();
  }
  void write(const std::vector<int64_t>& values) {
    if (!values.empty()) {
      std::memcpy(memory->host(), values.data(), values.size() * sizeof(int64_t));
    }
    memory->upload();
  }
  std::vector<double> read() {
    memory->download();
    std::vector<double> values(elements());
    visit_float(dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      for (std::size_t i = 0; i < values.size(); ++i) {
        T value;
        std::memcpy(&value, memory->host() + i * sizeof(T), sizeof(T));
        values[i] = static_cast<double>(value);
      }
    });
    return values;
  }

  DType dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::unique_ptr<Memory> memory;

 private:
  template <typename T>
  static T rounded(double value) {
    if constexpr (std::is_same_v<T, double>) return value;
    if constexpr (!std::is_same_v<T, double>) return T(static_cast<float>(value));
  }
};

}  // namespace mneme::test
