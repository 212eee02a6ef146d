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
Results<T> attended(const Case& c, cpu::InstructionSet set) {
  AttentionShape shape = c.shape;
  shape.element = element_of<T>();
  const Inputs<T> inputs(c, std::is_same_v<T, BFloat16> ? Rounding::kElements : Rounding::kNone);
  Results<T> results(shape);
  const AttentionKernels& kernels = cpu::kernels<AttentionKernels>(set);
  std::vector<unsigned char> scratch(kernels.attend_scratch(shape, inputs.get()));
  for (int64_t p = 0; p < AttentionParts(shape).pieces(shape); ++p) {
    std::fill(scratch.begin(), scratch.end(), 0xFF);  // NaN
    kernels.attend(shape, inputs.get(), results.out, scratch.data(), p);
  }
  return results;
}

class AttentionKernel : public testing::TestWithParam<Case> {};

TEST_P(AttentionKernel, AgreesWithItsDefinition) {
  const Expected expected(GetParam());
  for (const cpu::InstructionSet set : cpu::usable_instruction_sets()) {
    SCOPED_TRACE(cpu::name_of(set));
    expected.compare([&]<typename T>(T) { return attended<T>(GetParam(), set); });
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionKernel, testing::ValuesIn(cases()));

}  // namespace
}  // namespace mneme::kernel
