// mneme abi ops
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "host/cli/arguments.hpp"
#include "host/cli/command.hpp"
#include "host/ops/ops_print.hpp"

namespace mneme::cli {
namespace {

int print(const std::string& json_file, const Streams& streams) {
  if (json_file.empty() || json_file == "-") {
    ops::print_ops(streams.out, json_file == "-");
    return 0;
  }
  JsonArgument json(json_file);
  std::ostringstream text;
  ops::print_ops(text, true);
  json.write(Json::parse(text.str()), streams);
  return 0;
}

}  // namespace

void add_abi(CLI::App& app, Action& action) {
  CLI::App* const abi = app.add_subcommand("abi", "Show what the host offers to plugins");
  abi->require_subcommand(1);
  set_examples(*abi, {"mneme abi ops", "mneme abi ops --json ops.json"});

  CLI::App* const ops = abi->add_subcommand("ops", "Print the schema of every op");
  const auto file = std::make_shared<std::string>();
  ops->add_option("--json", *file, "Print JSON, or write it to FILE")
      ->type_name("[FILE]")
      ->expected(0, 1)
      ->default_str("-");
  set_examples(*ops, {"mneme abi ops", "mneme abi ops --json ops.json"});
  ops->callback([file, &action] {
    action = [file](const Streams& streams) { return print(*file, streams); };
  });
}

}  // namespace mneme::cli
