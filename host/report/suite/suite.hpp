// The table of a suite: tasks in rows, memories in columns, made of the comparisons of its tasks.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/report/sheet/sheet.hpp"

namespace mneme::report {

// suite.json, which `mneme compare --suite` writes into a suite's folder: its tasks, each with the
// folder of its comparison below that one and the number that the table shows.
struct SuiteTaskRecord {
  std::string name;
  std::string folder;
  std::string measure;  // "accuracy" | "outside_accuracy" | "loss"
};
struct SuiteRecord {
  std::string command;  // as it was typed
  std::filesystem::path file;
  std::vector<SuiteTaskRecord> tasks;
};
[[nodiscard]] Json to_json(const SuiteRecord& record);
// True for a folder with a suite.json.
[[nodiscard]] bool is_suite(const std::filesystem::path& folder);
// Error (kRun) naming the file when it is damaged or of another version.
[[nodiscard]] SuiteRecord read_suite_record(const std::filesystem::path& folder);

// The table. A cell is the mean over seeds on the valid split with its 95 % interval (stats/
// seeds.hpp; cut at 0, and of an accuracy at 1); of one seed the number alone, and "-" where there
// is none. Notes say how many seeds there are, which tasks have not begun, are not done, could not
// be read, or lack the measure; a cell of fewer seeds than the others says how many.
[[nodiscard]] Sheet suite_sheet(const std::filesystem::path& folder, const SuiteRecord& record);

// Writes suite.txt, suite.csv, suite.md, suite.tex and suite-table.json into the folder, which is
// made. Error (kRun) naming what cannot be written.
void write_suite(const std::filesystem::path& folder, const Sheet& sheet);

}  // namespace mneme::report
