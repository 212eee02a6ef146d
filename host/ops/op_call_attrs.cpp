// The attributes of a call, put to their places in the schema.
#include <cstring>

#include "host/ops/op_call.hpp"
#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

const char* type_name(uint32_t type) {
  switch (type) {
    case MNEME_ATTR_INT:
      return "an integer (MNEME_ATTR_INT)";
    case MNEME_ATTR_REAL:
      return "a real (MNEME_ATTR_REAL)";
    case MNEME_ATTR_INTS:
      return "integers (MNEME_ATTR_INTS)";
    case MNEME_ATTR_TEXT:
      return "text (MNEME_ATTR_TEXT)";
    default:
      return "an unknown attribute type";
  }
}

}  // namespace

void OpCall::parse_attrs() {
  if (given_.data() == nullptr && !given_.empty()) {
    const std::size_t count = given_.size();
    fail(MNEME_E_INVALID_ARGUMENT, "no attributes", str(count, " of them"), "a null pointer");
  }
  for (const mneme_attr& attr : given_) parse_attr(attr);
  for (std::size_t i = 0; i < op_.schema.attrs.size(); ++i) {
    if (op_.schema.attrs[i].is_required && attrs_[i] == nullptr) {
      fail(MNEME_E_INVALID_ARGUMENT, str("attribute \"", attr_name(i), "\" is missing"),
           type_name(static_cast<uint32_t>(op_.schema.attrs[i].type)));
    }
  }
}

void OpCall::parse_attr(const mneme_attr& attr) {
  if (attr.name == nullptr) fail(MNEME_E_INVALID_ARGUMENT, "an attribute without a name");
  const std::vector<AttrSchema>& schemas = op_.schema.attrs;
  std::size_t i = 0;
  while (i < schemas.size() && std::strcmp(schemas[i].name.c_str(), attr.name) != 0) ++i;
  if (i == schemas.size()) {
    std::vector<std::string> names;
    for (const AttrSchema& schema : schemas) names.push_back(schema.name);
    fail(MNEME_E_INVALID_ARGUMENT,
         str("unknown attribute \"", attr.name, '"', did_you_mean(attr.name, names)),
         names.empty() ? "no attribute" : quoted_list(names));
  }
  if (attrs_[i] != nullptr) {
    fail(MNEME_E_INVALID_ARGUMENT, str("attribute \"", attr.name, "\" is given twice"));
  }
  const auto expected = static_cast<uint32_t>(schemas[i].type);
  if (attr.type != expected) {
    fail(MNEME_E_INVALID_ARGUMENT, str("attribute \"", attr.name, "\" has the wrong type"),
         type_name(expected), type_name(attr.type));
  }
  const bool no_values = attr.type == MNEME_ATTR_INTS && attr.count != 0 && attr.ints == nullptr;
  if (no_values || (attr.type == MNEME_ATTR_TEXT && attr.text == nullptr)) {
    fail(MNEME_E_INVALID_ARGUMENT, str("attribute \"", attr.name, "\" has a null value"),
         type_name(expected));
  }
  attrs_[i] = &attr;
}

}  // namespace mneme::ops
