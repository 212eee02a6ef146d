#include "host/cli/report/plan.hpp"

#include <nlohmann/json.hpp>

#include "host/report/comparison/load.hpp"
#include "host/report/pilot.hpp"

namespace mneme::cli {
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

}  // namespace mneme::cli
