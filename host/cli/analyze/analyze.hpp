// What the parts of `mneme analyze` share. Not for other subcommands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/analyze/study.hpp"
#include "host/analyze/token_text.hpp"
#include "host/base/json.hpp"
#include "host/cli/command.hpp"
#include "host/cli/eval/eval.hpp"

namespace mneme::cli {

// The command line of `mneme analyze RUN`.
struct AnalyzeArguments {
  EvalArguments open;  // run, memory, checkpoint, split, set, machine, json, quiet
  std::filesystem::path against;
  std::filesystem::path out;
  std::int64_t segments = 100;  // 0 = the whole split
  std::int64_t lanes = 1;
  std::int64_t top = 20;
  double threshold = 0.05;
  analyze::StudyOptions study;
};

// One memory with what was found in it.
struct StudiedMemory {
  run::SweepMemory memory;
  run::SweepResult result;
  std::unique_ptr<analyze::MemoryStudy> study;
};

// What was found, for programs; the files are left to the caller.
[[nodiscard]] Json analysis_json(const AnalyzeArguments& arguments, const OpenEvaluation& run,
                                 const std::vector<StudiedMemory>& studies,
                                 const analyze::TokenText& text);
// For people, in lines of at most `width` columns: where each head looks, a line each, and what is
// predicted better.
[[nodiscard]] std::string analysis_text(const std::vector<StudiedMemory>& studies,
                                        const analyze::TokenText& text, std::size_t width);

// The end of an analysis whose numbers have gone to streams.out: the CSV and SVG files, which
// `write_files` writes into `folder` and names, a line that names them, and the JSON with their
// names as `files`. Each is tried whatever becomes of the other. Error (kRun).
void write_analysis(const std::filesystem::path& folder,
                    const std::function<std::vector<std::string>()>& write_files, Json json,
                    const JsonArgument& argument, const Streams& streams);

// The folder of --out, made before a long run; what was made for it goes again when nothing was
// written there. Error (kUsage) when it cannot be made.
class OutputFolder {
 public:
  explicit OutputFolder(const std::filesystem::path& folder);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // the innermost first
};

// Add `mneme analyze regression`, `distance` and `extrapolation` below their parent.
void add_analyze_regression(CLI::App& analyze, Action& action);
void add_analyze_distance(CLI::App& analyze, Action& action);
void add_analyze_extrapolation(CLI::App& analyze, Action& action);

}  // namespace mneme::cli
