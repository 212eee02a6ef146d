// The keys of config.json that say how rotary positions turn, in both of their spellings.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/experiment.hpp"

namespace mneme::weights {

// True for the keys that read_rotary reads, or read_local_rotary.
[[nodiscard]] bool is_rotary_key(const std::string& key, bool has_local = false);

// The frequencies that config.json asks for: rope_theta and rope_scaling (until transformers 4), or
// rope_parameters (from transformers 5 on). What is not supported goes to `problems`, a line each;
// the affected members keep their defaults. Keys that the library does not read go to
// `passed_over`.
[[nodiscard]] config::RotaryConfig read_rotary(const Json& config,
                                               std::vector<std::string>& problems,
                                               std::vector<std::string>& passed_over);

// The same of families whose layers with a window turn by a base of their own, with local_base:
// rope_local_base_freq beside rope_theta and rope_scaling, which are those of the other layers; or
// rope_parameters with an object for each kind of layers.
[[nodiscard]] config::RotaryConfig read_local_rotary(const Json& config,
                                                     std::vector<std::string>& problems,
                                                     std::vector<std::string>& passed_over);

// Adds rope_theta and rope_scaling, and with `has_local` rope_local_base_freq.
void write_rotary(const config::RotaryConfig& rotary, bool has_local, Json& config);

}  // namespace mneme::weights
