// What the subcommands' files offer to cli.cpp, and what they share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "host/cli/streams.hpp"

namespace CLI {
class App;
}

namespace mneme::cli {

// A subcommand whose arguments were read. Returns the exit code; throws Error.
using Action = std::function<int(const Streams&)>;

// Each adds one subcommand to `app`; when the user names it, parsing sets `action`.
void add_train(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_analyze(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_plugins(CLI::App& app, Action& action);
void add_abi(CLI::App& app, Action& action);
void add_import(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);

// Ends the command's --help with examples, one command line each.
void set_examples(CLI::App& command, const std::vector<std::string>& examples);

}  // namespace mneme::cli
