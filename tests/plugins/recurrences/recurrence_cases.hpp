// Sizes and inputs of the recurrence's tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "plugins/recurrences/kernels/recurrence.hpp"
#include "plugins/recurrences/kernels/reference/kernels.hpp"
#include "tests/plugins/kernel_compare.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::test {

namespace reference = recurrences::reference;
using RecurrenceRun = KernelRun<recurrences::Recurrence>;

inline constexpr const char* kRecurrenceInputs[] = {"q", "k", "v", "decay", "state", "beta"};

struct RecurrenceCase {
  int64_t lanes, length, groups, heads, key_width, value_width;
  double decay = 0.1;  // the mean of a token's decay, negated

  reference::Shape shape(bool is_by_channel, bool is_delta) const {
    return {lanes, length, groups, heads, key_width, value_width, is_by_channel, is_delta};
  }
};

inline std::string text_of(const reference::Shape& s) {
  return "B=" + std::to_string(s.lanes) + " T=" + std::to_string(s.length) +
         " G=" + std::to_string(s.groups) + " H=" + std::to_string(s.heads) +
         " K=" + std::to_string(s.key_width) + " V=" + std::to_string(s.value_width) +
         (s.is_by_channel ? " by channel" : "") + (s.is_delta ? " delta" : "");
}

// Keys of about unit length; beta from 0 to 2.
inline reference::Inputs random_inputs(std::mt19937& random, const reference::Shape& s,
                                       double decay) {
  const int64_t tokens = s.lanes * s.length;
  reference::Inputs in;
  in.q = random_numbers(random, tokens * s.groups * s.key_width);
  in.k = random_numbers(random, tokens * s.groups * s.key_width);
  in.v = random_numbers(random, tokens * s.heads * s.value_width);
  in.state = random_numbers(random, s.lanes * s.heads * s.key_width * s.value_width);
  for (double& k : in.k) k /= std::sqrt(std::max(1.0, static_cast<double>(s.key_width)));
  std::exponential_distribution<double> decays(1.0 / decay);
  in.decay.resize(static_cast<std::size_t>(tokens * s.heads * s.decay_width()));
  for (double& d : in.decay) d = -decays(random);
  std::uniform_real_distribution<double> betas(0.0, 2.0);
  if (s.is_delta) in.beta.resize(static_cast<std::size_t>(tokens * s.heads));
  for (double& b : in.beta) b = betas(random);
  return in;
}

// The numbers of an Inputs in the kernel's order.
inline std::vector<std::vector<double>*> parts_of(reference::Inputs& in) {
  return {&in.q, &in.k, &in.v, &in.decay, &in.state, &in.beta};
}

// The kernel's inputs, and the numbers that they were rounded to.
struct RecurrenceProblem {
  reference::Shape shape;
  reference::Inputs in;
  reference::Results arriving;
  std::vector<TestTensor> inputs;
  std::vector<TestTensor> grads;  // of out and the last state

  RecurrenceProblem(std::mt19937& random, DType dtype, const reference::Shape& s, double decay,
                    Device device = Device::kCpu)
      : shape(s), in(random_inputs(random, s, decay)), device_(device) {
    const std::vector<int64_t> keys = {s.lanes, s.length, s.groups, s.key_width};
    const std::vector<int64_t> values = {s.lanes, s.length, s.heads, s.value_width};
    const std::vector<int64_t> scalars = {s.lanes, s.length, s.heads};
    std::vector<int64_t> decays = scalars;
    if (s.is_by_channel) decays.push_back(s.key_width);
    const std::vector<int64_t> state = {s.lanes, s.heads, s.key_width, s.value_width};
    const std::vector<std::vector<int64_t>> shapes = {keys, keys, values, decays, state, scalars};
    for (std::size_t i = 0; i < (s.is_delta ? 6U : 5U); ++i) {
      add(inputs, dtype, shapes[i], *parts_of(in)[i]);
    }
    arriving.out = random_numbers(random, static_cast<int64_t>(in.v.size()));
    arriving.state = random_numbers(random, static_cast<int64_t>(in.state.size()));
    add(grads, dtype, values, arriving.out);
    add(grads, dtype, state, arriving.state);
  }
  std::vector<TestTensor*> both() { return {&grads[0], &grads[1]}; }

 private:
  void add(std::vector<TestTensor>& to, DType dtype, const std::vector<int64_t>& extents,
           std::vector<double>& values) const {
    to.emplace_back(device_, dtype, extents);
    to.back().write(values);
    values = to.back().read();
  }
  Device device_;
};

// Results and gradients on every instruction set of the device, f64 to 1e-12 and f32 to 1e-5,
// gradients to twice that.
inline void compare_with_reference(std::mt19937& random, Device device, DType dtype,
                                   const reference::Shape& s, double decay,
                                   const std::vector<int64_t>& chunks) {
  RecurrenceProblem problem(random, dtype, s, decay, device);
  const reference::Results expected = reference::recurrence(s, problem.in);
  reference::Inputs grads = reference::recurrence_gradients(s, problem.in, problem.arriving);
  const double tolerance = dtype == DType::kF64 ? 1e-12 : 1e-5;
  const double scale = norm(problem.arriving.out) + norm(problem.arriving.state);
  for (const auto set : sets_on(device)) {
    for (const int64_t chunk : chunks) {
      const std::string what = name_of(set) + ", chunk " + std::to_string(chunk) + ", dtype " +
                               std::to_string(static_cast<int>(dtype)) + ", " + text_of(s) +
                               ", decay " + std::to_string(decay);
      const recurrences::Recurrence kernel(set);
      RecurrenceRun run(kernel, device, problem.inputs, {chunk});
      run.forward();
      expect_close(run.outputs[0], expected.out, tolerance, what + ", out");
      expect_close(run.outputs[1], expected.state, tolerance, what + ", state");
      run.backward(problem.both());
      for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
        expect_close(run.grads[i], *parts_of(grads)[i], 2.0 * tolerance,
                     what + ", gradient of " + kRecurrenceInputs[i], scale);
      }
    }
  }
}

// Each input's gradient alone, of the results or of the last state alone.
inline void expect_gradients_one_by_one(std::mt19937& random, Device device, int64_t chunk) {
  const reference::Shape s = {2, 20, 1, 2, 5, 6, true, true};
  RecurrenceProblem problem(random, DType::kF64, s, 0.2, device);
  const recurrences::Recurrence kernel;
  RecurrenceRun run(kernel, device, problem.inputs, {chunk});
  run.forward();
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    const bool has_out = i % 2 == 0;
    reference::Results arriving = problem.arriving;
    std::vector<double>& missing = has_out ? arriving.state : arriving.out;
    missing.assign(missing.size(), 0.0);
    reference::Inputs grads = reference::recurrence_gradients(s, problem.in, arriving);
    run.backward({has_out ? &problem.grads[0] : nullptr, has_out ? nullptr : &problem.grads[1]},
                 1U << i);
    expect_close(run.grads[i], *parts_of(grads)[i], 1e-12, kRecurrenceInputs[i]);
  }
}

// A NaN of the first of two lanes reaches nothing of the second.
inline void expect_nan_in_its_lane(std::mt19937& random, Device device, int64_t chunk) {
  for (const bool is_by_channel : {false, true}) {
    const reference::Shape s = {2, 30, 1, 1, 4, 4, is_by_channel, true};
    RecurrenceProblem problem(random, DType::kF64, s, 0.2, device);
    std::vector<double> decay = problem.inputs[3].read();
    decay[0] = std::numeric_limits<double>::quiet_NaN();
    problem.inputs[3].write(decay);
    const recurrences::Recurrence kernel;
    RecurrenceRun run(kernel, device, problem.inputs, {chunk});
    run.forward();
    run.backward(problem.both());
    const std::vector<double> out = run.outputs[0].read(), grad = run.grads[0].read();
    EXPECT_TRUE(std::isnan(out[0]));
    for (std::size_t i = out.size() / 2; i < out.size(); ++i) {
      ASSERT_TRUE(std::isfinite(out[i]) && std::isfinite(grad[i])) << i;
    }
  }
}

}  // namespace mneme::test
