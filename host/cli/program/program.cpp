#include "host/cli/program/program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/process/process.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/definition.hpp"
#include "host/cli/unread_output.hpp"

namespace mneme::cli {
namespace {

constexpr int kRunFailed = static_cast<int>(ErrorKind::kRun);
constexpr int kWrongUse = static_cast<int>(ErrorKind::kUsage);

// "PROGRAM: message"; several lines stand below a line of their own, so that editors can read the
// places at their beginnings.
void print_error(const Program& program, const Streams& streams, std::string_view message) {
  const bool has_lines = message.find('\n') != std::string_view::npos;
  const auto lines = 1 + std::count(message.begin(), message.end(), '\n');
  const std::string head = has_lines ? str("error (", lines, " lines):\n") : "error: ";
  const bool is_coloured = streams.is_err_coloured;
  streams.err << str(program.name, ": ", is_coloured ? "\x1b[31m" : "", head,
                     is_coloured ? "\x1b[0m" : "", message, '\n')
              << std::flush;
}

// The innermost subcommand that was named.
const CLI::App& named_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

std::string path_of(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent == nullptr ? command.get_name() : path_of(*parent) + ' ' + command.get_name();
}

// Option names of a command ("--set") or the names of its subcommands.
std::vector<std::string> known_words(const CLI::App& command, bool is_option) {
  std::vector<std::string> words;
  if (is_option) {
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    }
  } else {
    for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; })) {
      words.push_back(sub->get_name());
    }
  }
  return words;
}

// The nearest known word, or an option of which this one is the end: --trial-seconds of --seconds.
std::string known_word_for(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = did_you_mean(word, known);
  if (!near.empty() || !word.starts_with("--")) return near;
  const std::string end = word.substr(1);
  const auto longer = std::ranges::find_if(known, [&](const std::string& one) {
    return one.size() > word.size() && one.ends_with(end);
  });
  return longer == known.end() ? "" : str(" (did you mean \"", *longer, "\"?)");
}

// The words that are no option or subcommand, each with the nearest one that is.
std::string unknown_words(const CLI::App& app, const CLI::App& command) {
  std::vector<std::string> texts;
  for (const std::string& word : app.remaining(true)) {
    const std::string bare = word.substr(0, word.find('='));
    const auto known = known_words(command, word.starts_with("-"));
    texts.push_back('"' + word + '"' + known_word_for(bare, known));
  }
  return join(texts, ", ");
}

// CLI11's "--run: 1 required DIR missing" says no more than that a value is absent.
std::string absence_of_value(const std::string& what) {
  const std::size_t begin = what.find(": 1 required ");
  const std::size_t type = begin + std::string_view(": 1 required ").size();
  const std::size_t end = what.rfind(" missing");
  if (begin == std::string::npos || end == std::string::npos || end < type) return what;
  const std::string word = what.substr(type, end - type);
  return str(what.substr(0, begin), ": expected ", word.substr(0, word.find(':')), ", got nothing");
}

// The command of this name, wherever it is: "mneme plugins validate" of "validate"; "" = none.
std::string elsewhere(const CLI::App& app, const std::string& name) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name() == name) return path_of(*sub);
    if (std::string below = elsewhere(*sub, name); !below.empty()) return below;
  }
  return "";
}

// What is said of a word in a subcommand's place that is none; "" = there is no such word.
std::string absent_command(const CLI::App& app, const CLI::App& command) {
  // A command with an argument has taken the word as that.
  if (std::string misspelt = misspelt_command(command); !misspelt.empty()) return misspelt;
  const std::vector<std::string> known = known_words(command, false);
  const std::vector<std::string> words = app.remaining(true);
  if (known.empty() || words.empty() || words.front().starts_with('-')) return "";
  const std::string said = str("there is no subcommand \"", words.front(), '"');
  if (const std::string other = elsewhere(app, words.front()); !other.empty()) {
    return str(said, ": it is ", other);
  }
  const std::string near = did_you_mean(words.front(), known);
  return said + (near.empty() ? ": expected " + join(known, ", ") : near);
}

// The message with the command before it and, behind it, where to read more.
std::string placed(const CLI::App& app, const CLI::App& command, const std::string& what) {
  const std::string path = path_of(command);
  const std::string prefix = path == app.get_name() ? "" : path.substr(path.find(' ') + 1) + ": ";
  return prefix + what + "; see " + path + " --help";
}

// CLI11's message, but for unknown words one that names the nearest known ones, and for an absent
// subcommand one that names those there are. A misspelt subcommand is the cause of the rest.
std::string use_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = named_command(app);
  const std::string unknown = unknown_words(app, command);
  std::string what =
      unknown.empty() ? absence_of_value(error.what()) : "unknown argument " + unknown;
  const bool needs_command = command.get_require_subcommand_min() > 0;
  if (unknown.empty() && needs_command && dynamic_cast<const CLI::RequiredError*>(&error)) {
    what = str("expected a subcommand, ", join(known_words(command, false), ", "), ", got none");
  }
  if (const std::string absent = absent_command(app, command); !absent.empty()) what = absent;
  return placed(app, command, what);
}

// `words`: the arguments.
int run(const Program& program, const std::vector<std::string>& words, const Streams& streams) {
  CLI::App app(program.help, program.name);
  Action action;
  app.require_subcommand(1);
  app.set_version_flag("--version", program.name + ' ' + program.version);
  // Commands that are added inherit it.
  app.formatter_fn([width = streams.out_width](const CLI::App* command, const std::string&,
                                               CLI::AppFormatMode) {
    CommandDefinition definition = definition_of(*command);
    std::error_code ignored;
    definition.examples = examples_here(std::move(definition.examples),
                                        std::filesystem::read_symlink("/proc/self/exe", ignored));
    return help_text(definition, path_of(*command), width);
  });
  program.add_commands(Command(app, action));
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& done) {  // --help and --version
    const CLI::App& command = named_command(app);
    if (const std::string absent = absent_command(app, command); !absent.empty()) {
      print_error(program, streams, placed(app, command, absent));
      return kWrongUse;
    }
    return app.exit(done, streams.out, streams.err) == 0 ? 0 : kWrongUse;
  } catch (const CLI::ParseError& error) {
    print_error(program, streams, use_message(app, error));
    return kWrongUse;
  }
  if (program.check) program.check(app.get_subcommands().front()->get_name());
  return action(streams);
}

// Prints what a command ended with.
int fail(const Program& program, const Streams& streams, const std::string& message,
         int exit_code) {
  print_error(program, streams, program.message ? program.message(message) : message);
  if (program.end) program.end(exit_code);
  return exit_code;
}

// Flushes the buffer: at the latest a full disk is noticed here. Where the reader has ended, a
// command that succeeded ends as by SIGPIPE, unless the signal was ignored when the program began,
// and one that did not keeps its exit status.
void flush_results(std::ostream& out, int exit_code) {
  errno = 0;
  out.flush();
  const int code = errno;
  if (out) return;
  if (is_stdout_unread()) {
    if (exit_code != 0) return;
    if (ends_unread()) end_by(SIGPIPE);
    throw_run({.where = "standard output", .failed = "results were lost: its reader has ended"});
  }
  if (::fcntl(STDOUT_FILENO, F_GETFL) < 0) {
    throw_run({.where = "standard output",
               .failed = "results were lost: it is closed",
               .hint = "leave it open, or redirect it to a file"});
  }
  throw_run({.where = "standard output",
             .failed = code == 0 ? "results were lost"
                                 : "results were lost: " + std::generic_category().message(code),
             .hint = "write it to a disk with free space"});
}

}  // namespace

int run_program(const Program& program, int argc, const char* const* argv,
                const Streams& streams) noexcept {
  try {
    try {
      const std::vector<std::string> typed(argv + std::min(argc, 1), argv + argc);
      const auto commands =
          program.commands ? program.commands(typed) : std::vector<std::vector<std::string>>{typed};
      int exit_code = 0;
      for (const auto& words : commands) {
        exit_code = run(program, words, streams);
        if (exit_code != 0) break;
      }
      flush_results(streams.out, exit_code);
      return exit_code;
    } catch (const Error& error) {
      return fail(program, streams, error.what(), error.exit_code());
    } catch (const std::bad_alloc&) {
      return fail(program, streams, "out of memory" + program.when_out_of_memory, kRunFailed);
    } catch (const std::exception& error) {
      return fail(program, streams, str("unexpected failure: ", without_trace(error.what())),
                  kRunFailed);
    } catch (...) {
      return fail(program, streams,
                  "unexpected failure: something that is no std::exception was thrown", kRunFailed);
    }
  } catch (...) {  // even the message could not be written
    return kRunFailed;
  }
}

}  // namespace mneme::cli
