// mneme compare EXP --memory A --memory B
#include "host/cli/compare/compare.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "host/base/exit_status.hpp"
#include "host/base/log.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/unread_output.hpp"
#include "host/compare/planning/disk.hpp"
#include "host/compare/planning/equal_budget.hpp"
#include "host/compare/rank_schedule.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/report/differences/soundness.hpp"
#include "host/report/report.hpp"
#include "host/report/setup/baseline.hpp"
#include "host/run/run_description.hpp"
#include "host/tensor/device.hpp"
#include "host/train/dry_run.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

void check_arms_named(const CompareArguments& arguments) {
  if (!arguments.suite.empty() || are_runs(arguments)) return;
  if (arguments.paths.empty()) throw_usage("compare: EXP is required; see mneme compare --help");
  if (arguments.paths.size() > 1) {
    throw_usage("compare: expected one experiment file, or run folders, got ",
                arguments.paths.size(), " paths of which ",
                std::ranges::find_if_not(
                    arguments.paths, [](const fs::path& path) { return fs::is_directory(path); })
                    ->string(),
                " is no folder");
  }
  if (arguments.memory.empty()) {
    throw_usage("compare: --memory is required; see mneme compare --help");
  }
}

// runs/compare-<experiment>: the same command finds it again.
fs::path folder_of(const CompareArguments& arguments) {
  if (!arguments.run.empty()) return arguments.run;
  return fs::path("runs") / ("compare-" + arguments.paths.front().stem().string());
}

// Writes the report of what the files of a comparison tell, and prints it: the files first, as a
// reader of what is printed may end early. Returns whether a memory of it is faulty.
bool show(const std::vector<fs::path>& paths, const fs::path& report,
          const CompareArguments& arguments, const Streams& streams) {
  if (arguments.in_place_of_report) {
    arguments.in_place_of_report(paths.front());
    return false;
  }
  const report::Report result = arguments.compared.report_of(paths);
  std::string place;
  Outputs outputs;
  if (!report.empty()) {
    outputs.add([&] {
      place =
          str("report, with figures, settings and plugins: ", result.write(report).string(), '\n');
    });
  }
  outputs.add([&] { arguments.json.write(result.json(), streams); });
  if (!arguments.json.is_stdout()) {
    report::Report shown = result;
    if (!report.empty()) {  // where the page has the rest
      std::erase_if(shown.sheets, [](const report::Sheet& sheet) {
        return sheet.key == "settings" || sheet.key == "plugins";
      });
    }
    streams.out << shown.text(streams.out_width) << place << std::flush;
  }
  outputs.finish();
  return report::has_faults(result.comparison);
}

int compare_runs(const CompareArguments& arguments, const RankSession& session) {
  if (!session.is_first()) return 0;
  const bool is_faulty = show(arguments.paths, {}, arguments, session.streams());
  return is_faulty ? static_cast<int>(ErrorKind::kRun) : 0;
}

}  // namespace

bool are_runs(const CompareArguments& arguments) {
  std::error_code ignored;
  return !arguments.paths.empty() &&
         std::ranges::all_of(arguments.paths,
                             [&](const fs::path& path) { return fs::is_directory(path, ignored); });
}

std::vector<compare::ArmSetup> read_arms(const CompareArguments& arguments,
                                         plugin::PluginLoader& loader) {
  std::vector<compare::ArmRequest> memories;
  for (const std::string& word : arguments.memory) memories.push_back(compare::parse_arm(word));
  std::vector<compare::Sweep> sweeps;
  for (const std::string& word : arguments.sweeps) sweeps.push_back(compare::parse_sweep(word));
  return compare::read_arms(arguments.paths.front(), memories, arguments.set.overrides(), sweeps,
                            loader, arguments.is_locked);
}

void check_arms(const std::vector<compare::ArmSetup>& arms, plugin::PluginLoader& loader) {
  for (const compare::ArmSetup& arm : arms) {
    try {
      train::check_inputs(arm.experiment, loader);
    } catch (const Error& error) {
      throw error.with_context(arm.name);
    }
  }
}

namespace {

// Numbers depend on threads and first weights: those of what the folder has already, the comparison
// or, before it has begun, its trials.
fs::path begun_folder(const CompareArguments& arguments) {
  const fs::path folder = folder_of(arguments);
  std::error_code ignored;
  if (!is_tuned(arguments) || fs::exists(folder / "comparison.json", ignored)) return folder;
  return folder / scores::kTuningFolder;
}

void check_baseline_named(const CompareArguments& arguments,
                          const std::vector<compare::ArmSetup>& arms) {
  if (arguments.compared.baseline.empty()) return;
  std::vector<std::string> names;
  for (const compare::ArmSetup& arm : is_tuned(arguments) ? with_stand_ins(arms) : arms)
    names.push_back(arm.name);
  report::check_baseline(names, arguments.compared.baseline);
}

// The arms of a comparison, ready to run, and the trials that come before.
struct PreparedArms {
  std::vector<compare::ArmSetup> arms;
  std::optional<Tuning> tuning;
  compare::Record record;
};

// Files, plugins, options and values that are tried are checked before the data are read.
PreparedArms prepare_arms(const CompareArguments& arguments, const compare::Options& options,
                          const Streams& streams) {
  PreparedArms out;
  plugin::PluginLoader loader = memory::make_loader();
  out.arms = read_input([&] { return read_arms(arguments, loader); });
  if (arguments.is_until_decided && out.arms.size() < 2) {
    throw_usage(
        "compare --until-decided: expected two arms or more, the baseline and those that are "
        "compared with it, got one");
  }
  check_baseline_named(arguments, out.arms);
  read_input([&] { check_arms(out.arms, loader); });
  if (!arguments.equal.empty()) {
    const compare::Budget budget = compare::parse_budget(arguments.equal);
    const compare::Equalized equalized =
        compare::equalize(out.arms, budget, {.loader = {std::shared_ptr<void>(), &loader}});
    arguments.json.text(streams) << compare::text_of(equalized, budget) << std::flush;
  }
  if (is_tuned(arguments))
    out.tuning = read_input([&] { return read_tuning(arguments, out.arms, loader); });
  const bool has_stand_ins = is_tuned(arguments) && arguments.is_dry_run;
  out.record =
      compare::prepare(has_stand_ins ? with_stand_ins(out.arms) : out.arms, options, loader);
  if (out.tuning) prepare_trials(*out.tuning, options, loader);
  return out;
}

void show_plan_of(const PreparedArms& prepared, const compare::Options& options,
                  const CompareArguments& arguments, const RankSession& session) {
  const std::string name = arguments.paths.front().string();
  Json plan = prepared.tuning ? show_tuning_plan(*prepared.tuning, prepared.record, options, name,
                                                 arguments, session)
                              : show_plan(prepared.record, options, name, arguments, session);
  if (prepared.record.looks) add_first_look(prepared.record, arguments, session.streams(), plan);
  arguments.json.write(plan, session.streams());
}

int compare_arms(const CompareArguments& arguments, const RankSession& session) {
  const Streams& streams = session.streams();
  if (!arguments.is_dry_run) check_output_folder("--run", folder_of(arguments));
  compare::Options options =
      compare_options(arguments, begun_folder(arguments), arguments.paths.front(), session);
  options.folder = folder_of(arguments);
  if (is_tuned(arguments)) options.purpose = compare::Purpose::kTuned;
  PreparedArms prepared = prepare_arms(arguments, options, streams);
  if (arguments.is_dry_run) {
    if (session.is_first()) show_plan_of(prepared, options, arguments, session);
    return 0;
  }
  std::int64_t bytes = compare::disk_left(prepared.record, options.folder);
  if (prepared.tuning)  // a tuned arm takes what its arm takes
    bytes =
        2 * bytes + compare::disk_left(prepared.tuning->record, prepared.tuning->options.folder);
  warn_of_small_disk(bytes, options.folder);
  const InterruptGuard guard;
  bool are_missing = false;
  if (prepared.tuning) {
    Tuning& tuning = *prepared.tuning;
    const CompareEnd trials = run_trials(tuning, arguments, streams);
    if (trials.signal != 0) {
      streams.err << stopped_text(trials, options.command, ", trials of tuned arms") << std::flush;
      return exit_code_of(trials);
    }
    TunedArms tuned = choose_arms(tuning, prepared.arms, options, arguments, streams);
    prepared.record = std::move(tuned.record);
    are_missing = tuned.are_missing;
  }
  CompareEnd end = prepared.record.looks
                       ? run_until_decided(prepared.record, options, arguments, session)
                       : run_comparison(prepared.record, options, arguments, streams);
  end.has_failures = end.has_failures || are_missing;
  if (end.done > 0 && session.is_first()) {
    end.has_faults = show({options.folder}, options.folder / "report", arguments, streams);
  }
  if (end.signal != 0) streams.err << stopped_text(end, options.command) << std::flush;
  return exit_code_of(end);
}

// The threads of the comparison that the folder has; 0 = it has none that can be read.
std::int64_t threads_of_record(const fs::path& folder) {
  std::error_code error;
  const fs::path file = folder / "comparison.json";
  if (folder.empty() || !fs::exists(file, error)) return 0;
  const Json record = Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  return record.is_object() ? run::threads_of(record.value("machine", Json())) : 0;
}

// Numbers depend on the threads in the last bits: a comparison that is continued keeps its own, and
// ranks agree on the least that any of them has.
void set_threads(const CompareArguments& arguments, const fs::path& folder,
                 const RankSession& session) {
  std::int64_t given = arguments.machine.threads;
  if (given == 0 && !tensor::has_threads_variable()) given = threads_of_record(folder);
  session.set_threads(given, arguments.jobs);
  if (given != 0 || session.ranks() == nullptr) return;
  for (const std::string& text :
       session.ranks()->all_gather(str(tensor::threads()), "compare: threads")) {
    tensor::limit_threads(std::stoll(text));
  }
}

// "cuda" without a number stands for all GPUs of the machine that are like the first, or for a
// rank's share of them.
std::vector<std::string> devices_of(const std::string& given, const RankSession& session) {
  if (given != "cuda") return {given};
  static_cast<void>(tensor::open_device(given));
  const ranks::Communicator* const ranks = session.ranks();
  std::vector<std::string> names;
  for (const std::int64_t i : compare::gpus_of(ranks == nullptr ? 0 : ranks->place_on_host(),
                                               ranks == nullptr ? 1 : ranks->ranks_on_host(),
                                               tensor::count_cuda_devices())) {
    names.push_back(str("cuda:", i));
  }
  const std::string first = tensor::describe(tensor::open_device(names.front()));
  std::erase_if(names, [&](const std::string& name) {
    return tensor::describe(tensor::open_device(name)) != first;
  });
  return names;
}

}  // namespace

int run_compare(const CompareArguments& arguments, const Streams& streams) {
  check_arms_named(arguments);
  arguments.json.check();
  const RankSession session(streams);
  if (!arguments.is_dry_run || arguments.json.is_file()) go_on_unread();
  const auto compare_them = !arguments.suite.empty()      ? &compare_suite
                            : !arguments.capacity.empty() ? &compare_capacity
                            : !arguments.scale.empty()    ? &compare_scale
                            : are_runs(arguments)         ? &compare_runs
                                                          : &compare_arms;
  const int exit_code = compare_them(arguments, session);
  // A launcher ends all ranks when one of them says that it failed: rank 0 says it for all, after
  // its last line.
  return session.is_first() ? exit_code : 0;
}

compare::Options compare_options(const CompareArguments& arguments, const fs::path& folder,
                                 const fs::path& experiment, const RankSession& session) {
  compare::Options options{.folder = folder};
  options.seeds = arguments.is_until_decided ? arguments.max_seeds : arguments.seeds;
  options.is_until_decided = arguments.is_until_decided;
  options.jobs = arguments.jobs;
  options.samples = arguments.samples;
  options.diagnostics = arguments.diagnostics;
  options.pilot_split = arguments.pilot_split;
  set_threads(arguments, folder, session);
  options.device_names = devices_of(arguments.machine.device, session);
  options.device = tensor::open_device(options.device_names.front());
  options.is_forced = arguments.machine.is_forced;
  options.is_dry_run = arguments.is_dry_run;
  if (!arguments.init.empty()) {
    read_input([&] { compare::find_initial_weights(arguments.init, options); });
  }
  options.free_memory = arguments.machine.free_memory(options.device);
  options.experiment = experiment;
  options.command = arguments.parser->typed();
  options.program = fs::read_symlink("/proc/self/exe");
  options.signal_mask = inherited_signal_mask();
  options.ranks = session.ranks();
  return options;
}

void warn_of_small_disk(std::int64_t bytes, const fs::path& folder) {
  const std::string text = compare::disk_warning(bytes, compare::free_disk(folder));
  if (!text.empty()) log_warning(folder.string(), ": ", text);
}

void add_counts(const compare::Record& record, CompareEnd& end) {
  end.all += record.count_runs();
  for (const compare::ArmRecord& arm : record.arms) {
    if (compare::has_work(arm))
      end.done += std::ranges::count_if(arm.runs, &compare::RunRecord::is_done);
  }
}

int exit_code_of(const CompareEnd& end) {
  if (end.signal != 0) return exit_code_of_signal(end.signal);
  return end.has_failures || end.has_faults ? static_cast<int>(ErrorKind::kRun) : 0;
}

std::string stopped_text(const CompareEnd& end, const std::string& command,
                         const std::string& more) {
  return str("mneme: stopped by ", signal_name(end.signal), ": ", end.done, " of ", end.all,
             " runs are done", more,
             ", the others are saved; the same command continues: ", command, '\n');
}

}  // namespace mneme::cli
