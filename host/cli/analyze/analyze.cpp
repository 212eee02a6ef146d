// mneme analyze RUN
#include "host/cli/analyze/analyze.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/analyze/report/report.hpp"
#include "host/base/log.hpp"
#include "host/base/log_once.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/display.hpp"
#include "host/cli/streams.hpp"
#include "host/cli/unread_output.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/device.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

using analyze::MemoryAnalysis;

// Thrown to end an evaluation early.
struct TrialOver {};

// Lanes and segments are those of the analysis, not of the experiment.
OpenEvaluation open(const AnalyzeArguments& arguments, const OpenArguments& one) {
  OpenEvaluation opened = open_evaluation(one);
  arguments.part.apply(opened.experiment.eval);
  return opened;
}

// `command`: what works with every memory.
[[noreturn]] void throw_unpublished(std::size_t memories, const std::string& command) {
  throw_usage(
      {.where = "analyze",
       .failed = "no memory published anything to analyse",
       .expected = "a tier with the probe memory.density.mean, memory.written, memory.alpha or "
                   "memory.mass, and more segments than it needs to be read",
       .got = str(memories, memories == 1 ? " memory" : " memories", " without them"),
       .hint = str("attention by distance works with every memory: ", command,
                   "; docs/analysis.md names the probes; some memories publish them only when an "
                   "option asks for it, as with --set memory.tier.0.report_mass=true")});
}

class Analyses {
 public:
  Analyses(const AnalyzeArguments& arguments, OpenEvaluation& opened, Display& display)
      : arguments_(arguments),
        opened_(opened),
        display_(display),
        sweep_(opened.checkpoint, opened.experiment, opened.options) {}

  // What load_each finds, before the first memory is evaluated.
  void check_memories() {
    if (opened_.memories.size() > 1) load_each(sweep_, opened_.memories);
  }

  // Error (kUsage) when no memory publishes a probe that the analysis reads, found with the few
  // segments that fill a memory.
  void check_published() {
    // A separate sweep without log lines: the analysis itself logs them.
    run::Sweep trial(opened_.checkpoint, opened_.experiment, opened_.options);
    const LogListener silent([](LogLevel, std::string_view) { return false; });
    for (const run::SweepMemory& memory : opened_.memories) {
      if (publishes(trial, memory)) return;
    }
    throw_unpublished(opened_.memories.size(),
                      str("mneme analyze distance ", shell_word(arguments_.open.run.string()),
                          " --out ", shell_word(arguments_.out.string())));
  }

  // Every memory that does not fail, the last one first: the first is compared with the second.
  // `other`: with that evaluation in place of the second.
  std::vector<AnalysedMemory> run(const analyze::TargetLosses* other, Failures& failures) {
    std::vector<AnalysedMemory> analyses(opened_.memories.size());
    for (std::size_t i = analyses.size(); i-- > 0;) {
      AnalysedMemory& one = analyses[i];
      one.memory = opened_.memories[i];
      one.analysis = std::make_unique<MemoryAnalysis>(arguments_.analysis);
      const data::Dataset& dataset = *opened_.options.dataset;
      if (dataset.has_dialogues()) {
        one.analysis->documents.emplace(data::dialogue_ids(*dataset.vocabulary()),
                                        one.analysis->share_by_age.stretch());
      }
      if (i == 0 && other == nullptr && analyses.size() > 1 && analyses[1].analysis != nullptr) {
        other = &analyses[1].analysis->losses;
      }
      if (i == 0 && other != nullptr) {
        one.analysis->gains.emplace(*other, static_cast<std::size_t>(arguments_.top),
                                    arguments_.threshold);
      }
      try {
        one.result = analyze_memory(one.memory, *one.analysis);
      } catch (const Error& error) {
        failures.add(one.memory.name, error);
        one.analysis = nullptr;
      }
    }
    std::erase_if(analyses, [](const AnalysedMemory& one) { return one.analysis == nullptr; });
    return analyses;
  }

 private:
  bool publishes(run::Sweep& trial, const run::SweepMemory& memory) const {
    if (memory.memory.tiers.empty()) return false;
    bool has_found = false;
    try {
      const run::SweepResult result =
          trial.evaluate_memory(memory, split_of(arguments_.open), [&](run::Runtime& runtime) {
            const std::int64_t segment = runtime.experiment().eval.segment;
            const std::int64_t rows = runtime.stack().context_rows(memory::Phase::kEvaluation);
            // Twice the segments that fill it: some tiers store only what others release.
            const std::int64_t enough = 2 * (rows / segment) + 8;
            eval::Options options;
            options.wanted_probes = MemoryAnalysis::wanted_probes();
            options.on_probes = [&has_found](const auto&, const auto&, const auto& probes) {
              has_found = !probes.empty();
              if (has_found) throw TrialOver();
            };
            options.on_progress = [enough](std::int64_t segments, std::int64_t) {
              if (segments >= enough) throw TrialOver();
            };
            return options;
          });
      if (result.error) return true;  // the analysis reports it
    } catch (const TrialOver&) {
      return has_found;
    }
    return has_found;
  }

  run::SweepResult analyze_memory(const run::SweepMemory& memory, MemoryAnalysis& analysis) {
    run::SweepResult result =
        sweep_.evaluate_memory(memory, split_of(arguments_.open), [&](run::Runtime& runtime) {
          display_.begin("analyze " + memory.name,
                         runtime.evaluation_segments(split_of(arguments_.open)));
          eval::Options options;
          options.wanted_probes = MemoryAnalysis::wanted_probes();
          options.on_probes = [&](const data::TokenSegment& segment, const std::vector<double>& nll,
                                  const std::map<std::string, at::Tensor>& probes) {
            analysis.add(segment, nll, probes);
          };
          options.on_progress = [&](std::int64_t segments, std::int64_t tokens) {
            display_.update(segments, tokens);
          };
          return options;
        });
    display_.end();
    if (result.error) throw *result.error;
    warn_of_untrained(memory.name, result.reset);
    return result;
  }

  const AnalyzeArguments& arguments_;
  OpenEvaluation& opened_;
  Display& display_;
  run::Sweep sweep_;
};

// The losses of another run on as many tokens of the same split.
analyze::TargetLosses losses_of_other(const AnalyzeArguments& arguments, std::int64_t segment,
                                      Display& display) {
  OpenArguments other = arguments.open;
  other.run = arguments.against;
  other.memory.clear();
  other.checkpoint = "last";
  OpenEvaluation opened = read_input([&] { return open(arguments, other); });
  config::EvalConfig& eval = opened.experiment.eval;
  eval.steps = (arguments.part.segments * segment + eval.segment - 1) / eval.segment;
  const run::SweepMemory& memory = opened.memories.front();
  run::Sweep sweep(opened.checkpoint, opened.experiment, opened.options);
  analyze::TargetLosses losses;
  const run::SweepResult result =
      sweep.evaluate_memory(memory, split_of(other), [&](run::Runtime& runtime) {
        display.begin("evaluate " + arguments.against.string(),
                      runtime.evaluation_segments(split_of(other)));
        eval::Options options;
        options.on_segment = [&](const data::TokenSegment& data,
                                 const scores::SegmentLosses& found) {
          losses.add(data, found.nll);
        };
        return options;
      });
  display.end();
  if (result.error) throw result.error->with_context(arguments.against.string());
  return losses;
}

// Throws when probes were published but no analysis can use them.
void check_found(const std::vector<AnalysedMemory>& analyses) {
  for (const AnalysedMemory& one : analyses) {
    if (one.analysis->has_found()) return;
  }
  throw_unpublished(analyses.size(), "mneme analyze distance");
}

std::vector<std::string> write_files(const AnalyzeArguments& arguments,
                                     const std::vector<AnalysedMemory>& analyses,
                                     const analyze::TokenText& text) {
  std::vector<analyze::Subject> subjects;
  for (const AnalysedMemory& one : analyses)
    subjects.push_back({one.memory.name, one.analysis.get()});
  analyze::AnalysisReport report(arguments.out, std::move(subjects), text);
  const bool has_signal = std::ranges::any_of(
      analyses, [](const AnalysedMemory& one) { return one.analysis->has_signal; });
  if (has_signal) {
    report.write_attention();
    report.write_space();
    report.write_tokens(static_cast<std::size_t>(arguments.top));
    report.write_words();
    report.write_better();
    report.write_utterances(static_cast<std::size_t>(arguments.top));
  }
  report.write_alpha();
  report.write_regions();
  std::vector<std::string> names;
  for (const AnalysedMemory& one : analyses) names.push_back(one.memory.name);
  report.write_page(
      "Memories of " + arguments.open.run.string(),
      {str("Memories: ", join(names, ", "), ". Split ", arguments.open.split, ", ",
           arguments.part.lanes, arguments.part.lanes == 1 ? " lane" : " lanes", ".")});
  return report.files();
}

int run(const AnalyzeArguments& arguments, const Streams& streams) {
  if (arguments.for_report != 0) {
    return make_for_report(arguments.open, {.segments = arguments.for_report}, streams);
  }
  check_set(arguments.open, {{"eval.lanes", "--lanes"}, {"eval.steps", "--segments"}});
  arguments.open.json.check();
  if (!arguments.against.empty()) static_cast<void>(run::RunFolder::open(arguments.against));
  const OutputFolder folder(arguments.out);
  tensor::set_threads(arguments.open.machine.threads);
  Display display(streams, arguments.open.is_quiet);
  OpenEvaluation opened = read_input([&] { return open(arguments, arguments.open); });
  note_data(display, *opened.options.dataset);
  check_plugin_files(opened.experiment, opened.memories);
  const LogOnce log;  // each memory is made several times, and says the same each time
  Analyses analysis(arguments, opened, display);
  analysis.check_memories();
  analysis.check_published();
  analyze::TargetLosses other;
  if (!arguments.against.empty()) {
    other = losses_of_other(arguments, opened.experiment.eval.segment, display);
  }
  Failures failures(streams, opened.memories.size());
  const std::vector<AnalysedMemory> analyses =
      analysis.run(arguments.against.empty() ? nullptr : &other, failures);
  check_found(analyses);
  const analyze::TokenText text(opened.options.dataset->vocabulary());
  Json json = analysis_json(arguments, opened, analyses, text);
  json["failed"] = failures.json();
  write_analysis(
      analysis_text(analyses, text, streams.out_width), arguments.out,
      [&] { return write_files(arguments, analyses, text); }, std::move(json), arguments.open.json,
      streams);
  return failures.exit_code();
}

void add_input_options(const Command& command, AnalyzeArguments& arguments) {
  arguments.open.add_source(
      command, "Memory file to analyse in place of the run's own; may be given several times");
  command.option(
      "--against", arguments.against, "RUN2",
      "Another run: look for words that RUN predicts better (also between the first two --memory)");
  arguments.part.add(command);
}

// Each bin is a bar of every head's chart, each update a row of every word's.
constexpr std::int64_t kMaxBins = 4096;
constexpr std::int64_t kMaxUpdates = 10'000;
constexpr std::int64_t kMaxListed = 100'000;

void add_analysis_options(const Command& command, AnalyzeArguments& arguments) {
  const auto number = [&](const char* name, std::int64_t& value, const char* help,
                          std::int64_t least, std::int64_t most) {
    command.option(name, value, "N", help, {in(least, most), shown});
  };
  number("--bins", arguments.analysis.bins, "Bins of the attention histograms", 1, kMaxBins);
  number("--stretch", arguments.analysis.stretch, "Tokens of a stretch of the past", 1, kMaxExtent);
  number("--top", arguments.top, "Tokens and words listed", 1, kMaxListed);
  number("--updates", arguments.analysis.updates, "Updates that a segment's words are followed for",
         0, kMaxUpdates);
  number("--write", arguments.analysis.first_write, "The first write whose words may be followed",
         0, kMaxCount);
  command.option("--threshold", arguments.threshold, "X",
                 "Smallest share of a query's attention for which a memory word is listed",
                 {in_unit_interval, shown});
}

}  // namespace

void write_analysis(const std::string& text, const std::filesystem::path& folder,
                    const std::function<std::vector<std::string>()>& write_files, Json json,
                    const JsonArgument& argument, const Streams& streams) {
  Outputs outputs;
  std::string place;
  json["files"] = Json::array();
  outputs.add([&] {
    const std::vector<std::string> files = write_files();
    json["files"] = files;
    place = str("\nin ", folder.string(), ": ", join(files, ", "), '\n');
  });
  outputs.add([&] { argument.write(json, streams); });
  if (!argument.is_stdout()) streams.out << text << place << std::flush;
  outputs.finish();
}

OutputFolder::OutputFolder(const std::filesystem::path& folder) {
  go_on_unread();  // it is filled at the end
  check_output_folder("--out", folder);
  std::error_code error;
  for (fs::path path = fs::absolute(folder).lexically_normal(); !fs::exists(path, error);
       path = path.parent_path()) {
    if (path.has_filename()) made_.push_back(path);
  }
  fs::create_directories(folder, error);
  if (!error && fs::is_directory(folder)) return;
  throw_usage({.where = "--out " + folder.string(),
               .failed = "the folder cannot be made",
               .got = error ? error.message() : "a file"});
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  for (const fs::path& path : made_) fs::remove(path, ignored);  // removes empty folders only
}

void add_analyze(const Command& app) {
  const Command command = app.subcommand(
      "analyze", "Measure memories: where they are read, what they keep; as CSV and figures");
  const auto arguments = std::make_shared<AnalyzeArguments>();
  command.option("RUN", arguments->open.run, "", "The run's folder");
  command.option("--out", arguments->out, "DIR", "Folder for the CSV files, figures and the page");
  add_input_options(command, *arguments);
  add_analysis_options(command, *arguments);
  command.option("--for-report", arguments->for_report, "N",
                 "Instead: measure the memory on the split's first N segments, and keep the "
                 "numbers in the run for reports",
                 {in(1, kMaxCount)});
  arguments->open.add_settings(command);
  add_analyze_distance(command);
  add_analyze_extrapolation(command);
  add_analyze_probes(command);
  add_analyze_regression(command);
  command.examples(
      {"mneme analyze runs/first --out analysis --memory linear.toml --memory sticky.toml",
       "mneme analyze runs/first --out analysis --against runs/cache_only",
       "mneme analyze runs/first --for-report 64"});
  const auto check = [arguments] {
    Command::require("RUN", !arguments->open.run.empty());
    Command::require("--out", arguments->for_report != 0 || !arguments->out.empty());
  };
  command.runs(arguments, &run, check,
               {str("--against refuses several --memory: compares with another run\n"
                    "--for-report allows ",
                    kOpenOptions, ": measures the memory in the same way for all runs")});
}

}  // namespace mneme::cli
