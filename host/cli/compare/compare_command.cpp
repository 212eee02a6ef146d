// The options of `mneme compare`, and which go together.
#include <memory>

#include "host/cli/cli.hpp"
#include "host/cli/compare/compare.hpp"
#include "host/compare/planning/equal_budget.hpp"
#include "host/stats/looks.hpp"

namespace mneme::cli {
namespace {

constexpr const char* kCompareRules = R"(
--capacity refuses --scale: gives every memory other bytes in one backbone
--capacity, --scale refuses --suite: makes its points of one experiment
--capacity, --scale refuses --equal: chooses sizes itself
--capacity, --scale refuses --tune, --tune-together, --until-decided: trains every memory at every point, and chooses or adds nothing between them
--capacity, --scale refuses --baseline, --pairs, --margin: makes a table that compares no arms; mneme report does so of a point's folder
--scale refuses --init: changes the sizes of the backbone, which weights that are given fix
--suite refuses EXP, --memory, --equal, --baseline, --pairs, --margin: names experiments and memories
run folders allows EXP, --baseline, --pairs, --margin, --json, --quiet: are compared as they are, nothing is trained
--until-decided needs --max-seeds: say how many seeds it may take, as --max-seeds 12
--until-decided refuses --suite, --seeds: adds seeds to one experiment until a difference is shown
--until-decided refuses --tune, --tune-together: is not shown to keep its error rates where values are chosen
--max-seeds needs --until-decided: give a fixed number with --seeds
--tune, --tune-together refuses --suite: chooses values of one experiment
--tune-trials needs --tune, --tune-together: name what is tried with --tune KEY=VALUE,VALUE,...
--tune-halving needs --tune: name what is tried with --tune KEY=VALUE,VALUE,...
--tune-halving refuses --tune-together: leaves out trials of each arm by itself
--equal parameters refuses --init: gives arms feed-forward layers of other sizes, which cannot begin with the same weights
)";

}  // namespace

void add_compare(const Command& app) {
  const Command command = app.subcommand(
      "compare", "Train one model with several memories, from the same weights, and compare them");
  const auto arguments = std::make_shared<CompareArguments>();
  arguments->parser = command;
  command.option("EXP", arguments->paths, "",
                 "The experiment file; or run folders, which are compared without training");
  command.option("--memory", arguments->memory, "FILE[,KEY=VALUE...]",
                 "Memory file of one arm, given once for each, with settings of this arm alone; "
                 "the others are compared with the first",
                 {not_empty("a path"), one_each});
  command.option("--sweep", arguments->sweeps, "KEY=VALUE,...",
                 "One arm for each value, of every memory that has the key: tier.0.rows=64,128",
                 {one_each});
  command.option("--tune", arguments->tunes, "KEY=VALUE,...",
                 "Train every arm with each value, on seeds of their own, take the one with the "
                 "lowest loss on valid, and compare the arms with these values on test, too; or a "
                 "range, KEY=log:LOW:HIGH or KEY=linear:LOW:HIGH",
                 {one_each});
  command.option("--tune-together", arguments->tunes_together, "KEY=VALUE,...",
                 "The same with one value for all arms, by their mean loss", {one_each});
  command.option("--tune-trials", arguments->tune_trials, "N",
                 "Draw N combinations of values in place of trying all", {in(2, 10'000)});
  command.option("--tune-halving", arguments->tune_halving, "STEPS",
                 "Successive halving: train an arm's trials for STEPS steps, the better half of "
                 "them for twice as many, and so on",
                 {in(1, kMaxCount)});
  arguments->set.add(command);
  command.option("--suite", arguments->suite, "FILE",
                 "A list of experiments and memories, in place of EXP and --memory");
  command.option("--seeds", arguments->seeds, "N",
                 "Train every arm from N seeds; of a suite, in place of its own number",
                 {in(1, 1000), shown});
  command.flag("--until-decided", arguments->is_until_decided,
               "Add seeds one by one until a difference in loss to the baseline is shown, with "
               "error rates that hold for looking after each from the third on");
  command.option("--max-seeds", arguments->max_seeds, "N",
                 "The most seeds; the first look is after 3, of more than 12 after a quarter",
                 {in(stats::LookPlan::kFewestSeeds, stats::LookPlan::kMostSeeds)});
  command.option("--jobs", arguments->jobs, "N",
                 "Run N arms side by side; on every rank, under mpirun or srun",
                 {in(1, 1024), shown});
  command.option("--samples", arguments->samples, "N",
                 "Prompts that every run continues, for the report; 0 = none",
                 {in(0, kMaxSamples), shown});
  command.option("--diagnostics", arguments->diagnostics, "N",
                 "Segments on which every run's memory is measured, for the report; 0 = none",
                 {in(0, kMaxCount), shown});
  command.option("--equal", arguments->equal, "BUDGET",
                 "Choose sizes so that arms have equal parameters (by model.ff), bytes of state, "
                 "or rows that a token may attend to (by the memories' sizes)",
                 {one_of(all_words<compare::Budget>())});
  command.option("--capacity", arguments->capacity, "1,2,4,...",
                 "Compare the memories at these multiples of the first one's bytes of state, each "
                 "with the size that has them: a table and a figure of accuracy or loss over bytes",
                 {not_empty("a list of numbers")});
  command.option(
      "--scale", arguments->scale, "1,2,4,...",
      "Compare the memories in backbones with these multiples of the layers' parameters, "
      "three or more, with steps in proportion: loss over operations, bytes and "
      "seconds, exponents, and the size at which one memory overtakes another",
      {not_empty("a list of numbers")});
  command.option("--init", arguments->init, "SOURCE",
                 "Begin every arm with the weights of this run, checkpoint or official safetensors "
                 "file; memories that it lacks are drawn");
  add_locked(command, arguments->is_locked);
  command.option("--run", arguments->run, "DIR",
                 "Folder of the comparison; what it holds of these arms is continued; default "
                 "runs/compare-<experiment>");
  arguments->compared.add(command);
  command.flag(
      "--dry-run", arguments->is_dry_run,
      "Check the arms, time a few steps of each, show sizes, memory, hours and disk, and stop");
  arguments->machine.add(command);
  arguments->json.add(command);
  command.flag("--quiet", arguments->is_quiet, "Show no progress");
  const std::string two =
      "mneme compare configs/quickstart.toml --memory configs/memory/none.toml --memory "
      "my_memory.toml";
  command.examples(
      {two, two + " --seeds 3 --jobs 2",
       "mneme compare configs/quickstart.toml --memory my_memory.toml --sweep tier.0.rows=16,32,64",
       two + " --tune train.lr=1e-3,3e-3,1e-2 --seeds 3", two + " --until-decided --max-seeds 12",
       "mneme compare configs/quickstart.toml --memory my_memory.toml --seeds 5 --dry-run",
       "mneme compare configs/suite/mqar.toml --memory my_cache.toml --memory my_memory.toml "
       "--capacity 1,2,4,8 --seeds 3",
       two + " --scale 1,2,4,8 --seeds 3",
       "mneme compare --suite configs/suite/small.toml --jobs 2"});
  const auto modes = [arguments] {
    return std::vector<std::string>(are_runs(*arguments) ? 1 : 0, "run folders");
  };
  command.runs(arguments, &run_compare,
               [arguments, command] { arguments->has_seeds = command.is_given("--seeds"); },
               {kCompareRules, modes});
}

}  // namespace mneme::cli
