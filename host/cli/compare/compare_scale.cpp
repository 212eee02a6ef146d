// mneme compare EXP --scale 1,2,4,8: one comparison for each size of the backbone.
#include "host/base/text.hpp"
#include "host/cli/compare/compare.hpp"
#include "host/compare/planning/capacity.hpp"
#include "host/compare/planning/scale.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/stats/power_law.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

// runs/scale-<experiment>: the same command finds it again.
fs::path scale_folder(const CompareArguments& arguments) {
  if (!arguments.run.empty()) return arguments.run;
  return fs::path("runs") / ("scale-" + arguments.paths.front().stem().string());
}

std::vector<compare::ScalePoint> read_sizes(const CompareArguments& arguments) {
  const std::vector<double> multiples =
      compare::parse_multiples(arguments.scale, "--scale", stats::kFitPoints);
  plugin::PluginLoader loader = memory::make_loader();
  const std::vector<compare::ArmSetup> arms = read_arms(arguments, loader);
  std::vector<compare::ScalePoint> points = compare::scale_points(arms, multiples);
  for (const compare::ScalePoint& point : points) check_arms(point.arms, loader);
  return points;
}

}  // namespace

int compare_scale(const CompareArguments& arguments, const RankSession& session) {
  const fs::path folder = scale_folder(arguments);
  if (!arguments.is_dry_run) check_output_folder("--run", folder);
  std::vector<compare::ScalePoint> points = read_input([&] { return read_sizes(arguments); });
  report::SuiteRecord record{.command = arguments.parser->typed(),
                             .file = arguments.paths.front(),
                             .tasks = {},
                             .kind = report::SuiteKind::kScale};
  std::vector<SuiteTask> tasks;
  std::string text;
  for (compare::ScalePoint& point : points) {
    const std::string name = str("size-", point.shape.multiple, 'x');
    report::SuiteTaskRecord& row = record.tasks.emplace_back(
        report::SuiteTaskRecord{.name = name,
                                .folder = name,
                                .measure = "loss",
                                .label = str(point.shape.multiple, "x: ", point.shape.text()),
                                .sizes = {},
                                .left_out = {}});
    text += str("size ", row.label, ", ", format_number(point.shape.reached, 2),
                " times the parameters of the layers\n");
    tasks.push_back({name, arguments.paths.front(), std::move(point.arms)});
  }
  if (session.is_first()) arguments.json.text(session.streams()) << text << std::flush;
  return run_tasks(arguments, folder, record, tasks, session);
}

}  // namespace mneme::cli
