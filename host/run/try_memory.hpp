// Running a memory for a moment, with untrained weights and made-up data, to see whether it can be
// made and run at all.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "host/base/process/process.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/plugin/loader.hpp"

namespace mneme::run {

struct TriedMemory {
  std::vector<memory::TierIdentity> plugins;  // that ran
  std::int64_t segments = 0;                  // that were evaluated
};

// Loads the plugins of the experiment's memory, makes its tiers as an evaluation of the experiment
// does, and evaluates two of its segments, of generated ids in at most two lanes, with the weights
// that a new run starts with. Layers, widths, positions and precision are the experiment's;
// vocabulary and feed-forward layers are small, and no data is read. Errors as
// check_evaluation_fits, where free_memory is given, Runtime's constructor and evaluate_split()
// give them.
[[nodiscard]] TriedMemory try_memory(const config::Experiment& experiment, c10::Device device,
                                     std::shared_ptr<plugin::PluginLoader> loader = nullptr,
                                     FreeMemorySource free_memory = nullptr);

}  // namespace mneme::run
