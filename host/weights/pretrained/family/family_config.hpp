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
  std::int64_t vocabulary = 0;  // ids
  // Values that differ in training only, and those without effect in the contexts that are served.
  std::vector<std::string> warnings;
  // Keys that cannot change a number: no part of the library reads them for this family.
  std::vector<std::string> passed_over;
};

// Keys of config.json that are read as if they were not there: "training_run",
// "rope_scaling.factor".
using IgnoredKeys = std::vector<std::string>;

// True when config.json has the key, itself or in one of its objects.
[[nodiscard]] bool has_key(const Json& config, const std::string& key);

// config.json without these keys.
[[nodiscard]] Json without_keys(Json config, const IgnoredKeys& ignored);

// Reads config.json; `source` is for messages. An ignored key that only says what is supported is
// not looked at; any other ignored key has the family's default. Error (kRun) that lists, one a
// line, every key that is not understood and every value that is not supported, with what is.
[[nodiscard]] FolderModel read_config(const Family& family, const Json& config,
                                      const std::string& source, const IgnoredKeys& ignored = {});

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
