// What an instance declares in `create`: parameters, slots, queues and kernels, as the host keeps
// them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "host/memory/interface/rows.hpp"
#include "mneme/plugin.h"

namespace mneme::memory {

struct ParameterDecl {
  std::string name;
  bool is_model_scope = false;
  std::vector<int64_t> dims;
  uint32_t init = MNEME_PARAMETER_ZEROS;
  double value = 0.0, mean = 0.0, deviation = 0.0, low = 0.0, high = 0.0;
  double gain = 0.0;   // 0 = 1
  int64_t fan_in = 0;  // 0 = the product of all dims but the first
  double lr_factor = 1.0;
  std::string group;
};

struct SlotDecl {
  std::string name;
  bool is_model_scope = false;
  at::ScalarType dtype = at::kFloat;
  bool is_through = false;
  bool is_segment_lifetime = false;
  bool is_counts = false;  // i64 on the CPU, readable by hooks
  std::vector<int64_t> dims;
  uint32_t revision = 0;
  uint32_t start = MNEME_START_ZEROS;
  std::size_t start_parameter = 0;  // its place among the instance's parameters
  double start_value = 0.0;

  bool has_lanes() const { return !dims.empty() && dims.front() == MNEME_LANES; }
};

struct QueueDecl {
  std::string name;
  bool is_model_scope = false;
  RowsKind kind = RowsKind::kHidden;
  uint32_t attributes = 0;
  uint32_t revision = 0;
  int64_t start_rows = 0;
  int64_t capacity = 0;
  int64_t key_heads = 0;  // of rows of kind kKeyValue
};

struct KernelDecl {
  std::string name;
  mneme_kernel_decl decl;
};

}  // namespace mneme::memory
