// The table of ops: how a family of ops adds its entries.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/error.hpp"
#include "host/ops/op_call.hpp"
#include "mneme/op.h"

namespace mneme::ops {

// The op set behind ABI group mneme.op/1, as data: every schema, and how each op is run by
// LibTorch.

enum class AttrType : uint32_t {
  kInteger = MNEME_ATTR_INT,
  kReal = MNEME_ATTR_REAL,
  kIntegers = MNEME_ATTR_INTS,
  kText = MNEME_ATTR_TEXT,
};

// One attribute. Absent = the default; where default_text is "" the help says what absence means.
struct AttrSchema {
  std::string name;
  AttrType type = AttrType::kInteger;
  bool is_required = false;
  std::string default_text;  // as `mneme abi ops` prints it
  std::string help;
};

// One input. Inputs with dtypes "data" share one dtype, which is of the op's class
// OpSchema::dtypes.
struct InputSchema {
  std::string name;
  std::string dtypes;        // "data", "bool" (masks) or "i64" (indices)
  bool is_optional = false;  // the handle may be 0, and left out at the end
  bool is_list = false;      // one or more tensors; the last input only
};

struct OutputSchema {
  std::string name;
  std::string dtype;  // "data", "bool", "i64", or "attribute" (the attribute dtype)
};

// One op of one revision.
struct OpSchema {
  std::string name;  // "matmul/1"
  std::vector<InputSchema> inputs;
  std::vector<OutputSchema> outputs;
  std::vector<AttrSchema> attrs;
  // The class of the data inputs' dtype, or of the attribute dtype where there is no data input:
  // "float" (f64, f32, bf16, f16), "integer" (i32, i64), "number" (both), "bool", "any".
  std::string dtypes;
  bool is_differentiable = true;
  std::string help;  // meaning, broadcasting and edge cases, which the golden values hold to
};

// An op's contract was broken, or LibTorch failed inside it. The code is the status that the plugin
// gets.
class OpError : public Error {
 public:
  OpError(mneme_status status, const ErrorText& text)
      : Error(ErrorKind::kPlugin, text), status_(status) {}
  [[nodiscard]] mneme_status status() const noexcept { return status_; }

 private:
  mneme_status status_;
};

// All ops, ordered by name; an op's id for mneme_op is its index + 1.
const std::vector<OpSchema>& op_schemas();
// The op called `name` ("matmul/1"); 0 when there is none.
mneme_op find_op(std::string_view name);
// The name nearest to `name`, for a message about a missing op; "" when none is near.
std::string nearest_op(std::string_view name);
// Whether `op` works for data of `dtype` (MNEME_F32 ...) on `device_type` (MNEME_DEVICE_CPU ...).
// False for an unknown op, dtype or device.
bool op_supports(mneme_op op, uint32_t dtype, uint32_t device_type);

// Runs an op under the caller's grad mode with autocast off.
//   inputs   in the schema's order; undefined tensors stand for absent optional inputs, and absent
//            ones at the end may be left out. All on one device.
//   attrs    by name; strings and arrays are only read during the call.
//   device   where an op without tensor inputs creates its result.
//   outputs  exactly as many as the schema has; filled in order. A result may share memory with an
//            input (slice, reshape, ...); nothing is ever written in place.
// Errors: OpError with the op, its inputs' dtypes and shapes, its attributes and the cause, thrown
// before LibTorch is called wherever the contract can be checked; outputs are then unspecified.
// Threads: any. Allocates nothing itself on the success path.
void run_op(mneme_op op, std::span<const at::Tensor> inputs, std::span<const mneme_attr> attrs,
            at::Device device, std::span<at::Tensor> outputs);
// The same with the outputs in a vector.
std::vector<at::Tensor> run_op(mneme_op op, std::span<const at::Tensor> inputs,
                               std::span<const mneme_attr> attrs, at::Device device);

// dtype codes of the ABI.
at::ScalarType scalar_type_of(uint32_t dtype);         // Error(kPlugin) for an unknown code
uint32_t dtype_code_of(at::ScalarType type) noexcept;  // 0 when the ABI has no code for it
const char* dtype_name(uint32_t dtype) noexcept;       // "f32" ...; "?" for an unknown code

// Sets of dtypes as bits 1 << code.
inline constexpr uint32_t kFloatSet =
    1U << MNEME_F32 | 1U << MNEME_BF16 | 1U << MNEME_F16 | 1U << MNEME_F64;
inline constexpr uint32_t kIntegerSet = 1U << MNEME_I32 | 1U << MNEME_I64;
inline constexpr uint32_t kBoolSet = 1U << MNEME_BOOL;
inline constexpr uint32_t kI64Set = 1U << MNEME_I64;

using RunFunction = void (*)(OpCall&);

// An op with its schema in a form that a call can check without parsing text.
struct Op {
  OpSchema schema;
  RunFunction run = nullptr;
  uint32_t dtypes = 0;                 // the class as a set
  std::vector<uint32_t> input_dtypes;  // per input; 0 = data
  std::size_t required_inputs = 0;     // up to the last one that is not optional
  bool has_list = false;
};
using OpList = std::vector<Op>;

// Adds an op. A malformed schema is a programming error and throws std::logic_error.
void add_op(OpList& list, OpSchema schema, RunFunction run);

// Short forms for schemas.
InputSchema data_input(const char* name);
InputSchema optional_input(const char* name);
InputSchema list_input(const char* name);
InputSchema mask_input(const char* name);
InputSchema index_input(const char* name);
OutputSchema data_output(const char* name = "y");
OutputSchema mask_output(const char* name = "y");
OutputSchema index_output(const char* name = "y");
OutputSchema typed_output(const char* name = "y");
AttrSchema required_attr(const char* name, AttrType type, const char* help);
AttrSchema optional_attr(const char* name, AttrType type, const char* default_text,
                         const char* help);

// The families.
void add_unary_ops(OpList& list);
void add_activation_ops(OpList& list);
void add_binary_ops(OpList& list);
void add_selection_ops(OpList& list);
void add_product_ops(OpList& list);
void add_reduction_ops(OpList& list);
void add_softmax_ops(OpList& list);
void add_order_ops(OpList& list);
void add_index_ops(OpList& list);
void add_shape_ops(OpList& list);
void add_join_ops(OpList& list);
void add_creation_ops(OpList& list);
void add_network_ops(OpList& list);

// All ops by name; built once.
const OpList& op_table();

// Prints the op set as text or JSON.

// Prints every op's schema: a text table, or one JSON array of objects {name, inputs, outputs,
// attributes, dtypes, differentiable, help} and a line end.
void print_ops(std::ostream& out, bool json);

// Scans a result in CPU memory for special values: when there are none, this costs a few
// nanoseconds and saves the kernels that treat them. On other devices the values are not read.

// False when `y`, a contiguous float CPU tensor, has no NaN at place 0 of dimension `dim`; true
// when it has one or cannot be examined.
bool may_have_nan_rows(const at::Tensor& y, int64_t dim);
// The same for infinite elements anywhere.
bool may_have_infinities(const at::Tensor& y);

}  // namespace mneme::ops
