// Bundles: what a report was computed from, and the report, in one archive without weights, which
// another program can verify. docs/report.md, "Bundles", describes the files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "host/base/text.hpp"

namespace mneme::report {

// How a report's arms are compared.
struct Choice {
  std::string baseline = {};  // "" = the first arm
  bool has_pairs = false;
  double margin = 0.0;  // of losses, nats a target; 0 = none
};

// Writes the archive of what report::load reads in these folders and of the report on it. Equal
// folders make equal archives, wherever they lie. Errors: those of report::load and set_baseline;
// Error (kRun) when a file cannot be read or written.
void write_bundle(const std::filesystem::path& file,
                  const std::vector<std::filesystem::path>& folders, const Choice& choice);

// What verify_bundle found.
struct Verification {
  std::string sha256 = {};  // of the archive
  std::size_t files = 0;    // with their checksums
  std::size_t runs = 0;
  std::size_t evaluations = 0;
  std::size_t losses = 0;                   // whose sums are those stated
  std::size_t numbers = 0;                  // of report.json, computed anew and equal
  std::set<std::string> uncounted = {};     // stated numbers without the counts that make them
  std::vector<std::string> findings = {};   // empty = all agrees
  std::vector<std::string> unchecked = {};  // what no reader of the archive can check

  [[nodiscard]] std::string text() const;
  // Format "mneme-verification", version 1.
  [[nodiscard]] Json json() const;
};

// Computes the report of a bundle anew from its losses, and compares every file. It needs a folder
// for temporary files, no plugin and no model. Error (kRun) for a file that is no bundle, is cut, or
// is of another version; whatever else is wrong is a finding.
[[nodiscard]] Verification verify_bundle(const std::filesystem::path& file);

}  // namespace mneme::report
