// Settings of files made by the official Transformer-XL, as experiment settings.
#pragma once

#include <string>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/config/experiment.hpp"

namespace mneme::golden {

// A metadata value: numbers, booleans and lists are JSON.
Json setting(const SafetensorsFile& file, const std::string& key);
// A setting that mneme leaves out on purpose, as "key = value: reason"; "" when there is none.
std::string left_out_setting(const SafetensorsFile& file);
// The same but for the kind of attention: dropout, recomputed context, sampled losses.
std::string left_out_training(const SafetensorsFile& file);
config::ModelConfig official_model(const SafetensorsFile& file);
// One xl_cache of `rows`; no tier for 0.
config::MemoryConfig segment_cache(int64_t rows);

}  // namespace mneme::golden
