#include "host/cli/report/plan.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "host/base/error.hpp"
#include "host/cli/cli.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/pilot.hpp"

namespace mneme::cli {
namespace {

void check_folders_named(const std::vector<std::filesystem::path>& paths) {
  for (const std::filesystem::path& path : paths) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) continue;
    throw_usage({.where = path.string(),
                 .failed = "is no pilot",
                 .expected = "the folder of a comparison, or run folders",
                 .got = "a file",
                 .hint = "mneme plan trains a pilot of an experiment with --pilot 3, and --memory "
                         "for each arm"});
  }
}

int run_plan_of_folders(const PlanArguments& arguments, const Streams& streams) {
  arguments.json.check();
  arguments.show(arguments.paths, streams);
  return 0;
}

}  // namespace

void PlanArguments::add(const Command& command) {
  command.option("--split", split, "SPLIT",
                 "Plan for the losses on this split; default: valid, else the first there is",
                 {not_empty("a split")});
  command.option("--difference", difference, "NATS",
                 "Also say how many seeds show a difference in loss of NATS a token, as 0.01",
                 {above_zero});
  json.add(command);
}

void PlanArguments::show(const std::vector<std::filesystem::path>& folders,
                         const Streams& streams) const {
  check_folders_named(folders);
  const report::PilotReport pilot =
      read_input([&] { return report::read_pilot(report::load(folders), split, difference); });
  json.text(streams) << pilot.text(streams.out_width) << std::flush;
  json.write(pilot.json(), streams);
}

void add_plan_of_folders(const Command& app) {
  const Command command = app.subcommand("plan", kPlanHelp);
  const auto arguments = std::make_shared<PlanArguments>();
  command.option("PATH", arguments->paths, "",
                 "The pilot: the folder of a comparison of two seeds or more, or run folders",
                 {required});
  arguments->add(command);
  command.examples({"mneme-report plan runs/pilot --difference 0.01"});
  command.runs(arguments, &run_plan_of_folders);
}

}  // namespace mneme::cli
