// Arrays on a GPU, for the tests of the attention kernels.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/plugins/kernel_run.hpp"

namespace mneme::kernel {

class Arrays {
 public:
  const void* of(const void* data, std::size_t bytes) { return copy(data, bytes).data(); }
  test::Memory& copy(const void* data, std::size_t bytes) {
    test::Memory& memory = room(bytes);
    std::memcpy(memory.host(), data, bytes);
    memory.upload();
    return memory;
  }
  test::Memory& room(std::size_t bytes) {
    return *arrays_.emplace_back(std::make_unique<test::Memory>(test::Device::kCuda, bytes, 0));
  }

 private:
  std::vector<std::unique_ptr<test::Memory>> arrays_;
};

template <typename T>
void download(test::Memory& memory, std::vector<T>& to) {
  memory.download();
  std::memcpy(to.data(), memory.host(), to.size() * sizeof(T));
}

}  // namespace mneme::kernel
