// A file in which one bit of a tensor has changed since it was written.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"

namespace mneme::test {

// In the last byte of the tensor `name` of a safetensors file.
inline void damage_tensor(const std::filesystem::path& path, const std::string& name) {
  std::string bytes = read_file(path);
  const SafetensorsFile file = SafetensorsFile::open(path);
  const TensorView& tensor = file.at(name);
  const std::string_view content(reinterpret_cast<const char*>(tensor.data), tensor.bytes);
  const std::size_t begin = bytes.find(content);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_EQ(bytes.find(content, begin + 1), std::string::npos) << name << " is there twice";
  char& last = bytes[begin + content.size() - 1];
  last = static_cast<char>(last ^ 1);
  write_file_atomic(path, bytes);
}

}  // namespace mneme::test
