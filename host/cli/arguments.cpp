#include "host/cli/arguments.hpp"

#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <type_traits>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/write_file.hpp"
#include "host/base/integer.hpp"
#include "host/base/json_output.hpp"
#include "host/base/text.hpp"
#include "host/cli/streams.hpp"
#include "host/config/toml/schema.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/tensor/device.hpp"

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

}  // namespace

const Option& Option::in(std::int64_t least, std::int64_t most) const {
  const auto check = [least, most](const std::string& text) -> std::string {
    const auto value = integer_of<std::int64_t>(text);
    if (value && *value >= least && *value <= most) return "";
    return str("expected ", config::range_text(config::IntegerRange{least, most}), ", got ", text);
  };
  option_->check(check);
  return *this;
}

const Option& Option::in_unit_interval() const {
  option_->check([](const std::string& text) -> std::string {
    double value = 0.0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    if (is_number && value >= 0.0 && value <= 1.0) return "";
    return "expected a number in [0, 1], got " + text;
  });
  return *this;
}

const Option& Option::one_of(const std::vector<std::string>& words) const {
  return one_of(words, "", nullptr);
}

const Option& Option::one_of(const std::vector<std::string>& words, const std::string& pattern,
                             bool (*fits)(std::string_view)) const {
  const auto check = [words, pattern, fits](const std::string& text) -> std::string {
    if (std::ranges::find(words, text) != words.end()) return "";
    if (fits != nullptr && fits(text)) return "";
    return str("expected ", quoted_list(words), fits == nullptr ? "" : " | ", pattern, ", got \"",
               text, '"', did_you_mean(text.substr(0, text.find(':')), words));  // "gpu:0"
  };
  option_->check(check, '{' + join(words, ",") + '}');  // definition_of reads the words from it
  return *this;
}

const Option& Option::not_empty(const std::string& expected) const {
  option_->check([expected](const std::string& text) -> std::string {
    return text.empty() ? "expected " + expected + ", got an empty text" : "";
  });
  return *this;
}

const Option& Option::required() const {
  option_->required();
  return *this;
}

const Option& Option::shown() const {
  option_->capture_default_str();
  return *this;
}

const Option& Option::one_each() const {
  option_->allow_extra_args(false);
  return *this;
}

const Option& Option::delimiter(char separator) const {
  option_->delimiter(separator);
  return *this;
}

const Option& Option::expected(int count) const {
  option_->expected(count);
  return *this;
}

const Option& Option::expected(int least, int most) const {
  option_->expected(least, most);
  return *this;
}

const Option& Option::default_str(const std::string& text) const {
  option_->default_str(text);
  return *this;
}

bool Option::is_given() const { return option_->count() > 0; }

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
void refuse_options(CLI::Option& option, const std::string& type) {
  const std::string expected = type_text(type);
  option.check([expected, is_path = expected != type](const std::string& text) -> std::string {
    if (!text.starts_with("--")) return "";
    const std::string message = str("expected ", expected, ", got ", text);
    return is_path ? str(message, "; a path that begins so is given as ./", text) : message;
  });
}

template <typename T>
constexpr bool kIsText =
    std::is_same_v<T, std::string> || std::is_same_v<T, std::optional<std::string>> ||
    std::is_same_v<T, std::vector<std::string>> || std::is_same_v<T, fs::path> ||
    std::is_same_v<T, std::vector<fs::path>>;

}  // namespace

template <typename T>
Option Command::option(const std::string& name, T& value, const std::string& type,
                       const std::string& help) const {
  CLI::Option* const parsed = app_->add_option(name, value, help)->type_name(type);
  // A text, such as that of --prompt, may begin with anything.
  if (kIsText<T> && name.starts_with("--") && type != "TEXT") refuse_options(*parsed, type);
  const Option option(parsed);
  if constexpr (std::is_same_v<T, fs::path> || std::is_same_v<T, std::vector<fs::path>>) {
    option.not_empty("a path");
  }
  return option;
}

#define MNEME_OPTION_OF(...)                                                            \
  template Option Command::option(const std::string&, __VA_ARGS__&, const std::string&, \
                                  const std::string&) const
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

CommandDefinition Command::definition() const { return definition_of(*app_); }

Option Command::operator[](const std::string& name) const { return Option(app_->get_option(name)); }

void Command::examples(const std::vector<std::string>& lines) const {
  app_->footer("Examples:\n  " + join(lines, "\n  "));
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
  std::string text = "mneme " + path();
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
  command
      .option("--json", path_, "FILE",
              "Write the results as JSON to FILE; - is stdout, without the text")
      .not_empty("a path");
}

void JsonArgument::check() const {
  if (is_given() && !is_stdout()) check_output_file("--json", path_);
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
  command
      .option("--set", texts_, "KEY=VALUE",
              "Set one key of the experiment, as train.lr=1e-3; may be given several times")
      .one_each();
  command
      .option("--unset", removed_, "KEY",
              "Remove one key of the experiment, as train.epochs, before --set; its default "
              "holds then; may be given several times")
      .one_each();
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

Option add_memory_files(const Command& command, std::vector<fs::path>& files,
                        const std::string& help) {
  return command.option("--memory", files, "FILE", help).one_each();
}

void add_locked(const Command& command, bool& is_locked) {
  command.flag("--locked", is_locked,
               "Refuse plugin files that are not those of the lock file (mneme plugins lock) or, "
               "for a run's own memory, of the run");
}

void add_trial_seconds(const Command& command, std::int64_t& seconds) {
  command
      .option("--trial-seconds", seconds, "N",
              "A trial that has not ended after N seconds is killed")
      .in(1, kMaxCount)
      .shown();
}

void MachineArguments::add_place(const Command& command) {
  command.option("--device", device, "DEVICE", "Where to compute: cpu, cuda or cuda:N")
      .one_of({"cpu", "cuda"}, "cuda:N", &tensor::is_cuda_name)
      .shown();
  command
      .option("--threads", threads, "N",
              "Threads to compute with; 0 = OMP_NUM_THREADS, or as many as the process may use, "
              "and one "
              "for a small model")
      .in(0, 4096);
}

void MachineArguments::add(const Command& command) {
  add_place(command);
  command.flag("--force", is_forced, "Run even if the model may need more memory than is free");
}

FreeMemorySource MachineArguments::free_memory() const {
  if (is_forced) return nullptr;
  return [] { return mneme::free_memory(); };
}

Option add_plugin_folders(const Command& command, std::vector<fs::path>& folders) {
  return command
      .option("--plugins", folders, "DIR",
              "Folder to look in, instead of the program's own plugins; may be given several "
              "times")
      .one_each();
}

std::vector<fs::path> plugin_folders(const std::vector<fs::path>& given) {
  std::vector<fs::path> folders;
  for (const fs::path& folder : given) folders.push_back(fs::absolute(folder).lexically_normal());
  if (!folders.empty()) return folders;
  const fs::path& folder = plugin::default_plugin_folder();
  std::error_code ignored;
  if (folder.empty() || !fs::is_directory(folder, ignored)) {
    throw_usage(
        {.where = "plugins",
         .failed = "no folder to look in",
         .expected = "a folder " + folder.string(),
         .got = "none",
         .hint = "name one with --plugins DIR; mneme doctor says what an installation lacks"});
  }
  return {folder};
}

}  // namespace mneme::cli
