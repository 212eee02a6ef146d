#include "host/config/keys.hpp"

#include <algorithm>
#include <utility>

#include "host/config/sections/sections.hpp"

namespace mneme::config {
namespace {

struct TableHead {
  std::string_view path;
  std::string_view name;
  std::string_view text;
};

constexpr TableHead kTables[] = {
    {"model", "[model]", "The backbone."},
    {"model.adaptive", "[model.adaptive]",
     "Adaptive embedding and softmax; without it plain ones."},
    {"model.rotary", "[model.rotary]",
     "Rotary positions [Su et al. 2021]: queries and keys turn by angles that grow with their "
     "places. Only with position = \"rotary\"."},
    {"memory", "[memory]", "The memory tiers. A memory file holds this table alone."},
    {"memory.tier", "[[memory.tier]]",
     "One memory. Every other key is an option of its plugin (mneme plugins describe NAME); "
     "eval_<option> gives an option another value at evaluation, where the plugin allows it."},
    {"data", "[data]", "The data. Relative paths are relative to the file that holds them."},
    {"train", "[train]", "How it is trained."},
    {"train.group", "[[train.group]]", "Parameters with settings of their own."},
    {"train.accumulate_from", "[[train.accumulate_from]]", "Other accumulation from a step on."},
    {"eval", "[eval]", "How it is evaluated."},
    {"generate", "[generate]", "How it generates."},
};

// Example files that together hold every table, so that reading them lists every key. The first
// file of a task gives the order of its keys.
std::vector<std::pair<std::string, std::string>> samples() {
  const std::string others =
      "[model.adaptive]\ncutoffs = [1]\n[model.rotary]\n[memory]\nplugins = "
      "[\"p\"]\n[[memory.tier]]\n"
      "plugin = \"p\"\n[train]\nsteps = 1\n[[train.group]]\nparameters = [\"*\"]\n"
      "[[train.accumulate_from]]\nstep = 1\n[data]\ntask = \"";
  std::vector<std::pair<std::string, std::string>> out;
  out.emplace_back("text", others + "text\"\ntrain = \"t\"\nvocabulary = \"word\"\n");
  for (const std::string& name : all_words<Task>()) {
    out.emplace_back(name, others + name + "\"\ntrain = \"t\"\n");
  }
  out.emplace_back("text", others + "text\"\nprepared = \"t\"\n");
  return out;
}

// The keys that were listed, one entry a key and task.
struct Asked {
  std::string task;
  KeyRecord record;
};

std::vector<Asked> ask_readers() {
  std::vector<Asked> asked;
  for (const auto& sample : samples()) {
    const std::string& task = sample.first;
    Problems ignored;
    KeyLog log;
    const Value root = parse_toml(sample.second, "sample");
    static_cast<void>(read_experiment(Reader(root, ignored, &log), ignored));
    for (KeyRecord& record : log) {
      const bool is_there = std::ranges::any_of(asked, [&](const Asked& other) {
        return other.task == task && other.record.table == record.table &&
               other.record.key == record.key;
      });
      if (!is_there) asked.push_back({task, std::move(record)});
    }
  }
  return asked;
}

// The value where all tasks agree; else each with its tasks.
std::string by_task(const std::vector<const Asked*>& entries, std::string KeyRecord::*field) {
  std::vector<std::pair<std::string, std::vector<std::string>>> values;
  for (const Asked* entry : entries) {
    const std::string& value = entry->record.*field;
    const auto same =
        std::ranges::find_if(values, [&](const auto& each) { return each.first == value; });
    if (same == values.end()) {
      values.push_back({value, {entry->task}});
    } else {
      same->second.push_back(entry->task);
    }
  }
  if (values.size() == 1) return values.front().first;
  std::vector<std::string> texts;
  for (const auto& [value, tasks] : values) texts.push_back(value + " (" + join(tasks, ", ") + ')');
  return join(texts, "; ");
}

KeyInfo key_info(const std::vector<const Asked*>& entries) {
  KeyInfo info;
  info.key = entries.front()->record.key;
  info.type = by_task(entries, &KeyRecord::type);
  info.fallback = by_task(entries, &KeyRecord::fallback);
  info.text = by_task(entries, &KeyRecord::text);
  if (entries.size() < words_of(Task{}).size()) {
    for (const Asked* entry : entries) info.tasks.push_back(entry->task);
  }
  return info;
}

std::vector<TableInfo> make_tables() {
  const std::vector<Asked> asked = ask_readers();
  std::vector<TableInfo> tables;
  for (const TableHead& head : kTables) {
    TableInfo table{std::string(head.name), std::string(head.text), {}};
    for (const Asked& first : asked) {
      if (first.record.table != head.path) continue;
      const bool is_done = std::ranges::any_of(
          table.keys, [&](const KeyInfo& other) { return other.key == first.record.key; });
      if (is_done) continue;
      std::vector<const Asked*> entries;
      for (const Asked& other : asked) {
        if (other.record.table == head.path && other.record.key == first.record.key) {
          entries.push_back(&other);
        }
      }
      table.keys.push_back(key_info(entries));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace

const std::vector<TableInfo>& experiment_keys() {
  static const std::vector<TableInfo> kTablesOfKeys = make_tables();
  return kTablesOfKeys;
}

std::string bare_table(const std::string& name) {
  const std::size_t begin = name.find_first_not_of('[');
  return name.substr(begin, name.find(']') - begin);
}

}  // namespace mneme::config
