// mneme compare EXP --capacity 1,2,4: one comparison for each number of bytes of state.
#include "host/base/text.hpp"
#include "host/cli/compare/compare.hpp"
#include "host/compare/planning/capacity.hpp"
#include "host/config/suite.hpp"
#include "host/data/dataset.hpp"
#include "host/memory/abi/groups.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLeastPoints = 2;  // of a line

// runs/capacity-<experiment>: the same command finds it again.
fs::path capacity_folder(const CompareArguments& arguments) {
  if (!arguments.run.empty()) return arguments.run;
  return fs::path("runs") / ("capacity-" + arguments.paths.front().stem().string());
}

// What the table shows: the recall of what only a memory knows, where the data say which targets
// these are.
config::Measure measure_of(const config::DataConfig& data) {
  const bool is_text = data.task == config::Task::kText || data.task == config::Task::kTokens ||
                       data.task == config::Task::kDialogue;
  if (is_text) return config::Measure::kLoss;
  return data::has_sources(data) ? config::Measure::kOutsideAccuracy : config::Measure::kAccuracy;
}

std::vector<compare::CapacityPoint> read_points(const CompareArguments& arguments,
                                                const std::vector<double>& multiples) {
  plugin::PluginLoader loader = memory::make_loader();
  const std::vector<compare::ArmSetup> arms = read_arms(arguments, loader);
  check_arms(arms, loader);
  std::vector<compare::CapacityPoint> points =
      compare::capacity_points(arms, multiples, {.loader = {std::shared_ptr<void>(), &loader}});
  const auto reached = std::ranges::count_if(
      points, [](const compare::CapacityPoint& point) { return !point.arms.empty(); });
  if (reached < static_cast<std::ptrdiff_t>(kLeastPoints)) {
    throw_usage({.where = "--capacity " + arguments.capacity,
                 .failed = str("memories reach the bytes of ", reached, " of the points"),
                 .expected = str(kLeastPoints, " points or more"),
                 .hint = compare::text_of(points)});
  }
  return points;
}

}  // namespace

int compare_capacity(const CompareArguments& arguments, const RankSession& session) {
  const fs::path folder = capacity_folder(arguments);
  if (!arguments.is_dry_run) check_output_folder("--run", folder);
  const std::vector<compare::CapacityPoint> points = read_input([&] {
    return read_points(arguments,
                       compare::parse_multiples(arguments.capacity, "--capacity", kLeastPoints));
  });
  if (session.is_first()) {
    arguments.json.text(session.streams()) << compare::text_of(points) << std::flush;
  }
  report::SuiteRecord record{.command = arguments.parser->typed(),
                             .file = arguments.paths.front(),
                             .tasks = {},
                             .kind = report::SuiteKind::kCapacity};
  std::vector<SuiteTask> tasks;
  for (const compare::CapacityPoint& point : points) {
    if (point.arms.empty()) continue;
    const std::string name = str("state-", point.multiple, 'x');
    SuiteTask task{.name = name, .experiment = arguments.paths.front(), .arms = {}};
    report::SuiteTaskRecord& row = record.tasks.emplace_back(report::SuiteTaskRecord{
        .name = name,
        .folder = name,
        .measure = std::string(to_word(measure_of(point.arms.front().setup.experiment.data))),
        .label = str(point.multiple, "x: ", human_bytes(static_cast<std::uint64_t>(point.bytes))),
        .sizes = {},
        .left_out = point.left_out});
    for (const compare::CapacityArm& arm : point.arms) {
      task.arms.push_back(arm.setup);
      row.sizes.push_back({arm.setup.name, arm.setting, arm.bytes});
    }
    tasks.push_back(std::move(task));
  }
  return run_tasks(arguments, folder, record, tasks, session);
}

}  // namespace mneme::cli
