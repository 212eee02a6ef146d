// Which arms a report compares: options of `mneme report` and `mneme compare`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/cli/arguments.hpp"
#include "host/report/report.hpp"

namespace mneme::cli {

struct ComparedArms {
  std::string baseline;    // "" = the first arm
  bool has_pairs = false;  // every arm with every other, too
  double margin = 0.0;     // of losses, nats a token; 0 = none

  void add(const Command& command);
  [[nodiscard]] bool is_given() const { return has_pairs || margin > 0.0 || !baseline.empty(); }
  // Reads the folders and compares what they hold. Errors: those of report::load and of
  // report::set_baseline.
  [[nodiscard]] report::Report report_of(const std::vector<std::filesystem::path>& folders) const;
};

}  // namespace mneme::cli
