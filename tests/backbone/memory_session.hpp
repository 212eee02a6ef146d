// A model with memories around it, run segment by segment (host/validate/session.hpp), with the
// host's own function groups.
#pragma once

#include "host/memory/abi/groups.hpp"
#include "host/validate/session.hpp"

namespace mneme::backbone {

using validate::gradient_error;
using validate::kShortStep;
using validate::memory_of;
using validate::SegmentHow;
using validate::SegmentResult;

struct MemorySession : validate::Session {
  MemorySession(const config::ModelConfig& config, const ModelSetup& setup,
                const config::MemoryConfig& memory)
      : validate::Session(config, setup, memory, memory::find_group) {}
};

}  // namespace mneme::backbone
