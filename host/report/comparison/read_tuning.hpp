// Reads the trials of tuned arms, and makes the choice anew.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"
#include "host/report/comparison/comparison.hpp"

namespace mneme::report {

// Of a comparison in `folder`, whose comparison.json says `json` of its tuning (null: nothing is
// done), into its `tuning`. Losses are those that the trials have stored. Trials that cannot be read
// are a note, and so is an arm whose values are not those that the trials choose. Json::exception
// for what `mneme compare` does not write.
void read_tuning(const std::filesystem::path& folder, const Json& json, Comparison& comparison);

}  // namespace mneme::report
