// mneme compare --suite FILE: one comparison after another, and their table.
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/cli/compare/compare.hpp"
#include "host/cli/interrupt.hpp"
#include "host/compare/planning/disk.hpp"
#include "host/config/suite.hpp"
#include "host/data/dataset.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/differences/soundness.hpp"
#include "host/report/report.hpp"
#include "host/report/suite/suite_report.hpp"
#include "host/run/run_folder.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

// runs/suite-<name>: the same command finds it again.
fs::path suite_folder(const CompareArguments& arguments) {
  if (!arguments.run.empty()) return arguments.run;
  return fs::path("runs") / ("suite-" + arguments.suite.stem().string());
}

// A task with its arms, ready to run.
struct PreparedTask {
  compare::Options options;
  compare::Record record;
};

std::vector<compare::ArmSetup> arms_of(const config::SuiteTask& task,
                                       const CompareArguments& arguments,
                                       plugin::PluginLoader& loader) {
  std::vector<compare::ArmRequest> memories;
  for (const config::SuiteMemory& memory : task.memories) {
    memories.push_back({.memory = memory.file, .overrides = memory.overrides, .name = memory.name});
  }
  std::vector<config::Override> overrides = task.overrides;
  for (const config::Override& override : arguments.set.overrides()) overrides.push_back(override);
  std::vector<compare::Sweep> sweeps;
  for (const std::string& word : arguments.sweeps) sweeps.push_back(compare::parse_sweep(word));
  return compare::read_arms(task.experiment, memories, overrides, sweeps, loader,
                            arguments.is_locked);
}

// Calls `action` for every task; its errors name the task.
template <typename Tasks, typename Action>
void for_each_task(const Tasks& tasks, Action&& action) {
  for (const auto& task : tasks) {
    try {
      action(task);
    } catch (const Error& error) {
      throw error.with_context(task.name);
    }
  }
}

// Files, plugins and options of all tasks are checked before the data of the first one are read.
std::vector<SuiteTask> read_tasks(const config::Suite& suite, const CompareArguments& arguments) {
  std::vector<SuiteTask> out;
  for_each_task(suite.tasks, [&](const config::SuiteTask& task) {
    plugin::PluginLoader loader = memory::make_loader();
    SuiteTask& one = out.emplace_back(SuiteTask{.name = task.name,
                                                .experiment = task.experiment,
                                                .arms = arms_of(task, arguments, loader)});
    check_arms(one.arms, loader);
    for (const compare::ArmSetup& arm : one.arms) {
      const config::DataConfig& data = arm.experiment.data;
      config::check_measure(task, data.task, data::has_sources(data));
    }
  });
  return out;
}

// All tasks are prepared before the first one trains: an error in the last is found at once.
std::vector<PreparedTask> prepare_tasks(const std::vector<SuiteTask>& all,
                                        const CompareArguments& arguments, const fs::path& folder,
                                        const RankSession& session) {
  std::vector<PreparedTask> tasks;
  for_each_task(all, [&](const SuiteTask& task) {
    PreparedTask& one = tasks.emplace_back();
    one.options = compare_options(arguments, folder / task.name, task.experiment, session);
    plugin::PluginLoader loader = memory::make_loader();
    one.record = compare::prepare(task.arms, one.options, loader);
  });
  return tasks;
}

void show_suite(const CompareArguments& arguments, const fs::path& folder, const Streams& streams) {
  const report::SuiteReport suite = report::suite_report(folder, report::read_suite_record(folder));
  Outputs outputs;  // files first: a reader of what is printed may end early
  outputs.add([&] { suite.write(folder); });
  outputs.add([&] { arguments.json.write(suite.json(), streams); });
  arguments.json.text(streams) << suite.text(report::Format::kText, streams.out_width)
                               << std::flush;
  outputs.finish();
}

// Of all tasks, one after another.
void show_plans(const std::vector<SuiteTask>& all, const std::vector<PreparedTask>& tasks,
                const CompareArguments& arguments, const RankSession& session) {
  Json list = Json::array();
  double seconds = 0.0;
  bool is_timed = true;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    Json plan = show_plan(tasks[i].record, tasks[i].options, all[i].name, arguments, session);
    plan["task"] = all[i].name;
    is_timed = is_timed && plan.at("seconds").is_number();
    if (is_timed) seconds += plan.at("seconds").get<double>();
    bytes += plan.at("disk_bytes").get<std::int64_t>();
    list.push_back(std::move(plan));
  }
  arguments.json.text(session.streams())
      << "the suite: " << (is_timed ? format_duration(seconds) : "time not known") << ", disk "
      << human_bytes(static_cast<std::uint64_t>(bytes)) << std::endl;
  arguments.json.write({{"format", "mneme-suite-dry-run"},
                        {"command", arguments.parser->typed()},
                        {"tasks", std::move(list)},
                        {"seconds", is_timed ? Json(seconds) : Json(nullptr)},
                        {"disk_bytes", bytes}},
                       session.streams());
}

}  // namespace

int run_tasks(const CompareArguments& arguments, const fs::path& folder,
              const report::SuiteRecord& record, const std::vector<SuiteTask>& all,
              const RankSession& session) {
  const Streams& streams = session.streams();
  std::vector<PreparedTask> tasks =
      read_input([&] { return prepare_tasks(all, arguments, folder, session); });
  if (arguments.is_dry_run) {
    if (session.is_first()) show_plans(all, tasks, arguments, session);
    return 0;
  }
  std::int64_t bytes = 0;
  for (const PreparedTask& task : tasks) {
    bytes += compare::disk_left(task.record, task.options.folder);
  }
  warn_of_small_disk(bytes, folder);
  std::optional<run::RunLock> lock;  // a command that is refused leaves the file as it is
  if (session.is_first()) {
    fs::create_directories(folder);
    lock.emplace(folder);
    write_file_atomic(folder / "suite.json", json_text(report::to_json(record), 2) + "\n");
  }
  const InterruptGuard guard;
  CompareEnd end;
  std::size_t begun = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (end.signal != 0) {
      add_counts(tasks[i].record, end);
      continue;
    }
    ++begun;
    if (!arguments.is_quiet) {
      streams.err << str("task ", i + 1, " of ", tasks.size(), ": ", all[i].name, '\n')
                  << std::flush;
    }
    const CompareEnd task = run_comparison(tasks[i].record, tasks[i].options, arguments, streams);
    end.signal = task.signal;
    end.has_failures = end.has_failures || task.has_failures;
    end.done += task.done;
    end.all += task.all;
    if (task.done > 0 && session.is_first()) {
      const fs::path one = tasks[i].options.folder;
      const report::Report result = report::make_report(report::load({one}));
      end.has_faults = end.has_faults || report::has_faults(result.comparison);
      static_cast<void>(result.write(one / "report"));
    }
  }
  if (session.is_first()) show_suite(arguments, folder, streams);
  if (end.signal != 0) {
    const std::size_t left = tasks.size() - begun;
    const std::string more = left == 0 ? ""
                                       : str(", ", left, " of ", tasks.size(), " tasks ",
                                             left == 1 ? "has" : "have", " not begun");
    streams.err << stopped_text(end, arguments.parser->typed(), more) << std::flush;
  }
  return exit_code_of(end);
}

int compare_suite(const CompareArguments& given, const RankSession& session) {
  const config::Suite suite = read_input([&] { return config::read_suite(given.suite); });
  CompareArguments arguments = given;
  if (!arguments.has_seeds) arguments.seeds = suite.seeds;
  const fs::path folder = suite_folder(arguments);
  if (!arguments.is_dry_run) check_output_folder("--run", folder);
  const std::vector<SuiteTask> tasks = read_input([&] { return read_tasks(suite, arguments); });
  report::SuiteRecord record{
      .command = arguments.parser->typed(), .file = arguments.suite, .tasks = {}};
  for (const config::SuiteTask& task : suite.tasks)
    record.tasks.push_back({task.name, task.name, std::string(config::to_word(task.measure))});
  return run_tasks(arguments, folder, record, tasks, session);
}

}  // namespace mneme::cli
