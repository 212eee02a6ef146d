#include "host/report/suite/suite.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/utf8.hpp"
#include "host/report/comparison/comparison.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/differences/soundness.hpp"
#include "host/report/setup/shares.hpp"
#include "host/report/suite/scale.hpp"
#include "host/report/tables/tables.hpp"
#include "host/stats/seeds.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuiteFormat = "mneme-suite";

// How the table shows a measure of a suite (config::Measure).
struct SuiteMeasure {
  std::string word;   // "outside_accuracy"
  std::string key;    // of the comparison's line
  std::string label;  // behind the task's name
  std::string note;   // what the label means; "" = without a label
  std::string alone;  // the same where rows are points, without a label
  double most = 1.0;  // that it can be
  int digits = 3;
};

const SuiteMeasure& shown_as(const std::string& measure) {
  static const std::vector<SuiteMeasure> kAll = {
      {.word = "accuracy", .key = "valid.accuracy", .label = "", .note = "", .alone = ""},
      {.word = "outside_accuracy",
       .key = "valid.accuracy_outside",
       .label = ", outside",
       .note = "\"outside\": of the targets whose source lies before the segment.",
       .alone = "Accuracy of the targets whose source lies before the segment."},
      {.word = "loss",
       .key = "valid.loss",
       .label = ", loss",
       .note = "\"loss\": nats a token, lower is better.",
       .alone = "Nats a token, lower is better.",
       .most = std::numeric_limits<double>::infinity(),
       .digits = 4}};
  const auto found = std::ranges::find(kAll, measure, &SuiteMeasure::word);
  return found == kAll.end() ? kAll.front() : *found;
}

// "Accuracy by task and memory", "Accuracy and loss by task and memory", "Loss by bytes of state and
// memory".
std::string title_of(const SuiteRecord& record) {
  const auto losses = std::ranges::count(record.tasks, "loss", &SuiteTaskRecord::measure);
  const bool are_losses = losses > 0 && losses == std::ssize(record.tasks);
  return str(are_losses   ? "Loss"
             : losses > 0 ? "Accuracy and loss"
                          : "Accuracy",
             record.kind == SuiteKind::kCapacity ? " by bytes of state and memory"
             : record.kind == SuiteKind::kScale  ? " by size of the model and memory"
                                                 : " by task and memory");
}

std::vector<double> known_values(const std::vector<double>& values) {
  std::vector<double> known;
  std::ranges::copy_if(values, std::back_inserter(known),
                       [](double value) { return std::isfinite(value); });
  return known;
}

Cell cell_of(const std::vector<double>& values, const SuiteMeasure& shown, std::size_t& seeds) {
  const std::vector<double> known = known_values(values);
  seeds = std::max(seeds, known.size());
  if (known.empty()) return {"-", nullptr};
  const stats::SeedSummary of = stats::summarise_seeds(known);
  std::string text = format_number(of.mean, shown.digits);
  Json value = {{"mean", of.mean}, {"values", known}};
  if (known.size() > 1) {
    const double low = std::max(0.0, of.low), high = std::min(shown.most, of.high);
    text +=
        str(" [", format_number(low, shown.digits), ", ", format_number(high, shown.digits), ']');
    value["low"] = low;
    value["high"] = high;
    value["deviation"] = of.deviation;
  }
  return {std::move(text), std::move(value)};
}

// How far two trainings of one memory differ whose seeds alone differ, root mean square over the
// memories of a task, as a pilot's noise floor (report/pilot.hpp) but of the table's measure.
Cell noise_floor(const std::map<std::string, Cell>& cells, const SuiteMeasure& shown) {
  double squares = 0.0, degrees = 0.0;
  for (const auto& [arm, cell] : cells) {
    if (cell.value.is_null() || !cell.value.contains("deviation")) continue;
    const double freedom = static_cast<double>(cell.value["values"].size()) - 1.0;
    const double deviation = cell.value["deviation"].get<double>();
    squares += deviation * deviation * freedom;
    degrees += freedom;
  }
  if (degrees == 0.0) return {"-", nullptr};
  const double floor = std::sqrt(2.0 * squares / degrees);
  return {format_number(floor, shown.digits), floor};
}

// Says in a cell of fewer seeds than the table's how many it has.
void mark_fewer_seeds(Cell& cell, std::size_t seeds) {
  if (cell.value.is_null()) return;
  const std::size_t own = cell.value.at("values").size();
  if (own < seeds) cell.text += str(" (", own, own == 1 ? " seed)" : " seeds)");
}

// How much of a task is missing; "" = nothing.
std::string progress_text(const Comparison& comparison) {
  std::size_t all = 0, waiting = 0, failed = 0;
  for (const auto& [arm, run] : runs_of(comparison)) {
    ++all;
    failed += run.error ? 1 : 0;
    waiting += !run.error && !run.is_done ? 1 : 0;
  }
  std::vector<std::string> parts;
  if (waiting > 0) parts.push_back(str(all - waiting - failed, " of ", all, " runs are done"));
  if (failed > 0)
    parts.push_back(str(failed, " of ", all, " runs failed, its own report says why"));
  return parts.empty() ? "" : join(parts, "; ") + '.';
}

// The rows of the table while it is put together: arms may differ from task to task.
struct Rows {
  std::vector<std::string> arms;  // in the order in which they occur
  std::vector<std::pair<std::string, std::map<std::string, Cell>>> tasks;
};

std::string row_name(const SuiteTaskRecord& task) {
  return task.label.empty() ? task.name + shown_as(task.measure).label : task.label;
}

// Says in the cells of a point which size the memories have.
void add_sizes(const SuiteTaskRecord& task, std::map<std::string, Cell>& cells) {
  for (const SuiteSize& size : task.sizes) {
    const auto cell = cells.find(size.arm);
    if (cell == cells.end() || cell->second.value.is_null()) continue;
    cell->second.value["bytes"] = size.bytes;
    cell->second.value["setting"] = size.setting;
  }
}

// Of the cells of points: see add_sizes and add_costs.
std::vector<std::string> more_columns(SuiteKind kind) {
  if (kind == SuiteKind::kCapacity) return {"bytes", "setting"};
  if (kind == SuiteKind::kScale) return {"parameters", "operations", "bytes", "seconds"};
  return {};
}

// A row for each task and memory.
Records records_of(const SuiteRecord& record, const Rows& rows) {
  Records out{.columns = {"task", "measure", "arm", "seeds", "mean", "low", "high", "deviation"},
              .rows = {}};
  const std::vector<std::string> more = more_columns(record.kind);
  out.columns.insert(out.columns.end(), more.begin(), more.end());
  for (std::size_t i = 0; i < rows.tasks.size(); ++i) {
    for (const std::string& arm : rows.arms) {
      const auto found = rows.tasks[i].second.find(arm);
      if (found == rows.tasks[i].second.end()) continue;
      const Json value = found->second.value.is_null() ? Json::object() : found->second.value;
      std::vector<Json>& row = out.rows.emplace_back(
          std::vector<Json>{record.tasks[i].name, record.tasks[i].measure, arm,
                            value.value("values", Json::array()).size(),
                            value.value("mean", Json()), value.value("low", Json()),
                            value.value("high", Json()), value.value("deviation", Json())});
      for (const std::string& key : more) row.push_back(value.value(key, Json()));
    }
  }
  return out;
}

// What a reader of points needs to know: which setting each memory had, and where it is left out.
std::vector<std::string> point_notes(const SuiteRecord& record,
                                     const std::vector<std::string>& arms) {
  std::vector<std::string> out;
  for (const std::string& arm : arms) {
    std::vector<std::string> settings;
    for (const SuiteTaskRecord& task : record.tasks) {
      const auto size = std::ranges::find(task.sizes, arm, &SuiteSize::arm);
      if (size != task.sizes.end())
        settings.push_back(str(size->setting, " (", size->bytes, " bytes)"));
    }
    if (!settings.empty()) out.push_back(str(arm, ": ", join(settings, ", "), '.'));
  }
  for (const SuiteTaskRecord& task : record.tasks) {
    for (const std::string& line : task.left_out)
      out.push_back(str(task.name, " leaves out ", line, '.'));
  }
  return out;
}

// Names the comparisons in the folder that the last command did not name; "" = none.
std::string unnamed_note(const fs::path& folder, const SuiteRecord& record) {
  std::set<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored)) {
    if (fs::exists(entry->path() / "comparison.json", ignored))
      names.insert(as_utf8(entry->path().filename().native()));
  }
  for (const SuiteTaskRecord& task : record.tasks) names.erase(task.folder);
  if (names.empty()) return "";
  const std::string them = names.size() == 1 ? "it" : "them";
  return str("Not in this table: ", join({names.begin(), names.end()}, ", "),
             ", which the folder has and the last command did not name; a command that names ",
             them, ", too, shows ", them, '.');
}

}  // namespace

Json to_json(const SuiteRecord& record) {
  Json tasks = Json::array();
  for (const SuiteTaskRecord& task : record.tasks) {
    Json one = {{"name", task.name}, {"folder", task.folder}, {"measure", task.measure}};
    if (record.kind != SuiteKind::kSuite) {
      one["label"] = task.label;
      one["left_out"] = task.left_out;
      one["sizes"] = Json::array();
      for (const SuiteSize& size : task.sizes) {
        one["sizes"].push_back(
            {{"arm", size.arm}, {"setting", size.setting}, {"bytes", size.bytes}});
      }
    }
    tasks.push_back(std::move(one));
  }
  return {{"format", kSuiteFormat},       {"version", 1},
          {"kind", to_word(record.kind)}, {"command", record.command},
          {"file", record.file.string()}, {"tasks", std::move(tasks)}};
}

bool is_suite(const fs::path& folder) { return fs::exists(folder / "suite.json"); }

namespace {

SuiteRecord read_tasks(const Json& json, SuiteKind kind) {
  SuiteRecord out{.command = json.at("command"),
                  .file = json.at("file").get<std::string>(),
                  .tasks = {},
                  .kind = kind};
  for (const Json& task : json.at("tasks")) {
    SuiteTaskRecord& one = out.tasks.emplace_back(
        SuiteTaskRecord{task.at("name"), task.at("folder"), task.at("measure")});
    if (kind == SuiteKind::kSuite) continue;
    one.label = task.at("label");
    one.left_out = task.at("left_out");
    for (const Json& size : task.at("sizes"))
      one.sizes.push_back({size.at("arm"), size.at("setting"), size.at("bytes")});
  }
  return out;
}

}  // namespace

SuiteRecord read_suite_record(const fs::path& folder) {
  const fs::path file = folder / "suite.json";
  try {
    const Json json = Json::parse(read_file(file));
    if (json.at("format") == kSuiteFormat && json.at("version") == 1) {
      const auto kind = find_word<SuiteKind>(json.value("kind", "suite"));
      if (kind) return read_tasks(json, *kind);
    }
  } catch (const Json::exception&) {
    // said below
  }
  throw_run({.where = file.string(),
             .failed = "it is no record of a suite",
             .expected = "what mneme compare --suite, --capacity or --scale writes, version 1",
             .hint = "run that command again"});
}

Sheet suite_sheet(const fs::path& folder, const SuiteRecord& record, SuiteScores& scores) {
  Sheet sheet{.key = "suite", .title = title_of(record)};
  Rows rows;
  std::size_t seeds = 0;
  std::set<std::string> notes, labels;
  std::map<std::string, std::vector<std::string>> of_shares;  // a sentence -> its tasks
  for (const SuiteTaskRecord& task : record.tasks) {
    std::map<std::string, Cell> cells;
    const SuiteMeasure& shown = shown_as(task.measure);
    SuiteScores::Task& behind = scores.tasks.emplace_back(
        SuiteScores::Task{.name = task.name, .is_accuracy = task.measure != "loss"});
    const std::string& note = record.kind == SuiteKind::kSuite ? shown.note : shown.alone;
    if (!note.empty()) labels.insert(note);
    try {
      if (!fs::exists(folder / task.folder / "comparison.json")) {
        notes.insert(task.name + " has not begun.");
        rows.tasks.emplace_back(row_name(task), std::move(cells));
        continue;
      }
      const Comparison comparison = load({folder / task.folder});
      const std::vector<Metric> all = metrics(comparison);
      const Metric* const metric = find_metric(all, shown.key);
      behind.chance = chance(comparison);
      for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
        const std::string& name = comparison.arms[arm].name;
        if (std::ranges::find(rows.arms, name) == rows.arms.end()) rows.arms.push_back(name);
        cells[name] =
            metric != nullptr ? cell_of(metric->values[arm], shown, seeds) : Cell("-", nullptr);
        if (metric != nullptr) behind.values[name] = known_values(metric->values[arm]);
        if (const std::string faults = faults_of(comparison.arms[arm]); !faults.empty()) {
          scores.faulty_arms.insert(name);
          notes.insert(
              str(task.name, ": ", name, " is faulty (", faults, "): its numbers say nothing."));
        }
      }
      if (record.kind == SuiteKind::kScale) add_costs(comparison, cells);
      if (const std::string progress = progress_text(comparison); !progress.empty())
        notes.insert(str(task.name, ": ", progress));
      if (metric == nullptr && !comparison.splits.empty()) {
        notes.insert(str(task.name, ": no run has a number for \"", task.measure,
                         "\" on valid; the task's data lack it, or valid was not evaluated."));
      }
      if (const std::string partial = share_sentence(comparison, "valid"); !partial.empty())
        of_shares[partial].push_back(task.name);
    } catch (const Error& error) {
      notes.insert(str(task.name, ": ", error.what()));
    }
    add_sizes(task, cells);
    rows.tasks.emplace_back(row_name(task), std::move(cells));
  }
  for (const auto& [sentence, tasks] : of_shares)
    notes.insert(str(join(tasks, ", "), ": ", sentence));
  for (auto& [task, cells] : rows.tasks) {
    for (auto& [arm, cell] : cells) mark_fewer_seeds(cell, seeds);
  }
  scores.arms = rows.arms;
  sheet.headings = {record.kind == SuiteKind::kCapacity ? "state a lane"
                    : record.kind == SuiteKind::kScale  ? "size"
                                                        : "task"};
  sheet.headings.insert(sheet.headings.end(), rows.arms.begin(), rows.arms.end());
  const bool has_floor = record.kind == SuiteKind::kSuite && seeds > 1;
  if (has_floor) sheet.headings.emplace_back("noise floor");
  sheet.records = records_of(record, rows);
  for (std::size_t i = 0; i < rows.tasks.size(); ++i) {
    const auto& [task, cells] = rows.tasks[i];
    std::vector<Cell> row{Cell(task)};
    for (const std::string& arm : rows.arms) {
      const auto found = cells.find(arm);
      row.push_back(found == cells.end() ? Cell("-", nullptr) : found->second);
    }
    if (has_floor) row.push_back(noise_floor(cells, shown_as(record.tasks[i].measure)));
    sheet.rows.push_back(std::move(row));
  }
  std::string head =
      seeds > 1 ? str("Mean over ", seeds, " seeds [95 % interval of the mean over seeds].")
                : "One seed: no intervals, and differences may be chance.";
  if (has_floor)
    head += " Noise floor: how far two trainings of one memory differ whose seeds alone differ.";
  for (const std::string& label : labels) head += ' ' + label;
  sheet.notes.push_back(std::move(head));
  const std::vector<std::string> of_points =
      record.kind == SuiteKind::kScale ? scale_notes(sheet) : point_notes(record, rows.arms);
  sheet.notes.insert(sheet.notes.end(), of_points.begin(), of_points.end());
  sheet.notes.insert(sheet.notes.end(), notes.begin(), notes.end());
  if (std::string note = unnamed_note(folder, record); !note.empty())
    sheet.notes.push_back(std::move(note));
  return sheet;
}

}  // namespace mneme::report
