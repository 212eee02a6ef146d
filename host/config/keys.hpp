// The keys of an experiment file, collected from the lists of its fields: `mneme config keys`.
#pragma once

#include <string>
#include <vector>

namespace mneme::config {

// A key with its type, default and meaning. Where they depend on data.task, each has its tasks
// behind it: "4000 (sorting), 20 (digit_sorting)".
struct KeyInfo {
  std::string key;
  std::string type;
  std::string fallback;
  std::string text;
  std::vector<std::string> tasks;  // that have the key; empty = all
};

// "memory.tier" of "[[memory.tier]]".
[[nodiscard]] std::string bare_table(const std::string& name);

struct TableInfo {
  std::string name;  // "[model]", "[[memory.tier]]"
  std::string text;
  std::vector<KeyInfo> keys;

  // "model", "memory.tier"
  [[nodiscard]] std::string path() const { return bare_table(name); }
};

// Every table of an experiment file, in the order of the files.
[[nodiscard]] const std::vector<TableInfo>& experiment_keys();

}  // namespace mneme::config
