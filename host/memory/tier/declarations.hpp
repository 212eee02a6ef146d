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
  std::vector<std::int64_t> dims;
  std::string group;
  mneme_parameter_decl given{};  // for its numbers; the plugin's texts do not outlive the call
};

struct SlotDecl {
  std::string name;
  bool is_model_scope = false;
  at::ScalarType dtype = at::kFloat;
  bool is_through = false;
  bool is_segment_lifetime = false;
  bool is_counts = false;  // i64 on the CPU, readable by hooks
  std::vector<std::int64_t> dims;
  std::uint32_t revision = 0;
  std::uint32_t start = MNEME_START_ZEROS;
  std::size_t start_parameter = 0;  // its place among the instance's parameters
  double start_value = 0.0;

  [[nodiscard]] bool has_lanes() const { return !dims.empty() && dims.front() == MNEME_LANES; }
};

struct QueueDecl {
  std::string name;
  bool is_model_scope = false;
  RowsKind kind = RowsKind::kHidden;
  std::uint32_t attributes = 0;
  std::uint32_t revision = 0;
  std::int64_t start_rows = 0;
  std::int64_t capacity = 0;
  std::int64_t key_heads = 0;  // of rows of kind kKeyValue
};

struct KernelDecl {
  std::string name;
  mneme_kernel_decl decl;
};

}  // namespace mneme::memory
