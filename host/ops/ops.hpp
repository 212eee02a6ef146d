// The op set behind ABI group mneme.op/1, as data: every schema, and how each op is run by
// LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/error.hpp"
#include "mneme/op.h"

namespace mneme::ops {

enum class AttrType : std::uint32_t {
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
  std::string signature;  // as `mneme abi ops` prints it: name, inputs, outputs and class
  std::string name;       // "matmul/1"
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
bool op_supports(mneme_op op, std::uint32_t dtype, std::uint32_t device_type);

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

// Prints every op's schema: a text table, or one JSON array of objects {name, inputs, outputs,
// attributes, dtypes, differentiable, help} and a line end.
void print_ops(std::ostream& out, bool json);

}  // namespace mneme::ops
