// A model folder's config.json as settings of ours, and the way back.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/weights/pretrained/family/family.hpp"

namespace mneme::weights {

// What config.json says of a model.
struct FolderModel {
  config::ModelConfig model;
  std::int64_t vocabulary = 0;        // ids
  std::vector<std::string> warnings;  // values that differ in training only
};

// Reads config.json; `source` stands in messages. Error (kRun) that lists, one a line, every key
// that is not understood and every value that is not supported, with what is.
[[nodiscard]] FolderModel read_config(const Family& family, const Json& config,
                                      const std::string& source);

// The family that config.json names by model_type. Error (kRun) when it names none that is known,
// or when its architectures are others than language models of this family.
[[nodiscard]] const Family& family_of(const Json& config, const std::string& source);

// config.json of a model of ours, in the spelling that all versions of the library read. Error
// (kUsage) that lists every setting that the family cannot express.
[[nodiscard]] Json write_config(const Family& family, const config::ModelConfig& model,
                                std::int64_t vocabulary);

// A model's settings by their keys, "model.rotary.base", as TOML texts; all that an experiment
// file writes.
using Settings = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] Settings settings_of(const config::ModelConfig& model);

// Settings that weights do not decide: an experiment may give them whatever config.json says.
[[nodiscard]] bool is_free_setting(const std::string& key);

// "model.norm: expected ..., got ..." for every setting that is not free and differs.
[[nodiscard]] std::vector<std::string> differing_settings(const config::ModelConfig& expected,
                                                          const config::ModelConfig& got);

}  // namespace mneme::weights
