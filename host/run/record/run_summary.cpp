#include "host/run/record/run_summary.hpp"

#include <fstream>
#include <functional>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/generated.hpp"
#include "host/scores/json_record.hpp"
#include "host/scores/stored_evaluation.hpp"

namespace mneme::run {
namespace {

namespace fs = std::filesystem;

// Also the step of the lowest valid loss that a whole checkpoint knows of.
CheckpointSummary summarize_checkpoint(const CheckpointFiles& files, std::int64_t step,
                                       std::int64_t& best_step) {
  CheckpointSummary summary{.path = files.path_of(step), .step = step};
  std::error_code ignored;
  if (fs::is_regular_file(summary.path, ignored)) {
    summary.bytes = fs::file_size(summary.path, ignored);
  }
  try {
    const Checkpoint checkpoint = Checkpoint::open(summary.path);
    summary.tokens = checkpoint.progress().tokens;
    summary.seconds = checkpoint.progress().seconds;
    summary.holds_whole_run = checkpoint.holds_whole_run();
    best_step = checkpoint.progress().valid.best_step;
  } catch (const Error& error) {
    summary.problem = error.what();
  }
  return summary;
}

// A value that is text; "" for others.
std::string text_at(const Json& json, const char* key) {
  const bool is_text = json.is_object() && json.contains(key) && json.at(key).is_string();
  return is_text ? json.at(key).get<std::string>() : std::string();
}

// The vocabulary must exist and match the checksum in run.json.
VocabularySummary summarize_vocabulary(const RunFolder& folder, const Json& data) {
  VocabularySummary summary;
  try {
    const auto vocabulary = folder.vocabulary();
    if (vocabulary) summary.text = vocabulary->summary();
    const std::string expected = text_at(data, "vocabulary_sha256");
    const std::string got = vocabulary ? vocabulary->sha256() : "no such file";
    if (expected.empty() || got == expected) return summary;
    summary.problem = str(folder.vocabulary_file().string(),
                          ": it is not the vocabulary that the run began with: expected sha256 ",
                          expected, ", got ", got);
  } catch (const Error& error) {
    summary.problem = error.what();
  }
  return summary;
}

MetricsSummary summarize_metrics(const fs::path& path) {
  MetricsSummary summary;
  std::ifstream in(path);
  if (!in) summary.problem = str(path.string(), ": cannot be opened");
  for (std::string line; std::getline(in, line);) {
    ++summary.lines;
    const Json json = parse_json(line);
    const std::string kind = text_at(json, "kind"), split = text_at(json, "split");
    if (kind == "step") {
      summary.last_step = json;
    } else if (kind == "eval" && !split.empty()) {
      summary.last_eval[split] = json;
    } else if (kind != "curve") {
      ++summary.damaged_lines;
    }
  }
  return summary;
}

EvaluationSummary summarize_evaluation(const fs::path& folder) {
  EvaluationSummary summary{.name = folder.filename().string()};
  try {
    const auto evaluation = scores::StoredEvaluation::open(folder);
    static_cast<void>(evaluation.vocabulary_counts());
    summary.samples = static_cast<std::int64_t>(evaluation.samples().size());
    summary.unit = evaluation.unit();
    const Json& result = evaluation.info().at("result");  // which the columns add up to
    summary.targets = result.at("tokens").get<std::int64_t>();
    summary.loss = result.at("nll").get<double>() / static_cast<double>(summary.targets);
  } catch (const Error& error) {
    summary.problem = error.what();
  }
  return summary;
}

// Every file of a kind; `count` reads it and says how much it holds.
void add_report_files(const fs::path& folder, const std::string& kind,
                      const std::function<std::string(const fs::path&)>& count,
                      std::vector<ReportFileSummary>& out) {
  for (const fs::path& file : scores::list_records(folder)) {
    ReportFileSummary summary{.kind = kind, .name = file.stem().string()};
    try {
      summary.text = count(file);
    } catch (const Error& error) {
      summary.problem = error.what();
    }
    out.push_back(std::move(summary));
  }
}

std::vector<ReportFileSummary> summarize_report_files(const fs::path& run_folder) {
  std::vector<ReportFileSummary> out;
  const auto count_samples = [](const fs::path& file) {
    const std::size_t count = scores::read_generated(file).samples.size();
    return str(count, count == 1 ? " sample" : " samples");
  };
  const auto count_segments = [](const fs::path& file) {
    const std::int64_t count = scores::read_diagnostics(file).segments;
    return str("over ", count, count == 1 ? " segment" : " segments");
  };
  add_report_files(run_folder / scores::kGeneratedFolder, "generated samples", count_samples, out);
  add_report_files(run_folder / scores::kDiagnosticsFolder, "diagnostics", count_segments, out);
  return out;
}

Json json_of(const ReportFileSummary& summary) {
  return {{"kind", summary.kind},
          {"name", summary.name},
          {"holds", summary.text},
          {"problem", summary.problem}};
}

Json json_of(const EvaluationSummary& summary) {
  return {{"name", summary.name},       {"samples", summary.samples}, {"unit", summary.unit},
          {"targets", summary.targets}, {"loss", summary.loss},       {"problem", summary.problem}};
}

Json json_of(const CheckpointSummary& summary) {
  return {{"file", summary.path.string()}, {"step", summary.step},
          {"bytes", summary.bytes},        {"tokens", summary.tokens},
          {"seconds", summary.seconds},    {"whole_run", summary.holds_whole_run},
          {"best", summary.is_best},       {"problem", summary.problem}};
}

}  // namespace

RunSummary summarize(const RunFolder& folder) {
  RunSummary summary{
      .path = folder.path(), .info = folder.info(), .experiment = folder.experiment()};
  const CheckpointFiles files = folder.checkpoints();
  std::int64_t best_step = 0;
  for (const std::int64_t step : files.steps()) {
    summary.checkpoints.push_back(summarize_checkpoint(files, step, best_step));
  }
  for (CheckpointSummary& checkpoint : summary.checkpoints) {
    checkpoint.is_best = best_step > 0 && checkpoint.step == best_step;
  }
  summary.vocabulary = summarize_vocabulary(folder, summary.info.at("data"));
  summary.metrics = summarize_metrics(folder.metrics());
  for (const fs::path& evaluation : scores::list_evaluations(folder.path())) {
    summary.evaluations.push_back(summarize_evaluation(evaluation));
  }
  summary.report_files = summarize_report_files(folder.path());
  return summary;
}

std::vector<std::string> RunSummary::damaged_parts() const {
  std::vector<std::string> parts;
  for (const CheckpointSummary& checkpoint : checkpoints) {
    if (!checkpoint.problem.empty())
      parts.push_back(str("the checkpoint of step ", checkpoint.step));
  }
  if (!vocabulary.problem.empty()) parts.emplace_back("vocabulary.json");
  if (!metrics.problem.empty()) parts.emplace_back("metrics.jsonl");
  if (metrics.damaged_lines > 0) {
    parts.push_back(str(metrics.damaged_lines, metrics.damaged_lines == 1 ? " line" : " lines",
                        " of metrics.jsonl"));
  }
  for (const EvaluationSummary& evaluation : evaluations) {
    if (!evaluation.problem.empty()) parts.push_back("the evaluation " + evaluation.name);
  }
  for (const ReportFileSummary& file : report_files) {
    if (!file.problem.empty()) parts.push_back(str("the ", file.kind, " of ", file.name));
  }
  return parts;
}

Json to_json(const RunSummary& summary) {
  Json checkpoints = Json::array();
  for (const CheckpointSummary& checkpoint : summary.checkpoints) {
    checkpoints.push_back(json_of(checkpoint));
  }
  Json evaluations = Json::array();
  for (const EvaluationSummary& evaluation : summary.evaluations) {
    evaluations.push_back(json_of(evaluation));
  }
  Json report_files = Json::array();
  for (const ReportFileSummary& file : summary.report_files) report_files.push_back(json_of(file));
  return {
      {"format", "mneme-inspect-run"},
      {"run", summary.path.string()},
      {"info", summary.info},
      {"experiment", config::to_toml(summary.experiment)},
      {"vocabulary", {{"text", summary.vocabulary.text}, {"problem", summary.vocabulary.problem}}},
      {"checkpoints", std::move(checkpoints)},
      {"metrics",
       {{"lines", summary.metrics.lines},
        {"damaged_lines", summary.metrics.damaged_lines},
        {"problem", summary.metrics.problem},
        {"last_step", summary.metrics.last_step},
        {"last_eval", summary.metrics.last_eval}}},
      {"evaluations", std::move(evaluations)},
      {"for_reports", std::move(report_files)},
      {"damaged", summary.damaged_parts()}};
}

}  // namespace mneme::run
