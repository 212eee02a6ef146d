// What the writer and the reader of bundles share.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/report/bundle.hpp"
#include "host/scores/stored_evaluation.hpp"

namespace mneme::report {

inline constexpr std::string_view kBundleFile = "bundle.json";
inline constexpr std::string_view kBundleFormat = "mneme-bundle";
inline constexpr int kBundleVersion = 1;

// A folder for temporary files, removed with its object. It is locked (flock) while the process
// lives.
class WorkFolder {
 public:
  // Removes those that processes of this user left behind which were stopped. Error (kRun) when it
  // cannot be made.
  WorkFolder();
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Descriptor lock_;
};

// Loads folders below `root`, and writes their report into ROOT/report, but for the page, which
// holds the program's own script for figures.
void write_bundle_report(const std::filesystem::path& root, const std::vector<std::string>& folders,
                         const Choice& choice);

// What the runs below ROOT/runs, of which the report reads `folders`, say against themselves and
// against the plan of their comparison; adds to findings and counts (verify_runs.cpp).
void check_runs(const std::filesystem::path& root, const std::vector<std::string>& folders,
                Verification& out);

// Of numbers that two machines compute: their libraries may differ in the last digits.
inline constexpr double kEqualNumbers = 1e-9;

// The numbers that a stored evaluation's result states against those of its losses and the counts
// that it states; a finding of each that differs. `columns`: its own; `place` names it
// (verify_numbers.cpp).
void check_numbers(const scores::StoredEvaluation& stored, const scores::Columns& columns,
                   const std::string& place, Verification& out);

// The regular files below `folder`, relative to `root`, sorted.
[[nodiscard]] std::vector<std::string> files_below(const std::filesystem::path& root,
                                                   const std::filesystem::path& folder);

}  // namespace mneme::report
