// Sizes and inputs of the reconstruction error's tests.
#pragma once

#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "plugins/compressive/kernels/reconstruction.hpp"
#include "tests/plugins/compressive/cases.hpp"

namespace mneme::test {

struct ReconstructionCase {
  int64_t lanes, queries, heads, head_width, old_rows, new_rows;
  bool is_ragged = false;  // lanes have fewer rows than there are, the first one none
  double scale = 0.3;

  reference::AttentionShape shape() const {
    return {lanes, queries, heads, head_width, old_rows, new_rows};
  }
};

inline std::string text_of(const ReconstructionCase& c) {
  return "B=" + std::to_string(c.lanes) + " T=" + std::to_string(c.queries) +
         " H=" + std::to_string(c.heads) + " d=" + std::to_string(c.head_width) +
         " E=" + std::to_string(c.old_rows) + " N=" + std::to_string(c.new_rows) +
         (c.is_ragged ? " ragged" : "");
}

inline reference::AttentionInputs random_inputs(std::mt19937& random, const ReconstructionCase& c) {
  const auto numbers = [&](int64_t rows) {
    return random_numbers(random, c.lanes * rows * c.heads * c.head_width);
  };
  reference::AttentionInputs in;
  in.q = numbers(c.queries);
  in.k_old = numbers(c.old_rows);
  in.v_old = numbers(c.old_rows);
  in.k_new = numbers(c.new_rows);
  in.v_new = numbers(c.new_rows);
  in.scale = c.scale;
  for (int64_t b = 0; b < c.lanes; ++b) {
    const auto count = [&](int64_t rows) {
      return c.is_ragged ? std::uniform_int_distribution<int64_t>(b == 0 ? 0 : 1, rows)(random)
                         : rows;
    };
    in.old_counts.push_back(count(c.old_rows));
    in.new_counts.push_back(c.is_ragged && b == 0 ? 0 : count(c.new_rows));
  }
  return in;
}

// The kernel's inputs, and the numbers that they were rounded to. Rows beyond a lane's counts hold
// NaN, which must not come through.
struct ReconstructionProblem {
  reference::AttentionInputs in;
  std::vector<double> arriving;
  std::vector<TestTensor> inputs;
  std::unique_ptr<TestTensor> grad;

  ReconstructionProblem(std::mt19937& random, Device device, DType dtype,
                        const ReconstructionCase& c)
      : in(random_inputs(random, c)) {
    const auto add = [&](std::vector<double>& values, int64_t rows,
                         const reference::Counts* counts) {
      inputs.emplace_back(device, dtype,
                          std::vector<int64_t>{c.lanes, rows, c.heads, c.head_width});
      inputs.back().write(values);
      values = inputs.back().read();
      if (counts == nullptr) return;
      std::vector<double> hidden = values;
      const int64_t row = c.heads * c.head_width;
      for (std::size_t i = 0; i < hidden.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const int64_t count = (*counts)[static_cast<std::size_t>(at / (rows * row))];
        if (at / row % rows >= count) hidden[i] = std::numeric_limits<double>::quiet_NaN();
      }
      inputs.back().write(hidden);
    };
    add(in.q, c.queries, nullptr);
    add(in.k_old, c.old_rows, &in.old_counts);
    add(in.v_old, c.old_rows, &in.old_counts);
    add(in.k_new, c.new_rows, &in.new_counts);
    add(in.v_new, c.new_rows, &in.new_counts);
    std::vector<int64_t> counts;
    for (std::size_t b = 0; b < in.old_counts.size(); ++b) {
      counts.push_back(in.old_counts[b]);
      counts.push_back(in.new_counts[b]);
    }
    inputs.emplace_back(device, DType::kI64, std::vector<int64_t>{c.lanes, 2});
    inputs.back().write(counts);
    grad = std::make_unique<TestTensor>(device, dtype == DType::kF64 ? DType::kF64 : DType::kF32,
                                        std::vector<int64_t>{c.lanes});
    grad->write(random_numbers(random, c.lanes));
    arriving = grad->read();
  }
};

}  // namespace mneme::test
