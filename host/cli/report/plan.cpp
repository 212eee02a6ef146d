#include "host/cli/report/plan.hpp"

#include <memory>
#include <nlohmann/json.hpp>

#include "host/cli/cli.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/pilot.hpp"

namespace mneme::cli {
namespace {

int run_plan(const PlanArguments& arguments, const Streams& streams) {
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
                 "Also say how many seeds a difference in loss of so many nats a token needs: 0.01",
                 {above_zero});
  json.add(command);
}

void PlanArguments::show(const std::vector<std::filesystem::path>& folders,
                         const Streams& streams) const {
  const report::PilotReport pilot =
      read_input([&] { return report::read_pilot(report::load(folders), split, difference); });
  json.text(streams) << pilot.text(streams.out_width) << std::flush;
  json.write(pilot.json(), streams);
}

void add_plan(const Command& app) {
  const Command command = app.subcommand(
      "plan", "Say which differences more seeds and documents could show, and what they cost");
  const auto arguments = std::make_shared<PlanArguments>();
  command.option("PATH", arguments->paths, "",
                 "The pilot: the folder of a comparison of two seeds or more, or run folders",
                 {required});
  arguments->add(command);
  command.examples({"mneme plan runs/pilot", "mneme plan runs/pilot --difference 0.01"});
  command.runs(arguments, &run_plan);
}

}  // namespace mneme::cli
