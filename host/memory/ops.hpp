// The op set behind ABI group mneme.op/1, as data: every schema, and how each op is run by LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/op.h"

namespace mneme::memory {

enum class AttrType : uint32_t { kInteger = MNEME_ATTR_INT, kReal = MNEME_ATTR_REAL, kIntegers = MNEME_ATTR_INTS, kText = MNEME_ATTR_TEXT };

struct AttrSchema {
  std::string name;
  AttrType type;
  bool is_required = false;
  std::string default_text;  // as `mneme abi ops` prints it
  std::string help;
};

// One op of one revision.
struct OpSchema {
  std::string name;                  // "matmul/1"
  std::vector<std::string> inputs;   // names; a trailing '?' marks an optional one, a trailing '*' a list (last input only)
  std::vector<std::string> outputs;
  std::vector<AttrSchema> attrs;
  std::string dtypes;                // "float", "any", "bool", "integer"
  bool is_differentiable = true;
  std::string help;                  // meaning, broadcasting and dtype rule in one or two sentences
};

// All ops, ordered by name; an op's id for mneme_op is its index + 1.
const std::vector<OpSchema>& op_schemas();
// 0 when there is no such op.
mneme_op find_op(std::string_view name);
bool op_supports(mneme_op op, uint32_t dtype, uint32_t device_type);
// Runs an op under the caller's grad mode with autocast off. Undefined tensors stand for absent optional inputs. Errors: Error(kPlugin) with op, shapes and the cause,
// thrown before LibTorch is called wherever the contract can be checked.
std::vector<at::Tensor> run_op(mneme_op op, std::span<const at::Tensor> inputs, std::span<const mneme_attr> attrs);

// dtype codes of the ABI.
at::ScalarType scalar_type_of(uint32_t dtype);       // Error(kPlugin) for an unknown code
uint32_t dtype_code_of(at::ScalarType type);         // 0 when the ABI has no code for it

}  // namespace mneme::memory
