// Products of few rows of each instruction set against double loops.
#include "host/kernel/linear.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace mneme::kernel {
namespace {

struct Sizes {
  int64_t rows, inputs, outputs;
  bool has_bias;
  bool is_bf16 = false;  // the weight
};

class LinearKernel : public testing::TestWithParam<Sizes> {};

TEST_P(LinearKernel, AgreesWithDoubleLoops) {
  const Sizes s = GetParam();
  std::mt19937 random(3);
  std::uniform_real_distribution<float> draw(-1.0F, 1.0F);
  const auto numbers = [&](int64_t count) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& x : out) x = draw(random);
    return out;
  };
  LinearArgs args;
  args.rows = s.rows;
  args.inputs = s.inputs;
  args.outputs = s.outputs;
  args.x_row = s.inputs + 3;
  args.w_row = s.inputs + 1;
  args.y_row = s.outputs + 2;
  // Nothing behind the last row belongs to the arrays.
  const std::vector<float> x = numbers((s.rows - 1) * args.x_row + s.inputs);
  std::vector<float> w = numbers((s.outputs - 1) * args.w_row + s.inputs);
  std::vector<uint16_t> halves(w.size());
  for (size_t i = 0; i < w.size() && s.is_bf16; ++i) {
    halves[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(w[i]) >> 16);
    w[i] = std::bit_cast<float>(static_cast<uint32_t>(halves[i]) << 16);
  }
  const std::vector<float> bias = numbers(s.outputs);
  args.x = x.data();
  if (s.is_bf16) {
    args.w_bf16 = halves.data();
  } else {
    args.w = w.data();
  }
  args.bias = s.has_bias ? bias.data() : nullptr;
  for (const cpu::InstructionSet set : cpu::usable_instruction_sets()) {
    SCOPED_TRACE(cpu::name_of(set));
    const LinearKernels& kernels = cpu::kernels<LinearKernels>(set);
    std::vector<float> y(static_cast<size_t>((s.rows - 1) * args.y_row + s.outputs), 77.0F);
    args.y = y.data();
    std::vector<unsigned char> prepared(kernels.prepared_bytes(args), 0xFF);
    // In parts, as several threads do.
    for (int64_t begin = 0; begin < args.inputs; begin += 2 * kLinearInputUnit) {
      kernels.prepare(args, prepared.data(), begin,
                      std::min(begin + 2 * kLinearInputUnit, args.inputs));
    }
    for (int64_t begin = 0; begin < s.outputs; begin += 3 * kLinearUnit) {
      kernels.multiply(args, prepared.data(), begin, std::min(begin + 3 * kLinearUnit, s.outputs));
    }
    // However threads share the outputs, their bits are the same.
    std::vector<float> at_once(y.size(), 77.0F);
    args.y = at_once.data();
    kernels.multiply(args, prepared.data(), 0, s.outputs);
    EXPECT_EQ(at_once, y);
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t o = 0; o < args.y_row && r * args.y_row + o < std::ssize(y); ++o) {
        const float got = y[static_cast<size_t>(r * args.y_row + o)];
        if (o >= s.outputs) {
          EXPECT_EQ(got, 77.0F) << "written behind row " << r;
          continue;
        }
        double sum = s.has_bias ? bias[static_cast<size_t>(o)] : 0.0;
        for (int64_t k = 0; k < s.inputs; ++k) {
          sum += static_cast<double>(x[static_cast<size_t>(r * args.x_row + k)]) *
                 w[static_cast<size_t>(o * args.w_row + k)];
        }
        ASSERT_NEAR(got, sum, 3e-6 * std::sqrt(static_cast<double>(s.inputs)) + 1e-6)
            << "row " << r << ", output " << o;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, LinearKernel,
    testing::Values(Sizes{1, 1, 1, true}, Sizes{1, 16, 8, false}, Sizes{1, 410, 1230, true},
                    Sizes{2, 17, 50, true}, Sizes{3, 576, 100, false}, Sizes{4, 33, 7, true},
                    Sizes{5, 64, 49, true}, Sizes{6, 100, 13, true}, Sizes{7, 31, 96, true},
                    Sizes{8, 410, 41, true}, Sizes{8, 5, 9, true}, Sizes{9, 100, 53, true},
                    Sizes{16, 96, 48, false}, Sizes{31, 97, 6, true}, Sizes{64, 410, 410, true},
                    Sizes{65, 193, 50, true}, Sizes{80, 130, 61, true}, Sizes{150, 64, 100, false},
                    Sizes{256, 410, 61, true}, Sizes{512, 300, 50, false},
                    Sizes{1, 16, 1, true, true}, Sizes{1, 576, 3072, false, true},
                    Sizes{2, 17, 50, true, true}, Sizes{3, 410, 49, false, true},
                    Sizes{4, 33, 100, true, true}),
    [](const testing::TestParamInfo<Sizes>& of) {
      const Sizes& s = of.param;
      return std::to_string(s.rows) + "x" + std::to_string(s.inputs) + "x" +
             std::to_string(s.outputs) + (s.has_bias ? "b" : "") + (s.is_bf16 ? "_bf16" : "");
    });

}  // namespace
}  // namespace mneme::kernel
