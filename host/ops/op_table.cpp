#include "host/ops/op_table.hpp"

#include <algorithm>
#include <stdexcept>

#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

uint32_t dtype_set(const std::string& text) {
  if (text == "float") return kFloatSet;
  if (text == "integer") return kIntegerSet;
  if (text == "number") return kFloatSet | kIntegerSet;
  if (text == "bool") return kBoolSet;
  if (text == "any") return kFloatSet | kIntegerSet | kBoolSet;
  if (text == "i64") return kI64Set;
  throw std::logic_error("op table: no dtype class \"" + text + "\"");
}

OpList build_table() {
  OpList list;
  add_unary_ops(list);
  add_activation_ops(list);
  add_binary_ops(list);
  add_selection_ops(list);
  add_product_ops(list);
  add_reduction_ops(list);
  add_softmax_ops(list);
  add_order_ops(list);
  add_index_ops(list);
  add_shape_ops(list);
  add_join_ops(list);
  add_creation_ops(list);
  add_network_ops(list);
  const auto by_name = [](const Op& a, const Op& b) { return a.schema.name < b.schema.name; };
  std::sort(list.begin(), list.end(), by_name);
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (list[i - 1].schema.name == list[i].schema.name) {
      throw std::logic_error("op table: two ops \"" + list[i].schema.name + "\"");
    }
  }
  return list;
}

}  // namespace

void add_op(OpList& list, OpSchema schema, RunFunction run) {
  if (schema.attrs.size() > kMaxAttrs) {
    throw std::logic_error("op table: too many attributes: " + schema.name);
  }
  Op op;
  op.run = run;
  op.dtypes = dtype_set(schema.dtypes);
  for (std::size_t i = 0; i < schema.inputs.size(); ++i) {
    const InputSchema& input = schema.inputs[i];
    op.input_dtypes.push_back(input.dtypes == "data" ? 0 : dtype_set(input.dtypes));
    if (!input.is_optional) op.required_inputs = i + 1;
    op.has_list = input.is_list;
    if (input.is_list && i + 1 != schema.inputs.size()) {
      throw std::logic_error("op table: a list is not the last input: " + schema.name);
    }
  }
  op.schema = std::move(schema);
  list.push_back(std::move(op));
}

InputSchema data_input(const char* name) { return {.name = name, .dtypes = "data"}; }
InputSchema optional_input(const char* name) {
  return {.name = name, .dtypes = "data", .is_optional = true};
}
InputSchema list_input(const char* name) {
  return {.name = name, .dtypes = "data", .is_list = true};
}
InputSchema mask_input(const char* name) { return {.name = name, .dtypes = "bool"}; }
InputSchema index_input(const char* name) { return {.name = name, .dtypes = "i64"}; }
OutputSchema data_output(const char* name) { return {.name = name, .dtype = "data"}; }
OutputSchema mask_output(const char* name) { return {.name = name, .dtype = "bool"}; }
OutputSchema index_output(const char* name) { return {.name = name, .dtype = "i64"}; }
OutputSchema typed_output(const char* name) { return {.name = name, .dtype = "attribute"}; }

AttrSchema required_attr(const char* name, AttrType type, const char* help) {
  return {.name = name, .type = type, .is_required = true, .default_text = "", .help = help};
}

AttrSchema optional_attr(const char* name, AttrType type, const char* default_text,
                         const char* help) {
  return {
      .name = name, .type = type, .is_required = false, .default_text = default_text, .help = help};
}

const OpList& op_table() {
  static const OpList table = build_table();
  return table;
}

}  // namespace mneme::ops
