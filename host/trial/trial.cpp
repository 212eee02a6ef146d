#include "host/trial/trial.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/memory_file.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/trial/limited_child.hpp"
#include "host/trial/warm_python.hpp"

namespace mneme::trial {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = "mneme-trial ";

std::vector<std::string> arguments_of(const TrialRequest& request) {
  std::vector<std::string> words = {"plugins", "try", request.experiment.string()};
  if (request.memory) words.insert(words.end(), {"--memory", request.memory->string()});
  words.insert(words.end(), request.set.begin(), request.set.end());
  if (request.device != "cpu") words.insert(words.end(), {"--device", request.device});
  if (request.threads != 0) words.insert(words.end(), {"--threads", str(request.threads)});
  if (request.is_locked) words.emplace_back("--locked");
  words.emplace_back("--here");
  return words;
}

std::string files_text(const config::MemoryConfig& memory) {
  std::vector<std::string> texts;
  for (const fs::path& file : plugin_files(memory)) texts.push_back(file.string());
  return texts.empty() ? "a memory without plugins" : join(texts, ", ");
}

// The checksums in the line that ends a trial's output, when it has one.
std::optional<std::vector<std::string>> checksums_in(const std::string& out) {
  const std::size_t at = out.rfind(kMark);
  if (at == std::string::npos) return std::nullopt;
  const Json json = Json::parse(out.substr(at + std::string_view(kMark).size()), nullptr, false);
  if (!json.is_array()) return std::nullopt;
  std::vector<std::string> sha256;
  for (const Json& one : json) {
    if (!one.is_string()) return std::nullopt;
    sha256.push_back(one.get<std::string>());
  }
  return sha256;
}

}  // namespace

Error trial_error(const TrialRequest& request, const config::MemoryConfig& memory,
                  const ChildResult& child) {
  std::string message = message_in(child.err);
  message = message.substr(0, message.find(": the process ends; "));  // the hint stands below
  const std::string files = files_text(memory);
  const bool is_ours = child.exit_code >= static_cast<int>(ErrorKind::kRun) &&
                       child.exit_code <= static_cast<int>(ErrorKind::kDevice);
  if (is_ours && !message.empty()) {
    const bool is_named = message.find(files) != std::string::npos;
    return {static_cast<ErrorKind>(child.exit_code),
            str("in a trial", is_named ? "" : " of " + files, ": ", message)};
  }
  std::string failed;
  if (child.is_timed_out) {
    failed =
        str("its trial was killed: it had not ended after ", format_number(child.seconds, 0), " s");
  } else if (child.signal != 0) {
    failed = "its trial was ended by " + signal_text(child.signal);
  } else {
    failed = str("its trial ended with exit code ", child.exit_code, " before it was done");
  }
  return {
      ErrorKind::kPlugin,
      {.where = files,
       .failed = message.empty() ? failed : str(failed, ": ", message),
       .hint = "correct the plugin; gdb --args " + typed_trial(request) + " stops at the line"}};
}

std::string last_line(const std::vector<std::string>& sha256) {
  return str(kMark, Json(sha256).dump(), '\n');
}

std::string typed_trial(const TrialRequest& request) {
  std::string text = "mneme";
  for (const std::string& word : arguments_of(request)) text += ' ' + shell_word(word);
  return text;
}

std::vector<fs::path> plugin_files(const config::MemoryConfig& memory) {
  const std::vector<std::string> folders = plugin::folders_to_search(memory.plugins);
  std::vector<fs::path> files;
  for (const config::TierConfig& tier : memory.tiers) {
    files.push_back(plugin::find_plugin(tier.plugin, folders, tier.pin(),
                                        str(tier.position.text(), ": plugin '", tier.plugin, "'")));
  }
  return files;
}

std::string build_labels(const std::vector<memory::TierIdentity>& plugins) {
  std::vector<std::string> parts;
  for (const memory::TierIdentity& plugin : plugins) {
    parts.push_back(str(plugin.id, '@', plugin.version, " [", plugin.sha256.substr(0, 8), ']'));
  }
  return parts.empty() ? "no tier" : join(parts, " + ");
}

std::string fingerprint_of(const config::MemoryConfig& memory) {
  std::string text = config::to_toml(memory);
  try {
    for (const fs::path& file : plugin_files(memory)) text += plugin::sha256_of_plugin(file) + '\n';
  } catch (const Error& error) {
    text += error.what();
  }
  return text;
}

std::vector<std::string> try_in_child(const TrialRequest& request,
                                      const config::MemoryConfig& memory,
                                      const std::function<bool()>& is_cancelled) {
  if (std::getenv(kSecondsVariable) != nullptr) {
    throw_usage({.where = kSecondsVariable,
                 .failed = "is set in the environment: a trial starts no trial",
                 .hint = str("unset ", kSecondsVariable)});
  }
  ChildOptions options = limited_child(arguments_of(request), request.seconds, request.signal_mask);
  options.limits.is_cancelled = is_cancelled;
  if (std::ranges::any_of(memory.tiers, [](const config::TierConfig& tier) {
        return config::is_python_memory(tier.plugin);
      })) {
    options.limits.seconds += kTorchSeconds;  // which the process itself does not count
  }
  const ChildResult child = run_child(options);
  if (child.is_cancelled) throw_run(files_text(memory), ": the trial was stopped");
  const auto sha256 = checksums_in(child.out);
  if (!sha256 || child.signal != 0 || child.exit_code > 0 ||
      sha256->size() != memory.tiers.size()) {
    throw trial_error(request, memory, child);
  }
  return *sha256;
}

config::MemoryConfig pinned(config::MemoryConfig memory, const std::vector<std::string>& sha256) {
  for (std::size_t i = 0; i < std::min(memory.tiers.size(), sha256.size()); ++i) {
    memory.tiers[i].sha256 = sha256[i];
  }
  return memory;
}

}  // namespace mneme::trial
