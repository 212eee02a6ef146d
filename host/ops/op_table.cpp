#include "host/ops/op_table.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <stdexcept>

#include "host/base/text.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

std::uint32_t dtype_set(const std::string& text) {
  if (text == "float") return kFloatSet;
  if (text == "integer") return kIntegerSet;
  if (text == "number") return kFloatSet | kIntegerSet;
  if (text == "bool") return kBoolSet;
  if (text == "any") return kFloatSet | kIntegerSet | kBoolSet;
  if (text == "i64") return kI64Set;
  throw std::logic_error("op table: no dtype class \"" + text + "\"");
}

[[noreturn]] void malformed(std::string_view signature) {
  throw std::logic_error(str("op table: ", signature));
}

// What stands before `end`; the rest stays in `text`.
std::string_view take_until(std::string_view& text, std::string_view end) {
  const std::size_t place = text.find(end);
  if (place == text.npos) malformed(text);
  const std::string_view out = text.substr(0, place);
  text.remove_prefix(place + end.size());
  return out;
}

// f(word, its dtype, or `other`) for "word, word:dtype".
template <typename F>
void for_each_word(std::string_view list, const char* other, F f) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(", "), list.size());
    const std::string_view word = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 2, list.size()));
    const std::size_t colon = word.find(':');
    f(std::string(word.substr(0, colon)),
      std::string(colon == word.npos ? other : word.substr(colon + 1)));
  }
}

OpSchema parse_signature(std::string_view text) {
  OpSchema out;
  out.signature = text;
  out.name = take_until(text, " (");
  for_each_word(take_until(text, ") -> "), "data", [&](std::string name, std::string dtype) {
    const bool is_optional = name.back() == '?', is_list = name.back() == '*';
    if (is_optional || is_list) name.pop_back();
    out.inputs.push_back({std::move(name), std::move(dtype), is_optional, is_list});
  });
  for_each_word(take_until(text, "  ["), "data", [&](std::string name, std::string dtype) {
    out.outputs.push_back({std::move(name), dtype == "dtype" ? "attribute" : std::move(dtype)});
  });
  std::string_view data = take_until(text, "]");
  out.is_differentiable = !data.ends_with(", no gradient");
  out.dtypes = data.substr(0, data.find(','));
  return out;
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

void add_op(OpList& list, std::string_view signature, std::string help, RunFunction run,
            std::vector<AttrSchema> attrs) {
  Op op;
  op.run = run;
  op.schema = parse_signature(signature);
  op.schema.help = std::move(help);
  op.schema.attrs = std::move(attrs);
  op.dtypes = dtype_set(op.schema.dtypes);
  const std::vector<InputSchema>& inputs = op.schema.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    op.input_dtypes.push_back(inputs[i].dtypes == "data" ? 0 : dtype_set(inputs[i].dtypes));
    if (!inputs[i].is_optional) op.required_inputs = i + 1;
    op.has_list = inputs[i].is_list;
    if (inputs[i].is_list && i + 1 != inputs.size()) malformed(signature);
  }
  if (op.schema.attrs.size() > kMaxAttrs) malformed(signature);
  list.push_back(std::move(op));
}

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

namespace {

bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// LibTorch's own message, without its stack of C++ frames.
[[noreturn]] void rethrow_libtorch(const OpCall& call, const c10::Error& error) {
  const std::string cause = error.what_without_backtrace();
  // The CPU allocator throws a plain c10::Error.
  const bool is_memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                         mentions(cause, "DefaultCPUAllocator");
  if (is_memory) call.fail(MNEME_E_OUT_OF_MEMORY, "out of memory: " + cause);
  if (dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr) {
    call.fail(MNEME_E_CUDA, "the accelerator failed: " + cause);
  }
  call.fail(MNEME_E_INVALID_ARGUMENT, "LibTorch refused the call: " + cause);
}

void run_checked(const Op& op, OpCall& call) {
  try {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    op.run(call);
  } catch (const OpError&) {
    throw;
  } catch (const c10::Error& error) {
    rethrow_libtorch(call, error);
  } catch (const std::bad_alloc&) {
    call.fail(MNEME_E_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    call.fail(MNEME_E_INTERNAL, str("LibTorch failed: ", error.what()));
  }
}

const Op& op_at(mneme_op op) {
  const OpList& table = op_table();
  if (op == 0 || op > table.size()) {
    throw OpError(MNEME_E_INVALID_ARGUMENT,
                  {.failed = "no such op handle",
                   .expected = str("1 .. ", table.size()),
                   .got = str(op),
                   .hint = "use a handle that resolve gave for a name of `mneme abi ops`"});
  }
  return table[op - 1];
}

}  // namespace

const std::vector<OpSchema>& op_schemas() {
  static const std::vector<OpSchema> schemas = [] {
    std::vector<OpSchema> all;
    for (const Op& op : op_table()) all.push_back(op.schema);
    return all;
  }();
  return schemas;
}

mneme_op find_op(std::string_view name) {
  const OpList& table = op_table();
  const auto found =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const Op& op, std::string_view n) { return op.schema.name < n; });
  if (found == table.end() || found->schema.name != name) return 0;
  return static_cast<mneme_op>(found - table.begin()) + 1;
}

std::string nearest_op(std::string_view name) {
  std::vector<std::string> names;
  for (const Op& op : op_table()) names.push_back(op.schema.name);
  return nearest(name, names);
}

bool op_supports(mneme_op op, std::uint32_t dtype, std::uint32_t device_type) {
  const OpList& table = op_table();
  if (op == 0 || op > table.size() || dtype == 0 || dtype > MNEME_BOOL) return false;
  if (device_type != MNEME_DEVICE_CPU && device_type != MNEME_DEVICE_CUDA) return false;
  return (table[op - 1].dtypes >> dtype & 1U) != 0;
}

void run_op(mneme_op op, std::span<const at::Tensor> inputs, std::span<const mneme_attr> attrs,
            at::Device device, std::span<at::Tensor> outputs) {
  const Op& entry = op_at(op);
  OpCall call(entry, inputs, attrs, device, outputs);
  call.check();
  run_checked(entry, call);
  for (const at::Tensor& output : outputs) {
    if (output.dim() > MNEME_MAX_RANK) {
      call.fail(MNEME_E_SHAPE, "the result has too many dimensions",
                str("at most ", MNEME_MAX_RANK), shape_text(output.sizes()));
    }
  }
}

std::vector<at::Tensor> run_op(mneme_op op, std::span<const at::Tensor> inputs,
                               std::span<const mneme_attr> attrs, at::Device device) {
  std::vector<at::Tensor> outputs(op_at(op).schema.outputs.size());
  run_op(op, inputs, attrs, device, outputs);
  return outputs;
}

namespace {

const char* type_text(AttrType type) {
  constexpr std::array kTypes = {"?", "integer", "real", "integers", "text"};  // by MNEME_ATTR_*
  return kTypes.at(static_cast<std::size_t>(type));
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

void print_text(std::ostream& out, const OpSchema& op) {
  out << op.signature << "\n    " << op.help << '\n';
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

at::ScalarType scalar_type_of(std::uint32_t dtype) {
  const std::optional<at::ScalarType> type = tensor::scalar_type_of(dtype);
  if (type) return *type;
  throw OpError(MNEME_E_DTYPE, {.failed = "unknown dtype code",
                                .expected = "MNEME_F32 (1) .. MNEME_BOOL (7)",
                                .got = str(dtype)});
}

}  // namespace mneme::ops
