// Every op against plain loops, in every dtype that its schema allows.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"
#include "tests/ops/op_case.hpp"

namespace mneme::memory::test {
namespace {

constexpr uint32_t kDtypes[] = {MNEME_F32, MNEME_BF16, MNEME_F16, MNEME_F64,
                                MNEME_I32, MNEME_I64,  MNEME_BOOL};

// Rounding of one result, with room for the rounding inside.
double tolerance(uint32_t dtype) {
  switch (dtype) {
    case MNEME_F64:
      return 1e-15;
    case MNEME_F32:
      return 4e-7;
    case MNEME_F16:
      return 1.5e-3;
    case MNEME_BF16:
      return 1.2e-2;
    default:
      return 0.0;
  }
}

bool agrees(double got, double want, double allowed) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::fabs(got - want) <= allowed * std::max(1.0, std::fabs(want));
}

uint32_t expected_dtype(const OpCase& op_case, const ops::OutputSchema& output, uint32_t dtype) {
  if (output.dtype == "bool") return MNEME_BOOL;
  if (output.dtype == "i64") return MNEME_I64;
  for (const Attr& attr : op_case.attrs) {
    if (output.dtype == "attribute" && attr.name == "dtype") {
      return static_cast<uint32_t>(std::get<int64_t>(attr.value));
    }
  }
  return dtype;
}

void expect_golden(const OpCase& op_case, uint32_t dtype) {
  SCOPED_TRACE(op_case.op + " \"" + op_case.label + "\" in " + tensor::dtype_code_name(dtype));
  const ops::OpSchema& schema = schema_of(op_case.op);
  const Run run = run_case(op_case, dtype);
  ASSERT_EQ(run.outputs.size(), schema.outputs.size());
  ASSERT_EQ(run.golden.size(), schema.outputs.size());
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    const uint32_t code = expected_dtype(op_case, schema.outputs[i], dtype);
    EXPECT_EQ(tensor::dtype_code_of(run.outputs[i].scalar_type()), code) << "output " << i;
    const Array got = array_of(run.outputs[i]);
    ASSERT_EQ(got.shape, run.golden[i].shape) << "output " << i;
    const double allowed = op_case.slack * std::max(tolerance(dtype), tolerance(code));
    for (std::size_t e = 0; e < got.data.size(); ++e) {
      EXPECT_TRUE(agrees(got.data[e], run.golden[i].data[e], allowed))
          << "output " << i << ", element " << e << ": expected " << run.golden[i].data[e]
          << ", got " << got.data[e];
    }
  }
}

TEST(OpGolden, EveryCaseAgreesInEveryDtypeThatHoldsItsInputs) {
  int runs = 0;
  for (const OpCase& op_case : all_cases()) {
    for (const uint32_t dtype : kDtypes) {
      if (!ops::op_supports(ops::find_op(op_case.op), dtype, MNEME_DEVICE_CPU)) continue;
      if (!fits(op_case, dtype)) continue;
      expect_golden(op_case, dtype);
      ++runs;
    }
  }
  RecordProperty("runs", runs);
  EXPECT_GT(runs, 1000);
}

TEST(OpGolden, EveryOpHasACaseInEveryDtypeThatItSupports) {
  std::map<std::string, std::set<uint32_t>> covered;
  for (const OpCase& op_case : all_cases()) {
    for (const uint32_t dtype : kDtypes) {
      if (fits(op_case, dtype)) covered[op_case.op].insert(dtype);
    }
  }
  for (const ops::OpSchema& schema : ops::op_schemas()) {
    for (const uint32_t dtype : kDtypes) {
      if (!ops::op_supports(ops::find_op(schema.name), dtype, MNEME_DEVICE_CPU)) continue;
      EXPECT_TRUE(covered[schema.name].count(dtype) != 0)
          << schema.name << " has no golden case in " << tensor::dtype_code_name(dtype);
    }
  }
}

TEST(OpGolden, EveryAttributeAndEveryOptionalInputIsUsedByACase) {
  std::map<std::string, std::set<std::string>> used;
  for (const OpCase& op_case : all_cases()) {
    const ops::OpSchema& schema = schema_of(op_case.op);
    for (const Attr& attr : op_case.attrs) used[op_case.op].insert(attr.name);
    if (is_typed_by_attribute(schema)) used[op_case.op].insert("dtype");
    for (std::size_t i = 0; i < schema.inputs.size(); ++i) {
      const bool is_given = i < op_case.inputs.size() && !op_case.inputs[i].is_absent;
      used[op_case.op].insert((is_given ? "with " : "without ") + schema.inputs[i].name);
    }
  }
  for (const ops::OpSchema& schema : ops::op_schemas()) {
    for (const ops::AttrSchema& attr : schema.attrs) {
      EXPECT_TRUE(used[schema.name].count(attr.name) != 0)
          << schema.name << ": no golden case gives attribute " << attr.name;
    }
    for (const ops::InputSchema& input : schema.inputs) {
      if (!input.is_optional) continue;
      EXPECT_TRUE(used[schema.name].count("with " + input.name) != 0) << schema.name;
      EXPECT_TRUE(used[schema.name].count("without " + input.name) != 0) << schema.name;
    }
  }
}

TEST(OpGolden, AbsentAttributesMeanTheDefaultsOfTheSchema) {
  const at::Tensor x = torch::arange(6, at::kFloat).view({2, 3});
  EXPECT_EQ(call_op("full/1", {}, {integers("shape", {2})})[0].scalar_type(), at::kFloat);
  EXPECT_EQ(call_op("arange/1", {}, {real("end", 2)})[0].scalar_type(), at::kFloat);
  EXPECT_EQ(call_op("eye/1", {}, {integer("n", 2)})[0].scalar_type(), at::kFloat);
  EXPECT_EQ(call_op("one_hot/1", {torch::zeros({2}, at::kLong)}, {integer("classes", 2)})[0]
                .scalar_type(),
            at::kLong);
  EXPECT_TRUE(
      call_op("softmax/1", {x})[0].equal(call_op("softmax/1", {x}, {integer("dim", 1)})[0]));
  EXPECT_TRUE(call_op("var/1", {x})[0].equal(call_op("var/1", {x}, {integer("correction", 1)})[0]));
}

TEST(OpGolden, NormalCdfKeepsItsRelativePrecisionInTheLowerTail) {
  const at::Tensor x = torch::full({1}, -10.0, at::kDouble);
  const double got = call_op("normal_cdf/1", {x})[0].item<double>();
  EXPECT_NEAR(got / 7.619853024160527e-24, 1.0, 1e-12);
}

TEST(OpGolden, Expm1AndLog1pKeepSmallArguments) {
  const at::Tensor x = torch::full({1}, 1e-12, at::kDouble);
  EXPECT_NEAR(call_op("expm1/1", {x})[0].item<double>() / (1e-12 + 0.5e-24), 1.0, 1e-15);
  EXPECT_NEAR(call_op("log1p/1", {x})[0].item<double>() / (1e-12 - 0.5e-24), 1.0, 1e-15);
}

TEST(OpGolden, LinspaceEndsExactlyAtBothEnds) {
  const at::Tensor y = call_op(
      "linspace/1", {},
      {real("start", 0), real("end", 1), integer("steps", 1000), integer("dtype", MNEME_F64)})[0];
  EXPECT_EQ(y[0].item<double>(), 0.0);
  EXPECT_EQ(y[999].item<double>(), 1.0);
}

TEST(OpGolden, ResultsDoNotDependOnTheInputsStrides) {
  const at::Tensor x = torch::randn({4, 3, 5}, at::kDouble);
  const at::Tensor strided = x.transpose(0, 2).contiguous().transpose(0, 2);
  ASSERT_FALSE(strided.is_contiguous());
  for (const char* op : {"exp/1", "softmax/1", "sum/1", "layer_norm/1", "sort/1"}) {
    EXPECT_LT((call_op(op, {x})[0] - call_op(op, {strided})[0]).abs().max().item<double>(), 1e-13)
        << op;
  }
}

TEST(OpGolden, ViewsShareTheInputsMemory) {
  const at::Tensor x = torch::zeros({2, 3, 1});
  const auto shares = [&](const char* op, const std::vector<Attr>& attrs) {
    return call_op(op, {x}, attrs)[0].storage().is_alias_of(x.storage());
  };
  EXPECT_TRUE(shares("slice/1", {integer("dim", 1), integer("start", 1)}));
  EXPECT_TRUE(shares("detach/1", {}));
  EXPECT_TRUE(shares("contiguous/1", {}));
  EXPECT_TRUE(shares("reshape/1", {integers("shape", {6})}));
  EXPECT_TRUE(shares("permute/1", {integers("dims", {2, 0, 1})}));
  EXPECT_TRUE(shares("expand/1", {integers("shape", {2, 3, 4})}));
  EXPECT_TRUE(shares("squeeze/1", {integer("dim", 2)}));
}

TEST(OpGolden, OneTensorIsEnoughForALongList) {
  const at::Tensor x = torch::ones({2});
  const std::vector<at::Tensor> parts(100, x);
  EXPECT_EQ(call_op("cat/1", parts, {integer("dim", 0)})[0].size(0), 200);
}

TEST(OpGolden, AutocastIsOffInsideAnOp) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor x = torch::randn({4, 4});
  const at::ScalarType direct = at::matmul(x, x).scalar_type();
  const at::ScalarType through_op = call_op("matmul/1", {x, x})[0].scalar_type();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(direct, at::kBFloat16);  // the test would see autocast
  EXPECT_EQ(through_op, at::kFloat);
}

}  // namespace
}  // namespace mneme::memory::test
