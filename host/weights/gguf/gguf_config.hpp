// The model of a GGUF file as the keys of config.json.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "host/base/text.hpp"
#include "host/weights/gguf/gguf_file.hpp"

namespace mneme::weights {

// The keys of the architecture, without what tensors tell. Keys that have no counterpart keep their
// names, so that the family's reader names them. Error (kRun) naming the key: an architecture or a
// rotary scaling that is not read, a missing key, widths of heads that differ.
[[nodiscard]] Json gguf_config(const GgufFile& file);

// Adds the scaling of Llama 3 whose factors these are, one for each pair of a head. Error (kRun) for
// other factors.
void add_rotary_factors(const GgufFile& file, std::span<const float> factors, Json& config);

}  // namespace mneme::weights
