// docs/ops.md: every op with its schema and one example, which is the first of the cases that
// define it. After a change of the ops:
//
//   MNEME_WRITE_OPS_INDEX=1 build/release/tests/ops_test --gtest_filter='OpsIndex.*'
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/ops/op_case.hpp"

namespace mneme::memory::test {
namespace {

const std::filesystem::path kPage = std::filesystem::path(MNEME_SOURCE_DIR) / "docs/ops.md";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

std::string type_text(ops::AttrType type) {
  switch (type) {
    case ops::AttrType::kInteger:
      return "integer";
    case ops::AttrType::kReal:
      return "real";
    case ops::AttrType::kIntegers:
      return "integers";
    default:
      return "text";
  }
}

std::string attributes_text(const ops::OpSchema& schema) {
  std::vector<std::string> parts;
  for (const ops::AttrSchema& attr : schema.attrs) {
    std::string text = str("`", attr.name, "` (", type_text(attr.type));
    if (attr.is_required) text += ", required";
    if (!attr.default_text.empty()) text += ", default `" + attr.default_text + "`";
    parts.push_back(text + "): " + escaped(attr.help));
  }
  return join(parts, "<br>");
}

std::string value_text(const Attr& attr) {
  if (const auto* integer = std::get_if<int64_t>(&attr.value)) return str(*integer);
  if (const auto* real = std::get_if<double>(&attr.value)) return format_exact(*real);
  if (const auto* text = std::get_if<std::string>(&attr.value)) return str('"', *text, '"');
  return list_text(std::get<Index>(attr.value));
}

// "x [2, 3], index [2, 2]; dim = -1 -> [2, 2]"
std::string example_text(const OpCase& example, const ops::OpSchema& schema) {
  std::vector<std::string> inputs, attributes, outputs;
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    const std::string name = schema.inputs[std::min(i, schema.inputs.size() - 1)].name;
    const Array& input = example.inputs[i];
    inputs.push_back(name + (input.is_absent ? " absent" : ' ' + list_text(input.shape)));
  }
  for (const Attr& attr : example.attrs) {
    attributes.push_back(attr.name + " = " + value_text(attr));
  }
  for (const Array& output : example.golden(example.inputs)) {
    outputs.push_back(list_text(output.shape));
  }
  std::string text = join(inputs, ", ");
  if (!attributes.empty()) text += (text.empty() ? "" : "; ") + join(attributes, ", ");
  return str('`', text, text.empty() ? "" : " ", "-> ", join(outputs, ", "), '`');
}

// The first case with more than one number, else the first.
const OpCase& example_of(const std::string& op) {
  const OpCase* first = nullptr;
  for (const OpCase& one : all_cases()) {
    if (one.op != op) continue;
    if (first == nullptr) first = &one;
    const auto& inputs = one.inputs;
    if (!inputs.empty() && !inputs[0].is_absent && inputs[0].data.size() > 1) return one;
  }
  if (first == nullptr) throw std::runtime_error(op + " has no case");
  return *first;
}

std::string signature_text(const ops::OpSchema& schema) {
  std::vector<std::string> inputs, outputs;
  for (const ops::InputSchema& input : schema.inputs) {
    std::string text = input.name;
    if (input.dtypes != "data") text += ':' + input.dtypes;
    if (input.is_optional) text += '?';
    if (input.is_list) text += " ...";
    inputs.push_back(text);
  }
  for (const ops::OutputSchema& output : schema.outputs) {
    outputs.push_back(output.dtype == "data"        ? output.name
                      : output.dtype == "attribute" ? output.name + ":dtype"
                                                    : output.name + ':' + output.dtype);
  }
  return str('`', schema.name, " (", join(inputs, ", "), ") -> ", join(outputs, ", "), '`');
}

std::string page_text() {
  std::string page =
      "# The ops of the host\n\n"
      "What hooks compute with (`mneme/op.h`; in C++ the functions of `mneme/cpp/ops.hpp`, which "
      "have the same names, in C those of `mneme/c/ops.h`). `mneme abi ops` prints the same list. "
      "An input or output without a type "
      "has "
      "that of the data, which is one of the class in the second column; `?` marks inputs that may "
      "be "
      "left out, `...` one or more. Gradients flow through every op that is not marked. An example "
      "gives shapes: those of the inputs, the attributes, and what they make.\n\n"
      "| op | data | what it does | attributes | example |\n|---|---|---|---|---|\n";
  for (const ops::OpSchema& schema : ops::op_schemas()) {
    page +=
        str("| ", signature_text(schema), " | ", schema.dtypes,
            schema.is_differentiable ? "" : ", no gradient", " | ", escaped(schema.help), " | ",
            attributes_text(schema), " | ", example_text(example_of(schema.name), schema), " |\n");
  }
  return page;
}

TEST(OpsIndex, IsThePageOfTheDocs) {
  const std::string page = page_text();
  if (std::getenv("MNEME_WRITE_OPS_INDEX") != nullptr) write_file_atomic(kPage, page);
  EXPECT_EQ(read_file(kPage), page) << "write docs/ops.md again: see the top of ops_index_test.cpp";
}

}  // namespace
}  // namespace mneme::memory::test
