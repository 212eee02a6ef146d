// Attention by distance as a CSV and a figure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "host/backbone/attention/reach.hpp"
#include "host/base/json.hpp"

namespace mneme::analyze {

// What was measured of one memory.
struct ReachSubject {
  std::string name;
  std::map<std::int64_t, backbone::AttentionReach::Layer> layers;
};

// distance.csv: memory, layer, from, to (distances of an interval), weight, tokens; intervals that
// no token saw whole are left out. distance.svg: a panel a layer, a curve a memory, decades.
// Returns the names of the files. Error (kRun) when they cannot be written.
std::vector<std::string> write_reach(const std::filesystem::path& folder,
                                     const std::vector<ReachSubject>& subjects,
                                     const backbone::ReachSettings& settings);

[[nodiscard]] Json to_json(const ReachSubject& subject);

}  // namespace mneme::analyze
