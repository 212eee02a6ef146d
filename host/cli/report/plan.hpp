// mneme plan: what a pilot says of the comparison that is planned.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/cli/arguments.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {

inline constexpr const char* kPlanHelp =
    "Say which differences more seeds and documents could show, and what they cost";

struct PlanArguments {
  std::vector<std::filesystem::path> paths;  // the folder of a comparison, or run folders
  std::string split;                         // "" = the first that has losses
  double difference = 0.0;                   // that one would like to show; 0 = none
  JsonArgument json;

  // All but `paths`.
  void add(const Command& command);
  // Reads the pilot in these folders, and prints and writes what it says. Error (kUsage) for a file;
  // errors as report::read_pilot.
  void show(const std::vector<std::filesystem::path>& folders, const Streams& streams) const;
};

}  // namespace mneme::cli
