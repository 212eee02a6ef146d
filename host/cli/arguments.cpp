#include "host/cli/arguments.hpp"

#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/write_file.hpp"
#include "host/base/text.hpp"
#include "host/cli/streams.hpp"
#include "host/config/toml/schema.hpp"
#include "host/plugin/plugin_search.hpp"

namespace mneme::cli {

namespace fs = std::filesystem;

namespace {

// Why the file could not be written; "" = no obstacle is visible without opening it.
std::string obstacle(const fs::path& path) {
  const OutputPlace place = read_input([&] { return find_output_place(path); });
  std::error_code ignored;
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
  const fs::path folder = fs::absolute(place.path).parent_path();
  return fs::is_directory(folder, ignored) ? "" : "no folder " + folder.string();
}

}  // namespace

void check_output_file(const std::string& option, const fs::path& path) {
  const std::string got = obstacle(path);
  if (got.empty()) return;
  throw_usage({.where = option + ' ' + path.string(),
               .failed = "cannot be written",
               .expected = "a file in a folder that exists",
               .got = got});
}

void JsonArgument::add(CLI::App& command) {
  command
      .add_option("--json", path_,
                  "Write the results as JSON to FILE; - is stdout, without the text")
      ->type_name("FILE");
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
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  if (is_stdout()) {
    streams.out << text << std::flush;
  } else {
    write_file_atomic(path_, text);
  }
}

void SetArgument::add(CLI::App& command) {
  command
      .add_option("--set", texts_,
                  "Set one key of the experiment, as train.lr=1e-3; may be given several times")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--unset", removed_,
                  "Remove one key of the experiment, as train.epochs, before --set; its default "
                  "holds then; may be given several times")
      ->type_name("KEY")
      ->allow_extra_args(false);
}

std::vector<config::Override> SetArgument::overrides() const {
  std::vector<config::Override> overrides;
  for (const std::string& key : removed_) overrides.push_back(config::parse_removal(key));
  for (const std::string& text : texts_) overrides.push_back(config::parse_override(text));
  return overrides;
}

std::string SetArgument::typed() const {
  std::string text;
  for (const std::string& key : removed_) text += " --unset " + shell_word(key);
  for (const std::string& pair : texts_) text += " --set " + shell_word(pair);
  return text;
}

void add_memory_files(CLI::App& command, std::vector<fs::path>& files, const std::string& help) {
  command.add_option("--memory", files, help)->type_name("FILE")->allow_extra_args(false);
}

void MachineArguments::add(CLI::App& command) {
  command.add_option("--device", device, "Where to compute: cpu or cuda")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      .add_option("--threads", threads,
                  "Threads to compute with; 0 = OMP_NUM_THREADS, or one a core")
      ->type_name("N")
      ->check(between(0, 4096));
  command.add_flag("--force", is_forced,
                   "Run even if the model is estimated to need more memory than is free");
}

FreeMemorySource MachineArguments::free_memory() const {
  if (is_forced) return nullptr;
  return [] { return mneme::free_memory(); };
}

CLI::Validator between(std::int64_t least, std::int64_t most) {
  const config::IntegerRange range{least, most};
  const auto check = [range](std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_integer = error == std::errc() && stop == end;
    if (is_integer && value >= range.min && value <= range.max) return "";
    return str("expected ", config::range_text(range), ", got ", text);
  };
  return {check, ""};
}

CLI::Validator at_least(std::int64_t least) {
  return between(least, std::numeric_limits<std::int64_t>::max());
}

namespace fs = std::filesystem;

void add_plugin_folders(CLI::App& command, std::vector<fs::path>& folders) {
  command
      .add_option("--plugins", folders,
                  "Folder to look in, instead of the program's own plugins; may be given several "
                  "times")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

std::vector<fs::path> plugin_folders(const std::vector<fs::path>& given) {
  std::vector<fs::path> folders;
  for (const fs::path& folder : given) folders.push_back(fs::absolute(folder).lexically_normal());
  if (!folders.empty()) return folders;
  const fs::path& folder = plugin::default_plugin_folder();
  std::error_code ignored;
  if (folder.empty() || !fs::is_directory(folder, ignored)) {
    throw_usage({.where = "plugins",
                 .failed = "no folder to look in",
                 .expected = "a folder " + folder.string(),
                 .got = "none",
                 .hint = "name one with --plugins DIR"});
  }
  return {folder};
}

}  // namespace mneme::cli
