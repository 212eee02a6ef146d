// The backward pass of the attention kernel: its definition against differences of the forward
// pass, and each instruction set against the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/kernel/attention_cases.hpp"

namespace mneme::kernel {
namespace {

// A case's pass, gradients of its results, and room for those of its inputs.
template <typename T>
class Problem {
 public:
  using Sum = SumOf<T>;

  Problem(const Case& c, bool is_rounded)
      : shape(c.shape), inputs(c, is_rounded ? Rounding::kElements : Rounding::kNone) {
    shape.element = element_of<T>();
    const AttentionInputs& in = inputs.get();
    const int64_t queries = shape.lanes * shape.heads * shape.queries;
    std::mt19937 random(11);
    const auto draw = [&] {
      const float x = std::uniform_real_distribution<float>(-1.0F, 1.0F)(random);
      return is_rounded ? static_cast<float>(BFloat16(x)) : x;
    };
    for (int64_t i = 0; i < queries * shape.width; ++i) dz.push_back(static_cast<T>(draw()));
    for (int64_t i = 0; i < queries; ++i) dlse.push_back(static_cast<Sum>(draw()));
    // The gradient of a constant may be anything.
    if (c.has_gaps) dlse[0] = std::numeric_limits<Sum>::quiet_NaN();
    z.resize(dz.size());
    lse.resize(dlse.size());
    if (in.table != nullptr) lay_out_table(in);
    q.assign(dz.size(), T(99));
    for (int64_t p = 0; p < in.n_pieces; ++p) {
      const int64_t size = shape.lanes * in.pieces[p].rows * shape.key_heads * shape.width;
      k.emplace_back(static_cast<size_t>(size), T(0));
      v.emplace_back(static_cast<size_t>(size), T(0));
    }
    shares = GradientParts(shape).shares;
    const int64_t rows = shares * shape.heads;
    table.assign(static_cast<size_t>(rows * (in.table_rows + kTableSpare) * padded_width(shape)),
                 Sum{99});
    u.assign(static_cast<size_t>(rows * shape.width), Sum{99});
    w.assign(u.size(), Sum{99});
  }

  AttentionPass pass() const {
    AttentionPass out;
    out.z = z.data();
    out.lse = lse.data();
    out.grad_z = {dz.data(), shape.queries * shape.heads * shape.width, shape.width,
                  shape.heads * shape.width};
    out.grad_lse = dlse.data();
    out.table_by_row = rows_.empty() ? nullptr : rows_.data();
    return out;
  }
  AttentionGradients gradients() {
    of_pieces_.clear();
    for (size_t p = 0; p < k.size(); ++p) of_pieces_.push_back({k[p].data(), v[p].data()});
    AttentionGradients out;
    out.q = q.data();
    out.pieces = of_pieces_.data();
    const bool has_table = inputs.get().table != nullptr;
    out.table = has_table ? table.data() : nullptr;
    out.content_bias = inputs.get().content_bias == nullptr ? nullptr : u.data();
    out.position_bias = has_table && out.content_bias != nullptr ? w.data() : nullptr;
    return out;
  }
  // Sums of the shares of `size` numbers a head, `used` of every `padded`.
  std::vector<double> summed(const std::vector<Sum>& of, int64_t size, int64_t padded,
                             int64_t used) const {
    std::vector<double> out;
    for (int64_t i = 0; i < shape.heads * size; ++i) {
      if (i % size % padded >= used) continue;
      double sum = 0.0;
      for (int64_t s = 0; s < shares; ++s)
        sum += of[static_cast<size_t>(s * shape.heads * size + i)];
      out.push_back(sum);
    }
    return out;
  }
  std::vector<double> table_gradient() const {
    if (inputs.get().table == nullptr) return {};
    const int64_t padded = padded_width(shape), rows = inputs.get().table_rows;
    std::vector<double> all = summed(table, (rows + kTableSpare) * padded, padded, shape.width),
                        out;
    const auto head = static_cast<size_t>((rows + kTableSpare) * shape.width);
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % head < static_cast<size_t>(rows * shape.width)) out.push_back(all[i]);
    }
    return out;
  }
  std::vector<double> bias_gradient(const std::vector<Sum>& of) const {
    return summed(of, shape.width, shape.width, shape.width);
  }

  AttentionShape shape;
  Inputs<T> inputs;
  int64_t shares = 0;
  std::vector<T> z, dz, q;
  std::vector<Sum> lse, dlse, table, u, w;
  std::vector<std::vector<T>> k, v;

 private:
  void lay_out_table(const AttentionInputs& in) {
    const int64_t padded = padded_width(shape);
    rows_.assign(static_cast<size_t>(shape.heads * in.table_rows * padded), Sum{0});
    for (int64_t h = 0; h < shape.heads; ++h) {
      for (int64_t r = 0; r < in.table_rows; ++r) {
        for (int64_t c = 0; c < shape.width; ++c) {
          rows_[static_cast<size_t>((h * in.table_rows + r) * padded + c)] =
              static_cast<const Sum*>(in.table)[h * in.table_head + c * in.table_row + r];
        }
      }
    }
  }

  std::vector<Sum> rows_;
  std::vector<KeyGradient> of_pieces_;
};

void run_by_definition(Problem<double>& problem) {
  attend_by_definition(problem.shape, problem.inputs.get(), {problem.z.data(), problem.lse.data()});
  problem.shares = 1;
  attend_backward_by_definition(problem.shape, problem.inputs.get(), problem.pass(),
                                problem.gradients());
}

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

template <typename T>
void expect_near(const std::string& name, const std::vector<T>& ours,
                 const std::vector<double>& theirs, double tolerance) {
  ASSERT_EQ(ours.size(), theirs.size()) << name;
  double largest = 1.0;
  for (const double x : theirs) largest = std::max(largest, std::abs(x));
  EXPECT_LT(largest_error(ours, theirs), tolerance * largest) << name;
}

template <typename T>
void expect_equal(Problem<T>& ours, const Problem<double>& theirs, double tolerance) {
  expect_near("q", ours.q, theirs.q, tolerance);
  for (size_t p = 0; p < theirs.k.size(); ++p) {
    expect_near("k of piece " + std::to_string(p), ours.k[p], theirs.k[p], tolerance);
    expect_near("v of piece " + std::to_string(p), ours.v[p], theirs.v[p], tolerance);
  }
  expect_near("table", ours.table_gradient(), theirs.table_gradient(), tolerance);
  if (ours.inputs.get().content_bias == nullptr) return;
  expect_near("content bias", ours.bias_gradient(ours.u), theirs.bias_gradient(theirs.u),
              tolerance);
  expect_near("position bias", ours.bias_gradient(ours.w), theirs.bias_gradient(theirs.w),
              tolerance);
}

class AttentionGradientKernel : public testing::TestWithParam<Case> {};

TEST_P(AttentionGradientKernel, AgreesWithItsDefinition) {
  Problem<double> theirs(GetParam(), false), rounded(GetParam(), true);
  run_by_definition(theirs);
  run_by_definition(rounded);
  for (const cpu::InstructionSet set : cpu::usable_instruction_sets()) {
    SCOPED_TRACE(cpu::name_of(set));
    Problem<double> f64(GetParam(), false);
    run(f64, set);
    expect_equal(f64, theirs, 1e-12);
    Problem<float> f32(GetParam(), false);
    run(f32, set);
    expect_equal(f32, theirs, 3e-5);
    // z, from which dz . z is taken, and the gradients are rounded to 8 bits.
    Problem<BFloat16> bf16(GetParam(), true);
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
  Problem<double> problem(GetParam(), false);
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
