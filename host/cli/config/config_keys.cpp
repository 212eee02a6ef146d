// mneme config keys
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "host/base/error.hpp"
#include "host/cli/config/config.hpp"
#include "host/config/keys.hpp"

namespace mneme::cli {
namespace {

using config::KeyInfo;
using config::TableInfo;

// "memory.tier" of "[[memory.tier]]".
std::string bare(const std::string& name) {
  const std::size_t begin = name.find_first_not_of('[');
  return name.substr(begin, name.find(']') - begin);
}

std::vector<TableInfo> chosen_tables(const std::vector<std::string>& names) {
  const std::vector<TableInfo>& all = config::experiment_keys();
  if (names.empty()) return all;
  std::vector<TableInfo> out;
  for (const std::string& name : names) {
    const auto found = std::ranges::find_if(
        all, [&](const TableInfo& table) { return bare(table.name) == bare(name); });
    if (found == all.end()) {
      std::vector<std::string> known;
      for (const TableInfo& table : all) known.push_back(bare(table.name));
      throw_usage({.where = "config keys",
                   .failed = str("there is no table \"", name, '"', did_you_mean(name, known)),
                   .expected = join(known, ", ")});
    }
    out.push_back(*found);
  }
  return out;
}

// The meaning, with the tasks that have the key.
std::string meaning(const KeyInfo& key) {
  return key.tasks.empty() ? key.text : key.text + " (task " + join(key.tasks, ", ") + ')';
}

// Words of the text on lines of at most 80 characters that begin with `indent`.
std::string wrapped(const std::string& text, const std::string& indent) {
  constexpr std::size_t kWidth = 80;
  std::istringstream words(text);
  std::string out;
  std::string line = indent;
  for (std::string word; words >> word;) {
    const bool is_first = line.size() == indent.size();
    if (!is_first && line.size() + 1 + word.size() > kWidth) {
      out += line + '\n';
      line = indent + word;
    } else {
      line += (is_first ? "" : " ") + word;
    }
  }
  return out + line + '\n';
}

std::string default_text(const KeyInfo& key) {
  return (key.fallback.starts_with("required") ? "; " : "; default ") + key.fallback;
}

std::string plain_text(const std::vector<TableInfo>& tables) {
  std::string out;
  for (const TableInfo& table : tables) {
    out += (out.empty() ? "" : "\n") + table.name + '\n' + wrapped(table.text, "");
    for (const KeyInfo& key : table.keys) {
      out += wrapped(str(key.key, ": ", key.type, default_text(key)), "    ") +
             wrapped(meaning(key), "        ");
    }
  }
  return out;
}

// Text of a cell: '|' would end it, and Markdown knows '*' and '<'.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

std::string markdown(const std::vector<TableInfo>& tables) {
  std::string out;
  for (const TableInfo& table : tables) {
    out += str(out.empty() ? "" : "\n", "## `", table.name, "`\n\n", table.text,
               "\n\n| key | type | default | meaning |\n|---|---|---|---|\n");
    for (const KeyInfo& key : table.keys) {
      out += str("| `", key.key, "` | ", cell(key.type), " | ", cell(key.fallback), " | ",
                 cell(meaning(key)), " |\n");
    }
  }
  return out;
}

Json json_of(const std::vector<TableInfo>& tables) {
  Json list = Json::array();
  for (const TableInfo& table : tables) {
    Json keys = Json::array();
    for (const KeyInfo& key : table.keys) {
      keys.push_back({{"key", key.key},
                      {"type", key.type},
                      {"default", key.fallback},
                      {"text", key.text},
                      {"tasks", key.tasks}});
    }
    list.push_back({{"table", bare(table.name)}, {"text", table.text}, {"keys", std::move(keys)}});
  }
  return {{"format", "mneme-config-keys"}, {"tables", std::move(list)}};
}

}  // namespace

int list_keys(const ConfigKeysArguments& arguments, const Streams& streams) {
  arguments.json.check();
  const std::vector<TableInfo> tables = chosen_tables(arguments.tables);
  arguments.json.write(json_of(tables), streams);
  if (arguments.json.is_stdout()) return 0;
  streams.out << (arguments.is_markdown ? markdown(tables) : plain_text(tables));
  return 0;
}

}  // namespace mneme::cli
