// A saved state in parts, and the names under which files hold them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "host/memory/interface/rows.hpp"
#include "host/memory/state/stack_state.hpp"

namespace mneme::memory {

// A slot, or a queue's blocks by number, oldest first. Of Rows only the tensors count.
struct StateEntry {
  at::Tensor slot;
  std::map<std::int64_t, RowsBlock> blocks;
};

struct StateParts {
  RunCounters counters;  // without the phase
  // By the tier's name, "<index>.<plugin id>": its state_signature, and its trained options as TOML.
  std::map<std::string, std::string> signatures = {}, options = {};
  // By "<tier>.<layer, or model>.<slot, queue or waiting>".
  std::map<std::string, StateEntry> entries = {};
};

// "<queue>.<block>.<field>", and "<queue>.<block>.projection.<layer>.<k or v>".
std::string field_name(const std::string& queue, std::int64_t block, const RowField& field);
std::string projection_name(const std::string& queue, std::int64_t block, std::int64_t layer,
                            const char* part);

NamedState to_named(const StateParts& state);
// Names that belong to no tier become slots. Errors: Error(kUsage) for counters that are absent or
// no counts of the lanes.
StateParts from_named(const NamedState& saved);

}  // namespace mneme::memory
