#include "host/cli/arguments.hpp"

#include <CLI/CLI.hpp>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/file.hpp"

namespace mneme::cli {

namespace fs = std::filesystem;

void check_output_file(const std::string& option, const fs::path& path) {
  const fs::path folder = fs::absolute(path).parent_path();
  std::error_code ignored;
  if (fs::is_directory(folder, ignored) && !fs::is_directory(path, ignored)) return;
  throw_usage(
      {.where = option + ' ' + path.string(),
       .failed = "cannot be written",
       .expected = "a file in a folder that exists",
       .got = fs::is_directory(path, ignored) ? "a folder" : "no folder " + folder.string()});
}

void JsonArgument::add(CLI::App& command) {
  command.add_option("--json", path_, "Write the results as JSON to FILE; - is stdout")
      ->type_name("FILE");
}

void JsonArgument::check() const {
  if (is_given() && !is_stdout()) check_output_file("--json", path_);
}

void JsonArgument::write(const Json& json, const Streams& streams) const {
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
}

std::vector<config::Override> SetArgument::overrides() const {
  std::vector<config::Override> overrides;
  for (const std::string& text : texts_) overrides.push_back(config::parse_override(text));
  return overrides;
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
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{4096}));
}

}  // namespace mneme::cli
