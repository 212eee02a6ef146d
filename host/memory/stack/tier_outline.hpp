// What the tiers of a stack declare, as `mneme plugins describe --in` prints it; and short names of
// plugins for reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/memory/stack/stack.hpp"
#include "host/memory/tier/tier.hpp"

namespace mneme::memory {

struct ParameterOutline {
  std::string name;
  bool is_model_scope = false;  // one for the model, otherwise one a served layer
  std::vector<std::int64_t> dims;
  std::int64_t count = 0;  // numbers, of all layers together
};

// A slot, or the rows of a queue (of keys and values: either of both tensors).
struct StateOutline {
  std::string name;
  bool is_model_scope = false;
  // MNEME_LANES, and MNEME_ANY for what changes, as in mneme/state.h.
  std::vector<std::int64_t> dims;
  std::string dtype;  // as held: "f32"
  // Of all layers and lanes together, counted on such tensors as StackState::bytes() does, without
  // allocating them. A queue's are those at its capacity.
  // Absent: an extent changes, or the capacity is not declared.
  std::optional<std::int64_t> bytes;
  // Of a slot in which one extent changes: the same with the rows of the context that the tier
  // declares (context_rows) there, and without rows where segments end with an empty slot. Absent: it
  // declares no rows.
  std::optional<std::int64_t> bytes_of_rows = {};
};

struct QueueOutline : StateOutline {
  std::string rows;                     // what they are: "layer inputs"
  std::vector<std::string> attributes;  // kept with each: "position", "mass"
  std::int64_t start_rows = 0;
  std::int64_t capacity = 0;  // 0 = not declared, -1 = no rows
};

// One instance of the plugin: what `create` declared, and what it logged.
struct InstanceOutline {
  std::int64_t segment = 0;  // T that it was made for
  std::int64_t lanes = 0;    // B that bytes are counted for
  std::vector<StateOutline> slots;
  std::vector<QueueOutline> queues;
  std::string absorbs;                 // "never" | "before reading" | "after the segment"
  std::vector<std::string> reads_at;   // of "heads", "out"
  std::vector<std::string> wants;      // "absorb: mass", "read: q"
  std::vector<std::string> behaviour;  // "releases rows", "has riders", ...
  std::int64_t context_rows = 0;       // most a layer
  std::int64_t read_rows = 0;          // most a layer that read reaches; 0 = not said
  std::int64_t max_segment = 0;        // 0 = any
  std::vector<LoggedLine> logged;
};

struct TierOutline {
  std::string name;                              // "<index>.<plugin id>"
  std::string place;                             // "file:line:column" of the [[memory.tier]]
  std::string plugin_name;                       // as the experiment file names the plugin
  const plugin::LoadedPlugin* plugin = nullptr;  // lives as long as its loader
  std::vector<std::int64_t> served;              // layers
  std::vector<ParameterOutline> parameters;
  InstanceOutline training;
  std::optional<InstanceOutline> evaluation;  // absent when training's serves evaluation too
};

// One text a memory, from the plugins of its tiers: "org.example.cache@1.0.0 + ...", "no tier". Two
// builds that would read alike get the start of their checksum: "org.example.cache@1.0.0
// [3f2a9c1b]".
[[nodiscard]] std::vector<std::string> plugin_labels(
    const std::vector<std::vector<TierIdentity>>& memories);

// Whether one plugin occurs in several builds, of one version or of several.
[[nodiscard]] bool has_builds(const std::vector<std::vector<TierIdentity>>& memories);

}  // namespace mneme::memory
