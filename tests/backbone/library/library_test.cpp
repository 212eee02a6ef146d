// Attention by LibTorch's kernels for CUDA, which fake_kernels.cpp stands for here, against the
// same by tensor operations.
#include "host/backbone/attention/kernels/library.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <regex>
#include <string>
#include <vector>

#include "host/backbone/attention/positions.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/library/fake_kernels.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

struct KernelCase {
  std::string name;
  AttentionPath path;
  at::ScalarType type;
  int64_t lanes = 2, queries = 5, heads = 4, key_heads = 4, width = 16, free = 0;
  std::vector<int64_t> rows = {30, 5};  // of pieces, the tokens' last
  bool is_relative = false;
  int64_t window = 0;
  std::vector<double> slopes = {};
  bool has_gaps = false;
  std::vector<int64_t> bias = {};  // its shape; empty = none
  bool has_shared_rows = false;    // the first piece is one lane's, which all read

  // Of results; bf16 rounds what is added to scores, too.
  double tolerance() const {
    if (type == at::kFloat) return 2e-5;
    return path == AttentionPath::kFlash ? 1e-2 : 3e-2;
  }
};

std::ostream& operator<<(std::ostream& out, const KernelCase& c) { return out << c.name; }

class LibraryAttention : public testing::TestWithParam<KernelCase> {};

struct KernelProblem {
  const KernelCase& c;
  at::Device device;
  std::vector<at::Tensor> leaves;
  std::vector<KeyPiece> pieces;
  AttentionArgs args;
  int64_t keys = 0;

  explicit KernelProblem(const KernelCase& given, at::Device on = at::kCPU) : c(given), device(on) {
    for (const int64_t rows : c.rows) {
      // As a layer's projection gives them: keys and values beside each other.
      const bool is_shared = c.has_shared_rows && pieces.empty();
      const at::Tensor both = leaf({is_shared ? 1 : c.lanes, rows, 2, c.key_heads, c.width}, c.type)
                                  .expand({c.lanes, -1, -1, -1, -1});
      pieces.push_back({both.select(2, 0), both.select(2, 1), is_shared});
      keys += rows;
    }
    args.q = leaf({c.lanes, c.queries, c.heads, c.width}, c.type);
    args.first_placed = c.free;
    args.scale = 0.25;
    if (c.is_relative) {
      args.table = leaf({c.heads, keys - c.free + 3, c.width}, c.type);
      args.table = args.table.narrow(1, 2, keys - c.free + 1);
      args.content_bias = leaf({c.heads, c.width}, at::kFloat);
      args.position_bias = leaf({c.heads, c.width}, at::kFloat);
    }
    if (!c.bias.empty()) args.bias = leaf(c.bias, at::kFloat);
  }
  // Undefined where the kernel's own mask is all.
  at::Tensor mask(bool is_whole) const {
    if (!is_whole && c.slopes.empty() && c.window == 0 && !c.has_gaps) return {};
    MaskCache masks;
    const at::Tensor causal =
        masks.causal({c.free, keys - c.free - c.queries, c.queries}, c.window, c.slopes, 0,
                     at::TensorOptions().dtype(at::kFloat).device(device));
    if (!c.has_gaps) return causal;
    at::Tensor valid = random_tensor(6, {c.lanes, keys}).to(device).gt(-0.5);
    valid.narrow(1, keys - c.queries, c.queries).fill_(true);
    return causal.masked_fill(valid.logical_not().view({1, c.lanes, 1, keys}), kMinusInfinity);
  }
  AttentionOutput by_kernel() const {
    AttentionArgs own = args;
    const bool is_flash = c.path == AttentionPath::kFlash;
    if (!is_flash) own.mask = mask(false);
    return attend_by_library(c.path, own, pieces, is_flash ? c.window : 0);
  }
  // In f64, from the same numbers.
  AttentionOutput by_operations() const {
    AttentionArgs own = args;
    for (at::Tensor* t : {&own.q, &own.table, &own.content_bias, &own.position_bias, &own.bias}) {
      if (t->defined()) *t = t->to(at::kDouble);
    }
    const auto [k, v] = joined_pieces(pieces);
    own.k = k.to(at::kDouble);
    own.v = v.to(at::kDouble);
    own.mask = mask(true).to(at::kDouble);
    return attend(own);
  }

 private:
  at::Tensor leaf(at::IntArrayRef shape, at::ScalarType type) {
    const uint64_t seed = 100 + leaves.size();
    return leaves.emplace_back(random_tensor(seed, shape).to(device, type).requires_grad_());
  }
};

// z and the gradients of all leaves; the second time they have the same bits.
void expect_equal(const KernelProblem& problem) {
  const KernelCase& c = problem.c;
  const at::Tensor ours = problem.by_kernel().z, theirs = problem.by_operations().z;
  EXPECT_EQ(ours.scalar_type(), c.type);
  EXPECT_LT(largest_difference(ours.to(at::kDouble), theirs), c.tolerance());
  const at::Tensor grad = random_tensor(7, ours.sizes()).to(problem.device);
  const auto gradients = [&](const at::Tensor& z) {
    return torch::autograd::grad({z}, problem.leaves, {grad.to(z.scalar_type())});
  };
  const std::vector<at::Tensor> got = gradients(ours), expected = gradients(theirs);
  const std::vector<at::Tensor> again = gradients(problem.by_kernel().z);
  for (size_t i = 0; i < got.size(); ++i) {
    const double size = std::max(1.0, expected[i].abs().max().item<double>());
    EXPECT_EQ(got[i].scalar_type(), problem.leaves[i].scalar_type());
    EXPECT_LT(largest_difference(got[i].to(at::kDouble), expected[i].to(at::kDouble)),
              3 * c.tolerance() * size)
        << "leaf " << i << " " << expected[i].sizes();
    EXPECT_TRUE(got[i].equal(again[i])) << "leaf " << i << " has other bits the second time";
  }
}

TEST_P(LibraryAttention, EqualsTensorOperations) {
  const KernelCalls before = kernel_calls();
  expect_equal(KernelProblem(GetParam()));
  const KernelCalls after = kernel_calls();
  const bool is_flash = GetParam().path == AttentionPath::kFlash;
  EXPECT_EQ(after.flash_backward - before.flash_backward, is_flash ? 2 : 0);
  EXPECT_EQ(after.efficient_backward - before.efficient_backward, is_flash ? 0 : 2);
}

// The case with a first piece that all lanes share, and with `own` rows behind it.
KernelCase with_shared_rows(KernelCase c, int64_t own) {
  c.has_shared_rows = true;
  const bool has_all_columns = !c.bias.empty() && c.bias.back() > 1;
  if (has_all_columns) c.bias.back() = c.rows[0] + own;
  c.rows = {c.rows[0], own};
  return c;
}

// Whether a mask leaves each query a column of either piece.
bool may_share(const KernelCase& c) { return c.rows.size() == 2 && c.window == 0 && !c.has_gaps; }

void expect_equal_with_shared_rows(const KernelCase& c, at::Device device = at::kCPU) {
  for (const int64_t own : {c.queries, c.queries + 4}) {
    const KernelCase shared = with_shared_rows(c, own);
    KernelProblem problem(shared, device);
    problem.args.wants_lse = true;
    const at::NoGradGuard no_grad;
    const AttentionOutput ours = problem.by_kernel(), theirs = problem.by_operations();
    EXPECT_EQ(ours.z.scalar_type(), c.type);
    EXPECT_EQ(ours.lse.scalar_type(), at::kFloat);
    EXPECT_EQ(ours.lse.sizes(), theirs.lse.sizes());
    EXPECT_LT(largest_difference(ours.z.to(at::kDouble), theirs.z), c.tolerance()) << own;
    EXPECT_LT(largest_difference(ours.lse.to(at::kDouble), theirs.lse), c.tolerance()) << own;
  }
}

// In two calls, unless a gradient is recorded.
TEST_P(LibraryAttention, ReadsSharedRowsOnce) {
  const KernelCase& c = GetParam();
  const auto calls_made = [&] {
    const KernelCalls now = kernel_calls();
    return c.path == AttentionPath::kFlash ? now.flash : now.efficient;
  };
  if (!may_share(c)) return;
  int before = calls_made();
  expect_equal_with_shared_rows(c);
  EXPECT_EQ(calls_made() - before, 2 * 2);
  before = calls_made();
  expect_equal(KernelProblem(with_shared_rows(c, c.queries)));
  EXPECT_EQ(calls_made() - before, 2);
}

// Rows that a memory gives all lanes may be hidden from one.
TEST(LibraryAttention, JoinsRowsThatOnlyLieInOnePlace) {
  for (const AttentionPath path : {AttentionPath::kFlash, AttentionPath::kEfficient}) {
    KernelCase c{"", path, at::kBFloat16};
    c.has_shared_rows = true;
    KernelProblem problem(c);
    problem.pieces[0].is_shared = false;
    const at::NoGradGuard no_grad;
    const KernelCalls before = kernel_calls();
    const at::Tensor z = problem.by_kernel().z;
    EXPECT_EQ(kernel_calls().flash + kernel_calls().efficient, before.flash + before.efficient + 1);
    EXPECT_LT(largest_difference(z.to(at::kDouble), problem.by_operations().z), c.tolerance());
  }
}

// A window may hide all shared rows from a token.
TEST(LibraryAttention, JoinsSharedRowsWhereThereIsAWindow) {
  for (const AttentionPath path : {AttentionPath::kFlash, AttentionPath::kEfficient}) {
    KernelCase c{"", path, at::kBFloat16};
    c.window = 3;
    c.rows = {30, 9};
    c.has_shared_rows = true;
    const KernelProblem problem(c);
    const at::NoGradGuard no_grad;
    AttentionArgs args = problem.args;
    if (path == AttentionPath::kEfficient) args.mask = problem.mask(true);
    const at::Tensor z = attend_by_library(path, args, problem.pieces, c.window).z;
    EXPECT_LT(largest_difference(z.to(at::kDouble), problem.by_operations().z), c.tolerance());
  }
}

// By LibTorch's own kernels.
class LibraryOnCuda : public testing::TestWithParam<KernelCase> {};

TEST_P(LibraryOnCuda, EqualsTensorOperations) {
  at::Device device = at::kCPU;
  const std::string error = error_of([&] { device = tensor::open_device("cuda"); });
  if (!error.empty()) GTEST_SKIP() << error;
  expect_equal(KernelProblem(GetParam(), device));
  if (may_share(GetParam())) expect_equal_with_shared_rows(GetParam(), device);
}

TEST_P(LibraryAttention, GivesTheLogSumExpWithoutGradient) {
  const KernelCase& c = GetParam();
  KernelProblem problem(c);
  problem.args.wants_lse = true;
  const at::Tensor ours = problem.by_kernel().lse, theirs = problem.by_operations().lse;
  EXPECT_FALSE(ours.requires_grad());
  EXPECT_EQ(ours.scalar_type(), at::kFloat);
  EXPECT_LT(largest_difference(ours.to(at::kDouble), theirs), c.tolerance());
}

// Rows of a table and heads of any width give products whose rows are aligned.
TEST(LibraryTerms, HaveAlignedProducts) {
  KernelCase c{"", AttentionPath::kEfficient, at::kBFloat16};
  c.heads = c.key_heads = 3;
  c.queries = 8;
  c.rows = {27, 8};
  c.width = 41;
  c.is_relative = true;
  KernelProblem problem(c);
  tensor::Trace trace;
  {
    const tensor::TraceScope scope(trace);
    torch::autograd::grad({problem.by_kernel().z.sum()}, problem.leaves);
  }
  const std::regex factor("[a-z0-9]\\[3, ([0-9]+), ([0-9]+)\\]");  // 3 heads, not lanes and heads
  std::int64_t factors = 0;
  for (const std::string& line : trace.lines()) {
    if (!line.starts_with("aten::bmm(")) continue;
    for (std::sregex_iterator found(line.begin(), line.end(), factor), end; found != end; ++found) {
      ++factors;
      EXPECT_EQ(std::stoll((*found)[1]) % 8 * (std::stoll((*found)[2]) % 8), 0) << line;
    }
  }
  EXPECT_EQ(factors, 6);
}

std::vector<KernelCase> kernel_cases() {
  std::vector<KernelCase> out;
  const auto add = [&](const std::string& name, const KernelCase& c) {
    out.push_back(c);
    out.back().name = name;
    if (c.type == at::kFloat) {
      out.push_back(c);
      out.back().type = at::kBFloat16;
      out.back().name = name + "Bf16";
    }
  };
  const KernelCase flash{"", AttentionPath::kFlash, at::kBFloat16};
  KernelCase c = flash;
  add("Flash", c);
  c.width = 41;
  c.free = 7;
  add("FlashOddWidth", c);
  c = flash;
  c.key_heads = 2;
  c.window = 6;
  add("FlashGroupedWindow", c);
  c = flash;
  c.queries = 1;
  c.rows = {9, 8, 1};
  add("FlashOneToken", c);
  const KernelCase efficient{"", AttentionPath::kEfficient, at::kFloat};
  c = efficient;
  add("Plain", c);
  c.key_heads = 2;
  c.width = 41;
  add("GroupedOddWidth", c);
  c = efficient;
  c.is_relative = true;
  add("Relative", c);
  c.key_heads = 1;
  c.free = 7;
  c.rows = {7, 13, 5};
  c.has_gaps = true;
  c.window = 9;
  c.width = 10;
  add("RelativeFreeGapsWindow", c);
  c.bias = {4, 2, 5, 25};
  add("RelativeBias", c);
  c = efficient;
  c.slopes = alibi_slopes(4);
  c.free = 3;
  add("Alibi", c);
  c = efficient;
  c.bias = {1, 2, 1, 35};
  add("BiasOfLanes", c);
  c.bias = {4, 1, 5, 1};
  c.has_gaps = true;
  add("BiasOfHeads", c);
  c = efficient;
  c.queries = 1;
  c.rows = {6, 1};
  c.is_relative = true;
  add("RelativeOneToken", c);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Cases, LibraryAttention, testing::ValuesIn(kernel_cases()),
                         [](const auto& one) { return one.param.name; });
INSTANTIATE_TEST_SUITE_P(Devices, LibraryOnCuda, testing::ValuesIn(kernel_cases()),
                         [](const auto& one) { return one.param.name; });

TEST(LibraryAttention, LeavesLibTorchsSettingsAsTheyWere) {
  at::Context& context = at::globalContext();
  const KernelCase c{"", AttentionPath::kFlash, at::kBFloat16};
  KernelProblem problem(c);
  torch::autograd::grad({problem.by_kernel().z.sum()}, problem.leaves);
  EXPECT_FALSE(context.deterministicAlgorithms());
  EXPECT_TRUE(context.deterministicFillUninitializedMemory());
}

// A step that is run again without the code that gave it is deterministic too.
TEST(LibraryAttention, IsRunAgainFromATrace) {
  for (const AttentionPath path : {AttentionPath::kFlash, AttentionPath::kEfficient}) {
    KernelCase c{"", path, at::kBFloat16};
    c.is_relative = path == AttentionPath::kEfficient;
    const KernelProblem problem(c);
    const auto run = [&] {
      const at::Tensor z = problem.by_kernel().z;
      std::vector<at::Tensor> out = torch::autograd::grad({z}, problem.leaves, {at::ones_like(z)});
      out.push_back(z.detach());
      return out;
    };
    tensor::Trace trace;
    for (const at::Tensor& leaf : problem.leaves) trace.add_input(leaf);
    std::vector<at::Tensor> results;
    {
      const tensor::TraceScope scope(trace);
      results = run();
    }
    for (const at::Tensor& result : results) trace.add_output(result);
    std::vector<at::Tensor> others;
    {
      const at::NoGradGuard no_grad;
      for (const at::Tensor& leaf : problem.leaves) {
        others.push_back(leaf.detach().neg());
        leaf.neg_();
      }
    }
    const KernelCalls before = kernel_calls();
    const std::vector<at::Tensor> again = trace.replay(others, 0), expected = run();
    EXPECT_EQ(kernel_calls().flash_backward + kernel_calls().efficient_backward,
              before.flash_backward + before.efficient_backward + 2);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(again[i].equal(expected[i])) << i;
  }
}

// Keys and values that no vector can be read from are copied.
TEST(LibraryAttention, CopiesRowsThatAreNotAligned) {
  const at::NoGradGuard no_grad;
  const at::Tensor rows = random_tensor(1, {1, 6, 2, 17}).to(at::kFloat).narrow(3, 1, 16);
  AttentionArgs args;
  args.q = random_tensor(2, {1, 6, 2, 16}).to(at::kFloat);
  const at::Tensor copied = attend_by_library(AttentionPath::kEfficient, args,
                                              {{rows.contiguous(), rows.contiguous()}}, 0)
                                .z;
  EXPECT_TRUE(
      attend_by_library(AttentionPath::kEfficient, args, {{rows, rows}}, 0).z.equal(copied));
}

}  // namespace
}  // namespace mneme::backbone
