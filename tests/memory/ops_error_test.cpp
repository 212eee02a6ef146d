// Every message that an op can give, with the words that a plugin's author needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "host/tensor/torch.hpp"
#include "tests/memory/op_case.hpp"

namespace mneme::memory::test {
namespace {

using ::testing::HasSubstr;

at::Tensor f32(const Index& shape) { return torch::zeros(shape); }
at::Tensor i64(const Index& shape) { return torch::zeros(shape, at::kLong); }
at::Tensor bits(const Index& shape) { return torch::zeros(shape, at::kBool); }

// One wrong call and the parts of its message.
struct Wrong {
  const char* op;
  std::vector<at::Tensor> inputs;
  std::vector<Attr> attrs;
  mneme_status status;
  std::vector<std::string> parts;
};

void expect_error(const Wrong& wrong, const std::function<void()>& run) {
  try {
    run();
    ADD_FAILURE() << wrong.op << ": no error; expected " << wrong.parts.front();
  } catch (const ops::OpError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPlugin);
    EXPECT_EQ(error.status(), wrong.status) << error.what();
    for (const std::string& part : wrong.parts) EXPECT_THAT(error.what(), HasSubstr(part));
    EXPECT_THAT(error.what(), HasSubstr(wrong.op));
  }
}

void expect_errors(const std::vector<Wrong>& all) {
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.op + std::string(": ") + wrong.parts.front());
    expect_error(wrong, [&] { call_op(wrong.op, wrong.inputs, wrong.attrs); });
  }
}

constexpr mneme_status kArgument = MNEME_E_INVALID_ARGUMENT;
constexpr mneme_status kShape = MNEME_E_SHAPE;
constexpr mneme_status kDtype = MNEME_E_DTYPE;

TEST(ops::OpError, NamesWhatIsWrongWithAttributes) {
  expect_errors({
      {"softmax/1",
       {f32({2})},
       {integer("dimm", 0)},
       kArgument,
       {"unknown attribute \"dimm\"", "did you mean \"dim\"?", "x f32 [2]"}},
      {"exp/1",
       {f32({2})},
       {integer("dim", 0)},
       kArgument,
       {"unknown attribute \"dim\"", "no attribute"}},
      {"cumsum/1", {f32({2})}, {}, kArgument, {"attribute \"dim\" is missing", "an integer"}},
      {"cumsum/1",
       {f32({2})},
       {real("dim", 0)},
       kArgument,
       {"attribute \"dim\" has the wrong type", "an integer", "a real"}},
      {"reshape/1",
       {f32({2})},
       {text("shape", "2")},
       kArgument,
       {"attribute \"shape\" has the wrong type", "integers", "text"}},
      {"cumsum/1",
       {f32({2})},
       {integer("dim", 0), integer("dim", 0)},
       kArgument,
       {"attribute \"dim\" is given twice"}},
      {"cumsum/1",
       {f32({2, 3})},
       {integer("dim", 2)},
       kArgument,
       {"attribute \"dim\" is out of range", "-2 .. 1", "got 2", "x f32 [2, 3]; dim=2"}},
      {"cumsum/1", {f32({})}, {integer("dim", 0)}, kArgument, {"a tensor with dimensions"}},
      {"sum/1",
       {f32({2, 3})},
       {integers("dims", {0, -2})},
       kArgument,
       {"attribute \"dims\"", "distinct dimensions", "[0, -2]"}},
      {"sum/1", {f32({2, 3})}, {integers("dims", {5})}, kArgument, {"-2 .. 1", "got 5"}},
      {"sum/1", {f32({})}, {integers("dims", {0})}, kArgument, {"a tensor with dimensions"}},
      {"sum/1", {f32({2, 3})}, {integers("dims", {})}, kArgument, {"at least one dimension"}},
      {"sum/1",
       {f32({2, 3})},
       {integer("keepdim", 2)},
       kArgument,
       {"attribute \"keepdim\"", "0 or 1", "got 2"}},
      {"gelu/1",
       {f32({2})},
       {text("approximate", "erf")},
       kArgument,
       {"attribute \"approximate\"", "\"none\" | \"tanh\"", "\"erf\""}},
      {"cast/1",
       {f32({2})},
       {integer("dtype", 99)},
       kDtype,
       {"attribute \"dtype\" is no dtype of this op", "f32", "code 99"}},
      {"linspace/1",
       {},
       {real("start", 0), real("end", 1), integer("steps", 2), integer("dtype", MNEME_I64)},
       kDtype,
       {"attribute \"dtype\"", "f32, bf16, f16, f64", "got i64"}},
      {"add/1",
       {i64({2})},
       {real("scalar", 0.5)},
       kArgument,
       {"attribute \"scalar\"", "an integer in the range of i64", "0.5"}},
      {"add/1",
       {i64({2}).to(at::kInt)},
       {real("scalar", 3e9)},
       kArgument,
       {"an integer in the range of i32", "3e+09"}},
      {"eq/1", {bits({2})}, {real("scalar", 2)}, kArgument, {"0 or 1 for a bool tensor", "got 2"}},
  });
}

TEST(ops::OpError, NamesWhatIsWrongWithInputs) {
  expect_errors({
      {"exp/1", {}, {}, kArgument, {"wrong number of inputs", "expected 1", "got 0"}},
      {"exp/1", {f32({1}), f32({1})}, {}, kArgument, {"wrong number of inputs", "got 2"}},
      {"linear/1", {f32({1})}, {}, kArgument, {"wrong number of inputs", "2 to 3", "got 1"}},
      {"cat/1", {}, {integer("dim", 0)}, kArgument, {"wrong number of inputs", "at least 1"}},
      {"exp/1",
       {at::Tensor()},
       {},
       kArgument,
       {"input \"x\" is missing", "a tensor", "no tensor (handle 0)"}},
      {"cat/1",
       {f32({1}), at::Tensor()},
       {integer("dim", 0)},
       kArgument,
       {"input \"parts[1]\" is missing"}},
      {"exp/1",
       {i64({2})},
       {},
       kDtype,
       {"input \"x\" has the wrong dtype", "f32, bf16, f16, f64", "got i64", "cast/1"}},
      {"add/1",
       {bits({2}), bits({2})},
       {},
       kDtype,
       {"input \"a\" has the wrong dtype", "got bool"}},
      {"add/1",
       {f32({2}), f32({2}).to(at::kDouble)},
       {},
       kDtype,
       {"inputs of mixed dtypes", "expected f32", "f64 for input \"b\"", "cast/1"}},
      {"gather/1",
       {f32({2}), f32({2})},
       {integer("dim", 0)},
       kDtype,
       {"input \"index\" has the wrong dtype", "expected i64", "got f32"}},
      {"masked_fill/1",
       {f32({2}), f32({2})},
       {real("value", 0)},
       kDtype,
       {"input \"mask\" has the wrong dtype", "expected bool"}},
      {"exp/1", {torch::zeros({2}, at::kByte)}, {}, kDtype, {"wrong dtype", "got Byte"}},
      {"add/1",
       {f32({2}), f32({2}).to(at::kMeta)},
       {},
       MNEME_E_DEVICE,
       {"inputs on different devices", "expected cpu", "meta for input \"b\""}},
  });
}

TEST(ops::OpError, NamesWhatIsWrongWithOperands) {
  const std::vector<std::string> parts = {"wrong operands", "scalar"};
  expect_errors({
      {"add/1", {f32({2})}, {}, kArgument, parts},
      {"add/1", {}, {real("scalar", 1)}, kArgument, parts},
      {"add/1", {f32({2}), f32({2})}, {real("scalar", 1)}, kArgument, parts},
      {"add/1",
       {f32({2, 3}), f32({2})},
       {},
       kShape,
       {"wrong shape", "shapes that broadcast", "[2, 3] and [2]"}},
      {"logical_or/1", {bits({2}), bits({3})}, {}, kShape, {"shapes that broadcast"}},
      {"where/1", {bits({2}), f32({2})}, {}, kArgument, {"either input \"b\" or attribute \"b\""}},
      {"where/1",
       {bits({2}), f32({2})},
       {real("a", 1), real("b", 1)},
       kArgument,
       {"either input \"a\" or attribute \"a\""}},
      {"where/1",
       {bits({2})},
       {real("a", 1), real("b", 1)},
       kArgument,
       {"a tensor for \"a\" or for \"b\""}},
      {"where/1", {bits({2}), f32({3}), f32({1})}, {}, kShape, {"shapes that broadcast"}},
      {"where/1", {bits({1}), f32({3}), f32({2})}, {}, kShape, {"shapes that broadcast"}},
      {"clamp/1", {f32({2})}, {}, kArgument, {"no limit", "\"min\", \"max\" or both"}},
      {"clamp/1",
       {f32({2})},
       {real("min", 2), real("max", 1)},
       kArgument,
       {"attribute \"min\"", "at most max, 1", "got 2"}},
      {"masked_fill/1",
       {f32({3}), bits({2, 3})},
       {real("value", 0)},
       kShape,
       {"\"mask\" broadcast to the shape of \"x\", [3]", "got [2, 3]"}},
      {"masked_fill/1", {f32({3}), bits({2})}, {real("value", 0)}, kShape, {"got [2]"}},
  });
}

TEST(ops::OpError, NamesWhatIsWrongWithProducts) {
  const auto einsum = [](const char* equation, std::vector<at::Tensor> operands,
                         mneme_status status, std::vector<std::string> parts) {
    return Wrong{
        "einsum/1", std::move(operands), {text("equation", equation)}, status, std::move(parts)};
  };
  expect_errors({
      {"matmul/1",
       {f32({2, 3}), f32({2, 3})},
       {},
       kShape,
       {"a [..., m, k] and b [..., k, n]", "[2, 3] and [2, 3]"}},
      {"matmul/1", {f32({2, 1, 3}), f32({3, 3, 1})}, {}, kShape, {"leading dimensions"}},
      {"matmul/1", {f32({}), f32({3})}, {}, kShape, {"\"a\" with at least 1 dimensions"}},
      {"linear/1", {f32({2, 3}), f32({4, 2})}, {}, kShape, {"x [..., in] and w [out, in]"}},
      {"linear/1", {f32({2, 3}), f32({3})}, {}, kShape, {"\"w\" with 2 dimensions", "[3]"}},
      {"linear/1", {f32({2, 3}), f32({4, 3}), f32({3})}, {}, kShape, {"b [4]", "got [3]"}},
      einsum("ij,jk->ik", {f32({2, 3}), f32({4, 5})}, kShape,
             {"extent 3 for index 'j' in operand 2", "got 4"}),
      einsum("ijk->i", {f32({2, 3})}, kShape, {"2 indices for operand 1, [2, 3]", "got 3"}),
      einsum("i->i", {f32({2, 3})}, kShape, {"2 indices for operand 1", "got 1"}),
      einsum("i->i", {f32({2}), f32({2})}, kArgument, {"',' between 2 operands", "\"->i\""}),
      einsum("i,j->i", {f32({2})}, kArgument, {"\"->\" after 1 operands", "\",j->i\""}),
      einsum("ij", {f32({2, 2})}, kArgument, {"\"->\" after 1 operands", "the equation's end"}),
      einsum("i->j", {f32({2})}, kArgument, {"output indices that an operand has", "got j"}),
      einsum("i->ii", {f32({2})}, kArgument, {"distinct output indices", "got i"}),
      einsum("i->i1", {f32({2})}, kArgument, {"letters after \"->\"", "\"1\""}),
      einsum("...i->i", {f32({2})}, kShape, {"1 indices for operand 1", "got 0"}),
  });
}

TEST(ops::OpError, NamesWhatIsWrongWithReductions) {
  for (const char* op : {"mean/1", "amax/1", "amin/1", "argmax/1", "argmin/1"}) {
    expect_errors({{op, {f32({2, 0})}, {}, kShape, {"at least one element", "[2, 0]"}}});
  }
  expect_errors({
      {"amax/1", {f32({2, 0})}, {integers("dims", {1})}, kShape, {"at least one element"}},
      {"var/1", {f32({1})}, {}, kShape, {"more than 1 elements", "got 1"}},
      {"var/1", {f32({3})}, {integer("correction", -1)}, kArgument, {"at least 0", "got -1"}},
      {"topk/1", {f32({2, 3})}, {integer("k", 4)}, kArgument, {"at most the extent, 3", "got 4"}},
      {"topk/1", {f32({2, 3})}, {integer("k", -1)}, kArgument, {"at least 0", "got -1"}},
      {"searchsorted/1",
       {f32({2, 3}), f32({3, 3})},
       {},
       kShape,
       {"sorted [n] and values of any shape", "[2, 3] and [3, 3]"}},
      {"searchsorted/1", {f32({}), f32({3})}, {}, kShape, {"\"sorted\" with at least 1"}},
  });
}

TEST(ops::OpError, NamesWhatIsWrongWithIndices) {
  const std::vector<Attr> dim0 = {integer("dim", 0)};
  const at::Tensor far = torch::full({2}, 7, at::kLong);
  expect_errors({
      {"gather/1",
       {f32({2, 3}), i64({2})},
       dim0,
       kShape,
       {"\"index\" with as many dimensions as \"x\", 2", "got [2]"}},
      {"gather/1",
       {f32({2, 3}), i64({2, 4})},
       dim0,
       kShape,
       {"\"index\" no longer than \"x\" in dimension 1, 3", "got 4"}},
      {"gather/1", {f32({2}), far}, dim0, kArgument, {"LibTorch refused the call", "index 7"}},
      {"take_along_dim/1",
       {f32({2, 3}), i64({2, 2})},
       dim0,
       kShape,
       {"broadcast outside dimension 0", "[2, 3] and [2, 2]"}},
      {"take_along_dim/1", {f32({2, 3}), i64({2})}, dim0, kShape, {"as many dimensions"}},
      {"index_select/1", {f32({2, 3}), i64({2, 1})}, dim0, kShape, {"\"index\" with 1 dimensions"}},
      {"scatter_add/1",
       {f32({4}), i64({3}), f32({2})},
       dim0,
       kShape,
       {"\"index\" no longer than \"src\" in dimension 0, 2", "got 3"}},
      {"scatter_add/1",
       {f32({4}), i64({3}), f32({2, 2})},
       dim0,
       kShape,
       {"\"src\" with as many dimensions"}},
      {"scatter_add/1",
       {f32({4, 1}), i64({3, 2}), f32({3, 2})},
       dim0,
       kShape,
       {"\"index\" no longer than \"x\" in dimension 1, 1"}},
      {"one_hot/1", {i64({2})}, {integer("classes", 0)}, kArgument, {"at least 1", "got 0"}},
  });
}

TEST(ops::OpError, NamesWhatIsWrongWithShapes) {
  const at::Tensor x = f32({2, 3});
  const auto shape = [](Index s) { return std::vector<Attr>{integers("shape", std::move(s))}; };
  expect_errors({
      {"reshape/1", {x}, shape({4}), kShape, {"a shape of 6 elements", "[4]"}},
      {"reshape/1", {x}, shape({-1, -1}), kShape, {"at most one extent -1"}},
      {"reshape/1", {x}, shape({-1, 4}), kShape, {"a shape of 6 elements"}},
      {"reshape/1", {x}, shape({-2, -3}), kShape, {"a shape of 6 elements"}},
      {"reshape/1", {f32({0})}, shape({-1, 0}), kShape, {"a shape of 0 elements"}},
      {"reshape/1",
       {x},
       shape({1, 1, 1, 1, 1, 1, 1, 2, 3}),
       kShape,
       {"too many dimensions", "at most 8"}},
      {"permute/1", {x}, {integers("dims", {0})}, kArgument, {"2 dimensions", "[0]"}},
      {"permute/1", {x}, {integers("dims", {0, 0})}, kArgument, {"distinct dimensions"}},
      {"transpose/1",
       {x},
       {integer("dim0", 0), integer("dim1", 2)},
       kArgument,
       {"attribute \"dim1\"", "-2 .. 1"}},
      {"unsqueeze/1", {x}, {integer("dim", 3)}, kArgument, {"-3 .. 2", "got 3"}},
      {"squeeze/1", {x}, {integer("dim", 0)}, kShape, {"extent 1 in dimension 0", "[2, 3]"}},
      {"expand/1", {x}, shape({4, 3}), kShape, {"a shape that [2, 3] broadcasts to", "[4, 3]"}},
      {"expand/1", {x}, shape({3}), kShape, {"broadcasts to"}},
      {"expand/1", {x}, shape({-1, 2, 3}), kShape, {"broadcasts to"}},
      {"flatten/1",
       {x},
       {integer("start", 1), integer("end", 0)},
       kArgument,
       {"attribute \"start\"", "at most end, 0"}},
      {"slice/1", {x}, {integer("step", 0)}, kArgument, {"attribute \"step\"", "at least 1"}},
      {"roll/1",
       {x},
       {integers("shifts", {1}), integers("dims", {0, 1})},
       kArgument,
       {"attribute \"shifts\"", "as many as dims, 2"}},
      {"tril/1", {f32({3})}, {}, kShape, {"\"x\" with at least 2 dimensions"}},
  });
}

TEST(ops::OpError, NamesWhatIsWrongWithJoins) {
  const at::Tensor x = f32({2, 3});
  expect_errors({
      {"cat/1",
       {x, f32({3, 4})},
       {integer("dim", 0)},
       kShape,
       {"the shape of parts[0] outside dimension 0, [2, 3]", "[3, 4] for parts[1]"}},
      {"cat/1", {x, f32({0})}, {integer("dim", 0)}, kShape, {"[0] for parts[1]"}},
      {"stack/1",
       {x, f32({2, 4})},
       {integer("dim", 0)},
       kShape,
       {"the shape of parts[0], [2, 3]", "[2, 4] for parts[1]"}},
      {"repeat/1", {x}, {integers("repeats", {2})}, kArgument, {"one number a dimension, 2"}},
      {"repeat/1", {x}, {integers("repeats", {2, -1})}, kArgument, {"no negative number"}},
      {"repeat_interleave/1",
       {x},
       {integer("repeats", -1), integer("dim", 0)},
       kArgument,
       {"attribute \"repeats\"", "at least 0"}},
      {"pad/1", {x}, {integers("pads", {1})}, kArgument, {"pairs (before, after)", "[1]"}},
      {"pad/1", {x}, {integers("pads", {1, 1, 1, 1, 1, 1})}, kArgument, {"at most 2"}},
      {"pad/1", {x}, {integers("pads", {1, -1})}, kArgument, {"no negative number"}},
  });
}

TEST(ops::OpError, NamesWhatIsWrongWithCreation) {
  const double inf = std::numeric_limits<double>::infinity();
  expect_errors({
      {"arange/1",
       {},
       {real("end", 3), real("step", 0)},
       kArgument,
       {"attribute \"step\"", "a finite number other than 0"}},
      {"arange/1",
       {},
       {real("end", 3), real("step", -1)},
       kArgument,
       {"no range from start to end by step", "0 .. 3 by -1"}},
      {"arange/1", {}, {real("end", inf)}, kArgument, {"no range", "inf"}},
      {"arange/1",
       {},
       {real("end", 2.5), integer("dtype", MNEME_I64)},
       kArgument,
       {"attribute \"end\"", "an integer in the range of i64", "2.5"}},
      {"linspace/1",
       {},
       {real("start", 0), real("end", 1), integer("steps", -1)},
       kArgument,
       {"attribute \"steps\"", "at least 0"}},
      {"full/1", {}, {integers("shape", {2, -1})}, kArgument, {"no negative extent", "[2, -1]"}},
      {"full/1",
       {},
       {integers("shape", {1, 1, 1, 1, 1, 1, 1, 1, 1})},
       kShape,
       {"too many dimensions"}},
      {"full/1",
       {},
       {integers("shape", {int64_t{1} << 46})},
       MNEME_E_OUT_OF_MEMORY,
       {"out of memory", "shape=[70368744177664]"}},
      {"eye/1", {}, {integer("n", -1)}, kArgument, {"attribute \"n\"", "at least 0"}},
      {"full_like/1", {i64({2})}, {real("value", 0.5)}, kArgument, {"an integer in the range"}},
  });
}

TEST(ops::OpError, NamesWhatIsWrongWithLayers) {
  const at::Tensor x = f32({2, 4, 6});
  const auto kernel = [](int64_t k) { return integer("kernel", k); };
  expect_errors({
      {"layer_norm/1", {x, f32({4})}, {}, kShape, {"w [6]", "got [4]"}},
      {"layer_norm/1", {x, f32({6}), f32({1, 6})}, {}, kShape, {"b [6]", "got [1, 6]"}},
      {"layer_norm/1", {f32({})}, {}, kShape, {"\"x\" with at least 1 dimensions"}},
      {"layer_norm/1", {x}, {real("eps", -1)}, kArgument, {"attribute \"eps\"", "at least 0"}},
      {"conv1d/1", {f32({4, 6}), f32({3, 4, 2})}, {}, kShape, {"\"x\" with 3 dimensions"}},
      {"conv1d/1", {x, f32({3, 4})}, {}, kShape, {"\"w\" with 3 dimensions"}},
      {"conv1d/1",
       {x, f32({3, 5, 2})},
       {},
       kShape,
       {"x [B, in, T] and w [out, in / groups, taps]", "[2, 4, 6] and [3, 5, 2]"}},
      {"conv1d/1", {x, f32({3, 2, 2})}, {integer("groups", 2)}, kShape, {"dividing out"}},
      {"conv1d/1", {x, f32({3, 4, 2}), f32({4})}, {}, kShape, {"b [3]", "got [4]"}},
      {"conv1d/1",
       {x, f32({3, 4, 4})},
       {integer("dilation", 2)},
       kShape,
       {"at least 7 places along time", "got 6"}},
      {"conv1d/1", {x, f32({3, 4, 2})}, {integer("stride", 0)}, kArgument, {"at least 1"}},
      {"conv1d/1", {x, f32({3, 4, 2})}, {integer("padding", -1)}, kArgument, {"at least 0"}},
      {"max_pool1d/1", {x}, {kernel(7)}, kShape, {"at least 7 places along time", "got 6"}},
      {"max_pool1d/1",
       {x},
       {kernel(2), integer("padding", 2)},
       kArgument,
       {"attribute \"padding\"", "at most half the kernel, 1"}},
      {"avg_pool1d/1", {x}, {kernel(0)}, kArgument, {"attribute \"kernel\"", "at least 1"}},
      {"avg_pool1d/1", {f32({4, 6})}, {kernel(2)}, kShape, {"\"x\" with 3 dimensions"}},
  });
}

TEST(ops::OpError, RefusesMalformedAttributesOfACaller) {
  const std::vector<at::Tensor> x = {f32({2})};
  const auto refuse = [&](mneme_attr attr, const char* op, const char* part) {
    const Wrong wrong{op, x, {}, kArgument, {part}};
    expect_error(wrong, [&] { ops::run_op(ops::find_op(op), x, {&attr, 1}, at::kCPU); });
  };
  refuse({}, "cumsum/1", "an attribute without a name");
  mneme_attr unknown_type = {};
  unknown_type.name = "dim";
  unknown_type.type = 17;
  refuse(unknown_type, "cumsum/1", "an unknown attribute type");
  mneme_attr no_values = {};
  no_values.name = "shape";
  no_values.type = MNEME_ATTR_INTS;
  no_values.count = 2;
  refuse(no_values, "reshape/1", "attribute \"shape\" has a null value");
  mneme_attr no_text = {};
  no_text.name = "approximate";
  no_text.type = MNEME_ATTR_TEXT;
  refuse(no_text, "gelu/1", "attribute \"approximate\" has a null value");
  const Wrong wrong{"exp/1", x, {}, kArgument, {"no attributes", "2 of them", "a null pointer"}};
  const mneme_attr* nothing = nullptr;
  expect_error(wrong, [&] { ops::run_op(ops::find_op("exp/1"), x, {nothing, 2}, at::kCPU); });
}

TEST(ops::OpError, RefusesAWrongNumberOfOutputs) {
  const std::vector<at::Tensor> x = {f32({2})};
  std::vector<at::Tensor> outputs(2);
  const Wrong wrong{"exp/1", x, {}, kArgument, {"wrong number of outputs", "expected 1", "got 2"}};
  expect_error(wrong, [&] { ops::run_op(ops::find_op("exp/1"), x, {}, at::kCPU, outputs); });
}

TEST(ops::OpError, RefusesAHandleThatIsNoOp) {
  const Wrong wrong{"", {}, {}, kArgument, {"no such op handle", "1 .. ", "`mneme abi ops`"}};
  expect_error(wrong, [] { ops::run_op(0, {}, {}, at::kCPU); });
  expect_error(wrong, [] { ops::run_op(100000, {}, {}, at::kCPU); });
}

TEST(ops::OpError, NamesTheCodeOfAnUnknownDtype) {
  const Wrong wrong{"", {}, {}, kDtype, {"unknown dtype code", "MNEME_F32 (1)", "got 8"}};
  expect_error(wrong, [] { ops::scalar_type_of(8); });
}

}  // namespace
}  // namespace mneme::memory::test
