// mneme/c/ops.h: a function of plain C for every op, written from the schemas. After a change of
// the ops:
//
//   MNEME_WRITE_OPS_HEADER=1 build/release/tests/sdk_ops_test --gtest_filter='OpsHeader.*'
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/ops/ops.hpp"

namespace mneme::test {
namespace {

const std::filesystem::path kHeader =
    std::filesystem::path(MNEME_SOURCE_DIR) / "sdk/include/mneme/c/ops.h";
constexpr std::size_t kColumns = 100;

constexpr const char* kTop =
    R"(/* mneme/c/ops.h: the host's ops as functions, for plugins in C. No part of the specification: the
 * functions fill the arrays of mneme_op_api.call. Written from the schemas of the ops, as
 * `mneme abi ops` prints them; a test holds it to them.
 *
 * A plugin resolves the ops that it uses, in `create`, and calls them in its hooks:
 *
 *   static const mneme_op_id kUsed[] = {MNEME_OP_MATMUL, MNEME_OP_SOFTMAX};
 *   status = mneme_ops_resolve(&self->ops, op_api, setup, kUsed, 2, error);
 *   ...
 *   status = mneme_op_matmul(&self->ops, ctx, q, k, &scores, error);
 *
 * A host that lacks an op refuses plugins that resolve it, and no others. Parameters are the op's
 * inputs, attributes and outputs, in the schema's order. An input that may be absent is 0 then. An
 * attribute that may be absent is left out where it is MNEME_OP_ABSENT (integers), NaN (reals) or
 * NULL; what its absence means stands behind "absent". Where a number may stand for a tensor, there
 * are functions for it: `_scalar` takes it in place of the last input, `_scalar_a` of the input a.
 * All of them may be called in hooks alone; errors are those of mneme_op_api.call. */
#ifndef MNEME_C_OPS_H_
#define MNEME_C_OPS_H_

#include "mneme/sdk.h"

/* clang-format off */

)";

constexpr const char* kHelpers = R"(
/* An optional integer that is absent. */
#define MNEME_OP_ABSENT INT64_MIN

/* The ops that an instance has resolved. */
typedef struct mneme_ops {
  const mneme_op_api* api;
  mneme_op handles[MNEME_OP_COUNT]; /* by mneme_op_id; 0 = not resolved */
} mneme_ops;

/* The name with its revision; "" for what is no op. */
static inline const char* mneme_op_name(mneme_op_id id) {
  static const char* const names[MNEME_OP_COUNT] = {
{names}  };
  return (uint32_t)id < (uint32_t)MNEME_OP_COUNT ? names[id] : "";
}

/* [setup] Resolves the `count` ops of `used` together.
 * Errors: as mneme_op_api.resolve; MNEME_E_INVALID_ARGUMENT for an id that is none, and for more
 * ids than there are ops. */
static inline mneme_status mneme_ops_resolve(
    mneme_ops* ops, const mneme_op_api* api, mneme_setup* setup, const mneme_op_id* used,
    uint32_t count, mneme_error* error) {
  const char* names[MNEME_OP_COUNT] = {NULL};
  mneme_op found[MNEME_OP_COUNT] = {0};
  mneme_status status = MNEME_OK;
  uint32_t i = 0;
  ops->api = api;
  for (i = 0; i < (uint32_t)MNEME_OP_COUNT; ++i) {
    ops->handles[i] = 0;
  }
  if (count > (uint32_t)MNEME_OP_COUNT) {
    return MNEME_FAIL(error, MNEME_E_INVALID_ARGUMENT,
                      "mneme_ops_resolve: more ops than there are; is `count` right?");
  }
  for (i = 0; i < count; ++i) {
    names[i] = mneme_op_name(used[i]);
    if (names[i][0] == '\0') {
      return MNEME_FAIL(error, MNEME_E_INVALID_ARGUMENT,
                        "mneme_ops_resolve: no such op; expected ids MNEME_OP_...");
    }
  }
  status = api->resolve(setup, names, count, found, error);
  if (status != MNEME_OK) {
    return status;
  }
  for (i = 0; i < count; ++i) {
    ops->handles[used[i]] = found[i];
  }
  return MNEME_OK;
}

/* ---- what the functions below are made of -------------------------------------------------- */

static inline mneme_attr mneme_ops_integer(const char* name, int64_t value) {
  const mneme_attr attr = {name, MNEME_ATTR_INT, 0, value, 0.0, NULL, NULL};
  return attr;
}
static inline mneme_attr mneme_ops_real(const char* name, double value) {
  const mneme_attr attr = {name, MNEME_ATTR_REAL, 0, 0, value, NULL, NULL};
  return attr;
}
static inline mneme_attr mneme_ops_integers(const char* name, const int64_t* values,
                                            uint32_t count) {
  const mneme_attr attr = {name, MNEME_ATTR_INTS, count, 0, 0.0, values, NULL};
  return attr;
}
static inline mneme_attr mneme_ops_text(const char* name, const char* value) {
  const mneme_attr attr = {name, MNEME_ATTR_TEXT, 0, 0, 0.0, NULL, value};
  return attr;
}

static inline mneme_status mneme_ops_call(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_op_id id, const mneme_tensor* inputs,
    uint32_t n_in, const mneme_attr* attrs, uint32_t n_attrs, mneme_tensor* outputs,
    uint32_t n_out, mneme_error* error) {
  if (ops->handles[id] == 0) {
    char message[128];
    size_t at = mneme_sdk_append(message, 0, sizeof(message), mneme_op_name(id));
    mneme_sdk_append(message, at, sizeof(message),
                     " is not resolved: name it in mneme_ops_resolve");
    return MNEME_FAIL(error, MNEME_E_INVALID_ARGUMENT, message);
  }
  return ops->api->call(ctx, ops->handles[id], inputs, n_in, n_attrs > 0 ? attrs : NULL, n_attrs,
                        outputs, n_out, error);
}

/* ---- the ops ------------------------------------------------------------------------------- */
)";

// "matmul" of "matmul/1", "matmul_2" of "matmul/2".
std::string c_name(const ops::OpSchema& op) {
  const std::size_t slash = op.name.find('/');
  const std::string revision = op.name.substr(slash + 1);
  return op.name.substr(0, slash) + (revision == "1" ? "" : '_' + revision);
}

std::string id_name(const ops::OpSchema& op) {
  std::string name = "MNEME_OP_" + c_name(op);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

// A list in lines of at most `width` columns, broken between its parts; `end` follows the last.
std::vector<std::string> list_lines(const std::vector<std::string>& parts, std::size_t width,
                                    const std::string& end) {
  std::vector<std::string> lines = {""};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part = parts[i] + (i + 1 == parts.size() ? end : ",");
    std::string& line = lines.back();
    if (line.empty()) {
      line = part;
    } else if (line.size() + 1 + part.size() <= width) {
      line += ' ' + part;
    } else {
      lines.push_back(part);
    }
  }
  return lines;
}

// The text in lines of a comment.
std::string comment_of(const std::string& text) {
  const auto lines = wrap_text("/* " + text + " */", kColumns, 3);
  return join(lines, "\n") + '\n';
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.e-") == std::string::npos;
}

// True for an attribute that has a value of its own where it is absent: the function always gives
// it. dtype has a name as its default.
bool has_value(const ops::AttrSchema& attr) {
  return attr.is_required || is_number(attr.default_text) ||
         attr.default_text.starts_with("MNEME_");
}

std::string help_of(const ops::AttrSchema& attr) {
  std::string text = attr.name + ": " + attr.help;
  if (attr.is_required || attr.default_text.empty()) return text;
  return text + (has_value(attr) ? "; by default " : "; absent = ") + attr.default_text;
}

// True for an attribute whose number stands for the input where that is absent.
bool stands_for(const ops::OpSchema& op, const ops::AttrSchema& attr, std::size_t input) {
  return op.inputs[input].is_optional && attr.type == ops::AttrType::kReal &&
         (attr.name == "scalar" || attr.name == op.inputs[input].name);
}

bool is_replacement(const ops::OpSchema& op, const ops::AttrSchema& attr) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (stands_for(op, attr, i)) return true;
  }
  return false;
}

// One function of an op.
class Function {
 public:
  // `number`: the attribute that stands for input `replaced`; null = all inputs are tensors.
  Function(const ops::OpSchema& op, const ops::AttrSchema* number, std::size_t replaced)
      : op_(op), number_(number), replaced_(replaced) {}

  [[nodiscard]] std::string text() const {
    std::vector<std::string> parameters = {"const mneme_ops* ops", "mneme_ctx* ctx"};
    for (std::size_t i = 0; i < op_.inputs.size(); ++i) {
      for (std::string& one : input(i)) parameters.push_back(std::move(one));
    }
    for (const ops::AttrSchema& attr : op_.attrs) {
      if (is_replacement(op_, attr)) continue;
      for (std::string& one : parameter(attr)) parameters.push_back(std::move(one));
    }
    for (const ops::OutputSchema& output : op_.outputs) {
      parameters.push_back("mneme_tensor* " + output.name);
    }
    parameters.emplace_back("mneme_error* error");
    const std::vector<std::string> lines = list_lines(parameters, kColumns - 4, ") {");
    return str("static inline mneme_status mneme_op_", c_name(op_), suffix(), "(\n    ",
               join(lines, "\n    "), '\n', body(), "}\n");
  }

 private:
  [[nodiscard]] bool is_number_for(std::size_t input) const {
    return number_ != nullptr && input == replaced_;
  }
  [[nodiscard]] std::string suffix() const {
    if (number_ == nullptr) return "";
    const bool is_last = replaced_ + 1 == op_.inputs.size();
    return is_last ? "_scalar" : "_scalar_" + op_.inputs[replaced_].name;
  }
  [[nodiscard]] std::vector<std::string> input(std::size_t i) const {
    const ops::InputSchema& schema = op_.inputs[i];
    if (is_number_for(i)) return {"double " + schema.name};
    if (!schema.is_list) return {"mneme_tensor " + schema.name};
    return {"const mneme_tensor* " + schema.name, "uint32_t n_" + schema.name};
  }
  static std::vector<std::string> parameter(const ops::AttrSchema& attr) {
    switch (attr.type) {
      case ops::AttrType::kInteger:
        return {(attr.name == "dtype" ? "uint32_t " : "int64_t ") + attr.name};
      case ops::AttrType::kReal:
        return {"double " + attr.name};
      case ops::AttrType::kIntegers:
        return {"const int64_t* " + attr.name, "uint32_t n_" + attr.name};
      case ops::AttrType::kText:
        return {"const char* " + attr.name};
    }
    return {};
  }

  // How the attribute is made; `value` is the parameter's name.
  static std::string made(const ops::AttrSchema& attr, const std::string& value) {
    const std::string name = str("(\"", attr.name, "\", ", value);
    switch (attr.type) {
      case ops::AttrType::kInteger:
        return "mneme_ops_integer" + name + ')';
      case ops::AttrType::kReal:
        return "mneme_ops_real" + name + ')';
      case ops::AttrType::kIntegers:
        return str("mneme_ops_integers", name, ", n_", value, ')');
      case ops::AttrType::kText:
        return "mneme_ops_text" + name + ')';
    }
    return "";
  }
  static std::string is_given(const ops::AttrSchema& attr) {
    if (attr.type == ops::AttrType::kInteger) return attr.name + " != MNEME_OP_ABSENT";
    if (attr.type == ops::AttrType::kReal) return str(attr.name, " == ", attr.name);
    return attr.name + " != NULL";
  }

  [[nodiscard]] std::vector<std::string> attributes() const {
    std::vector<std::string> lines;
    for (const ops::AttrSchema& attr : op_.attrs) {
      if (is_replacement(op_, attr)) {
        if (&attr != number_) continue;
        lines.push_back(str("  attrs[count++] = ", made(attr, op_.inputs[replaced_].name), ";\n"));
      } else if (has_value(attr)) {
        lines.push_back(str("  attrs[count++] = ", made(attr, attr.name), ";\n"));
      } else {
        lines.push_back(str("  if (", is_given(attr),
                            ") {\n    attrs[count++] = ", made(attr, attr.name), ";\n  }\n"));
      }
    }
    return lines;
  }

  [[nodiscard]] std::string body() const {
    const std::vector<std::string> attrs = attributes();
    std::string text, inputs = "NULL, 0";
    const bool is_list = !op_.inputs.empty() && op_.inputs.back().is_list;
    if (is_list) {
      inputs = str(op_.inputs.back().name, ", n_", op_.inputs.back().name);
    } else if (!op_.inputs.empty()) {
      std::vector<std::string> names;
      for (std::size_t i = 0; i < op_.inputs.size(); ++i) {
        names.push_back(is_number_for(i) ? "0" : op_.inputs[i].name);
      }
      text += str("  const mneme_tensor inputs[", names.size(), "] = {", join(names, ", "), "};\n");
      inputs = str("inputs, ", names.size());
    }
    if (!attrs.empty()) {
      text += str("  mneme_attr attrs[", attrs.size(), "];\n  uint32_t count = 0;\n");
    }
    const bool is_single = op_.outputs.size() == 1;
    if (!is_single) {
      text += str("  mneme_tensor outputs[", op_.outputs.size(), "];\n",
                  "  mneme_status status = MNEME_OK;\n");
    }
    text += join(attrs, "");
    const auto call =
        wrap_text(str(is_single ? "return" : "status =", " mneme_ops_call(ops, ctx, ", id_name(op_),
                      ", ", inputs, attrs.empty() ? ", NULL, 0" : ", attrs, count", ", ",
                      is_single ? op_.outputs.front().name : "outputs", ", ", op_.outputs.size(),
                      ", error);"),
                  kColumns - 2, 4);
    text += "  " + join(call, "\n  ") + '\n';
    if (is_single) return text;
    text += "  if (status == MNEME_OK) {\n";
    for (std::size_t i = 0; i < op_.outputs.size(); ++i) {
      text += str("    *", op_.outputs[i].name, " = outputs[", i, "];\n");
    }
    return text + "  }\n  return status;\n";
  }

  const ops::OpSchema& op_;
  const ops::AttrSchema* number_;
  std::size_t replaced_;
};

std::string functions_of(const ops::OpSchema& op) {
  std::string about =
      str(op.name, " [", op.dtypes, op.is_differentiable ? "" : ", no gradient", "] ", op.help);
  for (const ops::AttrSchema& attr : op.attrs) {
    if (!is_replacement(op, attr)) about += str(' ', help_of(attr), '.');
  }
  std::string text = '\n' + comment_of(about) + Function(op, nullptr, 0).text();
  for (std::size_t input = 0; input < op.inputs.size(); ++input) {
    for (const ops::AttrSchema& attr : op.attrs) {
      if (stands_for(op, attr, input)) text += Function(op, &attr, input).text();
    }
  }
  return text;
}

std::string header_text() {
  std::string ids = "typedef enum mneme_op_id {\n", names, functions;
  for (const ops::OpSchema& op : ops::op_schemas()) {
    ids += str("  ", id_name(op), ",\n");
    names += str("      \"", op.name, "\",\n");
    functions += functions_of(op);
  }
  ids += "  MNEME_OP_COUNT\n} mneme_op_id;\n";
  std::string helpers = kHelpers;
  const std::string mark = "{names}";
  helpers.replace(helpers.find(mark), mark.size(), names);
  return kTop + ids + helpers + functions +
         "\n/* clang-format on */\n\n#endif /* MNEME_C_OPS_H_ */\n";
}

TEST(OpsHeader, IsWrittenFromTheSchemas) {
  const std::string header = header_text();
  if (std::getenv("MNEME_WRITE_OPS_HEADER") != nullptr) write_file_atomic(kHeader, header);
  EXPECT_EQ(read_file(kHeader), header)
      << "write mneme/c/ops.h again: see the top of c_ops_header_test.cpp";
}

}  // namespace
}  // namespace mneme::test
