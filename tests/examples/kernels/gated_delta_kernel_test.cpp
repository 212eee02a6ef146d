// The kernel of examples/gated_delta on every device against a naive recurrence in double, through
// the interface that the host uses.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "delta_rule.hpp"
#include "tests/plugins/kernel_compare.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::test {
namespace {

using gated_delta::DeltaRule;
using Values = std::vector<double>;

struct DeltaCase {
  int64_t lanes, length, heads, width;
};
std::string text_of(const DeltaCase& c) {
  return "B=" + std::to_string(c.lanes) + " T=" + std::to_string(c.length) +
         " H=" + std::to_string(c.heads) + " d=" + std::to_string(c.width);
}

// Inputs in the kernel's order, outputs and gradients of one loss, by the definition: states are
// kept for every token, S_t = alpha S (I - beta k k^T) + beta v k^T is written out, and the chain
// rule is applied to it entry by entry.
struct NaiveDelta {
  Values in[6], out, after, grad[6];

  NaiveDelta(const DeltaCase& c, std::vector<TestTensor>& inputs, const Values& grad_out,
             const Values& grad_after) {
    for (std::size_t i = 0; i < 6; ++i) {
      in[i] = inputs[i].read();
      grad[i].assign(in[i].size(), 0.0);
    }
    out.assign(in[2].size(), 0.0);
    after.assign(in[5].size(), 0.0);
    const int64_t d = c.width;
    const auto n = static_cast<std::size_t>(d * d);
    for (int64_t b = 0; b < c.lanes; ++b) {
      for (int64_t h = 0; h < c.heads; ++h) {
        const auto piece = static_cast<std::size_t>(b * c.heads + h);
        std::vector<Values> states = {Values(in[5].begin() + static_cast<int64_t>(piece * n),
                                             in[5].begin() + static_cast<int64_t>(piece * n + n))};
        const auto token = [&](int64_t t) {
          return static_cast<std::size_t>((b * c.length + t) * c.heads + h);
        };
        const auto width = static_cast<std::size_t>(d);
        for (int64_t t = 0; t < c.length; ++t) {
          const Values& s = states.back();
          const std::size_t at = token(t);
          const double *q = &in[0][at * width], *k = &in[1][at * width], *v = &in[2][at * width];
          Values next(n);
          for (std::size_t i = 0; i < width; ++i) {
            for (std::size_t j = 0; j < width; ++j) {
              out[at * width + i] += s[i * width + j] * q[j];
              double kept = s[i * width + j];
              for (std::size_t l = 0; l < width; ++l) {
                kept -= in[4][at] * s[i * width + l] * k[l] * k[j];
              }
              next[i * width + j] = in[3][at] * kept + in[4][at] * v[i] * k[j];
            }
          }
          states.push_back(next);
        }
        for (std::size_t i = 0; i < n; ++i) after[piece * n + i] = states.back()[i];
        Values g(n, 0.0);
        if (!grad_after.empty()) {
          for (std::size_t i = 0; i < n; ++i) g[i] = grad_after[piece * n + i];
        }
        for (int64_t t = c.length - 1; t >= 0; --t) {
          const Values& s = states[static_cast<std::size_t>(t)];
          const std::size_t at = token(t);
          const double *q = &in[0][at * width], *k = &in[1][at * width], *v = &in[2][at * width];
          const double alpha = in[3][at], beta = in[4][at];
          Values before(n, 0.0);
          for (std::size_t i = 0; i < width; ++i) {
            double u = 0.0;
            for (std::size_t l = 0; l < width; ++l) u += s[i * width + l] * k[l];
            const double o = grad_out.empty() ? 0.0 : grad_out[at * width + i];
            for (std::size_t j = 0; j < width; ++j) {
              const double entry = g[i * width + j];
              grad[0][at * width + j] += o * s[i * width + j];
              grad[1][at * width + j] += entry * beta * (v[i] - alpha * u);
              grad[2][at * width + i] += entry * beta * k[j];
              grad[3][at] += entry * (s[i * width + j] - beta * u * k[j]);
              grad[4][at] += entry * (v[i] * k[j] - alpha * u * k[j]);
              before[i * width + j] += alpha * entry + o * q[j];
              for (std::size_t l = 0; l < width; ++l) {
                before[i * width + l] -= entry * alpha * beta * k[l] * k[j];
                grad[1][at * width + l] -= entry * alpha * beta * s[i * width + l] * k[j];
              }
            }
          }
          g = before;
        }
        for (std::size_t i = 0; i < n; ++i) grad[5][piece * n + i] = g[i];
      }
    }
  }
};

std::vector<TestTensor> random_inputs(std::mt19937& random, Device device, DType dtype,
                                      const DeltaCase& c) {
  std::vector<TestTensor> inputs;
  const std::vector<int64_t> rows = {c.lanes, c.length, c.heads, c.width};
  const std::vector<int64_t> gates = {c.lanes, c.length, c.heads};
  for (const auto& shape :
       {rows, rows, rows, gates, gates, std::vector<int64_t>{c.lanes, c.heads, c.width, c.width}}) {
    inputs.emplace_back(device, dtype, shape);
    Values values = random_numbers(random, static_cast<int64_t>(inputs.back().elements()));
    if (inputs.size() <= 2) {
      // Vectors shorter than 1, so that states do not grow.
      for (double& value : values) value *= 0.8 / std::sqrt(static_cast<double>(c.width));
    }
    if (shape == gates) {
      for (double& value : values) value = 1 / (1 + std::exp(-value));
    }
    inputs.back().write(values);
  }
  return inputs;
}

const std::vector<DeltaCase>& delta_cases() {
  static const std::vector<DeltaCase> all = {
      {1, 1, 1, 1},   {2, 7, 3, 5},  {1, 16, 2, 8},   {1, 17, 1, 32}, {2, 33, 1, 33}, {1, 49, 2, 7},
      {1, 18, 1, 64}, {1, 3, 1, 65}, {1, 17, 1, 128}, {0, 3, 2, 4},   {2, 0, 2, 4},   {2, 3, 0, 4},
  };
  return all;
}

class DeltaRuleOn : public OnDevice {};

TEST_P(DeltaRuleOn, EqualsTheReferenceForEveryShapeAndEveryDType) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const DeltaCase& c : delta_cases()) {
      std::vector<TestTensor> inputs = random_inputs(random_, GetParam(), dtype, c);
      const DeltaRule kernel;
      KernelRun<DeltaRule> run(kernel, GetParam(), inputs);
      run.forward();
      TestTensor grad_out(GetParam(), dtype, run.outputs[0].shape);
      TestTensor grad_after(GetParam(), dtype, run.outputs[1].shape);
      grad_out.write(random_numbers(random_, static_cast<int64_t>(grad_out.elements())));
      grad_after.write(random_numbers(random_, static_cast<int64_t>(grad_after.elements())));
      const NaiveDelta naive(c, inputs, grad_out.read(), grad_after.read());
      const double most = dtype == DType::kF64 ? 1e-13 : 3e-6;
      expect_close(run.outputs[0], naive.out, most, "out, " + text_of(c));
      expect_close(run.outputs[1], naive.after, most, "state, " + text_of(c));
      run.backward({&grad_out, &grad_after});
      const char* const names[] = {"q", "k", "v", "alpha", "beta", "state"};
      for (std::size_t i = 0; i < 6; ++i) {
        expect_close(run.grads[i], naive.grad[i], 10 * most,
                     std::string("gradient of ") + names[i] + ", " + text_of(c), 10.0);
      }
    }
  }
}

TEST_P(DeltaRuleOn, LeavesOutWhatIsNotWantedOrDoesNotArrive) {
  const DeltaCase c = {1, 18, 2, 6};
  std::vector<TestTensor> inputs = random_inputs(random_, GetParam(), DType::kF64, c);
  const DeltaRule kernel;
  KernelRun<DeltaRule> run(kernel, GetParam(), inputs);
  run.forward();
  TestTensor grad_out(GetParam(), DType::kF64, run.outputs[0].shape);
  TestTensor grad_after(GetParam(), DType::kF64, run.outputs[1].shape);
  grad_out.write(random_numbers(random_, static_cast<int64_t>(grad_out.elements())));
  grad_after.write(random_numbers(random_, static_cast<int64_t>(grad_after.elements())));
  for (const int arriving : {1, 2}) {
    TestTensor* const first = arriving == 1 ? &grad_out : nullptr;
    TestTensor* const second = arriving == 2 ? &grad_after : nullptr;
    const NaiveDelta naive(c, inputs, first != nullptr ? first->read() : Values(),
                           second != nullptr ? second->read() : Values());
    for (uint32_t i = 0; i < 6; ++i) {
      run.backward({first, second}, 1U << i);
      expect_close(run.grads[i], naive.grad[i], 1e-12, "gradient " + std::to_string(i), 10.0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeltaRuleOn, testing::Values(Device::kCpu, Device::kCuda),
                         [](const auto& device) { return name_of(device); });

TEST(DeltaRule, GivesTheSameBitsHoweverTheWorkIsCut) {
  std::mt19937 random(test_seed());
  std::vector<TestTensor> inputs = random_inputs(random, Device::kCpu, DType::kF32, {5, 30, 7, 9});
  const DeltaRule kernel;
  KernelRun<DeltaRule> run(kernel, Device::kCpu, inputs);
  run.forward();
  TestTensor grad(Device::kCpu, DType::kF32, run.outputs[0].shape);
  grad.write(random_numbers(random, static_cast<int64_t>(grad.elements())));
  run.backward(&grad);
  const Values out = run.outputs[0].read(), dk = run.grads[1].read();
  const ReversedPieces pieces;
  run.forward();
  run.backward(&grad);
  EXPECT_EQ(run.outputs[0].read(), out);
  EXPECT_EQ(run.grads[1].read(), dk);
}

TEST(DeltaRule, RefusesInputsThatDoNotFitTogether) {
  const DeltaRule kernel;
  const auto error = [&](std::size_t which, DType dtype, std::vector<int64_t> shape) {
    std::mt19937 random(1);
    std::vector<TestTensor> inputs = random_inputs(random, Device::kCpu, DType::kF32, {2, 3, 4, 5});
    if (which < 6) inputs[which] = TestTensor(Device::kCpu, dtype, std::move(shape));
    return infer_error(kernel, std::move(inputs));
  };
  EXPECT_EQ(error(9, DType::kF32, {}), "");
  EXPECT_EQ(error(0, DType::kF32, {2, 3, 4}), "3: q: expected [B, T, H, d], got [2, 3, 4]");
  EXPECT_EQ(error(1, DType::kF32, {2, 3, 4, 6}), "3: k: expected [2, 3, 4, 5], got [2, 3, 4, 6]");
  EXPECT_EQ(error(4, DType::kF32, {2, 4}), "3: beta: expected [2, 3, 4], got [2, 4]");
  EXPECT_EQ(error(5, DType::kF32, {2, 4, 5, 6}),
            "3: state: expected [2, 4, 5, 5], got [2, 4, 5, 6]");
  EXPECT_EQ(error(0, DType::kF16, {2, 3, 4, 5}), "4: q: expected f32 or f64, got dtype code 3");
  EXPECT_EQ(error(3, DType::kF64, {2, 3, 4}), "4: alpha: expected that of q, got dtype code 4");
}

}  // namespace
}  // namespace mneme::test
