// Cases that define the ops: inputs, attributes, and the values that plain loops give. The golden
// test runs each in every dtype that can hold its inputs, the gradient test in f64.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "host/ops/op_table.hpp"
#include "tests/ops/naive_array.hpp"

namespace mneme::memory::test {

struct Attr {
  std::string name;
  std::variant<int64_t, double, Index, std::string> value;
};
inline Attr integer(const char* name, int64_t value) { return {name, value}; }
inline Attr real(const char* name, double value) { return {name, value}; }
inline Attr integers(const char* name, Index value) { return {name, std::move(value)}; }
inline Attr text(const char* name, const char* value) { return {name, std::string(value)}; }

// The ABI's view of attributes; `attrs` has to outlive it.
std::vector<mneme_attr> abi_attrs(const std::vector<Attr>& attrs);

using Arrays = std::vector<Array>;
using Golden = std::function<Arrays(const Arrays&)>;

struct OpCase {
  std::string op;
  std::string label;
  Arrays inputs;  // in the schema's order
  std::vector<Attr> attrs;
  Golden golden;  // from the inputs as the dtype holds them
  // False where the op is not differentiable at the inputs: kinks, ties, infinities.
  bool has_gradient = true;
  // Allowed error in units of the dtype's tolerance, for sums of many or large terms.
  double slack = 1.0;
};

class CaseList {
 public:
  OpCase& add(std::string op, std::string label, Arrays inputs, std::vector<Attr> attrs,
              Golden golden);
  // A case with one output.
  OpCase& add1(std::string op, std::string label, Arrays inputs, std::vector<Attr> attrs,
               std::function<Array(const Arrays&)> golden);
  const std::deque<OpCase>& cases() const { return cases_; }

 private:
  std::deque<OpCase> cases_;
};

// Every case of every op.
const std::deque<OpCase>& all_cases();

void add_unary_cases(CaseList& list);
void add_binary_cases(CaseList& list);
void add_selection_cases(CaseList& list);
void add_product_cases(CaseList& list);
void add_reduction_cases(CaseList& list);
void add_softmax_cases(CaseList& list);
void add_order_cases(CaseList& list);
void add_index_cases(CaseList& list);
void add_shape_cases(CaseList& list);
void add_creation_cases(CaseList& list);
void add_network_cases(CaseList& list);

// The schema of an op that has to exist.
const ops::OpSchema& schema_of(const std::string& op);
bool is_data_input(const ops::OpSchema& schema, std::size_t input);
const ops::InputSchema& input_schema(const ops::OpSchema& schema, std::size_t input);
// Whether the op's dtype is chosen by its attribute `dtype` alone.
bool is_typed_by_attribute(const ops::OpSchema& schema);

// `x` as a tensor of dtype (MNEME_F32 ...); undefined when absent.
at::Tensor tensor_of(const Array& x, uint32_t dtype);
Array array_of(const at::Tensor& tensor);

// One call in one dtype.
struct Run {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  Arrays golden;
};
// Whether every data input (and `scalar`-like attribute) of the case is a value of the dtype.
bool fits(const OpCase& op_case, uint32_t dtype);
std::vector<at::Tensor> input_tensors(const OpCase& op_case, uint32_t dtype);
std::vector<at::Tensor> call(const OpCase& op_case, uint32_t dtype,
                             const std::vector<at::Tensor>& inputs);
Run run_case(const OpCase& op_case, uint32_t dtype);

// A direct call for tests of single properties.
std::vector<at::Tensor> call_op(const char* name, const std::vector<at::Tensor>& inputs,
                                const std::vector<Attr>& attrs = {});

}  // namespace mneme::memory::test
