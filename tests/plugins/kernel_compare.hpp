// Random numbers and comparisons for tests of kernels against their references.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "mneme/cpp/parallel.hpp"
#include "tests/plugins/kernel_tensors.hpp"

namespace mneme::test {

inline std::vector<double> random_numbers(std::mt19937& random, int64_t count) {
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(random);
  return values;
}

inline double norm(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// ||got - expected|| <= tolerance ||expected|| + the error of rounding `expected` to `dtype`.
// `terms`: what is added and subtracted to make `expected`, as a norm; a tenth of the tolerance is
// allowed of it, for the numbers may be such that next to nothing is left.
inline void expect_close(TestTensor& got, const std::vector<double>& expected, double tolerance,
                         const std::string& what, double terms = 0.0) {
  const std::vector<double> values = got.read();
  ASSERT_EQ(values.size(), expected.size()) << what;
  TestTensor rounded(Device::kCpu, got.dtype, got.shape);
  rounded.write(expected);
  const std::vector<double> best = rounded.read();
  std::vector<double> error;
  std::vector<double> rounding;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error.push_back(values[i] - expected[i]);
    rounding.push_back(best[i] - expected[i]);
  }
  // Written so that a NaN fails.
  EXPECT_TRUE(norm(error) <= tolerance * (norm(expected) + 0.1 * terms) + 1.1 * norm(rounding))
      << what << ": error " << norm(error) << " of " << norm(expected) << ", rounding "
      << norm(rounding);
}

// Cuts the ranges of parallel_for into single pieces, done from the last to the first: as
// different as can be from the one range that is used without a host.
class ReversedPieces {
 public:
  ReversedPieces() {
    api_.struct_size = sizeof(api_);
    api_.run = [](const mneme_host*, int64_t count, int64_t, mneme_parallel_body body, void* user) {
      for (int64_t i = count; i > 0; --i) body(user, i - 1, i);
    };
    detail::groups.parallel = &api_;
  }
  ~ReversedPieces() { detail::groups.parallel = nullptr; }
  ReversedPieces(const ReversedPieces&) = delete;
  ReversedPieces& operator=(const ReversedPieces&) = delete;

 private:
  mneme_parallel_api api_ = {};
};

}  // namespace mneme::test
