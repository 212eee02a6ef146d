// mneme plugins try
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/machine_arguments.hpp"
#include "host/cli/plugins/plugins.hpp"
#include "host/cli/streams.hpp"
#include "host/plugin/plugin_lock.hpp"
#include "host/run/try_memory.hpp"
#include "host/tensor/device.hpp"
#include "host/trial/limited_child.hpp"
#include "host/trial/trial.hpp"
#include "host/trial/warm_python.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct TryArguments {
  trial::TrialRequest request;
  fs::path memory;
  SetArgument set;
  MachineArguments machine;
  JsonArgument json;
  bool is_here = false;

  [[nodiscard]] trial::TrialRequest complete() const {
    trial::TrialRequest complete = request;
    if (!memory.empty()) complete.memory = memory;
    complete.device = machine.device;
    complete.threads = machine.threads;
    complete.set = set.words();
    complete.signal_mask = inherited_signal_mask();
    return complete;
  }
};

config::Experiment read_experiment(const trial::TrialRequest& request, const SetArgument& set) {
  return read_input([&] {
    return plugin::read_experiment(request.experiment, set.overrides(), request.memory,
                                   request.is_locked);
  });
}

int try_here(const trial::TrialRequest& request, const SetArgument& set,
             const MachineArguments& machine, const Streams& streams) {
  std::vector<std::string> sha256;
  ::setenv("MNEME_PYTHON_CHECKS", "values,writes,random,keeps", 1);  // of memories in Python
  {
    const config::Experiment experiment = read_experiment(request, set);
    const bool is_python = trial::warm_python(experiment.memory);
    const auto deadline = trial::limit_this_process("--trial-seconds", &end_late,
                                                    is_python ? trial::kImportOfTorch : "");
    tensor::set_threads(request.threads);
    const c10::Device device = tensor::open_device(request.device);
    const run::TriedMemory tried =
        run::try_memory(experiment, device, nullptr, machine.free_memory(device));
    for (const memory::TierIdentity& plugin : tried.plugins) sha256.push_back(plugin.sha256);
  }
  streams.out << trial::last_line(sha256) << std::flush;
  return 0;
}

int try_plugins(const TryArguments& arguments, const Streams& streams) {
  const trial::TrialRequest request = arguments.complete();
  if (arguments.is_here) return try_here(request, arguments.set, arguments.machine, streams);
  arguments.json.check();
  const config::Experiment experiment = read_experiment(request, arguments.set);
  Json json = {{"format", "mneme-trial"},
               {"experiment", request.experiment.string()},
               {"plugins", Json::array()},
               {"error", nullptr}};
  try {
    const std::vector<std::string> sha256 =
        trial::try_in_child(request, experiment.memory, nullptr);
    const std::vector<fs::path> files =
        trial::plugin_files(trial::pinned(experiment.memory, sha256));
    std::ostream& out = arguments.json.text(streams);
    for (std::size_t i = 0; i < files.size(); ++i) {
      json["plugins"].push_back({{"file", files[i].string()}, {"sha256", sha256[i]}});
      out << "tier " << i << ": " << files[i].string() << ": ran\n    sha256 " << sha256[i] << '\n';
    }
    if (files.empty()) out << "a memory without plugins: ran\n";
  } catch (const Error& error) {
    json["error"] = {{"message", error.what()}, {"exit_code", error.exit_code()}};
    arguments.json.write(json, streams);
    throw;
  }
  arguments.json.write(json, streams);
  return 0;
}

}  // namespace

void add_plugins_try(const Command& plugins) {
  const Command command = plugins.subcommand(
      "try",
      "Run the memory of an experiment for two small segments, without data and training, in a "
      "process of its own: a plugin that crashes or hangs is named");
  const auto arguments = std::make_shared<TryArguments>();
  command.option("EXP", arguments->request.experiment, "", "The experiment's file", {required});
  command.option("--memory", arguments->memory, "FILE",
                 "Memory file in place of the experiment's [memory]");
  add_locked(command, arguments->request.is_locked);
  arguments->set.add(command);
  add_trial_seconds(command, arguments->request.seconds);
  arguments->machine.add_place(command);
  arguments->json.add(command);
  command.flag("--here", arguments->is_here,
               "Run it in this process, for a debugger and without a time limit; prints the "
               "plugins' checksums");
  command.examples({"mneme plugins try configs/quickstart.toml --memory my_memory.toml",
                    "mneme plugins try runs/first/experiment.toml --here"});
  command.runs(arguments, &try_plugins, nullptr,
               {"--here refuses --trial-seconds, --json: runs the memory in this process"});
}

}  // namespace mneme::cli
