// Frequencies of rotary positions, and turns by the host's kernel, for which its definition stands,
// against LibTorch's operations. Golden files of decoders hold the usual kinds of frequencies; these
// are values of the formula in PyPI transformers 5.24, computed in f64, where truncate matters.
#include "host/backbone/attention/rotary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "host/kernel/rows.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

using config::RotaryConfig;
using config::RotaryScaling;
using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(Rotary, YarnRoundsThePairsOfItsRampUnlessItIsToldNotTo) {
  RotaryConfig yarn{
      .base = 100.0, .scaling = RotaryScaling::kYarn, .factor = 8.0, .original_positions = 200};
  EXPECT_THAT(rotary_frequencies(yarn, 8),
              ElementsAre(DoubleEq(1.0), DoubleEq(0.24705294220065463), DoubleEq(0.05625),
                          DoubleEq(0.010870329456828804)));
  yarn.truncate = false;
  EXPECT_THAT(rotary_frequencies(yarn, 8),
              ElementsAre(DoubleEq(1.0), DoubleEq(0.2241695859504173), DoubleEq(0.04177729474804),
                          DoubleEq(0.004005322581757598)));
}

TEST(Rotary, TheDynamicKindIsPlainWithinItsContext) {
  const RotaryConfig dynamic{
      .base = 100.0, .scaling = RotaryScaling::kDynamic, .factor = 4.0, .original_positions = 200};
  EXPECT_EQ(rotary_frequencies(dynamic, 8), rotary_frequencies({.base = 100.0}, 8));
  EXPECT_EQ(rotary_factor(dynamic), 1.0);
}

int g_turns = 0;

const char* counted_turn(const kernel::TurnRows& a, void* out, void* stream) {
  ++g_turns;
  return kernel::row_definitions().turn(a, out, stream);
}

const kernel::RowKernels& counting_kernels() {
  static const kernel::RowKernels kernels = [] {
    kernel::RowKernels out = kernel::row_definitions();
    out.turn = counted_turn;
    return out;
  }();
  return kernels;
}

// Heads [2,5,3,8] of lanes and tokens, which lie among others in memory, as queries or as keys
// [3,2,5,8].
struct TurnedHeads {
  at::ScalarType type;
  bool are_keys;
  at::Tensor places;  // of tokens

  [[nodiscard]] at::Tensor of(const at::Tensor& rows) const {
    const at::Tensor heads = rows.narrow(2, 3, 3);
    const Turn turn = RotaryTables({.base = 20.0}, 8, at::kCPU).at(places, type);
    return are_keys ? turned(heads.permute({2, 0, 1, 3}), turn) : turned(heads, turn.of_rows());
  }
  [[nodiscard]] at::Tensor rows() const { return random_tensor(1, {2, 5, 9, 8}).to(type); }
  // The result, and the gradient of all that lies in memory.
  [[nodiscard]] std::vector<at::Tensor> with_gradient() const {
    const at::Tensor leaf = rows().set_requires_grad(true), out = of(leaf);
    return {out, torch::autograd::grad({out}, {leaf}, {at::cos(3.0 * out.detach())})[0]};
  }
};

void expect_heads_of_operations(const TurnedHeads& heads) {
  const std::vector<at::Tensor> theirs = heads.with_gradient();
  const tensor::WithRowKernels kernels(counting_kernels());
  g_turns = 0;
  const std::vector<at::Tensor> ours = heads.with_gradient();
  EXPECT_EQ(g_turns, 2);
  EXPECT_TRUE(ours[0].is_contiguous());
  const double tolerance = heads.type == at::kDouble  ? 1e-13
                           : heads.type == at::kFloat ? 1e-6
                                                      : 0.02;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].scalar_type(), heads.type);
    ASSERT_EQ(ours[i].sizes(), theirs[i].sizes());
    const at::Tensor expected = theirs[i].detach().to(at::kDouble);
    EXPECT_LE((ours[i].detach().to(at::kDouble) - expected).norm().item<double>(),
              tolerance * expected.norm().item<double>())
        << i;
  }
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(heads.of(heads.rows()).equal(ours[0]));
  EXPECT_EQ(g_turns, 3);
}

TEST(Rotary, HeadsTurnedByAKernelAreThoseOfOperations) {
  const at::Tensor of_lanes = at::arange(10, at::kLong).mul(7).remainder(9) - 8;
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(type);
    for (const bool are_keys : {false, true}) {
      SCOPED_TRACE(are_keys ? "keys" : "queries");
      expect_heads_of_operations({type, are_keys, at::arange(-2, 3, at::kLong)});
      expect_heads_of_operations({type, are_keys, of_lanes.view({2, 5})});
      expect_heads_of_operations({type, are_keys, of_lanes.view({5, 2}).t()});
      expect_heads_of_operations({type, are_keys, at::full({1}, -1, at::kLong)});
    }
  }
}

TEST(Rotary, IsLeftToOperationsWhereNoKernelIsMadeForIt) {
  const RotaryTables tables({.base = 20.0}, 8, at::kCPU);
  const auto expect_operations = [&](const at::Tensor& x, const Turn& turn) {
    const at::Tensor theirs = turned(x, turn);
    const tensor::WithRowKernels kernels(counting_kernels());
    g_turns = 0;
    EXPECT_TRUE(turned(x, turn).equal(theirs));
    EXPECT_EQ(g_turns, 0);
  };
  const auto turn = [&](at::IntArrayRef shape, at::ScalarType type) {
    return tables.at(at::arange(c10::multiply_integers(shape), at::kLong).view(shape), type);
  };
  const at::Tensor x = random_tensor(1, {2, 3, 1, 5, 8});
  expect_operations(x, turn({4, 5}, at::kDouble));  // keys at a distance to each token
  expect_operations(x.select(1, 0),
                    turn({4, 5}, at::kDouble));  // a result of more heads than x has
  expect_operations(x.squeeze(2).to(at::kFloat), turn({5}, at::kDouble));
  expect_operations(x.squeeze(2).to(at::kHalf), turn({5}, at::kHalf));
  const tensor::WithoutRowKernels off(true);
  expect_operations(x.squeeze(2), turn({5}, at::kDouble));
}

}  // namespace
}  // namespace mneme::backbone
