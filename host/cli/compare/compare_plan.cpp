// mneme compare --dry-run
#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/cli/compare/compare.hpp"
#include "host/cli/display.hpp"
#include "host/compare/planning/plan.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/report/tables/tables.hpp"

namespace mneme::cli {
namespace {

using report::Cell;

Cell bytes_cell(std::int64_t bytes) {
  return {human_bytes(static_cast<std::uint64_t>(bytes)), bytes};
}

Cell seconds_cell(const compare::ArmPlan& arm, double seconds) {
  if (!arm.is_timed) return {"-", nullptr};
  return {format_duration(seconds), seconds};
}

Cell flops_cell(const Json& flops) {
  const auto found = flops.is_object() ? flops.find("training") : flops.end();
  if (!flops.is_object() || found == flops.end()) return {"-", nullptr};
  return {format_count(found->get<double>()), *found};
}

report::Sheet sheet_of(const compare::Plan& plan, const compare::Record& record) {
  report::Sheet out{
      .key = "plan",
      .title = "Arms",
      .headings = {"arm", "parameters", "FLOPs a token", "state a lane", "peak memory", "runs",
                   "a step", "a training", "evaluations", "disk a run"}};
  for (std::size_t i = 0; i < plan.arms.size(); ++i) {
    const compare::ArmPlan& one = plan.arms[i];
    const compare::ArmRecord& arm = record.arms[i];
    const std::int64_t parameters = arm.backbone_parameters + arm.memory_parameters;
    out.rows.push_back(
        {Cell(one.name), Cell(format_count(static_cast<double>(parameters)), parameters),
         flops_cell(arm.flops),
         one.is_timed ? bytes_cell(static_cast<std::int64_t>(one.state_bytes)) : Cell("-", nullptr),
         bytes_cell(std::max(one.training.total(), one.evaluation.total())),
         Cell(str(arm.runs.size()), arm.runs.size()), seconds_cell(one, one.step_seconds),
         seconds_cell(one, one.training_seconds), seconds_cell(one, one.evaluation_seconds),
         bytes_cell(one.disk_bytes)});
    if (!one.is_timed) {
      out.notes.push_back(str(one.name, ": its times are not known: one step takes at least ",
                              format_duration(one.least_step_seconds),
                              ", longer than an arm is measured"));
    }
    for (const std::string& line : scores::warnings(arm.checks)) {
      out.notes.push_back(str(one.name, ": ", line));
    }
  }
  out.notes.emplace_back(
      "Times are measured: a few steps of each arm with a memory that is filled, as far as 16 "
      "steps fill it, and a few segments of each split. Peak memory is estimated for the model and "
      "its data; the program itself (on the CPU about 160 MiB, with a Python memory 650 MiB) and "
      "what memories keep for their gradients are not counted. Samples, diagnostics and the start "
      "of processes are left out of the times.");
  return out;
}

std::string total_text(const compare::Plan& plan) {
  const std::string time = plan.is_timed ? format_duration(plan.seconds) : "time not known,";
  std::string text = str("all runs: ", time, " with ", plan.processes,
                         plan.processes == 1 ? " process" : " processes side by side", "; disk ",
                         human_bytes(static_cast<std::uint64_t>(plan.disk_bytes)));
  if (plan.free_disk_bytes >= 0) {
    text += str(", ", human_bytes(static_cast<std::uint64_t>(plan.free_disk_bytes)), " are free",
                plan.free_disk_bytes < plan.disk_bytes ? ": too little" : "");
  }
  return text + "; what the folder holds already is left out\n";
}

}  // namespace

Json show_plan(const compare::Record& record, const compare::Options& options,
               const std::string& name, const CompareArguments& arguments,
               const RankSession& session) {
  const Streams& streams = session.streams();
  const std::int64_t ranks = session.ranks() == nullptr ? 1 : session.ranks()->size();
  plugin::PluginLoader loader = memory::make_loader();
  compare::Measuring measuring;
  Display display(streams, arguments.is_quiet);
  measuring.on_arm = [&](std::size_t arm) {
    display.note(str("measuring ", record.arms[arm].setup.name, ", arm ", arm + 1, " of ",
                     record.arms.size(), ", for a few seconds"));
  };
  const compare::Plan plan =
      compare::make_plan(record, options, arguments.jobs * ranks, loader, measuring);
  arguments.json.text(streams) << "dry run of " << name << ": nothing is kept or written\n"
                               << report::write_sheet(sheet_of(plan, record), report::Format::kText,
                                                      streams.out_width)
                               << fit_lines(total_text(plan), streams.out_width) << std::flush;
  return compare::to_json(plan, record);
}

}  // namespace mneme::cli
