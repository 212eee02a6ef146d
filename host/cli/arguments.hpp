// The command line: subcommands and their options, and the options that several of them share.
// arguments.cpp, definition.cpp and program.cpp alone include CLI11, which takes seconds to compile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/cli/definition.hpp"
#include "host/cli/streams.hpp"
#include "host/cli/use_rules.hpp"
#include "host/config/toml/toml.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mneme::cli {

// A subcommand whose arguments were read. Returns the exit code; throws Error.
using Action = std::function<int(const Streams&)>;

inline constexpr std::int64_t kMaxSamples = 100'000;      // generated texts of a run
inline constexpr std::int64_t kMaxExtent = 1'048'576;     // of a tensor, as in an experiment
inline constexpr std::int64_t kMaxCount = 1'000'000'000;  // of steps and the like

// What the value of an option has to be, how it is given, or how the help shows it.
using Trait = std::function<void(CLI::Option&)>;

// An integer in [least, most]: "--lanes: expected an integer in [1, 1048576], got 0".
[[nodiscard]] Trait in(std::int64_t least, std::int64_t most);
// A real number in [0, 1].
void in_unit_interval(CLI::Option& option);
// A finite number above 0.
void above_zero(CLI::Option& option);
// One of `words`, or a word that `fits`; a message calls the latter `pattern`: "cuda:N".
[[nodiscard]] Trait one_of(const std::vector<std::string>& words, const std::string& pattern = "",
                           bool (*fits)(std::string_view) = nullptr);
// A text that is not empty, which variables and the commands' code take for an absent option:
// "--out: expected a path, got an empty text". Options whose variables are paths have the check.
[[nodiscard]] Trait not_empty(const std::string& expected);
void required(CLI::Option& option);
// The help shows the value that the variable has now as the default.
void shown(CLI::Option& option);
// Takes one value each time that it is given, not all words up to the next option.
void one_each(CLI::Option& option);
// One word holds several values, separated by `separator`.
[[nodiscard]] Trait delimiter(char separator);
// Takes exactly `count` values.
[[nodiscard]] Trait expected(int count);
// May be given without a value, which is `text` then.
[[nodiscard]] Trait optional_value(const std::string& text);

// A subcommand while its options are declared; a reference to what the parser owns.
class Command {
 public:
  // Parsing sets `action` to what the named subcommand runs.
  Command(CLI::App& app, Action& action) : app_(&app), action_(&action) {}

  [[nodiscard]] Command subcommand(const std::string& name, const std::string& help) const;
  // One of the subcommands must be named.
  void require_subcommand() const;
  // `name` as "--lanes", or without hyphens for a positional argument; `type` is what the help
  // shows for its value; parsing sets `value`, which must outlive the command. T: the types that
  // arguments.cpp instantiates.
  template <typename T>
  void option(const std::string& name, T& value, const std::string& type, const std::string& help,
              std::initializer_list<Trait> traits = {}) const;
  void flag(const std::string& name, bool& value, const std::string& help) const;
  // The command as it is declared now, with everything below it.
  [[nodiscard]] CommandDefinition definition() const;
  // After parsing: whether the command line has the option.
  [[nodiscard]] bool is_given(const std::string& option) const;
  // Ends the command's --help with examples, one command line each; "mneme " at its beginning
  // becomes the program's name.
  void examples(const std::vector<std::string>& lines) const;

  // What naming the command runs, with arguments that it keeps alive. `check`, when given, is
  // called right after parsing, and then the options that are given are held against `use`, which
  // the help of those that were added shows too.
  template <typename Arguments>
  void runs(std::shared_ptr<Arguments> arguments, int (*run)(const Arguments&, const Streams&),
            const std::function<void()>& check = nullptr, const UseTable& use = {}) const {
    set_action([arguments, run](const Streams& streams) { return run(*arguments, streams); }, check,
               use);
  }
  // "data prepare"
  [[nodiscard]] std::string path() const;
  // After parsing: the command as it was typed, for messages, without --json, --quiet, --dry-run and
  // these options; messages that end in --checkpoint name another one.
  [[nodiscard]] std::string typed(const std::set<std::string>& left_out = {"--checkpoint"}) const;
  // Inside `check`: the parser's error for a required argument that is absent.
  static void require(const std::string& name, bool is_given);

 private:
  // Nothing happens when a subcommand of this one is named.
  void set_action(Action action, const std::function<void()>& check, const UseTable& use) const;

  CLI::App* app_;
  Action* action_;
};

// Fail early, before long work, when the file or the folder that `option` names could not be
// written: a folder above it cannot be made or written, a file is a folder or the reverse, or a
// descriptor is not open for writing. They make nothing. Error (kUsage).
void check_output_file(const std::string& option, const std::filesystem::path& path);
// A folder that is there is written into, and nothing is asked of the folder above it.
void check_output_folder(const std::string& option, const std::filesystem::path& path);
// Of a folder that is made under another name beside it and renamed: the folder above it must be
// one that can be written, also when an empty folder is there.
void check_new_folder(const std::string& option, const std::filesystem::path& path);

// --json FILE: the command's results for programs; "-" is stdout.
class JsonArgument {
 public:
  JsonArgument() = default;
  explicit JsonArgument(std::string path) : path_(std::move(path)) {}

  void add(const Command& command);
  [[nodiscard]] bool is_given() const { return !path_.empty(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  // True when printed results would be mixed with the JSON.
  [[nodiscard]] bool is_stdout() const { return path_ == "-"; }
  [[nodiscard]] bool is_file() const { return is_given() && !is_stdout(); }
  // Where results for people go: streams.out, or nowhere when the JSON is there.
  [[nodiscard]] std::ostream& text(const Streams& streams) const;
  // As check_output_file.
  void check() const;
  // Writes the JSON and a line end, when asked for. The text results go to streams.out first:
  // they are not lost when the file cannot be written. Error (kRun).
  void write(const Json& json, const Streams& streams) const;

 private:
  std::string path_;
};

// --set KEY=VALUE and --unset KEY, repeatable.
class SetArgument {
 public:
  void add(const Command& command);
  // Error (kUsage) for one that is no KEY=VALUE, or no KEY.
  [[nodiscard]] std::vector<config::Override> overrides() const;
  // The options as arguments of a program.
  [[nodiscard]] std::vector<std::string> words() const;

 private:
  std::vector<std::string> texts_;
  std::vector<std::string> removed_;
};

// --memory FILE, repeatable.
void add_memory_files(const Command& command, std::vector<std::filesystem::path>& files,
                      const std::string& help);

// --locked
void add_locked(const Command& command, bool& is_locked);

// --trial-seconds N
void add_trial_seconds(const Command& command, std::int64_t& seconds);

}  // namespace mneme::cli
