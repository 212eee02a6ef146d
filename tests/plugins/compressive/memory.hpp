// Compressive memories in a small backbone: what the tests of the tier run.
#pragma once

#include "tests/plugins/tier_run.hpp"

namespace compressive_test {

using mneme::backbone::MemorySession;
using mneme::backbone::ModelSetup;
using mneme::config::ModelConfig;
using mneme::memory::StackState;
using tier_test::Events;
using tier_test::Held;
using tier_test::probe;
using tier_test::run_segment;
using tier_test::xl_cache;

// [[memory.tier]] tables as TOML; `options` are lines.
std::string compressive(const std::string& options);

// 2 layers, width 12, 3 heads of 5, with biases large enough to matter.
ModelConfig model_config();
// A session with plugins of this tree. The same parameters of the backbone, whatever the memory.
MemorySession session(const std::string& tiers, const ModelConfig& config = model_config(),
                      const ModelSetup& setup = mneme::backbone::small_setup());

// A layer's rows: "memory", "compressed", "pending", or "waiting" for what the host keeps until the
// tier absorbs.
Held held(const StackState& state, const std::string& queue, int64_t layer = 0, int64_t tier = 0);

}  // namespace compressive_test
