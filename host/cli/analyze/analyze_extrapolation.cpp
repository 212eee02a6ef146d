// mneme analyze extrapolation RUN...
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/memory/host_groups.hpp"
#include "host/analyze/report/extrapolation_report.hpp"
#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/cli/analyze/analyze.hpp"
#include "host/cli/analyze/analyze_runs.hpp"
#include "host/cli/input.hpp"
#include "host/cli/ranges.hpp"
#include "host/base/table.hpp"
#include "host/eval/result.hpp"
#include "host/tensor/device.hpp"
#include "host/train/dry_run.hpp"

namespace mneme::cli {
namespace {

struct ExtrapolationArguments {
  RunsArguments runs;
  std::int64_t multiples = 10;
  std::int64_t segment = 64;
  std::string option = "rows";
};

// Error (kUsage) for a memory with tiers and none that has the option.
void check_sizes(const ExtrapolationArguments& arguments) {
  plugin::PluginLoader loader{memory::find_group};
  check_each_memory(arguments.runs, [&](const config::Experiment& experiment) {
    if (experiment.memory.tiers.empty()) return;
    // What the plugins log they log again when they are evaluated.
    const LogListener silent([](LogLevel, std::string_view) { return false; });
    static_cast<void>(
        run::find_size_option(*train::outline_memory(experiment, loader), arguments.option));
  });
}

// `differences`: of each memory from its run.
std::vector<analyze::SizedResult> measure(const ExtrapolationArguments& arguments, Display& display,
                                          Failures& failures, Json& differences) {
  std::vector<analyze::SizedResult> results;
  const data::Split split = split_of(arguments.runs.open);
  const auto change = [&](config::EvalConfig& eval) { eval.segment = arguments.segment; };
  for_each_memory(arguments.runs, display, failures, change, [&](const RunMemory& one) {
    // A memory without tiers has no size: it is one point.
    std::vector<run::SweepMemory> sizes = {one.memory};
    std::int64_t multiple = 0;
    if (!one.memory.memory.tiers.empty()) {
      one.sweep.load(one.memory.memory);
      sizes = run::extrapolate(
          one.memory, run::find_size_option(one.sweep.runtime().stack(), arguments.option),
          arguments.segment, arguments.multiples);
      multiple = 1;
    }
    for (const run::SweepMemory& size : sizes) {
      results.push_back({.memory = one.name,
                         .multiple = multiple++,
                         .result = evaluate_shown(one, size, split, display)});
    }
    differences[one.name] = differences_of(one);
  });
  return results;
}

Table table_of(const std::vector<analyze::SizedResult>& results) {
  Table table({"memory", "multiple", "context", "loss", "perplexity", "tokens"});
  for (const analyze::SizedResult& one : results) {
    const eval::Protocol& protocol = one.result.protocol;
    table.add_row({one.memory, str(one.multiple), eval::context_text(protocol),
                   format_number(one.result.loss(), 4), format_number(one.result.perplexity(), 3),
                   str(one.result.total.tokens)});
  }
  return table;
}

Json json_of(const ExtrapolationArguments& arguments,
             const std::vector<analyze::SizedResult>& results) {
  Json json = {{"format", "mneme-analyze-extrapolation"},
               {"split", arguments.runs.open.split},
               {"segment", arguments.segment},
               {"option", arguments.option},
               {"multiples", arguments.multiples},
               {"files", Json::array()},
               {"memories", Json::array()}};
  for (const analyze::SizedResult& one : results) {
    json["memories"].push_back(
        {{"name", one.memory}, {"multiple", one.multiple}, {"result", eval::to_json(one.result)}});
  }
  return json;
}

int run(const ExtrapolationArguments& arguments, const Streams& streams) {
  check_set(arguments.runs.open, {{"eval.segment", "--segment"}});
  arguments.runs.open.json.check();
  read_input([&] { check_sizes(arguments); });
  const OutputFolder folder(arguments.runs.out);
  tensor::set_threads(arguments.runs.open.machine.threads);
  Display display(streams, arguments.runs.open.is_quiet);
  Json differences = Json::object();
  Failures failures(streams, arguments.runs.memories());
  const std::vector<analyze::SizedResult> results =
      measure(arguments, display, failures, differences);
  Json json = json_of(arguments, results);
  json["differs_from_run"] = std::move(differences);
  json["failed"] = failures.json();
  if (!arguments.runs.open.json.is_stdout()) {
    streams.out << table_of(results).text(streams.out_width);
  }
  write_analysis(
      arguments.runs.out, [&] { return analyze::write_extrapolation(arguments.runs.out, results); },
      std::move(json), arguments.runs.open.json, streams);
  return failures.exit_code();
}

}  // namespace

void add_analyze_extrapolation(CLI::App& analyze, Action& action) {
  CLI::App* const command = analyze.add_subcommand(
      "extrapolation", "Perplexity by memory size: a table, and curves as CSV and SVG");
  const auto arguments = std::make_shared<ExtrapolationArguments>();
  arguments->runs.open.command = "analyze extrapolation";
  arguments->runs.add(*command,
                      "Memory file in place of the runs' own; may be given several times");
  command
      ->add_option("--multiples", arguments->multiples,
                   "Sizes: 1 to N times the segment; a memory without tiers is one point, 0")
      ->type_name("N")
      ->check(between(1, 10'000))
      ->capture_default_str();
  command->add_option("--segment", arguments->segment, "Segment, in tokens")
      ->type_name("T")
      ->check(between(1, kMostExtent))
      ->capture_default_str();
  command
      ->add_option("--option", arguments->option,
                   "The size: an integer option of the first tier that has it")
      ->type_name("KEY")
      ->capture_default_str();
  set_examples(*command,
               {"mneme analyze extrapolation runs/xl runs/other runs/none --out analysis --split "
                "test"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return run(*arguments, streams); };
  });
}

}  // namespace mneme::cli
