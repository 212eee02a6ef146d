#include "tests/ops/op_case.hpp"

#include <cmath>
#include <stdexcept>

#include "host/tensor/torch.hpp"

namespace mneme::memory::test {
namespace {

std::deque<OpCase> build_cases() {
  CaseList list;
  add_unary_cases(list);
  add_binary_cases(list);
  add_selection_cases(list);
  add_product_cases(list);
  add_reduction_cases(list);
  add_softmax_cases(list);
  add_order_cases(list);
  add_index_cases(list);
  add_shape_cases(list);
  add_creation_cases(list);
  add_network_cases(list);
  return list.cases();
}

bool is_value_of(double value, uint32_t dtype) {
  if (dtype == MNEME_BOOL) return value == 0.0 || value == 1.0;
  if (dtype == MNEME_I32 || dtype == MNEME_I64)
    return value == std::floor(value) && std::isfinite(value);
  return true;
}

}  // namespace

std::vector<mneme_attr> abi_attrs(const std::vector<Attr>& attrs) {
  std::vector<mneme_attr> result;
  for (const Attr& attr : attrs) {
    mneme_attr abi = {};
    abi.name = attr.name.c_str();
    abi.type = static_cast<uint32_t>(attr.value.index()) + 1;
    if (const auto* integer = std::get_if<int64_t>(&attr.value)) abi.integer = *integer;
    if (const auto* real = std::get_if<double>(&attr.value)) abi.real = *real;
    if (const auto* text = std::get_if<std::string>(&attr.value)) abi.text = text->c_str();
    if (const auto* integers = std::get_if<Index>(&attr.value)) {
      abi.ints = integers->data();
      abi.count = static_cast<uint32_t>(integers->size());
    }
    result.push_back(abi);
  }
  return result;
}

OpCase& CaseList::add(std::string op, std::string label, Arrays inputs, std::vector<Attr> attrs,
                      Golden golden) {
  cases_.push_back({.op = std::move(op),
                    .label = std::move(label),
                    .inputs = std::move(inputs),
                    .attrs = std::move(attrs),
                    .golden = std::move(golden)});
  return cases_.back();
}

OpCase& CaseList::add1(std::string op, std::string label, Arrays inputs, std::vector<Attr> attrs,
                       std::function<Array(const Arrays&)> golden) {
  return add(std::move(op), std::move(label), std::move(inputs), std::move(attrs),
             [golden = std::move(golden)](const Arrays& in) { return Arrays{golden(in)}; });
}

const std::deque<OpCase>& all_cases() {
  static const std::deque<OpCase> cases = build_cases();
  return cases;
}

const ops::OpSchema& schema_of(const std::string& op) {
  const mneme_op id = ops::find_op(op);
  if (id == 0) throw std::logic_error("a case for an op that does not exist: " + op);
  return ops::op_schemas()[id - 1];
}

const ops::InputSchema& input_schema(const ops::OpSchema& schema, std::size_t input) {
  return schema.inputs[std::min(input, schema.inputs.size() - 1)];
}

bool is_data_input(const ops::OpSchema& schema, std::size_t input) {
  return input_schema(schema, input).dtypes == "data";
}

bool is_typed_by_attribute(const ops::OpSchema& schema) {
  for (std::size_t i = 0; i < schema.inputs.size(); ++i) {
    if (is_data_input(schema, i)) return false;
  }
  return true;
}

at::Tensor tensor_of(const Array& x, uint32_t dtype) {
  if (x.is_absent) return {};
  at::Tensor tensor = torch::empty(x.shape, at::kDouble);
  std::copy(x.data.begin(), x.data.end(), tensor.data_ptr<double>());
  return tensor.to(ops::scalar_type_of(dtype));
}

Array array_of(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().to(at::kDouble).contiguous();
  const double* data = plain.data_ptr<double>();
  return {plain.sizes().vec(), std::vector<double>(data, data + plain.numel())};
}

bool fits(const OpCase& op_case, uint32_t dtype) {
  const ops::OpSchema& schema = schema_of(op_case.op);
  for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
    if (!is_data_input(schema, i)) continue;
    for (const double value : op_case.inputs[i].data) {
      if (!is_value_of(value, dtype)) return false;
    }
  }
  for (const Attr& attr : op_case.attrs) {
    const auto* value = std::get_if<double>(&attr.value);
    if (value != nullptr && !is_value_of(*value, dtype)) return false;
  }
  return true;
}

std::vector<at::Tensor> input_tensors(const OpCase& op_case, uint32_t dtype) {
  const ops::OpSchema& schema = schema_of(op_case.op);
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
    const std::string& dtypes = input_schema(schema, i).dtypes;
    uint32_t code = dtype;
    if (dtypes == "bool") code = MNEME_BOOL;
    if (dtypes == "i64") code = MNEME_I64;
    tensors.push_back(tensor_of(op_case.inputs[i], code));
  }
  return tensors;
}

std::vector<at::Tensor> call(const OpCase& op_case, uint32_t dtype,
                             const std::vector<at::Tensor>& inputs) {
  std::vector<Attr> attrs = op_case.attrs;
  if (is_typed_by_attribute(schema_of(op_case.op))) attrs.push_back(integer("dtype", dtype));
  return ops::run_op(ops::find_op(op_case.op), inputs, abi_attrs(attrs), at::kCPU);
}

Run run_case(const OpCase& op_case, uint32_t dtype) {
  Run run;
  run.inputs = input_tensors(op_case, dtype);
  run.outputs = call(op_case, dtype, run.inputs);
  Arrays held;
  for (const at::Tensor& t : run.inputs) held.push_back(t.defined() ? array_of(t) : absent());
  run.golden = op_case.golden(held);
  return run;
}

std::vector<at::Tensor> call_op(const char* name, const std::vector<at::Tensor>& inputs,
                                const std::vector<Attr>& attrs) {
  return ops::run_op(ops::find_op(name), inputs, abi_attrs(attrs), at::kCPU);
}

}  // namespace mneme::memory::test
