// Attention by the host's kernel against the same attention as tensor operations.
#include <gtest/gtest.h>

#include <ostream>

#include "host/backbone/attention/fused.hpp"
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

TEST_P(FusedAttention, EqualsTensorOperations) {
  const at::NoGradGuard no_grad;
  const FusedCase& c = GetParam();
  const auto random = [&](uint64_t seed, at::IntArrayRef shape) {
    return random_tensor(seed, shape).to(c.type);
  };
  std::vector<KeyPiece> pieces;
  std::vector<at::Tensor> k, v;
  int64_t keys = 0;
  for (const int64_t rows : c.rows) {
    const auto seed = static_cast<uint64_t>(100 + keys);
    // As a layer's projection gives them: keys and values beside each other.
    const at::Tensor both = random(seed, {c.lanes, rows, 2, c.key_heads, c.width});
    pieces.push_back({both.select(2, 0), both.select(2, 1)});
    k.push_back(pieces.back().k.permute({2, 0, 1, 3}));
    v.push_back(pieces.back().v.permute({2, 0, 1, 3}));
    keys += rows;
  }
  const at::ScalarType sums = score_dtype(c.type);
  AttentionArgs args;
  args.q = random(1, {c.lanes, c.queries, c.heads, c.width});
  args.first_placed = c.free;
  args.scale = 0.6;
  args.wants_lse = true;
  args.may_be_empty = true;
  if (c.is_relative) {
    args.table = random(2, {c.heads, keys - c.free + 1, c.width});
    args.content_bias = random_tensor(3, {c.heads, c.width}).to(sums);
    args.position_bias = random_tensor(4, {c.heads, c.width}).to(sums);
  }
  if (c.has_bias) args.bias = random_tensor(5, {c.heads, 1, c.queries, keys}).to(sums);
  ColumnRule rule{c.window, &c.slopes, c.clamp, {}};
  if (c.has_gaps) rule.valid = random_tensor(6, {c.lanes, keys}).gt(-0.5);
  ASSERT_TRUE(can_be_fused(args));
  const AttentionOutput fused = attend_fused(args, pieces, rule);

  // Tensor operations in f64: in bf16 they would round every score.
  for (at::Tensor* t :
       {&args.q, &args.table, &args.content_bias, &args.position_bias, &args.bias}) {
    if (t->defined()) *t = t->to(at::kDouble);
  }
  args.k = at::cat(k, 2).to(at::kDouble);
  args.v = at::cat(v, 2).to(at::kDouble);
  MaskCache masks;
  args.mask = masks.causal({c.free, keys - c.free - c.queries, c.queries}, c.window, c.slopes,
                           c.clamp, at::TensorOptions().dtype(at::kDouble));
  if (c.has_gaps) {
    args.mask =
        args.mask.masked_fill(rule.valid.logical_not().view({1, c.lanes, 1, keys}), kMinusInfinity);
  }
  const AttentionOutput plain = attend(args);
  EXPECT_EQ(fused.z.scalar_type(), c.type);
  EXPECT_EQ(fused.lse.scalar_type(), sums);
  EXPECT_LT(largest_difference(fused.z.to(at::kDouble), plain.z.to(at::kDouble)), c.tolerance);
  EXPECT_TRUE(at::isinf(fused.lse).equal(at::isinf(plain.lse)));
  const auto finite = [](const at::Tensor& lse) { return lse.to(at::kDouble).nan_to_num(); };
  EXPECT_LT(largest_difference(finite(fused.lse), finite(plain.lse)),
            c.type == at::kDouble ? 1e-12 : 2e-5);
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

TEST(FusedAttention, IsNotForGradientsMassesAndDropout) {
  AttentionArgs args;
  args.q = at::zeros({1, 2, 1, 4});
  EXPECT_FALSE(can_be_fused(args));  // gradients may be asked for
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(can_be_fused(args));
  args.dropout = 0.1;
  EXPECT_FALSE(can_be_fused(args));
  args.dropout = 0.0;
  args.wants_mass = true;
  EXPECT_FALSE(can_be_fused(args));
  args.wants_mass = false;
  args.virtual_logit = at::zeros({1, 1, 2});
  EXPECT_FALSE(can_be_fused(args));
  args.virtual_logit = at::Tensor();
  args.q = args.q.to(at::kHalf);
  EXPECT_FALSE(can_be_fused(args));
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
  args.table = column_by_column(args.table);
  EXPECT_EQ(args.table.stride(1), 1);
  EXPECT_TRUE(attend_fused(args, pieces, {}).z.equal(copied));
}

}  // namespace
}  // namespace mneme::backbone
