// The table itself: names, lookup, supports, dtype codes, and how it is printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "host/base/text.hpp"
#include "host/ops/op_table.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"
#include "tests/ops/op_case.hpp"

namespace mneme::memory::test {
namespace {

using ::testing::HasSubstr;

TEST(OpTable, IsOrderedByNameAndEveryNameCarriesItsRevision) {
  const std::regex pattern("[a-z][a-z0-9_]*/[1-9][0-9]*");
  std::string before;
  for (const ops::OpSchema& schema : ops::op_schemas()) {
    EXPECT_TRUE(std::regex_match(schema.name, pattern)) << schema.name;
    EXPECT_LT(before, schema.name);
    EXPECT_FALSE(schema.help.empty()) << schema.name;
    EXPECT_FALSE(schema.outputs.empty()) << schema.name;
    before = schema.name;
  }
}

TEST(OpTable, AttributesOfAnOpHaveDistinctNamesAndHelp) {
  for (const ops::OpSchema& schema : ops::op_schemas()) {
    std::set<std::string> names;
    for (const ops::AttrSchema& attr : schema.attrs) {
      EXPECT_TRUE(names.insert(attr.name).second) << schema.name << ' ' << attr.name;
      EXPECT_FALSE(attr.help.empty()) << schema.name << ' ' << attr.name;
      EXPECT_FALSE(attr.is_required && !attr.default_text.empty()) << schema.name;
    }
  }
}

TEST(OpTable, FindsEveryOpByNameAndRevision) {
  for (std::size_t i = 0; i < ops::op_schemas().size(); ++i) {
    EXPECT_EQ(ops::find_op(ops::op_schemas()[i].name), i + 1);
  }
}

TEST(OpTable, DoesNotFindOtherNames) {
  for (const char* name : {"", "matmul", "matmul/2", "matmul/10", "a", "zzz/1", "Matmul/1"}) {
    EXPECT_EQ(ops::find_op(name), 0U) << name;
  }
  EXPECT_EQ(ops::nearest_op("matmull/1"), "matmul/1");
  EXPECT_EQ(ops::nearest_op("nothing like any op"), "");
}

TEST(OpTable, HasTheOpsThatTheMemoriesOfTheProjectNeed) {
  for (const char* name : {"add/1", "matmul/1", "linear/1", "einsum/1", "softmax/1", "cat/1",
                           "slice/1", "conv1d/1", "layer_norm/1", "normal_cdf/1", "topk/1",
                           "gather/1", "searchsorted/1", "elu/1", "sigmoid/1", "logaddexp/1"}) {
    EXPECT_NE(ops::find_op(name), 0U) << name;
  }
}

TEST(OpTable, SupportsFollowsTheClassOfTheOp) {
  const auto supports = [](const char* op, uint32_t dtype) {
    return ops::op_supports(ops::find_op(op), dtype, MNEME_DEVICE_CPU);
  };
  EXPECT_TRUE(supports("exp/1", MNEME_BF16));
  EXPECT_FALSE(supports("exp/1", MNEME_I64));
  EXPECT_TRUE(supports("add/1", MNEME_I32));
  EXPECT_FALSE(supports("add/1", MNEME_BOOL));
  EXPECT_TRUE(supports("where/1", MNEME_BOOL));
  EXPECT_FALSE(supports("logical_not/1", MNEME_F32));
  EXPECT_TRUE(ops::op_supports(ops::find_op("exp/1"), MNEME_F64, MNEME_DEVICE_CUDA));
  EXPECT_FALSE(ops::op_supports(ops::find_op("exp/1"), MNEME_F32, 3));
  EXPECT_FALSE(ops::op_supports(ops::find_op("exp/1"), 0, MNEME_DEVICE_CPU));
  EXPECT_FALSE(ops::op_supports(ops::find_op("exp/1"), 8, MNEME_DEVICE_CPU));
  EXPECT_FALSE(ops::op_supports(0, MNEME_F32, MNEME_DEVICE_CPU));
  EXPECT_FALSE(ops::op_supports(100000, MNEME_F32, MNEME_DEVICE_CPU));
}

TEST(OpTable, RefusesEveryDtypeThatItDoesNotSupport) {
  for (const OpCase& op_case : all_cases()) {
    if (!op_case.inputs.empty() && !is_data_input(schema_of(op_case.op), 0)) continue;
    for (uint32_t dtype = MNEME_F32; dtype <= MNEME_BOOL; ++dtype) {
      if (ops::op_supports(ops::find_op(op_case.op), dtype, MNEME_DEVICE_CPU)) continue;
      EXPECT_THROW(call(op_case, dtype, input_tensors(op_case, dtype)), ops::OpError)
          << op_case.op << ' ' << tensor::dtype_code_name(dtype);
    }
  }
}

TEST(OpTable, DtypeCodesGoThereAndBack) {
  for (uint32_t dtype = MNEME_F32; dtype <= MNEME_BOOL; ++dtype) {
    EXPECT_EQ(tensor::dtype_code_of(ops::scalar_type_of(dtype)), dtype);
  }
  EXPECT_EQ(tensor::dtype_code_of(at::kComplexFloat), 0U);
  EXPECT_STREQ(tensor::dtype_code_name(MNEME_BF16), "bf16");
  EXPECT_STREQ(tensor::dtype_code_name(99), "?");
}

TEST(OpTable, CreatorsUseTheGivenDevice) {
  const std::vector<Attr> attrs = {integers("shape", {2, 3})};
  const auto y = ops::run_op(ops::find_op("full/1"), {}, abi_attrs(attrs), at::Device(at::kMeta));
  EXPECT_TRUE(y[0].is_meta());
}

TEST(OpPrint, TextNamesEveryOpWithItsAttributes) {
  std::ostringstream out;
  ops::print_ops(out, false);
  const std::string text = out.str();
  for (const ops::OpSchema& schema : ops::op_schemas()) {
    EXPECT_THAT(text, HasSubstr("\n" + schema.name + " ("));
    for (const ops::AttrSchema& attr : schema.attrs)
      EXPECT_THAT(text, HasSubstr("\n    " + attr.name));
  }
  EXPECT_THAT(text, HasSubstr("linear/1 (x, w, b?) -> y  [float]"));
  EXPECT_THAT(text, HasSubstr("cat/1 (parts*) -> y  [any]\n"));
  EXPECT_THAT(text, HasSubstr("gather/1 (x, index:i64) -> y"));
  EXPECT_THAT(text, HasSubstr("arange/1 () -> y:dtype  [number, no gradient]"));
  EXPECT_THAT(text, HasSubstr("    dim: integer, required; "));
  EXPECT_THAT(text, HasSubstr("    eps: real = 1e-5; "));
  EXPECT_THAT(text, HasSubstr("    scalar: real, optional; "));
}

TEST(OpPrint, JsonHoldsEverySchema) {
  std::ostringstream out;
  ops::print_ops(out, true);
  const Json all = Json::parse(out.str());
  ASSERT_EQ(all.size(), ops::op_schemas().size());
  const Json& topk = all[ops::find_op("topk/1") - 1];
  EXPECT_EQ(topk["name"], "topk/1");
  EXPECT_EQ(topk["inputs"][0]["name"], "x");
  EXPECT_EQ(topk["inputs"][0]["dtype"], "data");
  EXPECT_EQ(topk["inputs"][0]["optional"], false);
  EXPECT_EQ(topk["outputs"][1]["dtype"], "i64");
  EXPECT_EQ(topk["attributes"][0]["name"], "k");
  EXPECT_EQ(topk["attributes"][0]["required"], true);
  EXPECT_EQ(topk["attributes"][1]["default"], "-1");
  EXPECT_EQ(topk["dtypes"], "number");
  EXPECT_EQ(topk["differentiable"], true);
  EXPECT_EQ(all[ops::find_op("einsum/1") - 1]["inputs"][0]["list"], true);
  EXPECT_EQ(all[ops::find_op("full/1") - 1]["attributes"][0]["type"], "integers");
  EXPECT_EQ(all[ops::find_op("gelu/1") - 1]["attributes"][0]["type"], "text");
}

}  // namespace
}  // namespace mneme::memory::test
