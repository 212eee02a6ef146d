// The table of ops, and how the files of this folder add their ops to it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/error.hpp"
#include "host/ops/op_call.hpp"
#include "host/ops/ops.hpp"
#include "mneme/op.h"

namespace mneme::ops {

// The type of a dtype code of the ABI. Errors: OpError for an unknown code.
at::ScalarType scalar_type_of(std::uint32_t dtype);

// Sets of dtypes as bits 1 << code.
inline constexpr std::uint32_t kFloatSet =
    1U << MNEME_F32 | 1U << MNEME_BF16 | 1U << MNEME_F16 | 1U << MNEME_F64;
inline constexpr std::uint32_t kIntegerSet = 1U << MNEME_I32 | 1U << MNEME_I64;
inline constexpr std::uint32_t kBoolSet = 1U << MNEME_BOOL;
inline constexpr std::uint32_t kI64Set = 1U << MNEME_I64;

using RunFunction = void (*)(OpCall&);

// An op with its schema in a form that a call can check without parsing text.
struct Op {
  OpSchema schema;
  RunFunction run = nullptr;
  std::uint32_t dtypes = 0;                 // the class as a set
  std::vector<std::uint32_t> input_dtypes;  // per input; 0 = data
  std::size_t required_inputs = 0;          // up to the last one that is not optional
  bool has_list = false;
};
using OpList = std::vector<Op>;

// Adds an op, whose signature is as `mneme abi ops` prints it: "name (inputs) -> outputs  [class]",
// or "[class, no gradient]". An input is "x" (of the data's dtype), "x?" (may be absent), "x*" (one
// or more) or "x:bool", "x:i64"; an output "y", "y:bool", "y:i64" or "y:dtype" (the attribute
// dtype). A malformed one is a programming error and throws std::logic_error.
void add_op(OpList& list, std::string_view signature, std::string help, RunFunction run,
            std::vector<AttrSchema> attrs = {});
AttrSchema required_attr(const char* name, AttrType type, const char* help);
AttrSchema optional_attr(const char* name, AttrType type, const char* default_text,
                         const char* help);

// The ops of each file.
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

}  // namespace mneme::ops
