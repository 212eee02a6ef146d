// The table of a suite: tasks in rows, memories in columns, made of the comparisons of its tasks;
// and the figure of one whose tasks are points of an axis.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/base/words.hpp"
#include "host/figure/figure.hpp"
#include "host/report/sheet/sheet.hpp"
#include "host/report/suite/aggregates.hpp"

namespace mneme::report {

// A list of experiments; or one experiment at points of an axis: mneme compare --capacity, --scale.
enum class SuiteKind { kSuite, kCapacity, kScale };
constexpr auto words_of(SuiteKind) { return std::array{"suite", "capacity", "scale"}; }

// The size of a memory at a point of --capacity.
struct SuiteSize {
  std::string arm;
  std::string setting;     // "memory.tier.0.rows=16"
  std::int64_t bytes = 0;  // of the state of one lane
};

// suite.json, which `mneme compare --suite`, `--capacity` and `--scale` write into a suite's folder: its
// tasks, each with the folder of its comparison below that one and the number that the table shows.
struct SuiteTaskRecord {
  std::string name;
  std::string folder;
  std::string measure;  // "accuracy" | "outside_accuracy" | "loss"
  // Of a point: the row of the table, "2x: 8192 bytes"; the memories' sizes; those that are left
  // out, with the reason.
  std::string label = {};
  std::vector<SuiteSize> sizes = {};
  std::vector<std::string> left_out = {};
};
struct SuiteRecord {
  std::string command;         // as it was typed
  std::filesystem::path file;  // of the suite, or the experiment
  std::vector<SuiteTaskRecord> tasks;
  SuiteKind kind = SuiteKind::kSuite;
};
[[nodiscard]] Json to_json(const SuiteRecord& record);
// True for a folder with a suite.json.
[[nodiscard]] bool is_suite(const std::filesystem::path& folder);
// Error (kRun) naming the file when it is damaged or of another version.
[[nodiscard]] SuiteRecord read_suite_record(const std::filesystem::path& folder);

// The table. A cell is the mean over seeds on the valid split with its 95 % interval (stats/
// seeds.hpp; cut at 0, and of an accuracy at 1); of one seed the number alone, and "-" where there
// is none. Of a suite with several seeds the last column is each task's noise floor: how far two
// trainings of one memory differ whose seeds alone differ, root mean square over the memories.
// Notes say how many seeds there are, which tasks have not begun, are not done, could not be read,
// or lack the measure, and which comparisons of the folder are no tasks of the record; a cell of
// fewer seeds than the others says how many. Of points, notes name the memories' settings and those
// that are left out; of sizes they are scale_notes(). `scores` gets the numbers behind it.
[[nodiscard]] Sheet suite_sheet(const std::filesystem::path& folder, const SuiteRecord& record,
                                SuiteScores& scores);

// The figures of a suite's table: the measure over bytes of state; or the loss over operations, bytes
// and seconds of models of several sizes. A line a memory with its interval. Empty where the suite
// has no points, or no memory has a number at two of them.
[[nodiscard]] std::vector<figure::Figure> suite_figures(const SuiteRecord& record,
                                                        const Sheet& sheet);

}  // namespace mneme::report
