// mneme plan: from a pilot that is there, or one that it trains as mneme compare does.
#include <memory>
#include <system_error>

#include "host/cli/cli.hpp"
#include "host/cli/compare/compare.hpp"
#include "host/cli/report/plan.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct PilotArguments {
  PlanArguments plan;
  CompareArguments compare;  // of the pilot's training
  std::int64_t seeds = 0;    // of the pilot; 0 = it is there
};

constexpr const char* kPlanRules = R"(
--pilot needs --memory: name the pilot's arms
--memory, --set, --unset, --run, --jobs, --device, --threads, --force, --quiet needs --pilot: train a pilot with --pilot 3, or leave it out
)";

void check_experiment_named(const PilotArguments& arguments) {
  const std::vector<fs::path>& paths = arguments.plan.paths;
  if (paths.size() != 1) {
    throw_usage("plan: expected one experiment file with --pilot, got ", paths.size(), " paths");
  }
  std::error_code ignored;
  if (fs::is_directory(paths.front(), ignored)) {
    throw_usage({.where = paths.front().string(),
                 .failed = "is no experiment file",
                 .expected = "the file of the experiment that --pilot trains",
                 .got = "a folder",
                 .hint = "leave --pilot out to plan from what the folder holds"});
  }
  if (arguments.compare.memory.size() < 2) {
    throw_usage("plan: expected two --memory or more with --pilot, the arms, got one");
  }
}

int run_plan(const PilotArguments& arguments, const Streams& streams) {
  arguments.plan.json.check();
  if (arguments.seeds == 0) {
    arguments.plan.show(arguments.plan.paths, streams);
    return 0;
  }
  check_experiment_named(arguments);
  CompareArguments pilot = arguments.compare;
  pilot.paths = arguments.plan.paths;
  pilot.seeds = arguments.seeds;
  pilot.samples = 0;
  pilot.diagnostics = 0;
  pilot.pilot_split = arguments.plan.split;
  if (pilot.run.empty())
    pilot.run = fs::path("runs") / ("pilot-" + pilot.paths.front().stem().string());
  fs::path trained;
  pilot.in_place_of_report = [&](const fs::path& folder) { trained = folder; };
  const int exit_code = run_compare(pilot, streams);
  const bool is_stopped = exit_code > 128;  // by a signal
  if (!trained.empty() && !is_stopped) arguments.plan.show({trained}, streams);
  return exit_code;
}

}  // namespace

void add_plan(const Command& app) {
  const Command command = app.subcommand("plan", kPlanHelp);
  const auto arguments = std::make_shared<PilotArguments>();
  CompareArguments& pilot = arguments->compare;
  pilot.parser = command;
  command.option("PATH", arguments->plan.paths, "",
                 "The pilot: the folder of a comparison of two seeds or more, or run folders; or, "
                 "with --pilot, the experiment file",
                 {required});
  command.option("--pilot", arguments->seeds, "SEEDS",
                 "First train a pilot with this number of seeds of each arm, as mneme compare does",
                 {in(2, 1000)});
  command.option("--memory", pilot.memory, "FILE[,KEY=VALUE...]",
                 "Memory file of one arm of the pilot, given once for each; the first is the "
                 "baseline",
                 {not_empty("a path"), one_each});
  arguments->plan.add(command);
  pilot.set.add(command);
  command.option(
      "--run", pilot.run, "DIR",
      "Folder of the pilot; what it holds is continued; default runs/pilot-<experiment>");
  command.option("--jobs", pilot.jobs, "N", "Run N arms side by side", {in(1, 1024), shown});
  pilot.machine.add(command);
  command.flag("--quiet", pilot.is_quiet, "Show no progress");
  command.examples({"mneme plan runs/pilot --difference 0.01",
                    "mneme plan configs/quickstart.toml --memory configs/memory/none.toml --memory "
                    "my_memory.toml --pilot 3"});
  command.runs(arguments, &run_plan, nullptr, {kPlanRules});
}

}  // namespace mneme::cli
