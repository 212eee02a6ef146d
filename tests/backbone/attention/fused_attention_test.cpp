// Attention by the host's kernel against the same attention as tensor operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <utility>
#include <vector>

#include "host/backbone/attention/kernels/fused.hpp"
#include "host/backbone/attention/positions.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

struct FusedCase {
  int64_t lanes, queries, heads, key_heads, width, free;
  std::vector<int64_t> rows;  // of pieces, the tokens' last
  bool is_relative = false;
  int64_t window = 0;
  std::vector<double> slopes = {};
  int64_t clamp = 0;
  bool has_gaps = false;
  bool has_bias = false;
  at::ScalarType type = at::kDouble;
  double tolerance = 1e-12;  // of z, which is rounded to the type, as bf16 probabilities may be
};

std::ostream& operator<<(std::ostream& out, const FusedCase& c) {
  return out << "B" << c.lanes << " T" << c.queries << " H" << c.heads << "/" << c.key_heads << " d"
             << c.width << " " << c10::toString(c.type);
}

class FusedAttention : public testing::TestWithParam<FusedCase> {};

// A case's tensors; the plain path reads the same numbers in f64, because in bf16 it would round
// every score.
struct Problem {
  const FusedCase& c;
  std::vector<at::Tensor> leaves;  // that have gradients
  std::vector<KeyPiece> pieces;
  AttentionArgs args;
  ColumnRule rule;
  int64_t keys = 0;

  explicit Problem(const FusedCase& given) : c(given), rule{c.window, &c.slopes, c.clamp, {}} {
    for (const int64_t rows : c.rows) {
      // As a layer's projection gives them: keys and values beside each other.
      const at::Tensor both =
          leaf(static_cast<uint64_t>(100 + keys), {c.lanes, rows, 2, c.key_heads, c.width}, c.type);
      pieces.push_back({both.select(2, 0), both.select(2, 1)});
      keys += rows;
    }
    const at::ScalarType sums = score_dtype(c.type);
    args.q = leaf(1, {c.lanes, c.queries, c.heads, c.width}, c.type);
    args.first_placed = c.free;
    args.scale = 0.6;
    args.wants_lse = true;
    args.may_be_empty = true;
    if (c.is_relative) {
      args.table = leaf(2, {c.heads, keys - c.free + 1, c.width}, c.type);
      if (c.clamp > 0) {
        const at::NoGradGuard no_grad;
        args.table.narrow(1, 0, keys - c.free - c.clamp).copy_(args.table.narrow(1, 0, 1));
      }
      args.content_bias = leaf(3, {c.heads, c.width}, sums);
      args.position_bias = leaf(4, {c.heads, c.width}, sums);
    }
    if (c.has_bias) args.bias = random_tensor(5, {c.heads, 1, c.queries, keys}).to(sums);
    if (c.has_gaps) rule.valid = random_tensor(6, {c.lanes, keys}).gt(-0.5);
  }
  AttentionOutput plain() {
    AttentionArgs plain_args = args;
    for (at::Tensor* t : {&plain_args.q, &plain_args.table, &plain_args.content_bias,
                          &plain_args.position_bias, &plain_args.bias}) {
      if (t->defined()) *t = t->to(at::kDouble);
    }
    std::vector<at::Tensor> k, v;
    for (const KeyPiece& piece : pieces) {
      k.push_back(piece.k.permute({2, 0, 1, 3}));
      v.push_back(piece.v.permute({2, 0, 1, 3}));
    }
    plain_args.k = at::cat(k, 2).to(at::kDouble);
    plain_args.v = at::cat(v, 2).to(at::kDouble);
    MaskCache masks;
    plain_args.mask = masks.causal({c.free, keys - c.free - c.queries, c.queries}, c.window,
                                   c.slopes, c.clamp, at::TensorOptions().dtype(at::kDouble));
    if (c.has_gaps) {
      plain_args.mask = plain_args.mask.masked_fill(
          rule.valid.logical_not().view({1, c.lanes, 1, keys}), kMinusInfinity);
    }
    return attend(plain_args);
  }
  // Of all leaves, for random gradients of z and lse.
  std::vector<at::Tensor> gradients(const AttentionOutput& out) const {
    const at::Tensor of_z = random_tensor(7, out.z.sizes()).to(c.type).to(out.z.scalar_type());
    const at::Tensor of_lse = random_tensor(8, out.lse.sizes()).to(out.lse.scalar_type());
    return torch::autograd::grad({out.z, out.lse}, leaves, {of_z, of_lse}, /*retain_graph=*/true,
                                 /*create_graph=*/false, /*allow_unused=*/true);
  }

 private:
  at::Tensor leaf(uint64_t seed, at::IntArrayRef shape, at::ScalarType type) {
    return leaves.emplace_back(random_tensor(seed, shape).to(type).requires_grad_());
  }
};

TEST_P(FusedAttention, EqualsTensorOperations) {
  const FusedCase& c = GetParam();
  Problem problem(c);
  const AttentionOutput plain = problem.plain();
  const at::NoGradGuard no_grad;
  const AttentionOutput fused = attend_fused(problem.args, problem.pieces, problem.rule);
  EXPECT_EQ(fused.z.scalar_type(), c.type);
  EXPECT_EQ(fused.lse.scalar_type(), score_dtype(c.type));
  EXPECT_LT(largest_difference(fused.z.to(at::kDouble), plain.z.to(at::kDouble)), c.tolerance);
  EXPECT_TRUE(at::isinf(fused.lse).equal(at::isinf(plain.lse)));
  const auto finite = [](const at::Tensor& lse) { return lse.to(at::kDouble).nan_to_num(); };
  EXPECT_LT(largest_difference(finite(fused.lse), finite(plain.lse)),
            c.type == at::kDouble ? 1e-12 : 2e-5);
}

TEST_P(FusedAttention, HasTheGradientsOfTensorOperations) {
  const FusedCase& c = GetParam();
  Problem problem(c);
  const AttentionOutput fused = attend_fused(problem.args, problem.pieces, problem.rule);
  const std::vector<at::Tensor> ours = problem.gradients(fused);
  const std::vector<at::Tensor> theirs = problem.gradients(problem.plain());
  for (size_t i = 0; i < ours.size(); ++i) {
    if (problem.leaves[i].numel() == 0) continue;
    const at::Tensor expected = theirs[i].to(at::kDouble);
    EXPECT_EQ(ours[i].scalar_type(), problem.leaves[i].scalar_type());
    const double size = std::max(1.0, expected.abs().max().item<double>());
    EXPECT_LT(largest_difference(ours[i].to(at::kDouble), expected), 2 * c.tolerance * size)
        << "leaf " << i << " " << expected.sizes();
  }
  // Only what is asked for: the last piece's keys alone.
  const size_t last = c.rows.size() - 1;
  const at::Tensor own =
      torch::autograd::grad({fused.z}, {problem.leaves[last]}, {at::ones_like(fused.z)}, true)[0];
  EXPECT_EQ(own.sizes(), problem.leaves[last].sizes());
}

std::vector<FusedCase> fused_cases() {
  std::vector<FusedCase> out;
  for (const auto& [type, tolerance] : std::vector<std::pair<at::ScalarType, double>>{
           {at::kDouble, 1e-12}, {at::kFloat, 2e-5}, {at::kBFloat16, 1.2e-2}}) {
    FusedCase c{2, 5, 4, 4, 41, 0, {30, 20, 5}};
    c.type = type;
    c.tolerance = tolerance;
    out.push_back(c);  // no positions
    c.is_relative = true;
    out.push_back(c);
    c.free = 30;
    c.has_gaps = true;
    c.window = 12;
    out.push_back(c);
    c.window = 0;
    c.clamp = 6;
    out.push_back(c);
    c = {1, 70, 6, 2, 32, 3, {3, 200, 70}};
    c.type = type;
    c.tolerance = tolerance;
    c.slopes = alibi_slopes(6);
    c.clamp = 50;
    out.push_back(c);
    c.slopes.clear();
    c.has_bias = true;
    out.push_back(c);
    c = {3, 1, 9, 3, 64, 0, {0, 100, 1}};
    c.type = type;
    c.tolerance = tolerance;
    out.push_back(c);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Schemes, FusedAttention, testing::ValuesIn(fused_cases()));

// The result may not depend on how the work is divided.
TEST(FusedAttention, IsTheSameWithSeveralThreads) {
  const FusedCase c{5, 40, 3, 3, 41, 4, {4, 50, 40}, true};
  Problem problem(c);
  const auto gradients = [&](int threads) {
    at::set_num_threads(threads);
    return problem.gradients(attend_fused(problem.args, problem.pieces, problem.rule));
  };
  const int before = at::get_num_threads();
  const std::vector<at::Tensor> one = gradients(1), three = gradients(3);
  at::set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << i;
}

// A layer keeps its table as the kernel reads it; others are copied.
TEST(FusedAttention, ReadsATableInEitherLayout) {
  const at::NoGradGuard no_grad;
  AttentionArgs args;
  args.q = random_tensor(1, {1, 6, 2, 5});
  args.table = random_tensor(2, {2, 27, 5});
  const at::Tensor rows = random_tensor(3, {1, 26, 2, 5});
  const std::vector<KeyPiece> pieces = {{rows, rows}};
  const at::Tensor copied = attend_fused(args, pieces, {}).z;
  args.table = laid_out_table(args.table);
  EXPECT_EQ(args.table.stride(1), 1);
  EXPECT_TRUE(attend_fused(args, pieces, {}).z.equal(copied));
}

}  // namespace
}  // namespace mneme::backbone
