#include "host/ops/op_call.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include "host/ops/op_table.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

std::string attr_value_text(const mneme_attr& attr) {
  switch (attr.type) {
    case MNEME_ATTR_INT:
      return str(attr.integer);
    case MNEME_ATTR_REAL:
      return str(attr.real);
    case MNEME_ATTR_INTS:
      return shape_text({attr.ints, attr.count});
    default:
      return str('"', attr.text, '"');
  }
}

std::string dtypes_text(std::uint32_t set) {
  std::vector<std::string> names;
  for (std::uint32_t code = MNEME_F32; code <= MNEME_BOOL; ++code) {
    if ((set >> code & 1U) != 0) names.emplace_back(tensor::dtype_code_name(code));
  }
  return join(names, ", ");
}

// Dimension extents i places from the end, 1 in front of the first.
std::int64_t extent_from_end(at::IntArrayRef shape, std::size_t i) {
  return i < shape.size() ? shape[shape.size() - 1 - i] : 1;
}

}  // namespace

std::string shape_text(at::IntArrayRef shape) { return list_text(shape.vec()); }

OpCall::OpCall(const Op& op, std::span<const at::Tensor> inputs, std::span<const mneme_attr> attrs,
               at::Device device, std::span<at::Tensor> outputs)
    : op_(op), in_(inputs), given_(attrs), out_(outputs), device_(device) {}

void OpCall::check() {
  parse_attrs();
  check_counts();
  check_tensors();
}

const at::Tensor& OpCall::none() {
  static const at::Tensor absent;
  return absent;
}

void OpCall::check_counts() const {
  const std::size_t most = op_.schema.inputs.size();
  if (in_.size() < op_.required_inputs || (in_.size() > most && !op_.has_list)) {
    std::string expected = str(op_.required_inputs);
    if (op_.has_list) {
      expected = "at least " + expected;
    } else if (op_.required_inputs != most) {
      expected += str(" to ", most);
    }
    fail(MNEME_E_INVALID_ARGUMENT, "wrong number of inputs", expected, str(in_.size()));
  }
  if (out_.size() != op_.schema.outputs.size()) {
    fail(MNEME_E_INVALID_ARGUMENT, "wrong number of outputs", str(op_.schema.outputs.size()),
         str(out_.size()));
  }
}

void OpCall::check_tensors() const {
  std::uint32_t data_dtype = 0;
  const at::Tensor* first = nullptr;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    const std::size_t s = std::min(i, op_.input_dtypes.size() - 1);
    if (!in_[i].defined()) {
      if (op_.schema.inputs[s].is_optional) continue;
      fail(MNEME_E_INVALID_ARGUMENT, str("input \"", input_name(i), "\" is missing"), "a tensor",
           "no tensor (handle 0)");
    }
    check_dtype(i, op_.input_dtypes[s], data_dtype);
    if (first == nullptr) {
      first = &in_[i];
    } else if (in_[i].device() != first->device()) {
      fail(MNEME_E_DEVICE, "inputs on different devices", first->device().str(),
           str(in_[i].device().str(), " for input \"", input_name(i), '"'));
    }
  }
}

void OpCall::check_dtype(std::size_t index, std::uint32_t allowed,
                         std::uint32_t& data_dtype) const {
  const std::uint32_t code = tensor::dtype_code_of(in_[index].scalar_type());
  const bool is_data = allowed == 0;
  const std::uint32_t set = is_data ? op_.dtypes : allowed;
  if ((set >> code & 1U) == 0 || code == 0) {
    const bool is_integer_to_float = set == kFloatSet && code != 0;
    fail(MNEME_E_DTYPE, str("input \"", input_name(index), "\" has the wrong dtype"),
         dtypes_text(set), tensor::dtype_text(in_[index].scalar_type()),
         is_integer_to_float ? "convert it with cast/1" : "");
  }
  if (!is_data) return;
  if (data_dtype != 0 && code != data_dtype) {
    fail(MNEME_E_DTYPE, "inputs of mixed dtypes", tensor::dtype_code_name(data_dtype),
         str(tensor::dtype_code_name(code), " for input \"", input_name(index), '"'),
         "convert one with cast/1");
  }
  data_dtype = code;
}

bool OpCall::flag(std::size_t attr, bool absent) const {
  const std::int64_t value = integer(attr, absent ? 1 : 0);
  if (value != 0 && value != 1) fail_attr(attr, "0 or 1", str(value));
  return value == 1;
}

std::int64_t OpCall::at_least(std::size_t attr, std::int64_t least, std::int64_t absent) const {
  const std::int64_t value = integer(attr, absent);
  if (value < least) fail_attr(attr, str("at least ", least), str(value));
  return value;
}

at::ScalarType OpCall::dtype(std::size_t attr, std::uint32_t absent) const {
  const std::int64_t code = integer(attr, static_cast<std::int64_t>(absent));
  if (code < MNEME_F32 || code > MNEME_BOOL || (op_.dtypes >> code & 1U) == 0) {
    const bool is_known = code >= MNEME_F32 && code <= MNEME_BOOL;
    fail(MNEME_E_DTYPE, str("attribute \"", attr_name(attr), "\" is no dtype of this op"),
         dtypes_text(op_.dtypes),
         is_known ? tensor::dtype_code_name(static_cast<std::uint32_t>(code)) : str("code ", code));
  }
  return scalar_type_of(static_cast<std::uint32_t>(code));
}

at::Scalar OpCall::scalar(std::size_t attr, at::ScalarType type, double absent) const {
  const double value = real(attr, absent);
  if (at::isFloatingType(type)) return value;
  if (type == at::kBool) {
    if (value != 0.0 && value != 1.0) fail_attr(attr, "0 or 1 for a bool tensor", str(value));
    return value == 1.0;
  }
  const double limit = type == at::kInt ? 0x1p31 : 0x1p63;
  if (value != std::floor(value) || value < -limit || value >= limit) {
    fail_attr(attr, str("an integer in the range of ", tensor::dtype_text(type)), str(value));
  }
  return static_cast<std::int64_t>(value);
}

std::int64_t OpCall::dim(std::size_t attr, std::int64_t rank, std::int64_t absent) const {
  return place(attr, rank, integer(attr, absent));
}

std::int64_t OpCall::place(std::size_t attr, std::int64_t rank, std::int64_t given) const {
  if (given < -rank || given >= rank) {
    fail_attr(attr, rank == 0 ? "a tensor with dimensions" : str(-rank, " .. ", rank - 1),
              str(given));
  }
  return given < 0 ? given + rank : given;
}

at::DimVector OpCall::dims(std::size_t attr, std::int64_t rank) const {
  at::DimVector result;
  if (!has(attr)) return result;
  const at::IntArrayRef given = integers(attr);
  if (given.empty()) {
    fail_attr(attr, "at least one dimension (leave the attribute out to mean all)", "[]");
  }
  std::uint32_t seen = 0;
  for (const std::int64_t value : given) {
    const std::int64_t dim = place(attr, rank, value);
    if ((seen >> dim & 1U) != 0) fail_attr(attr, "distinct dimensions", shape_text(given));
    seen |= 1U << dim;
    result.push_back(dim);
  }
  return result;
}

void OpCall::check_broadcast(std::size_t left, std::size_t right) const {
  const at::IntArrayRef a = in(left).sizes();
  const at::IntArrayRef b = in(right).sizes();
  if (a == b) return;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::int64_t m = extent_from_end(a, i);
    const std::int64_t n = extent_from_end(b, i);
    if (m != n && m != 1 && n != 1) {
      fail_shape("shapes that broadcast (extents equal or 1, from the last dimension)",
                 str(shape_text(a), " and ", shape_text(b)));
    }
  }
}

void OpCall::check_broadcasts_to(std::size_t small, std::size_t large) const {
  const at::IntArrayRef a = in(small).sizes();
  const at::IntArrayRef b = in(large).sizes();
  bool fits = a.size() <= b.size();
  for (std::size_t i = 0; fits && i < a.size(); ++i) {
    const std::int64_t m = extent_from_end(a, i);
    fits = m == 1 || m == extent_from_end(b, i);
  }
  if (!fits) {
    fail_shape(str("\"", input_name(small), "\" broadcast to the shape of \"", input_name(large),
                   "\", ", shape_text(b)),
               shape_text(a));
  }
}

void OpCall::check_rank(std::size_t input, std::int64_t rank) const {
  if (in(input).dim() != rank) {
    fail_shape(str("\"", input_name(input), "\" with ", rank, " dimensions"),
               shape_text(in(input).sizes()));
  }
}

void OpCall::check_rank_at_least(std::size_t input, std::int64_t rank) const {
  if (in(input).dim() < rank) {
    fail_shape(str("\"", input_name(input), "\" with at least ", rank, " dimensions"),
               shape_text(in(input).sizes()));
  }
}

void OpCall::fail(mneme_status status, const std::string& failed, const std::string& expected,
                  const std::string& got, const std::string& hint) const {
  throw OpError(status, {.where = "op " + describe(),
                         .failed = failed,
                         .expected = expected,
                         .got = got,
                         .hint = hint});
}

void OpCall::fail_shape(const std::string& expected, const std::string& got,
                        const std::string& hint) const {
  fail(MNEME_E_SHAPE, "wrong shape", expected, got, hint);
}

void OpCall::fail_attr(std::size_t attr, const std::string& expected,
                       const std::string& got) const {
  fail(MNEME_E_INVALID_ARGUMENT, str("attribute \"", attr_name(attr), "\" is out of range"),
       expected, got);
}

std::string OpCall::describe() const {
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    const at::Tensor& t = in_[i];
    inputs.push_back(t.defined() ? str(input_name(i), ' ', tensor::dtype_text(t.scalar_type()), ' ',
                                       shape_text(t.sizes()))
                                 : input_name(i) + " absent");
  }
  std::vector<std::string> attrs;
  for (std::size_t i = 0; i < op_.schema.attrs.size(); ++i) {
    if (has(i)) attrs.push_back(attr_name(i) + "=" + attr_value_text(*attrs_[i]));
  }
  const char* separator = inputs.empty() || attrs.empty() ? "" : "; ";
  return str(op_.schema.name, '(', join(inputs, ", "), separator, join(attrs, ", "), ')');
}

std::string OpCall::input_name(std::size_t index) const {
  const std::vector<InputSchema>& inputs = op_.schema.inputs;
  if (index < inputs.size() && !inputs[index].is_list) return inputs[index].name;
  if (!op_.has_list) return str("input ", index);
  return str(inputs.back().name, '[', index + 1 - inputs.size(), ']');
}

const std::string& OpCall::attr_name(std::size_t attr) const { return op_.schema.attrs[attr].name; }

// --- The attributes of a call, put to their places in the schema ---

namespace {

// By MNEME_ATTR_*.
constexpr std::array kAttrTypes = {"an unknown attribute type", "an integer (MNEME_ATTR_INT)",
                                   "a real (MNEME_ATTR_REAL)", "integers (MNEME_ATTR_INTS)",
                                   "text (MNEME_ATTR_TEXT)"};

const char* type_name(std::uint32_t type) {
  return kAttrTypes[type < kAttrTypes.size() ? type : 0];
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
           type_name(static_cast<std::uint32_t>(op_.schema.attrs[i].type)));
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
  const auto expected = static_cast<std::uint32_t>(schemas[i].type);
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
