// The backward pass of the attention kernel: its definition against differences of the forward
// pass, and each instruction set against the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/kernel/attention_gradient_cases.hpp"

namespace mneme::kernel {
namespace {

template <typename T>
void run(Problem<T>& problem, cpu::InstructionSet set) {
  const AttentionKernels& forward = cpu::kernels<AttentionKernels>(set);
  std::vector<unsigned char> scratch(forward.attend_scratch(problem.shape, problem.inputs.get()));
  for (int64_t p = 0; p < AttentionParts(problem.shape).pieces(problem.shape); ++p) {
    forward.attend(problem.shape, problem.inputs.get(), {problem.z.data(), problem.lse.data()},
                   scratch.data(), p);
  }
  const AttentionGradientKernels& backward = cpu::kernels<AttentionGradientKernels>(set);
  scratch.resize(backward.backward_scratch(problem.shape, problem.inputs.get()));
  const AttentionGradients gradients = problem.gradients();
  for (int64_t p = 0; p < GradientParts(problem.shape).pieces(problem.shape); ++p) {
    std::fill(scratch.begin(), scratch.end(), 0xFF);  // NaN
    backward.backward(problem.shape, problem.inputs.get(), problem.pass(), gradients,
                      scratch.data(), p);
  }
}

class AttentionGradientKernel : public testing::TestWithParam<Case> {};

TEST_P(AttentionGradientKernel, AgreesWithItsDefinition) {
  Problem<double> theirs(GetParam(), Rounding::kNone), rounded(GetParam(), Rounding::kElements);
  run_by_definition(theirs);
  run_by_definition(rounded);
  for (const cpu::InstructionSet set : cpu::usable_instruction_sets()) {
    SCOPED_TRACE(cpu::name_of(set));
    Problem<double> f64(GetParam(), Rounding::kNone);
    run(f64, set);
    expect_equal(f64, theirs, 1e-12);
    Problem<float> f32(GetParam(), Rounding::kNone);
    run(f32, set);
    expect_equal(f32, theirs, 3e-5);
    // z, from which dz . z is taken, and the gradients are rounded to 8 bits.
    Problem<BFloat16> bf16(GetParam(), Rounding::kElements);
    run(bf16, set);
    expect_equal(bf16, rounded, 1.2e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionGradientKernel, testing::ValuesIn(cases()));

// dz . z + dlse . lse of the definition, as a function of one of its inputs.
double total(const Problem<double>& problem) {
  std::vector<double> z(problem.z.size()), lse(problem.lse.size());
  attend_by_definition(problem.shape, problem.inputs.get(), {z.data(), lse.data()});
  double sum = 0.0;
  for (size_t i = 0; i < z.size(); ++i) sum += problem.dz[i] * z[i];
  for (size_t i = 0; i < lse.size(); ++i) {
    if (lse[i] != -INFINITY) sum += problem.dlse[i] * lse[i];
  }
  return sum;
}

void expect_slope(const std::string& name, const Problem<double>& problem, const void* input,
                  double gradient) {
  auto* x = const_cast<double*>(static_cast<const double*>(input));
  const double before = *x, step = 1e-5;
  *x = before + step;
  const double above = total(problem);
  *x = before - step;
  const double below = total(problem);
  *x = before;
  EXPECT_NEAR((above - below) / (2 * step), gradient, 1e-7 * std::max(1.0, std::abs(gradient)))
      << name;
}

class AttentionGradientDefinition : public testing::TestWithParam<Case> {};

TEST_P(AttentionGradientDefinition, AgreesWithDifferences) {
  Problem<double> problem(GetParam(), Rounding::kNone);
  run_by_definition(problem);
  const AttentionShape& s = problem.shape;
  const AttentionInputs& in = problem.inputs.get();
  std::mt19937 random(5);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (int i = 0; i < 4; ++i) {
    const int64_t lane = below(s.lanes), query = below(s.queries), head = below(s.heads),
                  c = below(s.width);
    expect_slope(
        "q", problem,
        static_cast<const double*>(in.q.data) + lane * in.q.lane + head * in.q.head +
            query * in.q.row + c,
        problem
            .q[static_cast<size_t>(((lane * s.queries + query) * s.heads + head) * s.width + c)]);
    const auto p = static_cast<size_t>(below(in.n_pieces));
    const KeyPiece& piece = in.pieces[p];
    const int64_t row = below(piece.rows), key_head = below(s.key_heads);
    const auto at =
        static_cast<size_t>(((lane * piece.rows + row) * s.key_heads + key_head) * s.width + c);
    const auto of = [&](const Rows& rows) {
      return static_cast<const double*>(rows.data) + lane * rows.lane + key_head * rows.head +
             row * rows.row + c;
    };
    expect_slope("k", problem, of(piece.k), problem.k[p][at]);
    expect_slope("v", problem, of(piece.v), problem.v[p][at]);
    const auto of_head = static_cast<size_t>(head * s.width + c);
    if (in.content_bias != nullptr) {
      expect_slope("u", problem, static_cast<const double*>(in.content_bias) + of_head,
                   problem.bias_gradient(problem.u)[of_head]);
    }
    if (in.content_bias != nullptr && in.table != nullptr) {
      expect_slope("w", problem, static_cast<const double*>(in.position_bias) + of_head,
                   problem.bias_gradient(problem.w)[of_head]);
    }
    if (in.table != nullptr) {
      const int64_t r = below(in.table_rows);
      expect_slope(
          "table", problem,
          static_cast<const double*>(in.table) + head * in.table_head + c * in.table_row + r,
          problem.table_gradient()[static_cast<size_t>((head * in.table_rows + r) * s.width + c)]);
    }
  }
}

std::vector<Case> small_cases() {
  std::vector<Case> out = cases();
  std::erase_if(out, [](const Case& c) { return c.shape.queries * c.shape.keys > 6000; });
  return out;
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionGradientDefinition, testing::ValuesIn(small_cases()));

}  // namespace
}  // namespace mneme::kernel
