// The attention kernel of each instruction set against its definition in f64, over shapes that do
// not fit its tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "tests/kernel/attention_cases.hpp"

namespace mneme::kernel {
namespace {

template <typename T>
struct Results {
  std::vector<T> z;
  std::vector<SumOf<T>> lse;
  AttentionResults out;
  explicit Results(const AttentionShape& s)
      : z(static_cast<size_t>(s.lanes * s.queries * s.heads * s.width), T(99)),
        lse(static_cast<size_t>(s.lanes * s.queries * s.heads), SumOf<T>{99}),
        out{z.data(), lse.data()} {}
};

template <typename T>
Results<T> attended(const Case& c, cpu::InstructionSet set) {
  AttentionShape shape = c.shape;
  shape.element = element_of<T>();
  const Inputs<T> inputs(c, std::is_same_v<T, BFloat16>);
  Results<T> results(shape);
  const AttentionKernels& kernels = cpu::kernels<AttentionKernels>(set);
  std::vector<unsigned char> scratch(kernels.attend_scratch(shape, inputs.get()));
  for (int64_t p = 0; p < AttentionParts(shape).pieces(shape); ++p) {
    std::fill(scratch.begin(), scratch.end(), 0xFF);  // NaN
    kernels.attend(shape, inputs.get(), results.out, scratch.data(), p);
  }
  return results;
}

Results<double> expected(const Case& c, bool is_rounded) {
  const Inputs<double> inputs(c, is_rounded);
  Results<double> results(c.shape);
  attend_by_definition(c.shape, inputs.get(), results.out);
  return results;
}

class AttentionKernel : public testing::TestWithParam<Case> {};

TEST_P(AttentionKernel, AgreesWithItsDefinition) {
  const Results<double> theirs = expected(GetParam(), false);
  const Results<double> rounded = expected(GetParam(), true);
  for (const cpu::InstructionSet set : cpu::usable_instruction_sets()) {
    SCOPED_TRACE(cpu::name_of(set));
    const Results<double> f64 = attended<double>(GetParam(), set);
    EXPECT_LT(largest_error(f64.z, theirs.z), 1e-13);
    EXPECT_LT(largest_error(f64.lse, theirs.lse), 1e-12);
    const Results<float> f32 = attended<float>(GetParam(), set);
    EXPECT_LT(largest_error(f32.z, theirs.z), 2e-5);
    EXPECT_LT(largest_error(f32.lse, theirs.lse), 2e-5);
    // z, and with AVX512-BF16 probabilities, are rounded to 8 bits.
    const Results<BFloat16> bf16 = attended<BFloat16>(GetParam(), set);
    EXPECT_LT(largest_error(bf16.z, rounded.z), 5e-3);
    EXPECT_LT(largest_error(bf16.lse, rounded.lse), 2e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionKernel, testing::ValuesIn(cases()));

}  // namespace
}  // namespace mneme::kernel
