// Golden files of text: a line is a tensor, its name, rank, extents, and elements, row-major.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace mneme::golden {

struct TextTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

// `file` below tests/golden. Fails the test for a file that is missing, empty or cut off.
inline std::map<std::string, TextTensor> text_tensors(const std::string& file) {
  std::map<std::string, TextTensor> tensors;
  std::ifstream in(MNEME_SOURCE_DIR "/tests/golden/" + file);
  std::string name;
  std::size_t rank = 0;
  while (in >> name >> rank) {
    TextTensor& tensor = tensors[name];
    std::size_t count = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      int64_t extent = 0;
      in >> extent;
      tensor.shape.push_back(extent);
      count *= static_cast<std::size_t>(extent);
    }
    tensor.values.resize(count);
    for (double& value : tensor.values) in >> value;
  }
  EXPECT_TRUE(in.eof() && !tensors.empty()) << file << ", after tensor \"" << name << '"';
  return tensors;
}

}  // namespace mneme::golden
