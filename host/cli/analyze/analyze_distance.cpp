// mneme analyze distance RUN...
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/analyze/report/reach_report.hpp"
#include "host/base/error.hpp"
#include "host/cli/analyze/analyze.hpp"
#include "host/cli/analyze/analyze_runs.hpp"
#include "host/cli/input.hpp"
#include "host/cli/ranges.hpp"
#include "host/base/table.hpp"
#include "host/tensor/device.hpp"

namespace mneme::cli {
namespace {

struct DistanceArguments {
  RunsArguments runs;
  std::vector<std::int64_t> layers;  // empty = the last
  std::int64_t distance = 100;
  std::int64_t width = 5;
  std::int64_t segments = 100;
  std::int64_t lanes = 1;
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

Table table_of(const std::vector<analyze::ReachSubject>& subjects, std::int64_t width) {
  Table table({"memory", "layer", "distance", "weight", "tokens"});
  for (const analyze::ReachSubject& subject : subjects) {
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

// `differences`: of each memory from its run.
std::vector<analyze::ReachSubject> measure(const DistanceArguments& arguments,
                                           const backbone::ReachSettings& settings,
                                           Display& display, Failures& failures,
                                           Json& differences) {
  std::vector<analyze::ReachSubject> subjects;
  const auto change = [&](config::EvalConfig& eval) {
    eval.lanes = arguments.lanes;
    eval.steps = arguments.segments;
  };
  for_each_memory(arguments.runs, display, failures, change, [&](const RunMemory& one) {
    backbone::ReachSettings own = settings;
    own.layers = layers_of(arguments, one.run.experiment.model.layers);
    backbone::AttentionReach reach(own);
    evaluate_shown(one, one.memory, split_of(arguments.runs.open), display,
                   [&](eval::Options& options) { options.reach = &reach; });
    subjects.push_back({.name = one.name, .layers = reach.layers()});
    differences[one.name] = differences_of(one);
  });
  return subjects;
}

int run(const DistanceArguments& arguments, const Streams& streams) {
  check_set(arguments.runs.open, {{"eval.lanes", "--lanes"}, {"eval.steps", "--segments"}});
  arguments.runs.open.json.check();
  const backbone::ReachSettings settings{.width = arguments.width,
                                         .intervals = intervals_of(arguments)};
  read_input([&] {
    check_each_memory(arguments.runs, [&](const config::Experiment& experiment) {
      static_cast<void>(layers_of(arguments, experiment.model.layers));
    });
  });
  const OutputFolder folder(arguments.runs.out);
  tensor::set_threads(arguments.runs.open.machine.threads);
  Display display(streams, arguments.runs.open.is_quiet);
  Json differences = Json::object();
  Failures failures(streams, arguments.runs.memories());
  const std::vector<analyze::ReachSubject> subjects =
      measure(arguments, settings, display, failures, differences);
  Json json = {{"format", "mneme-analyze-distance"}, {"width", settings.width},
               {"split", arguments.runs.open.split}, {"segments", arguments.segments},
               {"lanes", arguments.lanes},           {"files", Json::array()},
               {"memories", Json::array()}};
  for (const analyze::ReachSubject& subject : subjects) {
    json["memories"].push_back(analyze::to_json(subject));
  }
  json["differs_from_run"] = std::move(differences);
  json["failed"] = failures.json();
  if (!arguments.runs.open.json.is_stdout()) {
    streams.out << table_of(subjects, settings.width).text(streams.out_width);
  }
  write_analysis(
      arguments.runs.out,
      [&] { return analyze::write_reach(arguments.runs.out, subjects, settings); }, std::move(json),
      arguments.runs.open.json, streams);
  return failures.exit_code();
}

}  // namespace

void add_analyze_distance(CLI::App& analyze, Action& action) {
  CLI::App* const command = analyze.add_subcommand(
      "distance", "How far attention reaches: the largest weight by distance, as CSV and SVG");
  const auto arguments = std::make_shared<DistanceArguments>();
  arguments->runs.open.command = "analyze distance";
  arguments->runs.add(*command,
                      "Memory file in place of the runs' own; may be given several times");
  const auto number = [&](const char* name, std::int64_t& value, const char* help, const char* type,
                          const CLI::Validator& range) {
    command->add_option(name, value, help)->type_name(type)->check(range)->capture_default_str();
  };
  command
      ->add_option("--layer", arguments->layers,
                   "Layer to look at, from 0; may be given several times; default: the last")
      ->type_name("N");
  const CLI::Validator distances = between(1, kMostExtent);
  number("--distance", arguments->distance, "Largest distance, in tokens; a multiple of --width",
         "N", distances);
  number("--width", arguments->width, "Distances in an interval", "N", distances);
  number("--segments", arguments->segments, "Segments of every lane; 0 = all", "N",
         between(0, kMostCount));
  number("--lanes", arguments->lanes, "Lanes that the split is cut into", "B",
         between(1, kMostExtent));
  set_examples(*command, {"mneme analyze distance runs/xl runs/other --out analysis"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return run(*arguments, streams); };
  });
}

}  // namespace mneme::cli
