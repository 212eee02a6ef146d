// mneme doctor
#include <exception>
#include <memory>
#include <thread>

#include "host/base/error.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/command.hpp"
#include "host/cli/plugin_folders.hpp"
#include "host/memory/plugin_file.hpp"
#include "host/train/device.hpp"

namespace mneme::cli {
namespace {

// What CUDA offers here, or why it offers nothing.
Json cuda() {
  try {
    return {{"available", true}, {"device", train::describe(train::open_device("cuda"))}};
  } catch (const Error& error) {
    return {{"available", false}, {"reason", error.what()}};
  }
}

Json plugins() {
  const std::filesystem::path folder = default_plugin_folder();
  Json json = {{"folder", folder.string()}};
  try {
    int usable = 0;
    const auto entries = memory::scan_folder(folder);
    for (const memory::PluginEntry& entry : entries) usable += entry.note && entry.problem.empty();
    json["files"] = entries.size();
    json["usable"] = usable;
  } catch (const Error& error) {
    json["problem"] = error.what();
  }
  return json;
}

int run(const JsonArgument& json, const Streams& streams) {
  json.check();
  train::set_threads(0);
  const Json report = {{"mneme", MNEME_SDK_VERSION},
                       {"processor", train::processor_name()},
                       {"cores", std::thread::hardware_concurrency()},
                       {"threads", train::threads()},
                       {"libtorch", train::torch_version()},
                       {"cuda", cuda()},
                       {"plugins", plugins()}};
  json.write(report, streams);
  if (json.is_stdout()) return 0;
  const Json& gpu = report["cuda"];
  const Json& found = report["plugins"];
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  streams.out << "mneme      " << MNEME_SDK_VERSION << " (ABI " << MNEME_ABI_MAJOR << '.'
              << MNEME_ABI_MINOR << ")\n"
              << "processor  " << text(report["processor"]) << ", " << report["cores"] << " cores\n"
              << "threads    " << report["threads"] << " (--threads changes it)\n"
              << "LibTorch   " << text(report["libtorch"]) << '\n'
              << "CUDA       "
              << (gpu["available"].get<bool>() ? text(gpu["device"])
                                               : "not usable: " + text(gpu["reason"]))
              << '\n'
              << "plugins    " << text(found["folder"]) << ": "
              << (found.contains("problem")
                      ? text(found["problem"])
                      : str(found["usable"], " of ", found["files"], " files can be loaded"))
              << '\n';
  return 0;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* const command =
      app.add_subcommand("doctor", "Say what this machine and this installation offer");
  const auto json = std::make_shared<JsonArgument>();
  json->add(*command);
  set_examples(*command, {"mneme doctor", "mneme doctor --json -"});
  command->callback(
      [json, &action] { action = [json](const Streams& streams) { return run(*json, streams); }; });
}

}  // namespace mneme::cli
