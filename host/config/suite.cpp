#include "host/config/suite.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/config/sections/sections.hpp"
#include "host/config/toml/schema.hpp"

namespace mneme::config {
namespace {

constexpr IntegerRange kSeeds{1, 1000};

// The overrides of a key `set`, as the command line takes them.
std::vector<Override> read_overrides(Reader& reader, Problems& problems) {
  std::vector<Override> overrides;
  static_cast<void>(reader.texts("set"));
  const Value* list = reader.value("set");
  if (list == nullptr || list->kind() != Kind::kArray) return overrides;
  for (const Value& text : list->items()) {
    if (text.kind() != Kind::kString) continue;  // texts() has reported it
    try {
      overrides.push_back(parse_override(text.as_string()));
    } catch (const Error&) {
      problems.add(
          text.position(), text.path(),
          {.expected = "KEY=VALUE, as \"train.steps=500\"", .got = toml_string(text.as_string())});
    }
  }
  return overrides;
}

// The path of a file that exists; "" when it is reported as missing.
std::filesystem::path read_file_path(Reader& reader, std::string_view key,
                                     const std::string& what) {
  if (!reader.require(key, what)) return {};
  std::filesystem::path path = reader.path(key);
  std::error_code ignored;
  if (!path.empty() && !std::filesystem::is_regular_file(path, ignored)) {
    reader.problem(key, {.failed = "there is no such file", .got = path.string()});
  }
  return path;
}

// The key `name`, by default the stem of the file that `file_key` names. It names folders, too.
template <typename T>
std::string read_name(Reader& reader, const char* file_key, const std::filesystem::path& file,
                      const std::vector<T>& earlier) {
  std::string name = reader.text("name", as_utf8(file.stem().native()));
  if (name.empty()) return name;  // the file is missing, which is reported
  const char* key = reader.has("name") ? "name" : file_key;
  const bool is_plain = name.front() != '.' && std::ranges::all_of(name, [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                 (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
                        });
  if (!is_plain) {
    reader.problem(
        key, {.expected = "a name of letters, digits, '_', '-' and '.'", .got = toml_string(name)});
  } else if (std::ranges::any_of(earlier, [&](const T& each) { return each.name == name; })) {
    reader.problem(key, {.expected = "a name that no other has",
                         .got = toml_string(name),
                         .hint = "give this table a name of its own with the key name"});
  }
  return name;
}

// Refuses a task's name that is one of the files and folders beside the tasks' folders: those of the
// report (report/suite/suite_report.cpp), and the lock. Folders of arms end with their seed.
void check_task_name(Reader& reader, const std::string& name) {
  if (name != "figures" && name != "lock" && name != "suite" && !name.starts_with("suite.") &&
      !name.starts_with("suite-")) {
    return;
  }
  reader.problem(reader.has("name") ? "name" : "experiment",
                 {.failed = "the suite's own files have such names",
                  .expected = "another name than figures, lock, suite, suite.* and suite-*",
                  .got = toml_string(name),
                  .hint = "give this table a name of its own with the key name"});
}

std::vector<SuiteMemory> read_memories(Reader& root, Problems& problems) {
  std::vector<SuiteMemory> memories;
  for (const Value* table : root.tables("memory")) {
    Reader reader = root.inner(*table);
    SuiteMemory memory;
    memory.file = read_file_path(reader, "file", "the path of a memory file");
    memory.name = read_name(reader, "file", memory.file, memories);
    memory.overrides = read_overrides(reader, problems);
    reader.finish();
    memories.push_back(std::move(memory));
  }
  return memories;
}

// [[task.memory]]: adds to the overrides of an arm.
void read_task_memory(Reader reader, Problems& problems, std::vector<SuiteMemory>& memories) {
  const bool has_name = reader.require("name", "the name of a [[memory]] of the suite");
  const std::string name = reader.text("name", "");
  if (!reader.has("set")) {
    reader.problem("set", {.failed = "missing", .expected = "a list of KEY=VALUE"});
  }
  const std::vector<Override> overrides = read_overrides(reader, problems);
  reader.finish();
  const auto memory =
      std::ranges::find_if(memories, [&](const SuiteMemory& m) { return m.name == name; });
  if (memory != memories.end()) {
    memory->overrides.insert(memory->overrides.end(), overrides.begin(), overrides.end());
  } else if (has_name) {
    std::vector<std::string> names;
    for (const SuiteMemory& each : memories) names.push_back(each.name);
    reader.problem("name", {.expected = quoted_list(names), .got = toml_string(name)});
  }
}

std::vector<SuiteTask> read_tasks(Reader& root, Problems& problems,
                                  const std::vector<SuiteMemory>& memories) {
  std::vector<SuiteTask> tasks;
  for (const Value* table : root.tables("task")) {
    Reader reader = root.inner(*table);
    SuiteTask task;
    task.experiment = read_file_path(reader, "experiment", "the path of an experiment file");
    task.name = read_name(reader, "experiment", task.experiment, tasks);
    check_task_name(reader, task.name);
    task.overrides = read_overrides(reader, problems);
    task.measure = reader.choice("measure", Measure::kAccuracy);
    const Value* const measure = table->find("measure");
    task.measure_position = (measure == nullptr ? table : measure)->position();
    task.measure_key = str("task.", tasks.size(), ".measure");
    task.memories = memories;
    for (const Value* memory : reader.tables("memory")) {
      read_task_memory(reader.inner(*memory), problems, task.memories);
    }
    reader.finish();
    tasks.push_back(std::move(task));
  }
  return tasks;
}

}  // namespace

bool is_suite(const Value& root) {
  const auto is_list = [&](std::string_view key) {
    const Value* const value = root.find(key);
    return value != nullptr && value->kind() == Kind::kArray;
  };
  if (is_list("task") || is_list("tasks")) return true;
  return is_list("memory") &&
         std::ranges::any_of(root.find("memory")->items(), [](const Value& one) {
           return one.kind() == Kind::kTable && one.find("file") != nullptr;
         });
}

Suite read_suite(const std::filesystem::path& path) {
  const Value table = parse_toml_file(path);
  Problems problems;
  Reader root(table, problems);
  Suite suite;
  suite.seeds = root.integer("seeds", suite.seeds, kSeeds);
  const std::vector<SuiteMemory> memories = read_memories(root, problems);
  suite.tasks = read_tasks(root, problems, memories);
  root.finish();
  if (memories.empty()) {
    root.problem("memory", {.failed = "missing",
                            .expected = "tables [[memory]], the first one the baseline"});
  }
  if (suite.tasks.empty() && table.find("tasks") == nullptr) {  // else it is an unknown key
    root.problem("task", {.failed = "missing", .expected = "tables [[task]]"});
  }
  problems.throw_if_any();
  return suite;
}

void check_measure(const SuiteTask& task, Task data, bool has_sources) {
  if (task.measure != Measure::kOutsideAccuracy || has_sources) return;
  Problems problems;
  problems.add(task.measure_position, task.measure_key,
               {.failed = str("the task \"", to_word(data),
                              "\" has no such measure, as its targets have no source that could "
                              "lie outside the segment"),
                .expected = "\"accuracy\" | \"loss\"",
                .got = toml_string(to_word(task.measure))});
  problems.throw_if_any();
}

}  // namespace mneme::config
