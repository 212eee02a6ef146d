// mneme doctor
#include "host/cli/doctor/doctor.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "host/base/error.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/command.hpp"
#include "host/cli/plugin_folders.hpp"
#include "host/base/table.hpp"
#include "host/tensor/device.hpp"
#include "mneme/abi.h"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

struct DoctorArguments {
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
  add(check_libtorch());
  add(check_cuda());
  add(check_plugins(arguments.plugins));
  add(check_system());
  add(check_folders());
  add(check_terminal(streams));
  add(check_toolchain());
  return findings;
}

Json json_of(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"subject", finding.subject},
                    {"state", std::string(to_word(finding.state))},
                    {"text", finding.text},
                    {"advice", finding.advice},
                    {"details", finding.details}});
  }
  return {{"format", "mneme-doctor"}, {"findings", std::move(list)}};
}

std::string mark_of(State state) {
  return state == State::kFine ? "ok" : state == State::kAbsent ? "--" : "!!";
}

void print(const std::vector<Finding>& findings, const Streams& streams) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.subject.size());
  for (const Finding& finding : findings) {
    const std::string gap(width - finding.subject.size() + 2, ' ');
    streams.out << mark_of(finding.state) << "  " << finding.subject << gap << finding.text << '\n';
    // The advice of an Error is part of its text already.
    if (finding.advice.empty() || finding.text.ends_with(finding.advice)) continue;
    streams.out << std::string(width + 6, ' ') << "-> " << finding.advice << '\n';
  }
}

int run(const DoctorArguments& arguments, const Streams& streams) {
  arguments.json.check();
  tensor::set_threads(0);
  const std::vector<Finding> findings = examine(arguments, streams);
  const auto broken = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.state == State::kBroken;
  });
  if (!arguments.json.is_stdout()) {
    print(findings, streams);
    streams.out << (broken == 0 ? str("nothing is broken\n")
                                : str(broken, broken == 1 ? " thing is" : " things are",
                                      " broken: see the lines with !!\n"));
  }
  arguments.json.write(json_of(findings), streams);
  return broken == 0 ? 0 : static_cast<int>(ErrorKind::kRun);
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* const command =
      app.add_subcommand("doctor", "Say what this machine and this installation offer");
  const auto arguments = std::make_shared<DoctorArguments>();
  add_plugin_folders(*command, arguments->plugins);
  arguments->json.add(*command);
  set_examples(*command, {"mneme doctor", "mneme doctor --plugins my_plugins --json -"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return run(*arguments, streams); };
  });
}

}  // namespace mneme::cli
