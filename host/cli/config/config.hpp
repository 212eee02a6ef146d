// The three commands about experiment files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/cli/arguments.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {

struct ConfigKeysArguments {
  std::vector<std::string> tables;  // "model", "memory.tier"; none = all
  bool is_markdown = false;
  JsonArgument json;
};

struct ConfigFileArguments {
  std::filesystem::path experiment;
  std::vector<std::filesystem::path> memory;  // at most one
  SetArgument set;
  JsonArgument json;
};

// Prints the keys of an experiment file, with types, defaults and meaning. Error (kUsage) for a
// table that there is none.
int list_keys(const ConfigKeysArguments& arguments, const Streams& streams);

// Prints an experiment with every default filled in, as TOML that means the same. Errors as
// train::resolve_experiment.
int show_experiment(const ConfigFileArguments& arguments, const Streams& streams);

// Prints what was checked, of a suite every memory on every task. Error (kUsage) with everything
// that is wrong.
int check_experiment(const ConfigFileArguments& arguments, const Streams& streams);

}  // namespace mneme::cli
