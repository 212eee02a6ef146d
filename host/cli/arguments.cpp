#include "host/cli/arguments.hpp"

#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <type_traits>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/write_file.hpp"
#include "host/base/integer.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/cli/streams.hpp"
#include "host/config/toml/schema.hpp"

namespace mneme::cli {

namespace fs = std::filesystem;

namespace {

// Why the file could not be written; "" = no obstacle is visible without opening it.
std::string obstacle(const fs::path& path) {
  const OutputPlace place = read_input([&] { return find_output_place(path); });
  switch (place.kind) {
    case OutputPlace::Kind::kFolder:
      return "a folder";
    case OutputPlace::Kind::kDescriptor: {
      const int flags = ::fcntl(place.descriptor, F_GETFL);
      if (flags < 0) return str("descriptor ", place.descriptor, ", which is not open");
      if ((flags & O_ACCMODE) != O_RDONLY) return "";
      return str("descriptor ", place.descriptor, ", which is open for reading only");
    }
    case OutputPlace::Kind::kNode:
      return "";
    case OutputPlace::Kind::kFile:
      break;
  }
  return obstacle_above(place.path);
}

// `fault` says what is wrong with a value; "" = nothing.
Trait checked(const std::function<std::string(const std::string&)>& fault,
              const std::string& description = "") {
  return [fault, description](CLI::Option& option) { option.check(fault, description); };
}

}  // namespace

Trait in(std::int64_t least, std::int64_t most) {
  return checked([least, most](const std::string& text) {
    const auto value = integer_of<std::int64_t>(text);
    if (value && *value >= least && *value <= most) return std::string();
    return str("expected ", config::range_text(config::IntegerRange{least, most}), ", got ", text);
  });
}

void in_unit_interval(CLI::Option& option) {
  option.check([](const std::string& text) {
    double value = 0.0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    return is_number && value >= 0.0 && value <= 1.0 ? ""
                                                     : "expected a number in [0, 1], got " + text;
  });
}

void above_zero(CLI::Option& option) {
  option.check([](const std::string& text) {
    double value = 0.0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    return is_number && value > 0.0 && std::isfinite(value)
               ? ""
               : "expected a number above 0, got " + text;
  });
}

Trait one_of(const std::vector<std::string>& words, const std::string& pattern,
             bool (*fits)(std::string_view)) {
  const auto fault = [words, pattern, fits](const std::string& text) {
    if (std::ranges::find(words, text) != words.end()) return std::string();
    if (fits != nullptr && fits(text)) return std::string();
    return str("expected ", quoted_list(words), fits == nullptr ? "" : " | ", pattern, ", got \"",
               text, '"', did_you_mean(text.substr(0, text.find(':')), words));  // "gpu:0"
  };
  return checked(fault, '{' + join(words, ",") + '}');  // definition_of reads the words from it
}

Trait not_empty(const std::string& expected) {
  return checked([expected](const std::string& text) {
    return text.empty() ? "expected " + expected + ", got an empty text" : "";
  });
}

void required(CLI::Option& option) { option.required(); }

void shown(CLI::Option& option) { option.capture_default_str(); }

void one_each(CLI::Option& option) { option.allow_extra_args(false); }

Trait delimiter(char separator) {
  return [separator](CLI::Option& option) { option.delimiter(separator); };
}

Trait expected(int count) {
  return [count](CLI::Option& option) { option.expected(count); };
}

Trait optional_value(const std::string& text) {
  return [text](CLI::Option& option) { option.expected(0, 1)->default_str(text); };
}

Command Command::subcommand(const std::string& name, const std::string& help) const {
  return {*app_->add_subcommand(name, help), *action_};
}

void Command::require_subcommand() const { app_->require_subcommand(1); }

namespace {

// "a folder" of "DIR".
std::string type_text(const std::string& type) {
  if (type == "DIR") return "a folder";
  if (type.starts_with("FILE")) return "a file";
  if (type == "RUN") return "the folder of a run";
  return type;
}

// Refuses another option in the place of a path or a name that was forgotten: --run --dry-run.
Trait no_option(const std::string& type) {
  const std::string expected = type_text(type);
  return checked([expected, is_path = expected != type](const std::string& text) {
    if (!text.starts_with("--")) return std::string();
    const std::string message = str("expected ", expected, ", got ", text);
    return is_path ? str(message, "; a path that begins so is given as ./", text) : message;
  });
}

template <typename T>
constexpr bool kIsPath = std::is_same_v<T, fs::path> || std::is_same_v<T, std::vector<fs::path>>;
template <typename T>
constexpr bool kIsText =
    kIsPath<T> || std::is_same_v<T, std::string> || std::is_same_v<T, std::optional<std::string>> ||
    std::is_same_v<T, std::vector<std::string>>;

}  // namespace

template <typename T>
void Command::option(const std::string& name, T& value, const std::string& type,
                     const std::string& help, std::initializer_list<Trait> traits) const {
  CLI::Option& option = *app_->add_option(name, value, help)->type_name(type);
  // A text, such as that of --prompt, may begin with anything.
  if (kIsText<T> && name.starts_with("--") && type != "TEXT") no_option(type)(option);
  if (kIsPath<T>) not_empty("a path")(option);
  for (const Trait& trait : traits) trait(option);
}

#define MNEME_OPTION_OF(...)                                                          \
  template void Command::option(const std::string&, __VA_ARGS__&, const std::string&, \
                                const std::string&, std::initializer_list<Trait>) const
MNEME_OPTION_OF(std::string);
MNEME_OPTION_OF(fs::path);
MNEME_OPTION_OF(std::int64_t);
MNEME_OPTION_OF(std::uint64_t);
MNEME_OPTION_OF(double);
MNEME_OPTION_OF(std::optional<std::string>);
MNEME_OPTION_OF(std::optional<std::int64_t>);
MNEME_OPTION_OF(std::optional<double>);
MNEME_OPTION_OF(std::vector<std::string>);
MNEME_OPTION_OF(std::vector<fs::path>);
MNEME_OPTION_OF(std::vector<std::int64_t>);
MNEME_OPTION_OF(std::vector<double>);
#undef MNEME_OPTION_OF

void Command::flag(const std::string& name, bool& value, const std::string& help) const {
  app_->add_flag(name, value, help);
}

namespace {

const CLI::App& program_of(const CLI::App& command) {
  const CLI::App* app = &command;
  while (app->get_parent() != nullptr) app = app->get_parent();
  return *app;
}

}  // namespace

CommandDefinition Command::definition() const { return definition_of(*app_); }

bool Command::is_given(const std::string& option) const { return app_->count(option) > 0; }

void Command::examples(const std::vector<std::string>& lines) const {
  std::string text = "Examples:";
  const std::string name = program_of(*app_).get_name();
  for (const std::string& line : lines) {
    const bool is_of_mneme = line.starts_with("mneme ");  // as the lines of every command
    text += "\n  " + (is_of_mneme ? name + line.substr(line.find(' ')) : line);
  }
  app_->footer(text);
}

void Command::require(const std::string& name, bool is_given) {
  if (!is_given) throw CLI::RequiredError(name);
}

namespace {

// "--lanes", or of a positional argument "EXP".
std::string name_of(const CLI::Option& option) {
  return option.get_positional() ? option.get_name(true) : "--" + option.get_lnames().front();
}

std::set<std::string> given_to(const CLI::App& app, const UseTable& use) {
  std::set<std::string> given;
  for (const CLI::Option* option : app.get_options({})) {
    if (option->count() == 0) continue;
    const std::string name = name_of(*option);
    given.insert(
        {name, option->count() > 1 ? "several " + name : name + ' ' + option->results().front()});
  }
  if (use.modes) {
    for (const std::string& mode : use.modes()) given.insert(mode);
  }
  return given;
}

}  // namespace

std::string Command::path() const {
  std::string path = app_->get_name();
  for (const CLI::App* app = app_->get_parent(); app->get_parent() != nullptr;
       app = app->get_parent()) {
    path = app->get_name() + ' ' + path;
  }
  return path;
}

std::string Command::typed(const std::set<std::string>& left_out) const {
  const std::set<std::string> irrelevant = {"--json", "--quiet", "--dry-run"};
  std::string text = program_of(*app_).get_name() + ' ' + path();
  for (const CLI::Option* option : app_->get_options({})) {
    const std::string name = name_of(*option);
    if (option->count() == 0 || irrelevant.contains(name) || left_out.contains(name)) continue;
    for (const std::string& value : option->results()) {
      if (!option->get_positional()) text += ' ' + name;
      if (option->get_items_expected_max() > 0) text += ' ' + shell_word(value);
    }
  }
  return text;
}

void Command::set_action(Action action, const std::function<void()>& check,
                         const UseTable& use) const {
  const std::vector<UseRule> rules = read_rules(use.rules);
  for (CLI::Option* option : app_->get_options([](const CLI::Option*) { return true; })) {
    option->description(help_with_rules(name_of(*option), option->get_description(), rules));
  }
  app_->callback(
      [app = app_, set = action_, action = std::move(action), check, rules, use, command = *this] {
        if (!app->get_subcommands().empty()) return;
        const std::string misspelt = misspelt_command(*app);
        if (!misspelt.empty()) throw CLI::ValidationError(misspelt);
        if (check) check();
        check_use(command.path(), rules, given_to(*app, use));
        *set = action;
      });
}

void check_output_file(const std::string& option, const fs::path& path) {
  const std::string got = obstacle(path);
  if (got.empty()) return;
  throw_usage({.where = option + ' ' + path.string(),
               .failed = "cannot be written",
               .expected = "a file in a folder that is there or can be made",
               .got = got});
}

void check_output_folder(const std::string& option, const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return check_new_folder(option, path);
  const std::string got = obstacle_in(path);
  if (got.empty()) return;
  throw_usage({.where = option + ' ' + path.string(),
               .failed = "cannot be written",
               .expected = "a folder in which files can be made",
               .got = got});
}

void check_new_folder(const std::string& option, const fs::path& path) {
  std::error_code ignored;
  const bool is_other =
      fs::exists(fs::symlink_status(path, ignored)) && !fs::is_directory(path, ignored);
  const bool is_link = is_other && !fs::exists(path, ignored);
  const std::string got = is_link    ? "a link that leads nowhere"
                          : is_other ? "a file"
                                     : obstacle_above(path);
  if (got.empty()) return;
  throw_usage({.where = option + ' ' + path.string(),
               .failed = "cannot be made",
               .expected = "a folder that is there or can be made",
               .got = got});
}

void JsonArgument::add(const Command& command) {
  const Trait is_named = not_empty("a path");
  command.option("--json", path_, "FILE",
                 "Write the results as JSON to FILE; - is stdout, without the text", {is_named});
}

std::ostream& JsonArgument::text(const Streams& streams) const {
  static std::ostream nowhere(nullptr);
  return is_stdout() ? nowhere : streams.out;
}

void JsonArgument::check() const {
  if (is_file()) check_output_file("--json", path_);
}

void JsonArgument::write(const Json& json, const Streams& streams) const {
  // The text is flushed first: it is printed even when the file cannot be written, and precedes the
  // JSON where both go to the same place.
  streams.out << std::flush;
  if (!is_given()) return;
  // Losses may be nan or inf, which JSON cannot hold: they become null. Text is UTF-8 or replaced.
  const std::string text = json_text(json, 2) + '\n';
  if (is_stdout()) {
    streams.out << text << std::flush;
  } else {
    make_parents(path_);
    write_file_atomic(path_, text);
  }
}

void SetArgument::add(const Command& command) {
  command.option("--set", texts_, "KEY=VALUE",
                 "Set one key of the experiment, as train.lr=1e-3; may be given several times",
                 {one_each});
  command.option("--unset", removed_, "KEY",
                 "Remove one key of the experiment, as train.epochs, before --set; its default "
                 "holds then; may be given several times",
                 {one_each});
}

std::vector<config::Override> SetArgument::overrides() const {
  std::vector<config::Override> overrides;
  for (const std::string& key : removed_) overrides.push_back(config::parse_removal(key));
  for (const std::string& text : texts_) overrides.push_back(config::parse_override(text));
  return overrides;
}

std::vector<std::string> SetArgument::words() const {
  std::vector<std::string> words;
  for (const std::string& key : removed_) words.insert(words.end(), {"--unset", key});
  for (const std::string& pair : texts_) words.insert(words.end(), {"--set", pair});
  return words;
}

void add_memory_files(const Command& command, std::vector<fs::path>& files,
                      const std::string& help) {
  command.option("--memory", files, "FILE", help, {one_each});
}

void add_locked(const Command& command, bool& is_locked) {
  command.flag("--locked", is_locked,
               "Refuse plugin files that are not those of the lock file (mneme plugins lock) or, "
               "for a run's own memory, of the run");
}

void add_trial_seconds(const Command& command, std::int64_t& seconds) {
  command.option("--trial-seconds", seconds, "N",
                 "A trial that has not ended after N seconds is killed", {in(1, kMaxCount), shown});
}

}  // namespace mneme::cli
