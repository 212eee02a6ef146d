// mneme plugins validate
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/json_text.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/machine_arguments.hpp"
#include "host/cli/plugins/plugins.hpp"
#include "host/cli/streams.hpp"
#include "host/config/experiment.hpp"
#include "host/config/memory_file.hpp"
#include "host/config/toml/toml.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/tensor/device.hpp"
#include "host/trial/limited_child.hpp"
#include "host/trial/warm_program.hpp"
#include "host/trial/warm_python.hpp"
#include "host/validate/check.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;
using validate::Check;
using validate::Grade;
using validate::Outcome;
using validate::Subject;

constexpr std::int64_t kSeconds = 300;
constexpr const char* kCheckMark = "mneme-check ";  // begins the line that a check ends with

struct ValidateArguments {
  std::string name;
  std::vector<fs::path> folders;
  std::vector<std::string> options;
  std::vector<std::string> only;
  std::vector<std::string> exclude;
  std::uint64_t seed = 1;
  std::int64_t seconds = kSeconds;
  std::int64_t jobs = 1;
  JsonArgument json;
  bool is_list = false;
  std::string here;
};

// What became of a check. `word` is a Grade's, or "crash", "timeout" or "left out".
struct Result {
  std::string word;
  std::string text;
  double seconds = 0.0;
  std::string failed = {};  // of one that was left out: the check that failed

  [[nodiscard]] bool is_failure() const {
    return word == "fail" || word == "crash" || word == "timeout";
  }
};

Subject subject_of(const ValidateArguments& arguments) {
  return {.file = plugin_file(arguments.name, arguments.folders, "plugins validate"),
          .options = tier_options(arguments.options),
          .seed = arguments.seed};
}

// Refuses an option that the plugin does not have and a value that its schema excludes, before any
// check. A process of its own asks the plugin; where it gives no answer the checks tell why.
void check_options(const Subject& subject, std::int64_t seconds) {
  if (subject.options.empty()) return;
  const ChildResult child =
      trial::WarmProgram(inherited_signal_mask())
          .run({"plugins", "describe", subject.file.string(), "--json", "-"}, seconds);
  const Json json = Json::parse(child.out, nullptr, false);
  if (child.exit_code != 0 || !json.is_object() || !json.contains("options")) return;
  std::vector<config::OptionSpec> specs;
  std::vector<std::string> known;
  for (const Json& option : json.at("options")) {
    specs.push_back(option_spec(option));
    known.push_back(specs.back().key);
  }
  config::TierConfig tier{.plugin = subject.file.string()};
  for (const std::string& option : subject.options) {
    const std::string key = option.substr(0, option.find('='));
    const bool is_known = std::ranges::find(known, key) != known.end();
    if (is_known || key.starts_with("eval_")) {
      config::Value table = config::Value::table({}, "");
      config::apply_override(table, config::parse_override(option));
      for (const config::Member& one : table.members()) {
        (is_known ? tier.options : tier.eval_options)
            .set(is_known ? one.key : one.key.substr(5), one.key_position, one.value);
      }
      continue;
    }
    throw_usage(
        {.where = "--set " + option,
         .failed = "there is no such option" + did_you_mean(key, known),
         .expected = known.empty() ? "none: the plugin has no options" : join(known, ", ")});
  }
  static_cast<void>(config::resolve_options(tier, specs));
}

// Whether `name` is `pattern` or belongs to the group of that name.
bool matches(std::string_view name, const std::string& pattern) {
  return name == pattern ||
         (name.starts_with(pattern) && name.size() > pattern.size() && name[pattern.size()] == '.');
}

void check_names(const std::vector<std::string>& patterns, const char* option) {
  std::vector<std::string> names;
  for (const Check& check : validate::all_checks()) {
    names.emplace_back(check.name);
    names.emplace_back(check.name.substr(0, check.name.find('.')));
  }
  for (const std::string& pattern : patterns) {
    if (std::ranges::find(names, pattern) != names.end()) continue;
    throw_usage({.where = str(option, ' ', pattern),
                 .failed = "there is no such check" + did_you_mean(pattern, names),
                 .expected = "a check, or a group of checks",
                 .hint = "mneme plugins validate --list shows them"});
  }
}

std::vector<const Check*> chosen_checks(const ValidateArguments& arguments) {
  check_names(arguments.only, "--only");
  check_names(arguments.exclude, "--exclude");
  std::vector<const Check*> out;
  for (const Check& check : validate::all_checks()) {
    const auto is_named = [&](const std::string& pattern) { return matches(check.name, pattern); };
    const bool is_wanted = arguments.only.empty() || std::ranges::any_of(arguments.only, is_named);
    if (is_wanted && std::ranges::none_of(arguments.exclude, is_named)) out.push_back(&check);
  }
  return out;
}

std::vector<std::string> arguments_of(const Subject& subject, const Check& check) {
  std::vector<std::string> words = {
      "plugins", "validate",       subject.file.string(), "--here", std::string(check.name),
      "--seed",  str(subject.seed)};
  for (const std::string& option : subject.options) words.insert(words.end(), {"--set", option});
  return words;
}

std::string typed(const Subject& subject, const Check& check) {
  Subject here = subject;
  here.file = fs::proximate(subject.file);  // shorter, and as people type it
  std::string text = "mneme";
  for (const std::string& word : arguments_of(here, check)) text += ' ' + shell_word(word);
  return text;
}

// What a check's process said, or how it ended instead.
Result result_of(const ChildResult& child) {
  Result result{.word = "crash", .text = trial::message_in(child.err), .seconds = child.seconds};
  const std::size_t at = child.out.rfind(kCheckMark);
  if (at != std::string::npos && child.signal == 0) {
    const Json json =
        Json::parse(child.out.substr(at + std::string_view(kCheckMark).size()), nullptr, false);
    if (json.is_object()) {
      result.word = json.value("verdict", "fail");
      result.text = json.value("text", "");
      return result;
    }
  }
  const bool is_late = child.is_timed_out ||
                       result.text.find("has not ended") != std::string::npos ||
                       result.text.find("has not returned") != std::string::npos;
  std::string end;
  if (is_late) {
    result.word = "timeout";
    end = str("it had not ended after ", format_number(child.seconds, 0), " s");
  } else if (child.signal != 0) {
    end = "ended by " + signal_text(child.signal);
  } else {
    end = str("its process ended with exit code ", child.exit_code);
  }
  result.text = result.text.empty() ? end : str(end, ": ", result.text);
  return result;
}

// Runs the checks, each in a process of its own, and hands results on in the order of the checks.
class Runner {
 public:
  Runner(const ValidateArguments& arguments, Subject subject)
      : arguments_(arguments), subject_(std::move(subject)), checks_(chosen_checks(arguments)) {}

  [[nodiscard]] const std::vector<const Check*>& checks() const { return checks_; }

  template <typename F>
  void run(F on_result) {
    results_.resize(checks_.size());
    std::vector<std::thread> workers;
    const auto count =
        std::min<std::size_t>(static_cast<std::size_t>(arguments_.jobs), checks_.size());
    for (std::size_t i = 0; i < count; ++i) workers.emplace_back([this] { work(); });
    for (std::size_t i = 0; i < checks_.size(); ++i) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return results_[i].has_value(); });
      const Result result = *results_[i];
      lock.unlock();
      on_result(*checks_[i], result);
    }
    for (std::thread& worker : workers) worker.join();
  }

 private:
  void work() {
    trial::WarmProgram program(inherited_signal_mask());
    for (;;) {
      const std::size_t i = next_++;
      if (i >= checks_.size()) return;
      Result result;
      try {
        result = run_one(*checks_[i], program);
      } catch (const Error& error) {
        result = {.word = "fail", .text = error.what()};
      }
      const std::lock_guard lock(mutex_);
      results_[i] = std::move(result);
      changed_.notify_all();
    }
  }

  Result run_one(const Check& check, trial::WarmProgram& program) {
    for (const std::string_view name : check.after) {
      const std::string failed = failed_one(name);
      if (!failed.empty())
        return {.word = "left out",
                .text = failed + " failed, without which it says nothing",
                .failed = failed};
    }
    return result_of(program.run(arguments_of(subject_, check), arguments_.seconds));
  }

  // The check of that name when it failed, or the one because of which it was left out; "" for
  // neither. Waits for it.
  std::string failed_one(std::string_view name) {
    const auto found =
        std::ranges::find(checks_, name, [](const Check* check) { return check->name; });
    if (found == checks_.end()) return "";
    const auto index = static_cast<std::size_t>(found - checks_.begin());
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return results_[index].has_value(); });
    const Result& result = *results_[index];
    return result.is_failure() ? std::string(name) : result.failed;
  }

  const ValidateArguments& arguments_;
  Subject subject_;
  std::vector<const Check*> checks_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Result>> results_;
};

void print(const Check& check, std::string_view word, const std::string& text,
           const Streams& streams) {
  constexpr std::size_t kNameWidth = 24;
  std::string line(check.name);
  line.resize(std::max(kNameWidth, line.size() + 1), ' ');
  line += word;
  if (!text.empty()) line += ": " + text;
  streams.out << fit_lines(line + '\n', streams.out_width) << std::flush;
}

Json json_of(const Check& check, const Result& result) {
  return {{"name", check.name},
          {"question", check.question},
          {"result", result.word},
          {"text", result.text},
          {"seconds", result.seconds}};
}

// "58 passed, 1 with a warning, 7 skipped, 0 failed"; then how many failures left out.
std::string counts_text(const std::map<std::string, std::int64_t>& counts, std::int64_t failures) {
  const auto count = [&](const char* word) {
    const auto found = counts.find(word);
    return found == counts.end() ? std::int64_t{0} : found->second;
  };
  const std::string text = str(count("pass"), " passed, ", count("warn"), " with a warning, ",
                               count("skip"), " skipped, ", failures, " failed");
  const std::int64_t left_out = count("left out");
  return left_out == 0 ? text
                       : str(text, "; ", left_out, " left out that say nothing before these hold");
}

int list_checks(const Streams& streams) {
  for (const Check& check : validate::all_checks()) {
    std::string line(check.name);
    line.resize(std::max<std::size_t>(24, line.size() + 1), ' ');
    streams.out << fit_lines(str(line, check.question, '\n'), streams.out_width);
  }
  return 0;
}

int check_here(const ValidateArguments& arguments, const Subject& subject, const Streams& streams) {
  check_names({arguments.here}, "--here");
  const auto& checks = validate::all_checks();
  const auto check = std::ranges::find(checks, arguments.here, &Check::name);
  if (check == checks.end()) {
    throw_usage({.where = "--here " + arguments.here,
                 .failed = "it names a group",
                 .expected = "one check"});
  }
  Outcome outcome;
  {
    trial::warm_python({subject.file.string()});
    const bool is_python = config::is_python_memory(subject.file);
    const auto deadline =
        trial::limit_this_process("--seconds", &end_late, is_python ? trial::kImportOfTorch : "");
    const LogListener silence([](LogLevel, std::string_view) { return false; });
    tensor::set_threads(1);  // the models are small, and --jobs runs several
    outcome = validate::run_check(*check, subject);
  }
  const std::string_view word = validate::to_word(outcome.grade);
  if (std::getenv(trial::kSecondsVariable) == nullptr) {  // typed by somebody
    print(*check, word, outcome.text, streams);
  } else {
    streams.out << kCheckMark << json_text({{"verdict", word}, {"text", outcome.text}}) << '\n'
                << std::flush;
  }
  return outcome.grade == Grade::kFail ? static_cast<int>(ErrorKind::kPlugin) : 0;
}

int validate_plugin(const ValidateArguments& arguments, const Streams& streams) {
  if (arguments.is_list) return list_checks(streams);
  if (arguments.name.empty()) {
    throw_usage({.where = "plugins validate",
                 .failed = "no plugin is named",
                 .expected = "its file, or its name or id in a plugin folder"});
  }
  const Subject subject = subject_of(arguments);
  if (!arguments.here.empty()) return check_here(arguments, subject, streams);
  arguments.json.check();
  Runner runner(arguments, subject);
  check_options(subject, arguments.seconds);
  const bool is_for_people = !arguments.json.is_stdout();
  const std::string sha256 = plugin::sha256_of_plugin(subject.file);  // an error comes first
  if (is_for_people) {
    const std::size_t count = runner.checks().size();
    streams.out << subject.file.string() << "\n  sha256 " << sha256 << "\n  seed " << subject.seed
                << ", " << count << (count == 1 ? " check\n" : " checks\n") << std::flush;
  }
  std::map<std::string, std::int64_t> counts;
  std::int64_t failures = 0;
  Json list = Json::array();
  runner.run([&](const Check& check, const Result& result) {
    ++counts[result.word];
    if (result.is_failure()) ++failures;
    list.push_back(json_of(check, result));
    if (!is_for_people || !result.failed.empty()) return;
    const std::string again = result.is_failure() ? "; again: " + typed(subject, check) : "";
    print(check, result.word, result.text + again, streams);
  });
  if (is_for_people)
    streams.out << fit_lines(counts_text(counts, failures) + '\n', streams.out_width);
  arguments.json.write({{"format", "mneme-validation"},
                        {"file", subject.file.string()},
                        {"sha256", sha256},
                        {"options", subject.options},
                        {"seed", subject.seed},
                        {"failed", failures},
                        {"checks", std::move(list)}},
                       streams);
  return failures > 0 ? static_cast<int>(ErrorKind::kPlugin) : 0;
}

}  // namespace

fs::path plugin_file(const std::string& name, const std::vector<fs::path>& folders,
                     const std::string& command) {
  if (name.find('/') != std::string::npos || fs::exists(name)) {
    const fs::path path = fs::absolute(name).lexically_normal();
    if (!fs::exists(path)) {
      throw_usage({.where = name,
                   .failed = "there is no such file",
                   .expected = "a plugin's file, or its name or id in a plugin folder",
                   .hint = "mneme plugins list shows those that are found"});
    }
    return path;
  }
  return fs::absolute(plugin::find_plugin(name, plugin_folders(folders), "", command + ' ' + name,
                                          plugin::FoldersFrom::kOption));
}

std::vector<std::string> tier_options(const std::vector<std::string>& words) {
  std::vector<std::string> options;
  for (const std::string& option : words) {
    if (option.find('=') == std::string::npos || option.starts_with('=')) {
      throw_usage({.where = "--set " + option,
                   .failed = "no value is given",
                   .expected = "OPTION=VALUE, as rows=8"});
    }
    const config::Override given = config::parse_override(option);  // without spaces around '='
    options.push_back(str(given.key, '=', given.value));
  }
  return options;
}

void add_plugins_validate(const Command& plugins) {
  const Command command =
      plugins.subcommand("validate",
                         "Check a plugin in small models: file, options, shapes, causality, lanes, "
                         "state, gradients, kernels, errors; each check in a process of its own");
  const auto arguments = std::make_shared<ValidateArguments>();
  command.option("NAME", arguments->name, "", "File name, id, or path of the plugin",
                 {not_empty("a plugin")});
  add_plugin_folders(command, arguments->folders);
  command.option("--set", arguments->options, "OPTION=VALUE",
                 "Value of an option of the plugin, in all checks; repeatable", {one_each});
  command.option("--only", arguments->only, "CHECK", "Run this check or group alone; repeatable",
                 {one_each});
  command.option("--exclude", arguments->exclude, "CHECK", "Leave it out; repeatable", {one_each});
  command.option("--seed", arguments->seed, "N", "Of texts, weights and directions", {shown});
  command.option("--seconds", arguments->seconds, "N", "A check that takes longer is ended",
                 {in(1, kMaxCount), shown});
  command.option("--jobs", arguments->jobs, "N", "Checks that run at once", {in(1, 256), shown});
  arguments->json.add(command);
  command.flag("--list", arguments->is_list, "List the checks and what each asks");
  command.option("--here", arguments->here, "CHECK",
                 "Run this check in this process, for a debugger and without a time limit",
                 {not_empty("a check")});
  command.examples({"mneme plugins validate my_memory --set rows=8",
                    "mneme plugins validate ./build/my_memory.so --only gradients --jobs 2",
                    "mneme plugins validate --list"});
  command.runs(arguments, &validate_plugin, nullptr,
               {"--here refuses --json, --only, --exclude: runs one check in this process"});
}

}  // namespace mneme::cli
