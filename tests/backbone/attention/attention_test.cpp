// The attention operation against double loops, and its gradients against finite differences.
#include "host/backbone/attention/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <vector>

#include "host/backbone/attention/positions.hpp"
#include "host/backbone/attention/shift.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/naive.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

struct Shape {
  int64_t lanes, queries, free, placed, heads,
      width;           // keys: free, placed before the tokens, tokens
  int64_t shared = 1;  // heads that use one head of keys
  int64_t keys() const { return free + placed + queries; }
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "B" << s.lanes << " T" << s.queries << " free" << s.free << " placed" << s.placed
             << " H" << s.heads << " d" << s.width << " shared by " << s.shared;
}

// Inputs in the layout of hooks ([B,T,H,d]) and the arguments made of them.
struct Case {
  Shape shape;
  at::Tensor q, k, v, table, u, w, bias;
  at::Tensor mask;

  explicit Case(const Shape& s, uint64_t seed) : shape(s) {
    q = random_tensor(seed, {s.lanes, s.queries, s.heads, s.width}).set_requires_grad(true);
    const int64_t key_heads = s.heads / s.shared;
    k = random_tensor(seed + 1, {s.lanes, s.keys(), key_heads, s.width}).set_requires_grad(true);
    v = random_tensor(seed + 2, {s.lanes, s.keys(), key_heads, s.width}).set_requires_grad(true);
    table = random_tensor(seed + 3, {s.heads, s.placed + s.queries + 1, s.width})
                .set_requires_grad(true);
    u = random_tensor(seed + 4, {s.heads, s.width}).set_requires_grad(true);
    w = random_tensor(seed + 5, {s.heads, s.width}).set_requires_grad(true);
    bias = random_tensor(seed + 6, {s.heads, 1, s.queries, s.keys()}).set_requires_grad(true);
    MaskCache masks;
    mask = masks.causal({s.free, s.placed, s.queries}, 0, {}, 0,
                        at::TensorOptions().dtype(at::kDouble));
  }

  AttentionArgs args() const {
    AttentionArgs a;
    a.q = q;
    a.k = k.permute({2, 0, 1, 3}).contiguous();
    a.v = v.permute({2, 0, 1, 3}).contiguous();
    a.table = table;
    a.first_placed = shape.free;
    a.content_bias = u;
    a.position_bias = w;
    a.mask = mask;
    a.bias = bias;
    a.scale = 0.7;
    a.wants_lse = true;
    a.wants_mass = true;
    return a;
  }

  at::Tensor of_all_heads(const at::Tensor& keys) const {
    return keys.detach().repeat_interleave(shape.shared, 2);
  }

  double score(int64_t h, int64_t b, int64_t i, int64_t j) const {
    const int64_t distance = shape.placed + i - (j - shape.free);
    if (j >= shape.free && distance < 0) return -kInf;
    double s = naive::dot(q.detach(), of_all_heads(k), u.detach(), h, b, i, j);
    if (j >= shape.free) {
      const int64_t row = table.size(1) - 2 - distance;
      for (int64_t c = 0; c < shape.width; ++c) {
        s += (q[b][i][h][c].item<double>() + w[h][c].item<double>()) *
             table[h][row][c].item<double>();
      }
    }
    return 0.7 * s + bias[h][0][i][j].item<double>();
  }
};

const std::vector<Shape> kShapes = {
    {2, 4, 0, 0, 3, 5},    {1, 1, 0, 0, 1, 1},    {2, 1, 0, 6, 2, 3},    {2, 5, 3, 4, 2, 3},
    {1, 3, 2, 0, 2, 41},   {3, 2, 0, 7, 1, 4},    {2, 4, 0, 0, 6, 5, 3}, {2, 5, 3, 4, 4, 3, 2},
    {1, 3, 2, 0, 4, 4, 4}, {2, 3, 1, 2, 4, 3, 4}, {3, 1, 0, 6, 4, 3, 2}};

TEST(Attention, AgreesWithDoubleLoops) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << shape);
    const Case c(shape, 100);
    const AttentionOutput out = attend(c.args());
    const naive::Result expected = naive::attend(
        c.q.detach(), c.of_all_heads(c.v),
        [&](int64_t h, int64_t b, int64_t i, int64_t j) { return c.score(h, b, i, j); });
    EXPECT_LT(largest_difference(out.z, expected.z), 1e-12);
    EXPECT_LT(largest_difference(out.lse, expected.lse), 1e-12);
    EXPECT_LT(largest_difference(out.mass, expected.mass), 1e-12);
  }
}

// Biases and masks are added to capped scores.
TEST(Attention, CapsScores) {
  constexpr double kCap = 1.2;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << shape);
    const Case c(shape, 150);
    const auto args = [&] {
      AttentionArgs a = c.args();
      a.table = a.position_bias = at::Tensor();
      a.softcap = kCap;
      return a;
    };
    const AttentionOutput out = attend(args());
    const naive::Result expected = naive::attend(
        c.q.detach(), c.of_all_heads(c.v), [&](int64_t h, int64_t b, int64_t i, int64_t j) {
          if (j >= shape.free && shape.placed + i < j - shape.free) return -kInf;
          const double s =
              0.7 * naive::dot(c.q.detach(), c.of_all_heads(c.k), c.u.detach(), h, b, i, j);
          return kCap * std::tanh(s / kCap) + c.bias[h][0][i][j].item<double>();
        });
    EXPECT_LT(largest_difference(out.z, expected.z), 1e-12);
    EXPECT_LT(largest_difference(out.lse, expected.lse), 1e-12);
    const at::Tensor to_z = random_tensor(300, c.q.sizes());
    const auto loss = [&] { return (attend(args()).z * to_z).sum(); };
    for (const auto& [name, tensor] :
         {std::pair("q", c.q), std::pair("k", c.k), std::pair("v", c.v), std::pair("u", c.u),
          std::pair("bias", c.bias)}) {
      expect_gradient(name, tensor, loss, 4);
    }
  }
}

TEST(Attention, GivesTheSameWithAndWithoutLse) {
  const Case c({2, 5, 3, 4, 2, 3}, 7);
  AttentionArgs args = c.args();
  const at::Tensor with = attend(args).z;
  args.wants_lse = false;
  EXPECT_LT(largest_difference(attend(args).z, with), 1e-14);
}

// On CUDA all tables have such a number of rows.
TEST(Attention, RowsBehindATableAreReadByNoScore) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << shape);
    const Case c(shape, 16);
    AttentionArgs args = c.args();
    const auto results = [&] {
      const AttentionOutput out = attend(args);
      std::vector<at::Tensor> all =
          torch::autograd::grad({out.z.sum() + out.lse.square().sum()}, {c.q, c.table, c.w});
      all.push_back(out.z);
      return all;
    };
    const std::vector<at::Tensor> plain = results();
    args.table = with_aligned_rows(c.table);
    EXPECT_EQ(args.table.size(1) % 8, 0);
    EXPECT_LT(args.table.size(1) - c.table.size(1), 8);
    const std::vector<at::Tensor> aligned = results();
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_LT(largest_difference(aligned[i], plain[i]), 1e-12) << i;
    }
  }
}

TEST(Attention, GradientsAgreeWithFiniteDifferences) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << shape);
    Case c(shape, 200);
    const at::Tensor to_z = random_tensor(300, c.q.sizes());
    const at::Tensor to_lse = random_tensor(301, {shape.lanes, shape.heads, shape.queries});
    for (const bool wants_lse : {true, false}) {
      const auto loss = [&] {
        AttentionArgs args = c.args();
        args.wants_lse = wants_lse;
        const AttentionOutput out = attend(args);
        at::Tensor sum = (out.z * to_z).sum();
        return wants_lse ? sum + (out.lse * to_lse).sum() : sum;
      };
      for (const auto& [name, tensor] :
           std::vector<std::pair<std::string, at::Tensor>>{{"q", c.q},
                                                           {"k", c.k},
                                                           {"v", c.v},
                                                           {"table", c.table},
                                                           {"u", c.u},
                                                           {"w", c.w},
                                                           {"bias", c.bias}}) {
        expect_gradient(name, tensor, loss);
      }
    }
  }
}

TEST(Attention, DropoutScalesKeptProbabilitiesInForwardAndBackward) {
  Case c({2, 4, 0, 3, 2, 3}, 8);
  const at::Tensor to_z = random_tensor(1, c.q.sizes());
  const auto loss = [&] {
    Noise noise(5);  // the same mask every time
    noise.next_segment();
    AttentionArgs args = c.args();
    args.dropout = 0.4;
    args.noise = &noise;
    const AttentionOutput out = attend(args);
    return (out.z * to_z).sum() + out.lse.sum();
  };
  expect_gradient("q", c.q, loss);
  expect_gradient("v", c.v, loss);
  expect_gradient("k", c.k, loss);
  AttentionArgs args = c.args();
  const AttentionOutput plain = attend(args);
  Noise noise(5);
  noise.next_segment();
  args.dropout = 0.4;
  args.noise = &noise;
  const AttentionOutput dropped = attend(args);
  EXPECT_GT(largest_difference(dropped.z, plain.z), 1e-3);
  EXPECT_EQ(largest_difference(dropped.lse, plain.lse), 0.0);
}

TEST(Attention, QueryWithoutKeysGivesZeroAndNoGradient) {
  Case c({1, 3, 2, 0, 2, 3}, 9);
  c.mask = c.mask.clone();
  c.mask.index_put_({0, 0, 1}, -kInf);  // query 1 has no key
  at::Tensor lse;
  const auto loss = [&] {
    AttentionArgs args = c.args();
    args.may_be_empty = true;
    const AttentionOutput out = attend(args);
    lse = out.lse.detach();
    // logaddexp(-inf, -inf) would send NaN back.
    return out.z.sum() + at::logaddexp(out.lse, at::full_like(out.lse, -kInf))
                             .masked_fill(out.lse == -kInf, 0.0)
                             .sum();
  };
  loss().backward();
  EXPECT_EQ(lse[0][0][1].item<double>(), -kInf);
  AttentionArgs args = c.args();
  args.may_be_empty = true;
  EXPECT_EQ(attend(args).z[0][1].abs().sum().item<double>(), 0.0);
  for (const at::Tensor& t : {c.q, c.k, c.v, c.table, c.u, c.w, c.bias}) {
    EXPECT_TRUE(t.grad().isfinite().all().item<bool>());
  }
  EXPECT_EQ(c.q.grad()[0][1].abs().sum().item<double>(), 0.0);
}

TEST(Attention, NanFromAConsumerOfAnEmptyQueryStaysOut) {
  Case c({1, 2, 1, 0, 1, 2}, 10);
  c.mask = c.mask.clone();
  c.mask.index_put_({0, 0, 0}, -kInf);
  AttentionArgs args = c.args();
  args.may_be_empty = true;
  const AttentionOutput out = attend(args);
  at::Tensor grad = at::ones_like(out.lse);
  grad[0][0][0] = std::nan("");
  out.lse.backward(grad);
  EXPECT_TRUE(c.q.grad().isfinite().all().item<bool>());
}

TEST(Attention, BiasOfMinusInfinityHidesAColumnExactly) {
  Case c({1, 3, 2, 0, 1, 2}, 11);
  {
    const at::NoGradGuard no_grad;
    c.bias.select(3, 1).fill_(-kInf);
  }
  AttentionArgs args = c.args();
  args.may_be_empty = true;
  const AttentionOutput out = attend(args);
  EXPECT_EQ(out.mass[0][1].item<double>(), 0.0);
  out.z.sum().backward();
  EXPECT_EQ(c.v.grad()[0][1].abs().sum().item<double>(), 0.0);
  EXPECT_EQ(c.k.grad()[0][1].abs().sum().item<double>(), 0.0);
  EXPECT_EQ(c.bias.grad().select(3, 1).abs().sum().item<double>(), 0.0);
}

TEST(Attention, VirtualKeyEqualsOneMoreKey) {
  Case c({2, 3, 0, 2, 2, 4}, 12);
  at::Tensor logit = random_tensor(50, {2, 2, 3}).set_requires_grad(true);     // [H,B,T]
  at::Tensor value = random_tensor(51, {2, 2, 3, 4}).set_requires_grad(true);  // [H,B,T,d]
  AttentionArgs args = c.args();
  args.virtual_logit = logit;
  args.virtual_value = value;
  const AttentionOutput out = attend(args);
  const AttentionOutput plain = attend(c.args());
  const at::Tensor s = logit.detach().transpose(0, 1);  // [B,H,T]
  const at::Tensor lse = at::logaddexp(plain.lse, s);
  const at::Tensor share = (s - lse).exp().permute({0, 2, 1}).unsqueeze(-1);
  const at::Tensor z = plain.z * (1.0 - share) + share * value.detach().permute({1, 2, 0, 3});
  EXPECT_LT(largest_difference(out.z.detach(), z.detach()), 1e-12);
  EXPECT_LT(largest_difference(out.lse.detach(), lse.detach()), 1e-12);
  const at::Tensor to_z = random_tensor(52, c.q.sizes());
  const auto loss = [&] {
    AttentionArgs again = c.args();
    again.virtual_logit = logit;
    again.virtual_value = value;
    const AttentionOutput result = attend(again);
    return (result.z * to_z).sum() + result.lse.square().sum();
  };
  for (const auto& [name, tensor] : std::vector<std::pair<std::string, at::Tensor>>{
           {"q", c.q}, {"k", c.k}, {"v", c.v}, {"logit", logit}, {"value", value}}) {
    expect_gradient(name, tensor, loss);
  }
}

TEST(Attention, VirtualKeyAloneGivesItsValueExactly) {
  Case c({1, 2, 1, 0, 1, 3}, 13);
  c.mask = at::full_like(c.mask, -kInf);
  AttentionArgs args = c.args();
  args.virtual_logit = random_tensor(1, {1, 1, 2});
  args.virtual_value = random_tensor(2, {1, 1, 2, 3});
  const AttentionOutput out = attend(args);
  EXPECT_EQ(largest_difference(out.z, args.virtual_value.permute({1, 2, 0, 3})), 0.0);
  EXPECT_EQ(largest_difference(out.lse, args.virtual_logit.transpose(0, 1)), 0.0);
}

TEST(Attention, MassLeavesOutQueriesThatDoNotCount) {
  const Case c({2, 3, 0, 2, 2, 4}, 14);
  AttentionArgs args = c.args();
  args.query_valid = at::tensor({1, 1, 1, 1, 0, 0}, at::kLong).to(at::kBool).view({2, 3});
  const at::Tensor mass = attend(args).mass;
  EXPECT_NEAR(mass[0].sum().item<double>(), 6.0, 1e-12);  // 3 queries x 2 heads
  EXPECT_NEAR(mass[1].sum().item<double>(), 2.0, 1e-12);
}

TEST(Attention, Bf16StaysNearDouble) {
  Case c({2, 16, 0, 16, 2, 8}, 15);
  const AttentionOutput exact = attend(c.args());
  AttentionArgs args = c.args();
  for (at::Tensor* t : {&args.q, &args.k, &args.v, &args.table}) *t = t->detach().to(at::kBFloat16);
  for (at::Tensor* t : {&args.content_bias, &args.position_bias, &args.bias})
    *t = t->detach().to(at::kFloat);
  args.mask = args.mask.to(at::kFloat);
  const AttentionOutput low = attend(args);
  EXPECT_EQ(low.z.scalar_type(), at::kBFloat16);
  EXPECT_EQ(low.lse.scalar_type(), at::kFloat);
  EXPECT_LT(((low.z.to(at::kDouble) - exact.z).norm() / exact.z.norm()).item<double>(), 0.04);
}

}  // namespace
}  // namespace mneme::backbone
