// Every op function of the C++ layer against the host's op set: names, numbers of inputs, attribute
// names and types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "host/ops/op_table.hpp"
#include "mneme/plugin.hpp"
#include "tests/sdk/fake_host.hpp"

namespace {

using mneme::DType;
using mneme::Tensor;
using mneme::test::FakeHost;
using mneme::test::OpRecord;
namespace ops = mneme::ops;
using ops::OpSchema;

// Hooks name every op without its namespace: a memory's class has those whose arguments say nothing
// of it.
struct Calls : mneme::Tier {
  static void elementwise(const Tensor& x);
  static void reductions(const Tensor& x);
  static void shapes(const Tensor& x);
  static void network(const Tensor& x);
};

void Calls::elementwise(const Tensor& x) {
  x + x;
  x + 1.0;
  1.0 + x;
  x - x;
  x - 1;
  1 - x;
  x* x;
  x * 2.0;
  2.0 * x;
  x / x;
  x / 2.0;
  2.0 / x;
  -x;
  pow(x, 2.0);
  maximum(x, x);
  minimum(x, 0.0);
  logaddexp(x, x);
  fmod(x, 3.0);
  eq(x, x);
  ne(x, 1.0);
  lt(x, 1.0);
  le(1.0, x);
  gt(x, x);
  ge(x, 0.0);
  logical_and(x, x);
  logical_or(x, x);
  logical_not(x);
  isfinite(x);
  abs(x);
  sign(x);
  exp(x);
  expm1(x);
  log(x);
  log1p(x);
  sqrt(x);
  rsqrt(x);
  square(x);
  reciprocal(x);
  sin(x);
  cos(x);
  erf(x);
  normal_cdf(x);
  floor(x);
  round(x);
  sigmoid(x);
  tanh(x);
  relu(x);
  silu(x);
  softplus(x);
  gelu(x);
  elu(x);
  where(x, x, x);
  where(x, x, 0.0);
  where(x, 0.0, x);
  masked_fill(x, x, -1.0);
  clamp(x, 0.0, 1.0);
  clamp_min(x, 0.0);
  clamp_max(x, 1.0);
  cast(x, DType::kF64);
  detach(x);
  contiguous(x);
}

void Calls::reductions(const Tensor& x) {
  sum(x);
  sum(x, 1);
  sum(x, {0, 1}, true);
  mean(x);
  mean(x, 1);
  amax(x, 0);
  amin(x, 0);
  norm2(x, 1);
  any(x, 1);
  all(x, 1);
  logsumexp(x);
  logsumexp(x, -1, true);
  prod(x);
  prod(x, 1);
  argmax(x, 1);
  argmin(x, 1, true);
  var(x, 1, false, 0);
  softmax(x);
  log_softmax(x, 1);
  cumsum(x, 1);
  sort(x, 1, true);
  topk(x, 3);
  searchsorted(x, x, true);
}

void Calls::shapes(const Tensor& x) {
  reshape(x, {2, -1});
  permute(x, {1, 0});
  transpose(x, 0, 1);
  unsqueeze(x, 1);
  squeeze(x, 1);
  expand(x, {2, -1});
  flatten(x);
  slice(x, 1, 0, 3);
  flip(x, 1);
  roll(x, {1}, {0});
  tril(x);
  triu(x, 1);
  cat({x, x}, 1);
  stack({x, x}, 0);
  repeat(x, {2, 1});
  repeat_interleave(x, 2, 1);
  pad(x, {1, 0}, 0.5);
  gather(x, x, 1);
  take_along_dim(x, x, 1);
  index_select(x, x, 0);
  scatter_add(x, x, x, 1);
  one_hot(x, 5);
  full({2, 3}, 1.0);
  arange(0, 5);
  linspace(0, 1, 5);
  eye(3);
  zeros_like(x);
  full_like(x, 2.0);
}

void Calls::network(const Tensor& x) {
  matmul(x, x);
  linear(x, x);
  linear(x, x, x);
  einsum("ij,jk->ik", {x, x});
  layer_norm(x);
  mneme::Conv1dSettings settings;
  settings.stride = 2;
  conv1d(x, x, {}, settings);
  rotate(x, x);
  max_pool1d(x, 3);
  avg_pool1d(x, 3, 1, 1);
}

void expect_fits(const OpSchema& schema, const OpRecord& record) {
  const bool has_list = std::any_of(schema.inputs.begin(), schema.inputs.end(),
                                    [](const auto& input) { return input.is_list; });
  if (!has_list) {
    EXPECT_LE(record.inputs, schema.inputs.size()) << record.name;
  }
  std::size_t required = 0;
  for (const auto& input : schema.inputs) required += input.is_optional || input.is_list ? 0 : 1;
  EXPECT_GE(record.inputs, required) << record.name;
  EXPECT_EQ(record.outputs, schema.outputs.size()) << record.name;
  for (const auto& [name, type] : record.attrs) {
    const auto found =
        std::find_if(schema.attrs.begin(), schema.attrs.end(),
                     [&wanted = name](const auto& attr) { return attr.name == wanted; });
    ASSERT_NE(found, schema.attrs.end()) << record.name << " has no attribute " << name;
    EXPECT_EQ(static_cast<uint32_t>(found->type), type) << record.name << ", attribute " << name;
  }
  for (const auto& attr : schema.attrs) {
    const bool is_given = std::any_of(record.attrs.begin(), record.attrs.end(),
                                      [&](const auto& given) { return given.first == attr.name; });
    EXPECT_TRUE(is_given || !attr.is_required) << record.name << " needs attribute " << attr.name;
  }
}

TEST(SdkOps, FitTheHostsOpSetAndCoverIt) {
  FakeHost& host = FakeHost::get();
  host.clear();
  const mneme_host_offer offer = host.offer();
  mneme::detail::look_up_groups(offer.host, offer.get_group, MNEME_PLUGIN_CPP_FEATURES);
  mneme::detail::resolve_ops(host.setup());
  {
    const mneme::detail::CtxScope scope(host.ctx());
    const Tensor x = Tensor::borrow(host.borrowed({2, 3}));
    Calls::elementwise(x);
    Calls::reductions(x);
    Calls::shapes(x);
    Calls::network(x);
  }
  EXPECT_EQ(host.live_references(), 0);
  std::set<std::string> called;
  for (const OpRecord& record : host.ops) {
    called.insert(record.name);
    const mneme_op op = ops::find_op(record.name);
    ASSERT_NE(op, 0U) << "the host has no op " << record.name;
    expect_fits(ops::op_schemas()[op - 1], record);
  }
  for (const OpSchema& schema : ops::op_schemas()) {
    EXPECT_EQ(called.count(schema.name), 1U) << "the C++ layer has no function for " << schema.name;
  }
}

}  // namespace
