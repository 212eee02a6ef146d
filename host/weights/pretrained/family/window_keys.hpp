// The keys of config.json that say which layers attend to a sliding window.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/weights/pretrained/family/family.hpp"

namespace mneme::weights {

// True for the keys that read_windows reads for this family.
[[nodiscard]] bool is_window_key(const Family& family, const std::string& key);

// ModelConfig::window. What is not supported goes to `problems`, a line each.
[[nodiscard]] std::vector<std::int64_t> read_windows(const Family& family, const Json& config,
                                                     std::vector<std::string>& problems);

// Adds the keys that give the layers these windows. Of windows of several lengths they say the
// longest.
void write_windows(const Family& family, const config::ModelConfig& model, Json& config);

}  // namespace mneme::weights
