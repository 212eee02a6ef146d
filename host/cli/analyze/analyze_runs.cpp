#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "host/analyze/report/report.hpp"
#include "host/base/text.hpp"
#include "host/cli/analyze/analyze.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/streams.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/plugin/loader.hpp"
#include "host/run/run_folder.hpp"
#include "host/run/sweep.hpp"
#include "host/tensor/device.hpp"
#include "host/train/dry_run.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

std::string folder_name(const fs::path& run) {
  const fs::path path = fs::absolute(run).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

std::vector<std::string> run_names(const std::vector<fs::path>& runs) {
  std::vector<std::string> names;
  for (const fs::path& run : runs) names.push_back(folder_name(run));
  return distinct_names(names);
}

// What one memory of one run is called; `file` is empty for the run's own.
std::string memory_name(const std::vector<std::string>& runs, std::size_t run,
                        const std::string& file) {
  if (file.empty()) return runs[run];
  return runs.size() > 1 ? str(runs[run], ", ", file) : file;
}

// How the data and the plugins of one differ from what its run was trained with.
Json differences_of(const RunMemory& one) {
  std::vector<run::RunDifference> all = one.opened.differences;
  const std::vector<run::RunDifference>& plugins = one.sweep.differences();
  all.insert(all.end(), plugins.begin(), plugins.end());
  return run::to_json(all);
}

void check_each_memory(const RunsArguments& arguments,
                       const std::function<void(const config::Experiment&)>& check) {
  const std::vector<std::string> names = run_names(arguments.runs);
  std::vector<std::optional<fs::path>> files(arguments.open.memory.begin(),
                                             arguments.open.memory.end());
  if (files.empty()) files.emplace_back();
  plugin::PluginLoader loader = memory::make_loader();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const run::RunFolder folder = run::RunFolder::open(arguments.runs[i]);
    static_cast<void>(folder.checkpoint(arguments.open.checkpoint));
    for (const std::optional<fs::path>& file : files) {
      const config::Experiment experiment =
          config::parse_experiment(folder.experiment_file(), arguments.open.set.overrides(), file);
      try {
        train::check_memory(experiment, loader);
        check(experiment);
      } catch (const Error& error) {
        throw error.with_context(memory_name(names, i, file ? file->stem().string() : ""));
      }
    }
  }
}

}  // namespace

void AnalysedPart::add(const Command& command) {
  command.option("--segments", segments, "N", "Segments of every lane; 0 = all",
                 {in(0, kMaxCount), shown});
  command.option("--lanes", lanes, "B", "Lanes that the split is cut into",
                 {in(1, kMaxExtent), shown});
}

void RunsArguments::add(const Command& command) {
  command.option("RUN", runs, "", "The runs' folders", {required});
  command.option("--out", out, "DIR", "Folder for the CSV files, figures and the page", {required});
  open.add_source(command, "Memory file in place of the runs' own; may be given several times");
  open.add_settings(command);
}

int analyze_runs(const RunsArguments& arguments, const RunsAnalysis& analysis,
                 const Streams& streams) {
  read_input([&] { check_each_memory(arguments, analysis.check); });
  const OutputFolder folder(arguments.out);
  tensor::set_threads(arguments.open.machine.threads);
  Display display(streams, arguments.open.is_quiet);
  Json differences = Json::object();
  Failures failures(streams,
                    arguments.runs.size() * std::max<std::size_t>(1, arguments.open.memory.size()));
  const std::vector<std::string> names = run_names(arguments.runs);
  for (std::size_t i = 0; i < names.size(); ++i) {
    OpenArguments one = arguments.open;
    one.run = arguments.runs[i];
    OpenEvaluation opened = read_input([&] { return open_evaluation(one); });
    note_data(display, *opened.options.dataset);
    analysis.change(opened.experiment.eval);
    run::Sweep sweep(opened.checkpoint, opened.experiment, opened.options);
    for (const run::SweepMemory& memory : opened.memories) {
      const RunMemory named{memory_name(names, i, one.memory.empty() ? "" : memory.name), memory,
                            opened, sweep};
      try {
        analysis.measure(named, display);
        differences[named.name] = differences_of(named);
      } catch (const Error& error) {
        display.end();
        failures.add(named.name, error);
      }
    }
  }
  Json json = analysis.json();
  json["differs_from_run"] = std::move(differences);
  json["failed"] = failures.json();
  write_analysis(analysis.table().text(streams.out_width), arguments.out, analysis.write_files,
                 std::move(json), arguments.open.json, streams);
  return failures.exit_code();
}

eval::Result evaluate_shown(const RunMemory& one, const run::SweepMemory& memory, data::Split split,
                            Display& display, const std::function<void(eval::Options&)>& change) {
  run::SweepResult result = one.sweep.evaluate_memory(memory, split, [&](run::Runtime& runtime) {
    display.begin(one.name, runtime.evaluation_segments(split));
    eval::Options options;
    options.on_progress = [&](std::int64_t segments, std::int64_t tokens) {
      display.update(segments, tokens);
    };
    if (change) change(options);
    return options;
  });
  display.end();
  if (result.error) throw *result.error;
  warn_of_untrained(one.name, result.reset);
  return std::move(*result.result);
}

namespace {

constexpr std::size_t kShownWords = 8;

// A line for each layer: alpha of the oldest and of the newest rows.
std::string alpha_text(const std::vector<AnalysedMemory>& analyses, std::size_t width) {
  Table table({"memory", "tier", "layer", "rows", "mean alpha", "oldest", "newest"});
  bool has_any = false;
  for (const AnalysedMemory& one : analyses) {
    for (const auto& [where, layer] : one.analysis->alpha.layers()) {
      double sum = 0.0;
      for (const double alpha : layer.alpha) sum += alpha;
      table.add_row({one.memory.name, where.tier, str(where.layer), str(layer.alpha.size()),
                     format_number(sum / static_cast<double>(layer.alpha.size()), 4),
                     format_number(layer.alpha.front(), 4), format_number(layer.alpha.back(), 4)});
      has_any = true;
    }
  }
  return has_any ? table.text(width) : "";
}

// A line a layer: the shares of attention.
std::string regions_text(const std::vector<AnalysedMemory>& analyses, std::size_t width) {
  Table table({"memory", "tier", "layer", "compressed", "memory rows", "segment"});
  bool has_any = false;
  for (const AnalysedMemory& one : analyses) {
    for (const auto& [where, layer] : one.analysis->regions.layers()) {
      std::vector<std::string> row = {one.memory.name, where.tier, str(where.layer)};
      for (std::size_t r = 0; r < layer.places.size(); ++r) {
        row.push_back(format_number(layer.total(r), 4));
      }
      table.add_row(std::move(row));
      has_any = true;
    }
  }
  return has_any ? table.text(width) : "";
}

// Attention of each head, a line each.
std::string attention_text(const std::vector<AnalysedMemory>& analyses, std::size_t width) {
  const bool has_signal = std::ranges::any_of(
      analyses, [](const AnalysedMemory& one) { return one.analysis->has_signal; });
  if (!has_signal) return "";
  Table table({"memory", "tier", "layer", "head", "queries", "mean place", "deviation", "inside"});
  for (const AnalysedMemory& one : analyses) {
    for (const auto& [at, head] : one.analysis->attention.heads()) {
      double inside = 0.0;
      for (const double mass : head.mass) inside += mass;
      table.add_row({one.memory.name, at.where.tier, str(at.where.layer), str(at.head),
                     str(head.queries), format_number(head.mean_place, 3),
                     format_number(head.mean_deviation, 3), format_number(inside, 3)});
    }
  }
  return table.text(width);
}

std::string better_text(const AnalysedMemory& first, const analyze::TokenText& text,
                        std::size_t width) {
  const auto& better = first.analysis->gains;
  if (!better) return "";
  const analyze::PredictionGains::Summary summary = better->summary();
  Table table({"target", "position", "gain", "looked at"});
  for (const analyze::GainedTarget& word : better->targets()) {
    std::vector<std::string> seen;
    for (const analyze::MemoryWord& one : word.looked_at) {
      seen.push_back(text.of(
          first.analysis->trace.history(word.lane).at(static_cast<std::size_t>(one.token))));
    }
    if (seen.size() > kShownWords) seen.resize(kShownWords);
    table.add_row({text.of(word.target), str(word.token + 1), format_number(word.gain(), 3),
                   join(seen, " ")});
  }
  return str("\npredicted better by ", first.memory.name, ": ", summary.better, " of ",
             summary.targets, " targets, mean gain ", format_number(summary.mean_gain, 4),
             " nats\n", table.text(width));
}

// Of the first utterances the passage of their document that got most attention.
std::string utterances_text(const std::vector<AnalysedMemory>& analyses,
                            const analyze::TokenText& text, std::size_t width) {
  constexpr std::size_t kUtterances = 6;
  Table table({"memory", "dialogue", "turn", "share", "utterance", "passage of the document"});
  bool has_any = false;
  for (const AnalysedMemory& one : analyses) {
    if (!one.analysis->documents) continue;
    std::vector<analyze::Utterance> all = one.analysis->documents->utterances(1);
    if (all.size() > kUtterances) all.resize(kUtterances);
    for (const analyze::Utterance& utterance : all) {
      const analyze::Passage& first = utterance.passages.front();
      const auto words = [&](std::int64_t from, std::int64_t to) {
        const std::int64_t most = std::min<std::int64_t>(to, from + kShownWords);
        return analyze::tokens_text(*one.analysis, text, utterance.lane, from, most) +
               (most < to ? " ..." : "");
      };
      table.add_row({one.memory.name, str(utterance.dialogue), str(utterance.turn),
                     format_number(first.share, 3), words(utterance.begin, utterance.end),
                     words(utterance.document + first.from, utterance.document + first.to)});
      has_any = true;
    }
  }
  return has_any ? "\nwhere utterances look in their document (utterances.csv has all):\n" +
                       table.text(width)
                 : "";
}

}  // namespace

Json analysis_json(const AnalyzeArguments& arguments, const OpenEvaluation& opened,
                   const std::vector<AnalysedMemory>& analyses, const analyze::TokenText& text) {
  Json json = {{"format", "mneme-analyze"},
               {"run", arguments.open.run.string()},
               {"step", opened.checkpoint.progress().step},
               {"split", arguments.open.split},
               {"lanes", arguments.part.lanes},
               {"segments", arguments.part.segments},
               {"data", opened.options.dataset->describe()},
               {"differs_from_run", run::to_json(opened.differences)},
               {"memories", Json::array()}};
  for (const AnalysedMemory& one : analyses) {
    Json memory = to_json(one.result);
    memory.erase("breakdown");
    memory.update(analyze::to_json(*one.analysis, text, static_cast<std::size_t>(arguments.top)));
    json["memories"].push_back(std::move(memory));
  }
  if (const auto& better = analyses.front().analysis->gains) {
    json["better"] = analyze::to_json(*better, *analyses.front().analysis, text);
    json["better"]["against"] =
        arguments.against.empty() ? analyses.at(1).memory.name : arguments.against.string();
    json["better"]["threshold"] = arguments.threshold;
  }
  return json;
}

std::string analysis_text(const std::vector<AnalysedMemory>& analyses,
                          const analyze::TokenText& text, std::size_t width) {
  return attention_text(analyses, width) + alpha_text(analyses, width) +
         regions_text(analyses, width) + better_text(analyses.front(), text, width) +
         utterances_text(analyses, text, width);
}

}  // namespace mneme::cli
