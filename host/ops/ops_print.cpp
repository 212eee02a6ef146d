#include "host/ops/ops_print.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "host/base/json.hpp"
#include "host/ops/ops.hpp"

namespace mneme::ops {
namespace {

const char* type_text(AttrType type) {
  switch (type) {
    case AttrType::kInteger:
      return "integer";
    case AttrType::kReal:
      return "real";
    case AttrType::kIntegers:
      return "integers";
    case AttrType::kText:
      return "text";
  }
  return "?";
}

Json json_of(const OpSchema& op) {
  Json inputs = Json::array();
  for (const InputSchema& input : op.inputs) {
    inputs.push_back({{"name", input.name},
                      {"dtype", input.dtypes},
                      {"optional", input.is_optional},
                      {"list", input.is_list}});
  }
  Json outputs = Json::array();
  for (const OutputSchema& output : op.outputs) {
    outputs.push_back({{"name", output.name}, {"dtype", output.dtype}});
  }
  Json attrs = Json::array();
  for (const AttrSchema& attr : op.attrs) {
    attrs.push_back({{"name", attr.name},
                     {"type", type_text(attr.type)},
                     {"required", attr.is_required},
                     {"default", attr.default_text},
                     {"help", attr.help}});
  }
  return {{"name", op.name},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)},
          {"attributes", std::move(attrs)},
          {"dtypes", op.dtypes},
          {"differentiable", op.is_differentiable},
          {"help", op.help}};
}

std::string signature(const OpSchema& op) {
  std::vector<std::string> inputs;
  for (const InputSchema& input : op.inputs) {
    std::string text = input.name + (input.is_list ? "*" : input.is_optional ? "?" : "");
    if (input.dtypes != "data") text += ":" + input.dtypes;
    inputs.push_back(std::move(text));
  }
  std::vector<std::string> outputs;
  for (const OutputSchema& output : op.outputs) {
    const bool is_plain = output.dtype == "data";
    outputs.push_back(output.name + (is_plain                      ? ""
                                     : output.dtype == "attribute" ? ":dtype"
                                                                   : ":" + output.dtype));
  }
  return str(op.name, " (", join(inputs, ", "), ") -> ", join(outputs, ", "));
}

void print_text(std::ostream& out, const OpSchema& op) {
  out << signature(op) << "  [" << op.dtypes << (op.is_differentiable ? "" : ", no gradient")
      << "]\n    " << op.help << '\n';
  for (const AttrSchema& attr : op.attrs) {
    out << "    " << attr.name << ": " << type_text(attr.type);
    if (attr.is_required) {
      out << ", required";
    } else if (!attr.default_text.empty()) {
      out << " = " << attr.default_text;
    } else {
      out << ", optional";
    }
    out << "; " << attr.help << '\n';
  }
}

}  // namespace

void print_ops(std::ostream& out, bool json) {
  if (json) {
    Json all = Json::array();
    for (const OpSchema& op : op_schemas()) all.push_back(json_of(op));
    out << all.dump(2) << '\n';
    return;
  }
  out << op_schemas().size()
      << " ops. name (inputs) -> outputs  [dtypes of the data]; ? optional, * one or more, :bool "
         ":i64 :dtype another dtype than the data\n";
  for (const OpSchema& op : op_schemas()) print_text(out, op);
}

}  // namespace mneme::ops
