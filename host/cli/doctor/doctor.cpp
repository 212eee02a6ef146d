// mneme doctor

#include "host/cli/doctor/doctor.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/process/child.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/machine_arguments.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/tensor/device.hpp"
#include "mneme/abi.h"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

struct DoctorArguments {
  std::string part;  // "python"; "" = the program and the machine
  std::vector<fs::path> plugins;
  JsonArgument json;
};

std::vector<Finding> examine(const DoctorArguments& arguments, const Streams& streams) {
  std::vector<Finding> findings;
  const auto add = [&](std::vector<Finding> more) {
    std::move(more.begin(), more.end(), std::back_inserter(findings));
  };
  add({{.subject = "mneme",
        .text = str(MNEME_SDK_VERSION, ", ABI ", MNEME_ABI_MAJOR, '.', MNEME_ABI_MINOR),
        .details = {{"version", MNEME_SDK_VERSION}}}});
  if (arguments.part == "python") {
    add(check_python());
    return findings;
  }
  std::error_code ignored;
  const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
  add(check_installation(executable));
  add(check_libtorch());
  add(check_cuda(executable));
  add(check_plugins(arguments.plugins));
  add(check_system());
  add(check_folders());
  add(check_terminal(streams));
  add(check_toolchain());
  return findings;
}

// How the report and the JSON say a state.
struct StateWords {
  std::string_view mark, word;
};
StateWords words_of(State state) {
  constexpr std::array kWords = {StateWords{"ok", "fine"}, StateWords{"--", "absent"},
                                 StateWords{"!!", "broken"}};
  return kWords.at(static_cast<std::size_t>(state));
}

Json json_of(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"subject", finding.subject},
                    {"state", words_of(finding.state).word},
                    {"text", finding.text},
                    {"advice", finding.advice},
                    {"details", finding.details}});
  }
  return {{"format", "mneme-doctor"}, {"findings", std::move(list)}};
}

std::string text_of(const std::vector<Finding>& findings) {
  std::ostringstream out;
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.subject.size());
  for (const Finding& finding : findings) {
    const std::string gap(width - finding.subject.size() + 2, ' ');
    out << words_of(finding.state).mark << "  " << finding.subject << gap << finding.text << '\n';
    // The advice of an Error is part of its text already.
    if (finding.advice.empty() || finding.text.ends_with(finding.advice)) continue;
    out << std::string(width + 6, ' ') << "-> " << finding.advice << '\n';
  }
  return out.str();
}

int run(const DoctorArguments& arguments, const Streams& streams) {
  arguments.json.check();
  tensor::set_threads(0);
  const std::vector<Finding> findings = examine(arguments, streams);
  const auto broken = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.state == State::kBroken;
  });
  std::string text = text_of(findings);
  text += broken == 0 ? str("nothing is broken\n")
                      : str(broken, broken == 1 ? " thing is" : " things are",
                            " broken: see the lines with !!\n");
  if (arguments.part.empty()) {
    text += "mneme doctor python: whether memories in Python can run, and what they lack\n";
  }
  arguments.json.text(streams) << fit_lines(text, streams.out_width);
  arguments.json.write(json_of(findings), streams);
  return broken == 0 ? 0 : static_cast<int>(ErrorKind::kRun);
}

}  // namespace

void add_doctor(const Command& app) {
  const Command command =
      app.subcommand("doctor", "Report what works on this machine and in this installation");
  const auto arguments = std::make_shared<DoctorArguments>();
  command.option("PART", arguments->part, "",
                 "python: the Python that memories in Python run in, in place of the rest",
                 {one_of({"python"})});
  add_plugin_folders(command, arguments->plugins);
  arguments->json.add(command);
  command.examples(
      {"mneme doctor", "mneme doctor python", "mneme doctor --plugins my_plugins --json -"});
  command.runs(arguments, &run);
}

// --- The part of `mneme doctor` about plugins ---

namespace {

Finding check_plugin(const plugin::PluginEntry& entry) {
  Finding finding{.subject = "plugin " + entry.file};
  finding.details = {{"file", entry.path}, {"sha256", entry.sha256}, {"problem", entry.problem}};
  if (plugin::is_other_file(entry)) {
    finding.state = State::kBroken;
    finding.text = "not a plugin: " + entry.problem;
    finding.advice = "remove the file from the folder, or build it with the SDK";
    return finding;
  }
  if (!entry.problem.empty()) {
    finding.state = State::kBroken;
    // The problem's text ends with the advice.
    const std::size_t hint = entry.problem.rfind("; ");
    finding.text = "cannot be loaded: " + entry.problem.substr(0, hint);
    finding.advice = hint == std::string::npos ? "build it again with this program's SDK"
                                               : entry.problem.substr(hint + 2);
  }
  if (!entry.note) return finding;
  const std::string abi = plugin::abi_range_text(entry.note->abi_min, entry.note->abi_target);
  finding.details["id"] = entry.note->id;
  finding.details["version"] = entry.note->version;
  finding.details["abi"] = abi;
  finding.text = str(entry.note->id, ' ', entry.note->version, ", ABI ", abi,
                     finding.text.empty() ? "" : ": ", finding.text);
  return finding;
}

}  // namespace

std::vector<Finding> check_plugins(const std::vector<fs::path>& given) {
  std::vector<Finding> findings;
  // A folder that the user names must exist, and that of an installation; a build may have none.
  std::error_code ignored;
  const bool is_built =
      plugin::installation_of(fs::read_symlink("/proc/self/exe", ignored)).empty();
  const State missing = given.empty() && is_built ? State::kAbsent : State::kBroken;
  const std::string advice = given.empty() && !is_built
                                 ? "the installation's memories belong there: install again, cmake "
                                   "--install BUILD --prefix PREFIX"
                                 : "build the plugins, or name their folder with --plugins DIR";
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
        finding.state = given.empty() ? missing : State::kAbsent;
        finding.advice = advice;
      }
      findings.push_back(std::move(finding));
      for (const plugin::PluginEntry& entry : entries) findings.push_back(check_plugin(entry));
    } catch (const Error& error) {
      finding.state = missing;
      finding.text = error.what();
      finding.advice = advice;
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

// --- The part of `mneme doctor` about programs on PATH ---

namespace {

constexpr double kPatienceSeconds = 10;  // a compiler on a sleeping network disk takes its time

// The program's file on PATH; "" when there is none.
fs::path find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

// What `program --version` prints; "" when it fails or does not answer.
std::string version_text(const fs::path& program) {
  try {
    const ChildResult result = run_child({.launch = {.program = program.string(),
                                                     .arguments = {"--version"},
                                                     .signal_mask = inherited_signal_mask()},
                                          .limits = {.seconds = kPatienceSeconds}});
    return result.exit_code == 0 ? result.out : "";
  } catch (const Error&) {
    return "";  // no program after all
  }
}

// The line that tells the version: nvcc's is the fourth, the others' the first.
std::string version_line(const std::string& text) {
  std::istringstream lines(text);
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("release ") != std::string::npos) return line;
    if (first.empty()) first = line;
  }
  return first;
}

Finding check_program(const std::string& subject, const std::vector<std::string>& names,
                      const std::string& advice) {
  Finding finding{.subject = subject, .advice = advice};
  for (const std::string& name : names) {
    const fs::path file = find_program(name);
    if (file.empty()) continue;
    const std::string version = version_line(version_text(file));
    finding.details = {{"file", file.string()}, {"version", version}};
    if (!version.empty()) {
      finding.text = str(version, " (", file.string(), ')');
      finding.advice.clear();
      return finding;
    }
    finding.text = str(file.string(), " --version fails");
  }
  finding.state = State::kAbsent;
  if (finding.text.empty()) finding.text = str("no ", join(names, ", no "), " on PATH");
  return finding;
}

}  // namespace

std::vector<Finding> check_toolchain() {
  const std::string packages =
      "needed only to build plugins in C or C++, or mneme: apt-get install g++ cmake";
  return {
      check_program("C++ compiler", {"c++", "g++", "clang++"}, packages),
      check_program("C compiler", {"cc", "gcc", "clang"}, packages),
      check_program("CMake", {"cmake"}, packages),
      check_program(
          "CUDA compiler", {"nvcc"},
          "needed only to compile CUDA kernels: install the CUDA toolkit 13 and put nvcc on PATH")};
}

}  // namespace mneme::cli
