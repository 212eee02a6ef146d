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
void expect_errors(const std::string& file) {
  mneme::test::for_each_case(
      mneme::test::read_wording_file(file), [](const auto& row) { return row.name(); },
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
  expect_errors("tests/ops/messages/attributes.txt");
}

TEST(OpError, NamesWhatIsWrongWithInputs) { expect_errors("tests/ops/messages/inputs.txt"); }

TEST(OpError, NamesWhatIsWrongWithOperands) { expect_errors("tests/ops/messages/operands.txt"); }

TEST(OpError, NamesWhatIsWrongWithProducts) { expect_errors("tests/ops/messages/products.txt"); }

TEST(OpError, NamesWhatIsWrongWithReductions) {
  expect_errors("tests/ops/messages/reductions.txt");
}

TEST(OpError, NamesWhatIsWrongWithIndices) { expect_errors("tests/ops/messages/indices.txt"); }

TEST(OpError, NamesWhatIsWrongWithShapes) { expect_errors("tests/ops/messages/shapes.txt"); }

TEST(OpError, NamesWhatIsWrongWithJoins) { expect_errors("tests/ops/messages/joins.txt"); }

TEST(OpError, NamesWhatIsWrongWithCreation) { expect_errors("tests/ops/messages/creation.txt"); }

TEST(OpError, NamesWhatIsWrongWithLayers) { expect_errors("tests/ops/messages/layers.txt"); }

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
