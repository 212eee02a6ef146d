// What `mneme data sets` prints, and what the files of configs/ read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/cli/data/data.hpp"
#include "host/config/experiment.hpp"
#include "host/config/suite.hpp"

namespace mneme::cli {
namespace {

using ::testing::Contains;

namespace fs = std::filesystem;

struct PrintedSet {
  std::string put;
  std::string prepare;
  std::set<std::string> files;                 // that `put` names
  std::map<std::string, std::string> options;  // of `prepare`: "--out" -> "data/x"
};

std::vector<std::string> choices_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// The sets as the command prints them, by name.
std::map<std::string, PrintedSet> printed_sets() {
  std::ostringstream out, err;
  EXPECT_EQ(list_data_sets({}, {.out = out, .err = err}), 0);
  std::map<std::string, PrintedSet> sets;
  std::istringstream in(out.str());
  std::string name;
  const auto after = [](const std::string& line, const std::string& label) {
    return line.starts_with(label) ? line.substr(line.find_first_not_of(' ', label.size())) : "";
  };
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(" ") && line.find(": ") != std::string::npos) {
      name = line.substr(0, line.find(": "));
    }
    if (const std::string put = after(line, "  put it at:"); !put.empty()) sets[name].put = put;
    if (const std::string text = after(line, "  prepare:"); !text.empty()) {
      sets[name].prepare = text;
    }
  }
  for (auto& [unused, set] : sets) {
    for (std::string word : choices_of(set.put)) {
      while (word.ends_with(",") || word.ends_with(";")) word.pop_back();
      if (word.starts_with("data/")) set.files.insert(word);
    }
    const auto words = choices_of(set.prepare);
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i].starts_with("--")) set.options[words[i]] = words[i + 1];
    }
  }
  return sets;
}

bool is_below(const std::string& folder, const std::string& file) {
  return file.starts_with(folder + "/");
}

// The command reads what was put there, and what it makes does not lie where a raw file lies.
TEST(DataSets, ArePreparedFromWhereTheyArePut) {
  const auto sets = printed_sets();
  ASSERT_EQ(sets.size(), 5U);
  for (const auto& [name, set] : sets) {
    SCOPED_TRACE(name);
    ASSERT_FALSE(set.files.empty()) << set.put;
    ASSERT_TRUE(set.options.contains("--train") && set.options.contains("--out")) << set.prepare;
    for (const char* const split : {"--train", "--valid", "--test"}) {
      if (!set.options.contains(split)) continue;
      const std::string& source = set.options.at(split);
      EXPECT_TRUE(set.files.contains(source) || set.files.contains(source + "/*.txt"))
          << source << " is not at " << set.put;
    }
    const std::string& out = set.options.at("--out");
    for (const auto& [other, unused] : sets) {
      for (const std::string& file : sets.at(other).files) {
        EXPECT_FALSE(is_below(out, file) || is_below(file, out) || file == out)
            << out << " and " << file;
      }
    }
  }
}

// Every path below data/ of an experiment is one that some set is put at or prepared to.
TEST(DataSets, ConfigurationsReadWhatTheCommandsMake) {
  const auto sets = printed_sets();
  std::set<std::string> raw, prepared, commands;
  for (const auto& [name, set] : sets) {
    raw.insert(set.files.begin(), set.files.end());
    prepared.insert(set.options.at("--out"));
    commands.insert(set.prepare);
  }
  const fs::path root = fs::path(MNEME_SOURCE_DIR);
  std::set<std::string> read;
  const auto is_data = [&](const fs::path& path) {
    return is_below("data", path.lexically_relative(root).string());
  };
  for (const auto& entry : fs::recursive_directory_iterator(root / "configs")) {
    const fs::path& file = entry.path();
    if (file.extension() != ".toml" || file.parent_path().filename() == "memory") continue;
    SCOPED_TRACE(file.string());
    if (config::parse_toml_file(file).find("task") != nullptr) {
      // A list of experiments, each of them a file of its own.
      EXPECT_FALSE(config::read_suite(file).tasks.empty());
      continue;
    }
    const config::DataConfig data = config::parse_experiment(file).data;
    bool reads_set = is_data(data.prepared);
    for (const fs::path& path : {data.train, data.valid, data.test}) {
      if (!is_data(path)) continue;
      reads_set = true;
      EXPECT_THAT(raw, Contains(path.lexically_relative(root).string()));
      read.insert(path.lexically_relative(root).string());
    }
    if (is_data(data.prepared)) {
      const std::string folder = data.prepared.lexically_relative(root).string();
      EXPECT_THAT(prepared, Contains(folder));
      read.insert(folder);
    }
    if (!reads_set) continue;
    // A command in a comment is the one that is printed.
    std::istringstream lines(read_file(file));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = line.find("mneme data prepare ");
      if (at != std::string::npos) {
        EXPECT_THAT(commands, Contains(line.substr(at)));
      }
    }
  }
  for (const char* const path :
       {"data/enwik8-prepared", "data/text8-prepared", "data/wikitext-103/wiki.train.tokens",
        "data/pg19-subwords/train.safetensors"}) {
    EXPECT_THAT(read, Contains(path));
  }
}

}  // namespace
}  // namespace mneme::cli
