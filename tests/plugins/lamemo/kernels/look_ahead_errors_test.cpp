// What the look-ahead says about inputs that do not fit.
#include <string>
#include <utility>
#include <vector>

#include "tests/plugins/lamemo/kernels/look_ahead_cases.hpp"

namespace mneme::test {
namespace {

using lamemo::LookAhead;

using Shapes = std::vector<std::vector<int64_t>>;

// Keys of places 1 to 6, offsets from 1 to 6.
const Shapes& good_shapes() {
  static const Shapes shapes = {{2, 5, 3, 4}, {2, 6, 3, 4}, {2, 6, 3, 4}, {3, 6, 4},   {3, 4},
                                {3, 4},       {2, 6},       {2, 5, 3},    {2, 5, 3, 4}};
  return shapes;
}

std::vector<DType> types_of(DType element, DType sums) {
  return {element, element, element, element, sums, sums, DType::kBool, sums, sums};
}

std::string error_of(const Shapes& shapes,
                     const std::vector<DType>& types = types_of(DType::kF32, DType::kF32),
                     std::vector<int64_t> integers = {1, 1}, double scale = 1.0) {
  std::vector<TestTensor> inputs;
  for (std::size_t i = 0; i < 9; ++i) inputs.emplace_back(Device::kCpu, types[i], shapes[i]);
  return infer_error(LookAhead(), std::move(inputs), std::move(integers), {scale});
}

// good_shapes() with another one for input i.
Shapes with(std::size_t i, std::vector<int64_t> shape) {
  Shapes shapes = good_shapes();
  shapes[i] = std::move(shape);
  return shapes;
}

TEST(LookAhead, RefusesShapesThatDoNotFitTogether) {
  EXPECT_EQ(error_of(good_shapes()), "");
  EXPECT_EQ(error_of(with(0, {2, 5, 12})), "3: q: expected [B, M, H, d], got [2, 5, 12]");
  EXPECT_EQ(error_of(with(1, {2, 6, 12})), "3: k: expected [B, W, H, d], got [2, 6, 12]");
  EXPECT_EQ(error_of(with(1, {1, 6, 3, 4})), "3: k: expected [2, 6, 3, 4], got [1, 6, 3, 4]");
  EXPECT_EQ(error_of(with(2, {2, 7, 3, 4})), "3: v: expected [2, 6, 3, 4], got [2, 7, 3, 4]");
  EXPECT_EQ(error_of(with(3, {6, 12})), "3: table: expected [H, R, d], got [6, 12]");
  EXPECT_EQ(error_of(with(3, {4, 6, 3})), "3: table: expected [3, 6, 4], got [4, 6, 3]");
  EXPECT_EQ(error_of(with(4, {12})), "3: content_bias: expected [3, 4], got [12]");
  EXPECT_EQ(error_of(with(5, {4, 3})), "3: position_bias: expected [3, 4], got [4, 3]");
  EXPECT_EQ(error_of(with(6, {2, 5})), "3: valid: expected [2, 6], got [2, 5]");
  EXPECT_EQ(error_of(with(7, {2, 3, 5})), "3: lse: expected [2, 5, 3], got [2, 3, 5]");
  EXPECT_EQ(error_of(with(8, {2, 6, 3, 4})), "3: context: expected [2, 5, 3, 4], got [2, 6, 3, 4]");
}

TEST(LookAhead, RefusesATableThatIsTooShort) {
  const auto f32 = types_of(DType::kF32, DType::kF32);
  EXPECT_EQ(error_of(with(3, {3, 5, 4})),
            "3: table: expected rows for the offsets 1 to 6, R of 6 at least, got 5");
  EXPECT_EQ(error_of(good_shapes(), f32, {4, 1}),
            "3: table: expected rows for the offsets 1 to 9, R of 9 at least, got 6");
  EXPECT_EQ(error_of(good_shapes(), f32, {1, -2}),
            "3: table: expected rows for the offsets -2 to 6, R of 9 at least, got 6");
  EXPECT_EQ(error_of(good_shapes(), f32, {-9, 1}), "");  // no key is attended
  Shapes empty = with(3, {3, 0, 4});
  EXPECT_NE(error_of(empty), "");
  for (const std::size_t i : {0U, 7U, 8U}) empty[i][1] = 0;  // no query
  EXPECT_EQ(error_of(empty), "");
}

TEST(LookAhead, RefusesTypesThatDoNotFitTogether) {
  const DType f32 = DType::kF32;
  const DType f64 = DType::kF64;
  EXPECT_EQ(error_of(good_shapes(), types_of(f64, f64)), "");
  EXPECT_EQ(error_of(good_shapes(), types_of(DType::kBF16, f32)), "");
  EXPECT_EQ(error_of(good_shapes(), types_of(DType::kF16, f32)),
            "4: q: expected f32, f64 or bf16, got dtype code 3");
  const char* const names[] = {"",      "k",   "v",      "table", "content_bias", "position_bias",
                               "valid", "lse", "context"};
  for (std::size_t i = 1; i < 9; ++i) {
    std::vector<DType> types = types_of(f32, f32);
    types[i] = f64;
    const std::string wanted = i < 4 ? "the type of q, code 1"
                               : i == 6
                                   ? "bool, code " + std::to_string(static_cast<int>(DType::kBool))
                                   : "the type of the sums, code 1";
    EXPECT_EQ(error_of(good_shapes(), types),
              std::string("4: ") + names[i] + ": expected " + wanted + ", got dtype code 4");
  }
  EXPECT_EQ(error_of(good_shapes(), types_of(DType::kBF16, f64)),
            "4: content_bias: expected the type of the sums, code 1, got dtype code 4");
}

TEST(LookAhead, RefusesScalarsThatMakeNoSense) {
  const auto f32 = types_of(DType::kF32, DType::kF32);
  EXPECT_EQ(error_of(good_shapes(), f32, {int64_t{1} << 41, 1}),
            "1: first: expected a number from -2^40 to 2^40, got 2199023255552");
  EXPECT_EQ(error_of(good_shapes(), f32, {1, -(int64_t{1} << 41)}),
            "1: least: expected a number from -2^40 to 2^40, got -2199023255552");
  EXPECT_EQ(error_of(good_shapes(), f32, {1, 1}, std::numeric_limits<double>::infinity()),
            "1: scale: expected a finite number, got inf");
}

#ifdef MNEME_HAS_CUDA
// The launchers check what they are given before anything is put on a stream: no device needed.
TEST(LookAhead, SaysWhyALaunchFailed) {
  const LookAheadCase c = {1, 2, 2, 1, 3, 1};
  std::mt19937 random(1);
  LookAheadProblem problem(random, Device::kCpu, DType::kF32, c);
  std::vector<mneme_view> inputs;
  for (TestTensor& input : problem.inputs) inputs.push_back(input.view());
  std::vector<mneme_view> outputs = {problem.grads[0].view(), problem.grads[1].view()};
  outputs[0].data = nullptr;
  const std::vector<int64_t> integers = integers_of(c);
  mneme_kernel_call raw = MNEME_INIT(mneme_kernel_call);
  raw.inputs = inputs.data();
  raw.outputs = outputs.data();
  raw.integers = integers.data();
  raw.n_integers = 2;
  raw.reals = &c.scale;
  raw.n_reals = 1;
  const LookAhead kernel;
  try {
    kernel.forward_cuda(KernelCall(raw, LookAhead::kName));
    ADD_FAILURE() << "no error";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), MNEME_E_CUDA);
    EXPECT_STREQ(failure.what(), "launch failed: invalid argument");
  }
}
#endif

}  // namespace
}  // namespace mneme::test
