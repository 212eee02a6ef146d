// Sizes and inputs of the look-ahead's tests.
#pragma once

#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "plugins/lamemo/kernels/look_ahead.hpp"
#include "plugins/lamemo/kernels/reference/kernels.hpp"
#include "tests/plugins/kernel_compare.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::test {

namespace reference = lamemo::reference;

// Inputs with a gradient, by their place among the inputs.
inline constexpr const char* kDifferentiable[] = {
    "q", "k", "v", "table", "content_bias", "position_bias"};

struct LookAheadCase {
  int64_t lanes, queries, keys, heads, head_width, first;
  int64_t least = 1;
  bool is_ragged = false;    // some keys do not exist, in lane 0 none; some rows carry nothing
  int64_t more_offsets = 0;  // rows of the table that no query needs
  double scale = 0.3;

  int64_t offsets() const { return std::max<int64_t>(0, first + keys - least) + more_offsets; }
  reference::Shape shape() const {
    return {lanes, queries, keys, heads, head_width, offsets(), first, least};
  }
};

inline std::string text_of(const LookAheadCase& c) {
  return "B=" + std::to_string(c.lanes) + " M=" + std::to_string(c.queries) +
         " W=" + std::to_string(c.keys) + " H=" + std::to_string(c.heads) +
         " d=" + std::to_string(c.head_width) + " first=" + std::to_string(c.first) +
         " least=" + std::to_string(c.least) + (c.is_ragged ? " ragged" : "");
}

inline reference::Inputs random_inputs(std::mt19937& random, const LookAheadCase& c) {
  const int64_t row = c.heads * c.head_width;
  reference::Inputs in;
  in.q = random_numbers(random, c.lanes * c.queries * row);
  in.k = random_numbers(random, c.lanes * c.keys * row);
  in.v = random_numbers(random, c.lanes * c.keys * row);
  in.table = random_numbers(random, c.offsets() * row);
  in.content_bias = random_numbers(random, row);
  in.position_bias = random_numbers(random, row);
  in.lse = random_numbers(random, c.lanes * c.queries * c.heads);
  in.context = random_numbers(random, c.lanes * c.queries * row);
  in.valid.assign(static_cast<std::size_t>(c.lanes * c.keys), 1);
  in.scale = c.scale;
  for (double& lse : in.lse) lse = 3.0 + lse;
  if (!c.is_ragged) return in;
  for (std::size_t i = 0; i < in.valid.size(); ++i) {
    in.valid[i] = static_cast<int64_t>(i) < c.keys || random() % 3 == 0 ? 0 : 1;
  }
  for (double& lse : in.lse) {
    if (random() % 4 == 0) lse = -std::numeric_limits<double>::infinity();
  }
  return in;
}

// The kernel's inputs, and the numbers that they were rounded to. Keys and values that do not exist
// are NaN, which must not come through.
struct LookAheadProblem {
  reference::Inputs in;
  reference::Results arriving;
  std::vector<TestTensor> inputs;
  std::vector<TestTensor> grads;  // of context and lse

  LookAheadProblem(std::mt19937& random, Device device, DType dtype, const LookAheadCase& c)
      : in(random_inputs(random, c)) {
    const DType sums = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    const auto add = [&](DType type, std::vector<int64_t> shape, std::vector<double>& values) {
      inputs.emplace_back(device, type, std::move(shape));
      inputs.back().write(values);
      values = inputs.back().read();
    };
    add(dtype, {c.lanes, c.queries, c.heads, c.head_width}, in.q);
    add(dtype, {c.lanes, c.keys, c.heads, c.head_width}, in.k);
    add(dtype, {c.lanes, c.keys, c.heads, c.head_width}, in.v);
    add(dtype, {c.heads, c.offsets(), c.head_width}, in.table);
    add(sums, {c.heads, c.head_width}, in.content_bias);
    add(sums, {c.heads, c.head_width}, in.position_bias);
    inputs.emplace_back(device, DType::kBool, std::vector<int64_t>{c.lanes, c.keys});
    inputs.back().write(in.valid);
    add(sums, {c.lanes, c.queries, c.heads}, in.lse);
    add(sums, {c.lanes, c.queries, c.heads, c.head_width}, in.context);
    hide(inputs[1], in.k, c);
    hide(inputs[2], in.v, c);
    grads.emplace_back(device, sums, inputs[8].shape);
    grads.emplace_back(device, sums, inputs[7].shape);
    arriving.context = random_numbers(random, c.lanes * c.queries * c.heads * c.head_width);
    arriving.lse = random_numbers(random, c.lanes * c.queries * c.heads);
    grads[0].write(arriving.context);
    grads[1].write(arriving.lse);
    arriving.context = grads[0].read();
    arriving.lse = grads[1].read();
  }
  std::vector<TestTensor*> both() { return {&grads[0], &grads[1]}; }

 private:
  void hide(TestTensor& tensor, std::vector<double> values, const LookAheadCase& c) const {
    const auto row = static_cast<std::size_t>(c.heads * c.head_width);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (in.valid[i / row] == 0) values[i] = std::numeric_limits<double>::quiet_NaN();
    }
    tensor.write(values);
  }
};

using LookAheadRun = KernelRun<lamemo::LookAhead>;

inline std::vector<int64_t> integers_of(const LookAheadCase& c) { return {c.first, c.least}; }

}  // namespace mneme::test
