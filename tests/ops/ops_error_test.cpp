// Every message that an op can give, with the words that a plugin's author needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "host/tensor/torch.hpp"
#include "tests/base/wordings.hpp"
#include "tests/ops/op_case.hpp"

namespace mneme::memory::test {
namespace {

using ::testing::HasSubstr;

// Runs a wrong call and expects its status, and the op's name and all parts in its message.
void expect_error(const std::string& op, mneme_status status, const std::vector<std::string>& parts,
                  const std::function<void()>& run) {
  try {
    run();
    ADD_FAILURE() << op << ": no error; expected " << parts.front();
  } catch (const ops::OpError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPlugin);
    EXPECT_EQ(error.status(), status) << error.what();
    for (const std::string& part : parts) EXPECT_THAT(error.what(), HasSubstr(part));
    EXPECT_THAT(error.what(), HasSubstr(op));
  }
}

const std::map<std::string, mneme_status> kStatuses = {
    {"argument", MNEME_E_INVALID_ARGUMENT},
    {"shape", MNEME_E_SHAPE},
    {"dtype", MNEME_E_DTYPE},
    {"device", MNEME_E_DEVICE},
    {"out of memory", MNEME_E_OUT_OF_MEMORY},
};
const std::map<std::string, at::ScalarType> kOpsErrorDtypes = {
    {"f32", at::kFloat}, {"f64", at::kDouble}, {"i32", at::kInt},
    {"i64", at::kLong},  {"u8", at::kByte},    {"bool", at::kBool},
};

// "[2,-3]", "[]"
Index read_integers(const std::string& text) {
  Index values;
  std::istringstream words(text.substr(1, text.size() - 2));
  for (std::string word; std::getline(words, word, ',');) values.push_back(std::stoll(word));
  return values;
}

// "f32[2,3]" of zeros; "i64[2]:7" of sevens; "f32[2]@meta"; "none"
at::Tensor read_tensor(const std::string& text) {
  if (text == "none") return {};
  const std::size_t open = text.find('['), close = text.find(']');
  const at::ScalarType dtype = kOpsErrorDtypes.at(text.substr(0, open));
  const std::string more = text.substr(close + 1);
  const double value = more.starts_with(':') ? std::stod(more.substr(1)) : 0;
  const at::Tensor tensor =
      torch::full(read_integers(text.substr(open, close + 1 - open)), value, dtype);
  return more == "@meta" ? tensor.to(at::kMeta) : tensor;
}

// "dim=0", "value=0.5", "dims=[0,1]", "equation='i->i'"; a real number has a point or is inf
Attr read_attr(const std::string& name, const std::string& value) {
  if (value == "I64") return {name, int64_t{MNEME_I64}};
  if (value.front() == '[') return {name, read_integers(value)};
  if (value.front() == '\'') return {name, value.substr(1, value.size() - 2)};
  if (value.find_first_of(".ef") != std::string::npos) return {name, std::stod(value)};
  return {name, int64_t{std::stoll(value)}};
}

// Rows "op input... attribute=value... => status: part & part".
void expect_errors(const std::string& table) {
  mneme::test::for_each_case(
      mneme::test::read_wordings(table), [](const auto& row) { return row.given; },
      [](const auto& row) {
        std::istringstream words(row.given);
        std::string op;
        words >> op;
        std::vector<at::Tensor> inputs;
        std::vector<Attr> attrs;
        for (std::string word; words >> word;) {
          if (const std::size_t equals = word.find('='); equals == std::string::npos) {
            inputs.push_back(read_tensor(word));
          } else {
            attrs.push_back(read_attr(word.substr(0, equals), word.substr(equals + 1)));
          }
        }
        const std::size_t colon = row.message.find(": ");
        expect_error(op, kStatuses.at(row.message.substr(0, colon)),
                     mneme::test::parts_of(row.message.substr(colon + 2)),
                     [&] { call_op(op.c_str(), inputs, attrs); });
      });
}

TEST(OpError, NamesWhatIsWrongWithAttributes) {
  expect_errors(R"(
softmax/1 f32[2] dimm=0 => argument: unknown attribute "dimm" & did you mean "dim"? & x f32 [2]
exp/1 f32[2] dim=0 => argument: unknown attribute "dim" & no attribute
cumsum/1 f32[2] => argument: attribute "dim" is missing & an integer
cumsum/1 f32[2] dim=0.0 => argument: attribute "dim" has the wrong type & an integer & a real
reshape/1 f32[2] shape='2' => argument: attribute "shape" has the wrong type & integers & text
cumsum/1 f32[2] dim=0 dim=0 => argument: attribute "dim" is given twice
cumsum/1 f32[2,3] dim=2
  => argument: attribute "dim" is out of range & -2 .. 1 & got 2 & x f32 [2, 3]; dim=2
cumsum/1 f32[] dim=0 => argument: a tensor with dimensions
sum/1 f32[2,3] dims=[0,-2] => argument: attribute "dims" & distinct dimensions & [0, -2]
sum/1 f32[2,3] dims=[5] => argument: -2 .. 1 & got 5
sum/1 f32[] dims=[0] => argument: a tensor with dimensions
sum/1 f32[2,3] dims=[] => argument: at least one dimension
sum/1 f32[2,3] keepdim=2 => argument: attribute "keepdim" & 0 or 1 & got 2
gelu/1 f32[2] approximate='erf' => argument: attribute "approximate" & "none" | "tanh" & "erf"
cast/1 f32[2] dtype=99 => dtype: attribute "dtype" is no dtype of this op & f32 & code 99
linspace/1 start=0.0 end=1.0 steps=2 dtype=I64
  => dtype: attribute "dtype" & f32, bf16, f16, f64 & got i64
add/1 i64[2] scalar=0.5 => argument: attribute "scalar" & an integer in the range of i64 & 0.5
add/1 i32[2] scalar=3e9 => argument: an integer in the range of i32 & 3e+09
eq/1 bool[2] scalar=2.0 => argument: 0 or 1 for a bool tensor & got 2
)");
}

TEST(OpError, NamesWhatIsWrongWithInputs) {
  expect_errors(R"(
exp/1 => argument: wrong number of inputs & expected 1 & got 0
exp/1 f32[1] f32[1] => argument: wrong number of inputs & got 2
linear/1 f32[1] => argument: wrong number of inputs & 2 to 3 & got 1
cat/1 dim=0 => argument: wrong number of inputs & at least 1
exp/1 none => argument: input "x" is missing & a tensor & no tensor (handle 0)
cat/1 f32[1] none dim=0 => argument: input "parts[1]" is missing
exp/1 i64[2] => dtype: input "x" has the wrong dtype & f32, bf16, f16, f64 & got i64 & cast/1
add/1 bool[2] bool[2] => dtype: input "a" has the wrong dtype & got bool
add/1 f32[2] f64[2] => dtype: inputs of mixed dtypes & expected f32 & f64 for input "b" & cast/1
gather/1 f32[2] f32[2] dim=0 => dtype: input "index" has the wrong dtype & expected i64 & got f32
masked_fill/1 f32[2] f32[2] value=0.0 => dtype: input "mask" has the wrong dtype & expected bool
exp/1 u8[2] => dtype: wrong dtype & got Byte
add/1 f32[2] f32[2]@meta => device: inputs on different devices & expected cpu & meta for input "b"
)");
}

TEST(OpError, NamesWhatIsWrongWithOperands) {
  expect_errors(R"(
add/1 f32[2] => argument: wrong operands & scalar
add/1 scalar=1.0 => argument: wrong operands & scalar
add/1 f32[2] f32[2] scalar=1.0 => argument: wrong operands & scalar
add/1 f32[2,3] f32[2] => shape: wrong shape & shapes that broadcast & [2, 3] and [2]
logical_or/1 bool[2] bool[3] => shape: shapes that broadcast
where/1 bool[2] f32[2] => argument: either input "b" or attribute "b"
where/1 bool[2] f32[2] a=1.0 b=1.0 => argument: either input "a" or attribute "a"
where/1 bool[2] a=1.0 b=1.0 => argument: a tensor for "a" or for "b"
where/1 bool[2] f32[3] f32[1] => shape: shapes that broadcast
where/1 bool[1] f32[3] f32[2] => shape: shapes that broadcast
clamp/1 f32[2] => argument: no limit & "min", "max" or both
clamp/1 f32[2] min=2.0 max=1.0 => argument: attribute "min" & at most max, 1 & got 2
masked_fill/1 f32[3] bool[2,3] value=0.0
  => shape: "mask" broadcast to the shape of "x", [3] & got [2, 3]
masked_fill/1 f32[3] bool[2] value=0.0 => shape: got [2]
)");
}

TEST(OpError, NamesWhatIsWrongWithProducts) {
  expect_errors(R"(
matmul/1 f32[2,3] f32[2,3] => shape: a [..., m, k] and b [..., k, n] & [2, 3] and [2, 3]
matmul/1 f32[2,1,3] f32[3,3,1] => shape: leading dimensions
matmul/1 f32[] f32[3] => shape: "a" with at least 1 dimensions
linear/1 f32[2,3] f32[4,2] => shape: x [..., in] and w [out, in]
linear/1 f32[2,3] f32[3] => shape: "w" with 2 dimensions & [3]
linear/1 f32[2,3] f32[4,3] f32[3] => shape: b [4] & got [3]
einsum/1 f32[2,3] f32[4,5] equation='ij,jk->ik'
  => shape: extent 3 for index 'j' in operand 2 & got 4
einsum/1 f32[2,3] equation='ijk->i' => shape: 2 indices for operand 1, [2, 3] & got 3
einsum/1 f32[2,3] equation='i->i' => shape: 2 indices for operand 1 & got 1
einsum/1 f32[2] f32[2] equation='i->i' => argument: ',' between 2 operands & "->i"
einsum/1 f32[2] equation='i,j->i' => argument: "->" after 1 operands & ",j->i"
einsum/1 f32[2,2] equation='ij' => argument: "->" after 1 operands & the equation's end
einsum/1 f32[2] equation='i->j' => argument: output indices that an operand has & got j
einsum/1 f32[2] equation='i->ii' => argument: distinct output indices & got i
einsum/1 f32[2] equation='i->i1' => argument: letters after "->" & "1"
einsum/1 f32[2] equation='...i->i' => shape: 1 indices for operand 1 & got 0
)");
}

TEST(OpError, NamesWhatIsWrongWithReductions) {
  expect_errors(R"(
mean/1 f32[2,0] => shape: at least one element & [2, 0]
amax/1 f32[2,0] => shape: at least one element & [2, 0]
amin/1 f32[2,0] => shape: at least one element & [2, 0]
argmax/1 f32[2,0] => shape: at least one element & [2, 0]
argmin/1 f32[2,0] => shape: at least one element & [2, 0]
amax/1 f32[2,0] dims=[1] => shape: at least one element
var/1 f32[1] => shape: more than 1 elements & got 1
var/1 f32[3] correction=-1 => argument: at least 0 & got -1
topk/1 f32[2,3] k=4 => argument: at most the extent, 3 & got 4
topk/1 f32[2,3] k=-1 => argument: at least 0 & got -1
searchsorted/1 f32[2,3] f32[3,3] => shape: sorted [n] and values of any shape & [2, 3] and [3, 3]
searchsorted/1 f32[] f32[3] => shape: "sorted" with at least 1
)");
}

TEST(OpError, NamesWhatIsWrongWithIndices) {
  expect_errors(R"(
gather/1 f32[2,3] i64[2] dim=0 => shape: "index" with as many dimensions as "x", 2 & got [2]
gather/1 f32[2,3] i64[2,4] dim=0 => shape: "index" no longer than "x" in dimension 1, 3 & got 4
gather/1 f32[2] i64[2]:7 dim=0 => argument: LibTorch refused the call & index 7
take_along_dim/1 f32[2,3] i64[2,2] dim=0 => shape: broadcast outside dimension 0 & [2, 3] and [2, 2]
take_along_dim/1 f32[2,3] i64[2] dim=0 => shape: as many dimensions
index_select/1 f32[2,3] i64[2,1] dim=0 => shape: "index" with 1 dimensions
scatter_add/1 f32[4] i64[3] f32[2] dim=0
  => shape: "index" no longer than "src" in dimension 0, 2 & got 3
scatter_add/1 f32[4] i64[3] f32[2,2] dim=0 => shape: "src" with as many dimensions
scatter_add/1 f32[4,1] i64[3,2] f32[3,2] dim=0
  => shape: "index" no longer than "x" in dimension 1, 1
one_hot/1 i64[2] classes=0 => argument: at least 1 & got 0
)");
}

TEST(OpError, NamesWhatIsWrongWithShapes) {
  expect_errors(R"(
reshape/1 f32[2,3] shape=[4] => shape: a shape of 6 elements & [4]
reshape/1 f32[2,3] shape=[-1,-1] => shape: at most one extent -1
reshape/1 f32[2,3] shape=[-1,4] => shape: a shape of 6 elements
reshape/1 f32[2,3] shape=[-2,-3] => shape: a shape of 6 elements
reshape/1 f32[0] shape=[-1,0] => shape: a shape of 0 elements
reshape/1 f32[2,3] shape=[1,1,1,1,1,1,1,2,3] => shape: too many dimensions & at most 8
permute/1 f32[2,3] dims=[0] => argument: 2 dimensions & [0]
permute/1 f32[2,3] dims=[0,0] => argument: distinct dimensions
transpose/1 f32[2,3] dim0=0 dim1=2 => argument: attribute "dim1" & -2 .. 1
unsqueeze/1 f32[2,3] dim=3 => argument: -3 .. 2 & got 3
squeeze/1 f32[2,3] dim=0 => shape: extent 1 in dimension 0 & [2, 3]
expand/1 f32[2,3] shape=[4,3] => shape: a shape that [2, 3] broadcasts to & [4, 3]
expand/1 f32[2,3] shape=[3] => shape: broadcasts to
expand/1 f32[2,3] shape=[-1,2,3] => shape: broadcasts to
flatten/1 f32[2,3] start=1 end=0 => argument: attribute "start" & at most end, 0
slice/1 f32[2,3] step=0 => argument: attribute "step" & at least 1
roll/1 f32[2,3] shifts=[1] dims=[0,1] => argument: attribute "shifts" & as many as dims, 2
tril/1 f32[3] => shape: "x" with at least 2 dimensions
)");
}

TEST(OpError, NamesWhatIsWrongWithJoins) {
  expect_errors(R"(
cat/1 f32[2,3] f32[3,4] dim=0
  => shape: the shape of parts[0] outside dimension 0, [2, 3] & [3, 4] for parts[1]
cat/1 f32[2,3] f32[0] dim=0 => shape: [0] for parts[1]
stack/1 f32[2,3] f32[2,4] dim=0 => shape: the shape of parts[0], [2, 3] & [2, 4] for parts[1]
repeat/1 f32[2,3] repeats=[2] => argument: one number a dimension, 2
repeat/1 f32[2,3] repeats=[2,-1] => argument: no negative number
repeat_interleave/1 f32[2,3] repeats=-1 dim=0 => argument: attribute "repeats" & at least 0
pad/1 f32[2,3] pads=[1] => argument: pairs (before, after) & [1]
pad/1 f32[2,3] pads=[1,1,1,1,1,1] => argument: at most 2
pad/1 f32[2,3] pads=[1,-1] => argument: no negative number
)");
}

TEST(OpError, NamesWhatIsWrongWithCreation) {
  expect_errors(R"(
arange/1 end=3.0 step=0.0 => argument: attribute "step" & a finite number other than 0
arange/1 end=3.0 step=-1.0 => argument: no range from start to end by step & 0 .. 3 by -1
arange/1 end=inf => argument: no range & inf
arange/1 end=2.5 dtype=I64 => argument: attribute "end" & an integer in the range of i64 & 2.5
linspace/1 start=0.0 end=1.0 steps=-1 => argument: attribute "steps" & at least 0
full/1 shape=[2,-1] => argument: no negative extent & [2, -1]
full/1 shape=[1,1,1,1,1,1,1,1,1] => shape: too many dimensions
full/1 shape=[70368744177664] => out of memory: out of memory & shape=[70368744177664]
eye/1 n=-1 => argument: attribute "n" & at least 0
full_like/1 i64[2] value=0.5 => argument: an integer in the range
)");
}

TEST(OpError, NamesWhatIsWrongWithLayers) {
  expect_errors(R"(
layer_norm/1 f32[2,4,6] f32[4] => shape: w [6] & got [4]
layer_norm/1 f32[2,4,6] f32[6] f32[1,6] => shape: b [6] & got [1, 6]
layer_norm/1 f32[] => shape: "x" with at least 1 dimensions
layer_norm/1 f32[2,4,6] eps=-1.0 => argument: attribute "eps" & at least 0
conv1d/1 f32[4,6] f32[3,4,2] => shape: "x" with 3 dimensions
conv1d/1 f32[2,4,6] f32[3,4] => shape: "w" with 3 dimensions
conv1d/1 f32[2,4,6] f32[3,5,2]
  => shape: x [B, in, T] and w [out, in / groups, taps] & [2, 4, 6] and [3, 5, 2]
conv1d/1 f32[2,4,6] f32[3,2,2] groups=2 => shape: dividing out
conv1d/1 f32[2,4,6] f32[3,4,2] f32[4] => shape: b [3] & got [4]
conv1d/1 f32[2,4,6] f32[3,4,4] dilation=2 => shape: at least 7 places along time & got 6
conv1d/1 f32[2,4,6] f32[3,4,2] stride=0 => argument: at least 1
conv1d/1 f32[2,4,6] f32[3,4,2] padding=-1 => argument: at least 0
max_pool1d/1 f32[2,4,6] kernel=7 => shape: at least 7 places along time & got 6
max_pool1d/1 f32[2,4,6] kernel=2 padding=2
  => argument: attribute "padding" & at most half the kernel, 1
avg_pool1d/1 f32[2,4,6] kernel=0 => argument: attribute "kernel" & at least 1
avg_pool1d/1 f32[4,6] kernel=2 => shape: "x" with 3 dimensions
)");
}

TEST(OpError, RefusesMalformedAttributesOfACaller) {
  const std::vector<at::Tensor> x = {torch::zeros({2})};
  const auto refuse = [&](mneme_attr attr, const char* op, const char* part) {
    expect_error(op, MNEME_E_INVALID_ARGUMENT, {part}, [&] {
      ops::run_op(ops::find_op(op), x, {&attr, 1}, at::kCPU);
    });
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
  const mneme_attr* nothing = nullptr;
  expect_error("exp/1", MNEME_E_INVALID_ARGUMENT, {"no attributes", "2 of them", "a null pointer"},
               [&] {
                 ops::run_op(ops::find_op("exp/1"), x, {nothing, 2}, at::kCPU);
               });
}

TEST(OpError, RefusesAWrongNumberOfOutputs) {
  const std::vector<at::Tensor> x = {torch::zeros({2})};
  std::vector<at::Tensor> outputs(2);
  expect_error("exp/1", MNEME_E_INVALID_ARGUMENT,
               {"wrong number of outputs", "expected 1", "got 2"},
               [&] { ops::run_op(ops::find_op("exp/1"), x, {}, at::kCPU, outputs); });
}

TEST(OpError, RefusesAHandleThatIsNoOp) {
  for (const mneme_op op : {0, 100000}) {
    expect_error("", MNEME_E_INVALID_ARGUMENT, {"no such op handle", "1 .. ", "`mneme abi ops`"},
                 [&] { ops::run_op(op, {}, {}, at::kCPU); });
  }
}

TEST(OpError, NamesTheCodeOfAnUnknownDtype) {
  expect_error("", MNEME_E_DTYPE, {"unknown dtype code", "MNEME_F32 (1)", "got 8"},
               [] { ops::scalar_type_of(8); });
}

}  // namespace
}  // namespace mneme::memory::test
