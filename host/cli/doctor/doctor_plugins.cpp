// The part of `mneme doctor` about plugins.
#include "host/base/error.hpp"
#include "host/cli/doctor/doctor.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/plugin_folder.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

Finding check_plugin(const plugin::PluginEntry& entry) {
  Finding finding{.subject = "plugin " + entry.file};
  finding.details = {{"file", entry.path}, {"sha256", entry.sha256}, {"problem", entry.problem}};
  if (!entry.note) {
    finding.state = State::kBroken;
    finding.text = "not a plugin: " + entry.problem;
    finding.advice = "remove the file from the folder, or build it with the SDK";
    return finding;
  }
  const std::string abi = plugin::abi_range_text(entry.note->abi_min, entry.note->abi_target);
  finding.details["id"] = entry.note->id;
  finding.details["version"] = entry.note->version;
  finding.details["abi"] = abi;
  finding.text = str(entry.note->id, ' ', entry.note->version, ", ABI ", abi);
  if (!entry.problem.empty()) {
    finding.state = State::kBroken;
    finding.text += ": cannot be loaded: " + entry.problem;
    // The problem ends in what to do.
    const std::size_t hint = entry.problem.rfind("; ");
    finding.advice = hint == std::string::npos ? "build it again with this program's SDK"
                                               : entry.problem.substr(hint + 2);
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_plugins(const std::vector<fs::path>& given) {
  std::vector<Finding> findings;
  // A folder that was named has to be there; the default one need not.
  const State missing = given.empty() ? State::kAbsent : State::kBroken;
  const std::vector<fs::path> folders =
      given.empty() ? std::vector<fs::path>{plugin::default_plugin_folder()} : given;
  for (const fs::path& named : folders) {
    const fs::path folder = fs::absolute(named).lexically_normal();
    Finding finding{.subject = "plugin folder", .text = folder.string()};
    finding.details = {{"folder", folder.string()}};
    try {
      const auto entries = plugin::scan_folder(folder);
      finding.text += str(": ", entries.size(), entries.size() == 1 ? " library" : " libraries");
      if (entries.empty()) {
        finding.state = State::kAbsent;
        finding.advice = "build the plugins, or name their folder with --plugins DIR";
      }
      findings.push_back(std::move(finding));
      for (const plugin::PluginEntry& entry : entries) findings.push_back(check_plugin(entry));
    } catch (const Error& error) {
      finding.state = missing;
      finding.text = error.what();
      finding.advice = "build the plugins, or name their folder with --plugins DIR";
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace mneme::cli
