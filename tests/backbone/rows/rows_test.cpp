// What surrounds the matrix products of a layer, by the kernels' definitions through the interface
// that CUDA kernels are called by, against LibTorch's operations with the same masks.
#include "host/backbone/rows/rows.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/backbone/rows/dropout.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

using kernel::Activation;

constexpr StreamKey kRowStream = {.low = 77, .high = 5};

// The masks of a kernel's dropout and of LibTorch's operations.
struct SameMask {
  double p;
  LaneSlice lanes{};
  [[nodiscard]] DrawnMask drawn(at::IntArrayRef shape) const {
    Noise noise(9);
    noise.set_lanes(lanes);
    noise.next_segment();
    return noise.draw(shape, p, at::kCPU);
  }
  [[nodiscard]] at::Tensor applied(const at::Tensor& x) const {
    Noise noise(9);
    noise.set_lanes(lanes);
    noise.next_segment();
    return noise.apply(x, p);
  }
};

at::Tensor leaf(uint64_t seed, at::IntArrayRef shape, at::ScalarType type) {
  return random_tensor(seed, shape).to(type).set_requires_grad(true);
}

// Values and gradients of the sum of squares of all results but undefined ones.
std::vector<at::Tensor> values_and_gradients(const std::vector<at::Tensor>& results,
                                             const std::vector<at::Tensor>& leaves) {
  at::Tensor loss = at::zeros({}, at::kDouble);
  std::vector<at::Tensor> out;
  double factor = 1.0;
  for (const at::Tensor& result : results) {
    if (!result.defined()) continue;
    out.push_back(result.detach());
    loss = loss + factor * (result.to(at::kDouble) - 0.3).square().mean();
    factor = -0.7;
  }
  for (const at::Tensor& gradient : torch::autograd::grad({loss}, leaves)) out.push_back(gradient);
  return out;
}

void expect_near(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& theirs,
                 double tolerance) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].scalar_type(), theirs[i].scalar_type()) << i;
    const at::Tensor a = ours[i].to(at::kDouble), b = theirs[i].to(at::kDouble);
    ASSERT_EQ(a.sizes(), b.sizes()) << i;
    EXPECT_LE((a - b).norm().item<double>(), tolerance * (b.norm().item<double>() + 1e-3)) << i;
  }
}

double tolerance_of(at::ScalarType type) {
  return type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 0.02;
}

at::Tensor activation_of(Activation function, const at::Tensor& x) {
  if (function == Activation::kRelu) return x.relu();
  if (function == Activation::kRelu2) return x.relu().square();
  if (function == Activation::kGelu) return at::gelu(x);
  if (function == Activation::kGeluTanh) return at::gelu(x, "tanh");
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  const bool is_silu = function == Activation::kSwiglu;
  return (is_silu ? at::silu(halves[0]) : at::gelu(halves[0], "tanh")) * halves[1];
}

TEST(Rows, ActivationEqualsOperationsWithTheSameMask) {
  for (const Activation function : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                                    Activation::kSwiglu, Activation::kGeglu, Activation::kRelu2}) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      for (const double p : {0.0, 0.4}) {
        for (const bool has_bias : {false, true}) {
          SCOPED_TRACE(testing::Message() << static_cast<int>(function) << ' ' << type << ' ' << p);
          const SameMask mask{p, {1, 2, 5}};
          const bool is_gated = kernel::is_gated(function);
          const at::Tensor x = leaf(1, {2, 3, is_gated ? 14 : 7}, type);
          const at::Tensor bias =
              has_bias ? leaf(2, {x.size(-1)}, type == at::kBFloat16 ? at::kFloat : type)
                       : at::Tensor();
          std::vector<at::Tensor> leaves = {x};
          if (has_bias) leaves.push_back(bias);
          const at::Tensor ours =
              activated_rows(kernel::row_definitions(), x, bias, function, mask.drawn({2, 3, 7}));
          const at::Tensor sum = has_bias ? x + bias.to(type) : x;
          const at::Tensor theirs = mask.applied(activation_of(function, sum));
          expect_near(values_and_gradients({ours}, leaves), values_and_gradients({theirs}, leaves),
                      tolerance_of(type));
          const at::NoGradGuard no_grad;
          EXPECT_TRUE(at::equal(activated_rows(kernel::row_definitions(), x.detach().clone(), bias,
                                               function, mask.drawn({2, 3, 7})),
                                ours));
        }
      }
    }
  }
}

// Dtypes of h, x and the norm's result, and what there is.
struct SumCase {
  at::ScalarType h, x, result;
  bool has_h, has_x, has_bias, has_norm, is_rms, wants_sum;
};

void expect_sum(const SumCase& c, double p) {
  const at::ScalarType parameters = c.h == at::kDouble ? at::kDouble : at::kFloat;
  const SameMask mask{p, {0, 2, 3}};
  std::vector<at::Tensor> leaves;
  const auto make = [&](bool is_there, uint64_t seed, at::IntArrayRef shape, at::ScalarType type) {
    if (is_there) leaves.push_back(leaf(seed, shape, type));
    return is_there ? leaves.back() : at::Tensor();
  };
  const at::Tensor h = make(c.has_h, 3, {2, 4, 9}, c.h), x = make(c.has_x, 4, {2, 4, 9}, c.x),
                   bias = make(c.has_bias, 5, {9}, parameters);
  RowNorm norm;
  norm.kind = c.is_rms ? config::NormKind::kRms : config::NormKind::kLayer;
  norm.epsilon = 1e-3;
  norm.weight = make(c.has_norm, 6, {9}, parameters);
  norm.bias = make(c.has_norm && !c.is_rms, 7, {9}, parameters);
  const RowSum args{.h = h,
                    .x = x,
                    .bias = bias,
                    .dropout = c.has_x ? mask.drawn({2, 4, 9}) : DrawnMask{},
                    .following = {c.has_norm ? &norm : nullptr, c.result},
                    .wants_sum = c.wants_sum};
  const AddedRows ours = added_rows(kernel::row_definitions(), args);
  at::Tensor sum = h;
  if (c.has_x) {
    const at::Tensor dropped = mask.applied(c.has_bias ? x + bias.to(c.x) : x);
    sum = c.has_h ? h + dropped : dropped;
  }
  const at::Tensor normed = c.has_norm ? norm(sum, c.result) : at::Tensor();
  const bool wants_sum = c.wants_sum && c.has_x;
  EXPECT_EQ(ours.sum.defined(), wants_sum);
  const bool is_rounded =
      c.x == at::kBFloat16 || (c.has_norm && c.result == at::kBFloat16) || c.h == at::kBFloat16;
  expect_near(values_and_gradients({ours.sum, ours.normed}, leaves),
              values_and_gradients({wants_sum ? sum : at::Tensor(), normed}, leaves),
              tolerance_of(is_rounded ? at::kBFloat16 : c.h));
  const at::NoGradGuard no_grad;
  const AddedRows again = added_rows(kernel::row_definitions(), args);
  if (wants_sum) {
    EXPECT_TRUE(at::equal(again.sum, ours.sum));
  }
  if (c.has_norm) {
    EXPECT_TRUE(at::equal(again.normed, ours.normed));
  }
}

TEST(Rows, SumAndNormEqualOperationsWithTheSameMask) {
  constexpr at::ScalarType f64 = at::kDouble, f32 = at::kFloat, bf16 = at::kBFloat16;
  const std::vector<SumCase> cases = {
      {f64, f64, f64, true, true, true, true, false, true},
      {f64, f64, f64, true, true, false, true, true, false},
      {f64, f64, f64, true, true, true, false, false, true},
      {f64, f64, f64, true, true, false, false, false, true},
      {f64, f64, f64, false, true, false, false, false, true},
      {f64, f64, f64, true, false, false, true, false, false},
      {f32, f32, f32, true, true, true, true, false, true},
      {f32, bf16, bf16, true, true, true, true, false, true},
      {f32, bf16, f32, true, true, false, true, true, false},
      {f32, f32, bf16, true, false, false, true, true, false},
      {bf16, bf16, bf16, false, true, false, false, false, true},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const double p : {0.0, 0.3}) {
      SCOPED_TRACE(testing::Message() << "case " << i << ", p " << p);
      expect_sum(cases[i], p);
    }
  }
}

// Constant norms, and results of which one alone reaches the loss.
TEST(Rows, GiveGradientsToWhatWantsThem) {
  const at::Tensor h = leaf(1, {2, 5}, at::kDouble), x = leaf(2, {2, 5}, at::kDouble);
  const RowNorm norm{.weight = random_tensor(3, {5}), .bias = random_tensor(4, {5})};
  const RowSum args{.h = h, .x = x, .following = {&norm, at::kDouble}};
  for (const bool is_norm : {false, true}) {
    const AddedRows rows = added_rows(kernel::row_definitions(), args);
    const at::Tensor sum = h + x;
    const std::vector<at::Tensor> ours =
        torch::autograd::grad({(is_norm ? rows.normed : rows.sum).square().sum()}, {h, x});
    const std::vector<at::Tensor> theirs =
        torch::autograd::grad({(is_norm ? norm(sum, at::kDouble) : sum).square().sum()}, {h, x});
    expect_near(ours, theirs, 1e-12);
  }
  const AddedRows of_constant = added_rows(
      kernel::row_definitions(), {.h = h.detach(), .x = x, .following = {&norm, at::kDouble}});
  EXPECT_TRUE(torch::autograd::grad({of_constant.normed.square().sum()}, {x})[0].defined());
}

TEST(Rows, MasksOfKernelsAreThoseOfTheCpu) {
  const auto expect_same = [](at::IntArrayRef shape, at::ScalarType type, LaneDim dim,
                              LaneSlice lanes) {
    const auto mask = [&] { return dropout_mask(shape, type, 0.3, kRowStream, dim, lanes); };
    const at::Tensor expected = mask();
    const tensor::WithRowKernels kernels(kernel::row_definitions());
    EXPECT_TRUE(at::equal(mask(), expected)) << shape;
  };
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    expect_same({0, 4}, type, LaneDim::kNone, {});
    expect_same({3, 37}, type, LaneDim::kNone, {1, 2, 5});
    expect_same({2, 3, 37}, type, LaneDim::kFirst, {1, 2, 5});
    expect_same({6, 37}, type, LaneDim::kFirst, {1, 2, 5});
    expect_same({3, 2, 5, 9}, type, LaneDim::kSecond, {1, 2, 5});
    expect_same({3, 2, 5, 9}, type, LaneDim::kSecond, {});
  }
}

TEST(Rows, ModelsGiveTheNumbersOfOperations) {
  std::vector<NamedConfig> models = small_decoders();
  models.push_back({"xl", small_config()});
  models.push_back(small_gemma());
  models.push_back({"gemma with biases", small_gemma().model});
  models.back().model.ff_bias = true;
  models.push_back({"gelu", small_config()});
  models.back().model.feed_forward = config::FeedForward::kGelu;
  for (const NamedConfig& one : models) {
    config::ModelConfig config = one.model;
    config.dropout = 0.25;
    for (const bool is_bf16 : {false, true}) {
      const auto theirs = results_of(config, false, is_bf16);
      for (const bool recomputes : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << one.name << (is_bf16 ? " bf16" : "") << (recomputes ? " recomputed" : ""));
        const tensor::WithRowKernels kernels(kernel::row_definitions());
        const auto ours = results_of(config, recomputes, is_bf16);
        ASSERT_EQ(ours.size(), theirs.size());
        ASSERT_GT(ours.size(), 10U);
        for (const auto& [name, value] : theirs) {
          const at::Tensor difference = (ours.at(name) - value).to(at::kDouble);
          const double scale = value.to(at::kDouble).norm().item<double>();
          EXPECT_LE(difference.norm().item<double>(), (is_bf16 ? 0.05 : 1e-11) * (scale + 1e-3))
              << name;
        }
      }
    }
  }
}

TEST(Rows, AreComputedByOperationsWhereTheModelSaysSo) {
  config::ModelConfig config = small_config();
  config.dropout = 0.25;
  const auto theirs = results_of(config, true, false);
  const tensor::WithRowKernels kernels(kernel::row_definitions());
  const auto by_kernels = results_of(config, true, false);
  config.row_kernels = config::RowKernels::kOperations;
  const auto ours = results_of(config, true, false);
  ASSERT_EQ(ours.size(), theirs.size());
  std::size_t different = 0;
  for (const auto& [name, value] : theirs) {
    EXPECT_TRUE(ours.at(name).equal(value)) << name;
    different += by_kernels.at(name).equal(value) ? 0 : 1;
  }
  EXPECT_GT(different, 0U);  // the kernels would have been used
}

// Hooks may give rows of another type than the layer's.
TEST(Rows, OfTypesThatNoKernelTakesTogetherAreCast) {
  const at::Tensor h = random_tensor(1, {2, 5}), narrow = random_tensor(2, {2, 5}).to(at::kFloat);
  const RowNorm norm{.weight = random_tensor(3, {5}), .bias = random_tensor(4, {5})};
  const RowNorm of_f32{.weight = norm.weight.to(at::kFloat), .bias = norm.bias.to(at::kFloat)};
  const at::Tensor expected = norm(narrow, at::kDouble);
  const at::Tensor of_half = of_f32(narrow.to(at::kHalf), at::kHalf);
  const tensor::WithRowKernels kernels(kernel::row_definitions());
  EXPECT_TRUE(at::equal(norm(narrow, at::kDouble), expected));
  EXPECT_TRUE(at::equal(of_f32(narrow.to(at::kHalf), at::kHalf), of_half));
  for (const at::Tensor& x : {narrow, narrow.to(at::kHalf)}) {
    EXPECT_TRUE(at::equal(added_rows(kernel::row_definitions(), {.h = h, .x = x}).sum, h + x));
  }
}

// Wider rows than the kernels' norms take are left to LibTorch.
TEST(Rows, AreLeftToOperationsWhereKernelsAreNotMadeForThem) {
  const at::Tensor rows = at::zeros({1, 8});
  EXPECT_EQ(row_kernels(rows), nullptr);
  const tensor::WithRowKernels kernels(kernel::row_definitions());
  EXPECT_EQ(row_kernels(rows), &kernel::row_definitions());
  EXPECT_EQ(row_kernels(rows.to(at::kHalf)), nullptr);
  EXPECT_EQ(row_kernels(at::zeros({1, kernel::kMostRowWidth + 1})), nullptr);
  {
    const tensor::WithoutRowKernels off(false);
    EXPECT_NE(row_kernels(rows), nullptr);
    const tensor::WithoutRowKernels on(true), inner(false);
    EXPECT_EQ(row_kernels(rows), nullptr);
  }
  const tensor::WithoutHostKernels without;
  EXPECT_EQ(row_kernels(rows), nullptr);
  EXPECT_EQ(error_of([] { check_rows("launch failed"); }),
            "activation, dropout, norm or rotary turn on CUDA: launch failed");
}

}  // namespace
}  // namespace mneme::backbone
