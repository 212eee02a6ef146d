// The keys of config.json that say which layers attend to a sliding window.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/weights/pretrained/family/family.hpp"

namespace mneme::weights {

// True for the keys that read_window reads for this family.
[[nodiscard]] bool is_window_key(const Family& family, const std::string& key);

// The window of the layers that have one, in tokens; 0 = no layer has one. What is not supported
// goes to `problems`, a line each.
[[nodiscard]] std::int64_t read_window(const Family& family, const Json& config,
                                       std::vector<std::string>& problems);

// Adds the keys that give every layer this window; 0 = none.
void write_window(const Family& family, std::int64_t window, Json& config);

}  // namespace mneme::weights
