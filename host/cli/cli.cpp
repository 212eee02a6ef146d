#include "host/cli/cli.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/definition.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/old_spellings.hpp"
#include "host/cli/rank_session.hpp"
#include "host/cli/unread_output.hpp"
#include "host/plugin/reported_call.hpp"
#include "mneme/abi.h"

namespace mneme::cli {
namespace {

constexpr int kRunFailed = static_cast<int>(ErrorKind::kRun);
constexpr int kWrongUse = static_cast<int>(ErrorKind::kUsage);

// "mneme: message"; several lines stand below a line of their own, so that editors can read the
// places at their beginnings.
void print_error(const Streams& streams, std::string_view message) {
  const bool has_lines = message.find('\n') != std::string_view::npos;
  const auto lines = 1 + std::count(message.begin(), message.end(), '\n');
  const std::string head = has_lines ? str("error (", lines, " lines):\n") : "error: ";
  const bool is_coloured = streams.is_err_coloured;
  streams.err << str("mneme: ", is_coloured ? "\x1b[31m" : "", head, is_coloured ? "\x1b[0m" : "",
                     message, '\n')
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

// What is said of a word in a subcommand's place that is none; "" = there is no such word.
std::string absent_command(const CLI::App& app, const CLI::App& command) {
  const std::vector<std::string> known = known_words(command, false);
  const std::vector<std::string> words = app.remaining(true);
  if (known.empty() || words.empty() || words.front().starts_with('-'))
    return misspelt_command(command);
  const std::string near = did_you_mean(words.front(), known);
  return str("there is no subcommand \"", words.front(), '"',
             near.empty() ? ": expected " + join(known, ", ") : near);
}

// The message with the command before it and, behind it, where to read more.
std::string placed(const CLI::App& command, const std::string& what) {
  const std::string path = path_of(command);
  const std::string prefix = path == "mneme" ? "" : path.substr(path.find(' ') + 1) + ": ";
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
  return placed(command, what);
}

// `width`: columns of the help.
void build(CLI::App& app, Action& action, std::size_t width) {
  const Command program(app, action);
  app.require_subcommand(1);
  app.set_version_flag("--version", str("mneme ", MNEME_SDK_VERSION, " (ABI ", MNEME_ABI_MAJOR, '.',
                                        MNEME_ABI_MINOR, ')'));
  // Commands that are added inherit it.
  app.formatter_fn([width](const CLI::App* command, const std::string&, CLI::AppFormatMode) {
    CommandDefinition definition = definition_of(*command);
    std::error_code ignored;
    definition.examples = examples_here(std::move(definition.examples),
                                        std::filesystem::read_symlink("/proc/self/exe", ignored));
    return help_text(definition, path_of(*command), width);
  });
  add_train(program);
  add_eval(program);
  add_score(program);
  add_certify(program);
  add_decode(program);
  add_generate(program);
  add_serve(program);
  add_compare(program);
  add_report(program);
  add_verify(program);
  add_analyze(program);
  add_config(program);
  add_data(program);
  add_plugins(program);
  add_abi(program);
  add_import(program);
  add_export(program);
  add_inspect(program);
  add_doctor(program);
  add_completion(program);
  add_man(program);
  program.examples(
      {"mneme compare configs/quickstart.toml --memory configs/memory/none.toml --memory "
       "my_memory.toml",
       "mneme plugins list"});
}

// `words`: the arguments.
int run(const std::vector<std::string>& words, const Streams& streams) {
  CLI::App app(
      "A runtime for transformer memory: trains, evaluates and compares models whose memories are "
      "plugins.",
      "mneme");
  Action action;
  build(app, action, streams.out_width);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& done) {  // --help and --version
    const CLI::App& command = named_command(app);
    if (const std::string absent = absent_command(app, command); !absent.empty()) {
      print_error(streams, placed(command, absent));
      return kWrongUse;
    }
    return app.exit(done, streams.out, streams.err) == 0 ? 0 : kWrongUse;
  } catch (const CLI::ParseError& error) {
    print_error(streams, use_message(app, error));
    return kWrongUse;
  }
  const std::string command = app.get_subcommands().front()->get_name();
  if (command != "train" && command != "eval" && command != "certify" && command != "compare") {
    check_started_alone("mneme " + command);
  }
  return action(streams);
}

// Prints what a command ended with; when it is one of several ranks, all end.
int fail(const Streams& streams, const std::string& message, int exit_code) {
  print_error(streams, message_of_rank(message));
  end_ranks(exit_code);
  return exit_code;
}

// Flushes the buffer: at the latest a full disk is noticed here. Where the reader has ended, a
// command that succeeded ends as by SIGPIPE, and one that did not keeps its exit status.
void flush_results(std::ostream& out, int exit_code) {
  errno = 0;
  out.flush();
  const int code = errno;
  if (out) return;
  if (is_stdout_unread()) {
    if (exit_code == 0) end_by(SIGPIPE);
    return;
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

int main_entry(int argc, const char* const* argv, const Streams& streams) noexcept {
  try {
    try {
      int exit_code = 0;
      for (const auto& words : current_spelling({argv + std::min(argc, 1), argv + argc})) {
        exit_code = run(words, streams);
        if (exit_code != 0) break;
      }
      flush_results(streams.out, exit_code);
      return exit_code;
    } catch (const Error& error) {
      return fail(streams, error.what(), error.exit_code());
    } catch (const std::bad_alloc&) {
      return fail(streams, "out of memory; try fewer lanes or a smaller model", kRunFailed);
    } catch (const std::exception& error) {
      return fail(streams, str("unexpected failure: ", error.what()), kRunFailed);
    } catch (...) {
      return fail(streams, "unexpected failure: something that is no std::exception was thrown",
                  kRunFailed);
    }
  } catch (...) {  // even the message could not be written
    return kRunFailed;
  }
}

void Failures::add(const std::string& name, const Error& error) {
  all_.push_back({name, error});
  if (all_.size() == memories_) throw error.with_context(name);
  report_error(streams_, name, error);
}

int Failures::exit_code() const { return all_.empty() ? 0 : all_.front().error.exit_code(); }

Json Failures::json() const {
  Json list = Json::array();
  for (const Failure& one : all_) {
    list.push_back(
        {{"name", one.name}, {"message", one.error.what()}, {"exit_code", one.error.exit_code()}});
  }
  return list;
}

namespace {

using plugin::ReportedCall;

struct Fault {
  int signal;
  std::string_view words;
};
constexpr std::array kFaults = {Fault{SIGSEGV, "segmentation fault (SIGSEGV)"},
                                Fault{SIGBUS, "bus error (SIGBUS)"},
                                Fault{SIGILL, "illegal instruction (SIGILL)"},
                                Fault{SIGFPE, "integer division by zero or overflow (SIGFPE)"},
                                Fault{SIGABRT, "abort (SIGABRT)"}};

// AVX-512's registers alone take 2.7 KB of a signal's frame.
constexpr std::size_t kStackBytes = 64 * 1024;

bool g_is_terminal = false;  // stderr

// Composes one line in a fixed buffer: a signal handler may not allocate.
class Line {
 public:
  Line& add(std::string_view text) {
    const std::size_t size = std::min(text.size(), text_.size() - size_);
    std::memcpy(text_.data() + size_, text.data(), size);
    size_ += size;
    return *this;
  }
  void write() const {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_.data(), size_);
  }

 private:
  std::array<char, 1024> text_{};
  std::size_t size_ = 0;
};

extern "C" void report_and_die(int signal, siginfo_t* info, void* /*context*/) {
  const auto* const fault =
      std::ranges::find_if(kFaults, [&](const Fault& each) { return each.signal == signal; });
  const ReportedCall::Text call = ReportedCall::text();
  Line line;
  line.add(g_is_terminal ? "\nmneme: error: " : "mneme: error: ");  // behind a progress bar
  if (call.size > 0) {
    line.add(call.view()).add(": ").add(fault->words).add(": the process ends; ");
    line.add("gdb --args mneme ... shows the line\n");
  } else {
    line.add(fault->words).add(" outside of calls into plugins: the process ends; ");
    line.add("please report it with the command that you gave\n");
  }
  line.write();
  // SA_RESETHAND restored the default action: the instruction faults again, abort() raises again. A
  // signal that a process sent must be raised here.
  if (info->si_code <= 0) std::raise(signal);
}

void refuse_exit() {
  const ReportedCall::Text call = ReportedCall::text();
  if (call.size == 0) return;
  std::cout.flush();
  Line line;
  line.add("mneme: error: ").add(call.view());
  line.add(": the plugin called exit() in the middle of the run: expected a status; report it to ");
  line.add("the plugin's author\n");
  line.write();
  ::_exit(static_cast<int>(ErrorKind::kPlugin));
}

}  // namespace

void end_late(const std::string& message) {
  const std::string line = str("mneme: error: ", message, '\n');
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(static_cast<int>(ErrorKind::kPlugin));
}

void report_crashes() {
  g_is_terminal = ::isatty(STDERR_FILENO) == 1;
  static std::array<char, kStackBytes> stack;
  stack_t other{};
  sigaltstack(nullptr, &other);
  if ((other.ss_flags & SS_DISABLE) != 0) {
    other = {.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
    sigaltstack(&other, nullptr);
  }
  for (const Fault& fault : kFaults) {
    struct sigaction before {};
    sigaction(fault.signal, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_sigaction = &report_and_die;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(fault.signal, &action, nullptr);
  }
  std::atexit(&refuse_exit);
  std::at_quick_exit(&refuse_exit);
}

}  // namespace mneme::cli
