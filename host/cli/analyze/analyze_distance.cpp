// mneme analyze distance RUN...

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "host/analyze/report/run_reports.hpp"
#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/cli/analyze/analyze.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/display.hpp"
#include "host/cli/streams.hpp"
#include "host/eval/result.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/train/dry_run.hpp"

namespace mneme::cli {
namespace {

struct DistanceArguments {
  RunsArguments runs;
  std::vector<std::int64_t> layers;  // empty = the last
  std::int64_t distance = 100;
  std::int64_t width = 5;
  AnalysedPart part;
};

// Intervals of `width` distances up to `distance`.
std::int64_t intervals_of(const DistanceArguments& arguments) {
  if (arguments.distance % arguments.width != 0) {
    throw_usage("analyze distance: expected a --distance that is a multiple of --width, got ",
                arguments.distance, " and ", arguments.width);
  }
  return arguments.distance / arguments.width;
}

// The layers to look at in a model of so many.
std::set<std::int64_t> layers_of(const DistanceArguments& arguments, std::int64_t layers) {
  if (arguments.layers.empty()) return {layers - 1};
  for (const std::int64_t layer : arguments.layers) {
    if (layer < 0 || layer >= layers) {
      throw_usage("analyze distance --layer: expected layers from 0 to ", layers - 1, ", got ",
                  layer);
    }
  }
  return {arguments.layers.begin(), arguments.layers.end()};
}

Table table_of(const std::vector<analyze::DistanceResult>& subjects, std::int64_t width) {
  Table table({"memory", "layer", "distance", "weight", "tokens"});
  for (const analyze::DistanceResult& subject : subjects) {
    for (const auto& [number, layer] : subject.layers) {
      // The first, the middle and the last interval that some token saw.
      const auto seen = static_cast<std::size_t>(
          std::ranges::count_if(layer.tokens, [](std::int64_t tokens) { return tokens > 0; }));
      if (seen == 0) continue;
      for (const std::size_t i : std::set<std::size_t>{0, seen / 2, seen - 1}) {
        const std::int64_t from = static_cast<std::int64_t>(i) * width + 1;
        table.add_row({subject.name, str(number), str(from, '-', from + width - 1),
                       str(layer.weight[i]), str(layer.tokens[i])});
      }
    }
  }
  return table;
}

int run(const DistanceArguments& arguments, const Streams& streams) {
  check_set(arguments.runs.open, {{"eval.lanes", "--lanes"}, {"eval.steps", "--segments"}});
  arguments.runs.open.json.check();
  const backbone::DistanceSettings settings{.width = arguments.width,
                                            .intervals = intervals_of(arguments)};
  std::vector<analyze::DistanceResult> subjects;
  RunsAnalysis analysis;
  analysis.check = [&](const config::Experiment& experiment) {
    static_cast<void>(layers_of(arguments, experiment.model.layers));
  };
  analysis.change = [&](config::EvalConfig& eval) { arguments.part.apply(eval); };
  analysis.measure = [&](const RunMemory& one, Display& display) {
    backbone::DistanceSettings own = settings;
    own.layers = layers_of(arguments, one.opened.experiment.model.layers);
    backbone::AttentionByDistance distances(own);
    evaluate_shown(one, one.memory, split_of(arguments.runs.open), display,
                   [&](eval::Options& options) { options.distances = &distances; });
    for (const std::int64_t layer : own.layers) {
      if (distances.layers().contains(layer)) continue;
      throw_usage("analyze distance: layer ", layer,
                  " has no attention: the memory replaces it; --layer names another one");
    }
    subjects.push_back({.name = one.name, .layers = distances.layers()});
  };
  analysis.table = [&] { return table_of(subjects, settings.width); };
  analysis.json = [&] {
    Json json = {{"format", "mneme-analyze-distance"}, {"width", settings.width},
                 {"split", arguments.runs.open.split}, {"segments", arguments.part.segments},
                 {"lanes", arguments.part.lanes},      {"files", Json::array()},
                 {"memories", Json::array()}};
    for (const auto& subject : subjects) json["memories"].push_back(analyze::to_json(subject));
    return json;
  };
  analysis.write_files = [&] {
    return analyze::write_distances(arguments.runs.out, subjects, settings);
  };
  return analyze_runs(arguments.runs, analysis, streams);
}

}  // namespace

void add_analyze_distance(const Command& analyze) {
  const Command command = analyze.subcommand(
      "distance", "How far attention reaches: the largest weight by distance, as CSV and a figure");
  const auto arguments = std::make_shared<DistanceArguments>();
  arguments->runs.add(command);
  command.option("--layer", arguments->layers, "N",
                 "Layer to look at, from 0; may be given several times; default: the last");
  command.option("--distance", arguments->distance, "N",
                 "Largest distance, in tokens; a multiple of --width", {in(1, kMaxExtent), shown});
  command.option("--width", arguments->width, "N", "Distances in an interval",
                 {in(1, kMaxExtent), shown});
  arguments->part.add(command);
  command.examples({"mneme analyze distance runs/xl runs/other --out analysis"});
  command.runs(arguments, &run);
}

// --- mneme analyze extrapolation RUN... ---

namespace {

struct ExtrapolationArguments {
  RunsArguments runs;
  std::int64_t multiples = 10;
  std::int64_t segment = 64;
  std::string option = "rows";
};

// Error (kUsage) for a memory with tiers and none that has the option.
void check_size(const std::string& option, const config::Experiment& experiment,
                plugin::PluginLoader& loader) {
  if (experiment.memory.tiers.empty()) return;
  // Log lines are dropped here; the plugins log them again when they are evaluated.
  const LogListener silent([](LogLevel, std::string_view) { return false; });
  static_cast<void>(run::find_size_option(*train::outline_memory(experiment, loader), option));
}

// Adds a result for each size of the memory.
void measure(const ExtrapolationArguments& arguments, const RunMemory& one, Display& display,
             std::vector<analyze::SizedResult>& results) {
  // A memory without tiers has no size: it is one point.
  std::vector<run::SweepMemory> sizes = {one.memory};
  std::int64_t multiple = 0;
  if (!one.memory.memory.tiers.empty()) {
    one.sweep.load(one.memory.memory);
    sizes = run::extrapolate(one.memory,
                             run::find_size_option(one.sweep.runtime().stack(), arguments.option),
                             arguments.segment, arguments.multiples);
    multiple = 1;
  }
  const data::Split split = split_of(arguments.runs.open);
  for (const run::SweepMemory& size : sizes) {
    results.push_back({.memory = one.name,
                       .multiple = multiple++,
                       .result = evaluate_shown(one, size, split, display)});
  }
}

Table table_of(const std::vector<analyze::SizedResult>& results) {
  Table table({"memory", "multiple", "context", "loss", "perplexity", "tokens"});
  for (const analyze::SizedResult& one : results) {
    const eval::Protocol& protocol = one.result.protocol;
    table.add_row({one.memory, str(one.multiple), eval::context_text(protocol),
                   format_number(one.result.loss(), 4), format_number(one.result.perplexity(), 3),
                   str(one.result.total.targets)});
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
  plugin::PluginLoader loader = memory::make_loader();
  std::vector<analyze::SizedResult> results;
  RunsAnalysis analysis;
  analysis.check = [&](const config::Experiment& experiment) {
    check_size(arguments.option, experiment, loader);
  };
  analysis.change = [&](config::EvalConfig& eval) { eval.segment = arguments.segment; };
  analysis.measure = [&](const RunMemory& one, Display& display) {
    measure(arguments, one, display, results);
  };
  analysis.table = [&] { return table_of(results); };
  analysis.json = [&] { return json_of(arguments, results); };
  analysis.write_files = [&] { return analyze::write_extrapolation(arguments.runs.out, results); };
  return analyze_runs(arguments.runs, analysis, streams);
}

}  // namespace

void add_analyze_extrapolation(const Command& analyze) {
  const Command command = analyze.subcommand(
      "extrapolation", "Perplexity by memory size: a table, and curves as CSV and a figure");
  const auto arguments = std::make_shared<ExtrapolationArguments>();
  arguments->runs.add(command);
  command.option("--multiples", arguments->multiples, "N",
                 "Sizes: 1 to N times the segment; a memory without tiers is one point, 0",
                 {in(1, 10'000), shown});
  command.option("--segment", arguments->segment, "T", "Segment, in tokens",
                 {in(1, kMaxExtent), shown});
  command.option("--option", arguments->option, "OPTION",
                 "The size: an integer option of the first tier that has it", {shown});
  command.examples(
      {"mneme analyze extrapolation runs/xl runs/other runs/none --out analysis --split test"});
  command.runs(arguments, &run);
}

}  // namespace mneme::cli
