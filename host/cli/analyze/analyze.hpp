// What the parts of `mneme analyze` share. Not for other subcommands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/analyze/memory_analyses.hpp"
#include "host/base/text.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {

// The part of the split that is analysed, in place of the experiment's eval.steps and eval.lanes.
struct AnalysedPart {
  std::int64_t segments = 100;  // of every lane; 0 = all
  std::int64_t lanes = 1;

  // Adds --segments and --lanes.
  void add(const Command& command);
  void apply(config::EvalConfig& eval) const {
    eval.lanes = lanes;
    eval.steps = segments;
  }
};

// The command line of `mneme analyze RUN`.
struct AnalyzeArguments {
  OpenArguments open;  // run, memory, checkpoint, split, set, machine, json, quiet
  std::filesystem::path against;
  std::filesystem::path out;
  std::int64_t for_report = 0;  // segments to measure for reports; 0 = analyse
  AnalysedPart part;
  std::int64_t top = 20;
  double threshold = 0.05;
  analyze::AnalysisOptions analysis;
};

// One memory with what was found in it.
struct AnalysedMemory {
  run::SweepMemory memory;
  run::SweepResult result;
  std::unique_ptr<analyze::MemoryAnalysis> analysis;
};

// What was found, for programs; the files are left to the caller.
[[nodiscard]] Json analysis_json(const AnalyzeArguments& arguments, const OpenEvaluation& opened,
                                 const std::vector<AnalysedMemory>& analyses,
                                 const analyze::TokenText& text);
// The same as text, in lines of at most `width` columns: where each head looks, a line each, and
// what is predicted better.
[[nodiscard]] std::string analysis_text(const std::vector<AnalysedMemory>& analyses,
                                        const analyze::TokenText& text, std::size_t width);

// The end of an analysis. `write_files` writes the CSV files and figures into `folder` and returns
// their names. Then the JSON is written, with these names as `files`, and at last `text` on
// streams.out with a line that names them, unless the JSON is there. Files come first, because a
// reader of the text may end early. Each part is written even if another fails. Error (kRun).
void write_analysis(const std::string& text, const std::filesystem::path& folder,
                    const std::function<std::vector<std::string>()>& write_files, Json json,
                    const JsonArgument& argument, const Streams& streams);

// The folder of --out, created before the long work; folders that were created for it are removed
// when nothing was written there. Error (kUsage) when it cannot be made or written.
class OutputFolder {
 public:
  explicit OutputFolder(const std::filesystem::path& folder);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // the innermost first
};

// Add `mneme analyze regression`, `distance`, `extrapolation` and `probes` below their parent.
void add_analyze_regression(const Command& analyze);
void add_analyze_distance(const Command& analyze);
void add_analyze_extrapolation(const Command& analyze);
void add_analyze_probes(const Command& analyze);

// --- Analyses that put several runs, or several memories of them, into one chart ---

// What their command lines share: RUN..., --out, --memory, --checkpoint, --split, --set, machine,
// --json, --quiet.
struct RunsArguments {
  std::vector<std::filesystem::path> runs;
  OpenArguments open;  // of every run, but for its folder
  std::filesystem::path out;

  void add(const Command& command);
};

// One memory of one run. `name` is unique among all: the run's folder, the memory's name, or both.
struct RunMemory {
  std::string name;
  const run::SweepMemory& memory;
  const OpenEvaluation& opened;
  run::Sweep& sweep;
};

// What an analysis does with each memory, and what it makes of them.
struct RunsAnalysis {
  // Before the first evaluation: called with the experiment of each memory, which was made
  // (train::check_memory), so that an error in the last one is found at once.
  std::function<void(const config::Experiment&)> check = [](const config::Experiment&) {};
  // Changes a run's evaluation before it is used.
  std::function<void(config::EvalConfig&)> change;
  // Evaluates a memory. When it throws an Error, the next memory is measured.
  std::function<void(const RunMemory&, Display&)> measure;
  // Of all that was measured: for people, for programs, and the names of the files in --out.
  std::function<Table()> table;
  std::function<Json()> json;
  std::function<std::vector<std::string>()> write_files;
};

// Opens run after run and measures the run's own memory, or those of --memory. Returns the exit
// code. Errors: as config::parse_experiment, RunFolder::checkpoint and open_evaluation; those of
// `check` with the memory's name in front.
int analyze_runs(const RunsArguments& arguments, const RunsAnalysis& analysis,
                 const Streams& streams);

// Evaluates a memory, showing progress; throws what fails.
eval::Result evaluate_shown(const RunMemory& one, const run::SweepMemory& memory, data::Split split,
                            Display& display,
                            const std::function<void(eval::Options&)>& change = nullptr);

}  // namespace mneme::cli
