#include "host/cli/command.hpp"

#include <CLI/CLI.hpp>

namespace mneme::cli {

void set_examples(CLI::App& command, const std::vector<std::string>& examples) {
  std::string footer = "Examples:";
  for (const std::string& example : examples) footer += "\n  " + example;
  command.footer(footer);
}

}  // namespace mneme::cli
