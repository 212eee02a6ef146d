#include "host/report/report.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/report/samples/samples.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

// "On valid by loss, of 3 arms against none: 2 better, 1 without a shown difference."
std::string summary(const Comparison& comparison, const std::vector<const Difference*>& all) {
  std::vector<std::string> parts;
  for (const auto& [verdict, words] :
       {std::pair(Verdict::kBetter, "better"), std::pair(Verdict::kWorse, "worse"),
        std::pair(Verdict::kNoDifference, "without a shown difference"),
        std::pair(Verdict::kUnknown, "not compared")}) {
    const auto count = std::ranges::count(all, verdict, &Difference::verdict);
    if (count > 0) parts.push_back(str(count, ' ', words));
  }
  return str("On ", all.front()->split, " by ",
             all.front()->measure == Measure::kLoss ? "loss" : "accuracy", ", of ", all.size(),
             all.size() == 1 ? " arm" : " arms", " against ", comparison.arms.front().name, ": ",
             join(parts, ", "), '.');
}

std::vector<std::string> verdict_of(const Comparison& comparison,
                                    const std::vector<Difference>& differences) {
  std::vector<std::string> out;
  if (comparison.arms.size() < 2) {
    return {str("One arm, ", comparison.arms.front().name, ": there is nothing to compare.")};
  }
  for (std::size_t begin = 0; begin < differences.size();) {
    std::vector<const Difference*> group;
    std::size_t end = begin;
    for (; end < differences.size() && differences[end].split == differences[begin].split &&
           differences[end].measure == differences[begin].measure;
         ++end) {
      group.push_back(&differences[end]);
    }
    out.push_back(summary(comparison, group));
    for (const Difference* const one : group) out.push_back(sentence(comparison, *one));
    begin = end;
  }
  if (out.empty()) out.emplace_back("No losses are stored that could be compared.");
  if (std::string warning = budget_warning(comparison); !warning.empty())
    out.push_back(std::move(warning));
  return out;
}

Json json_of(const std::vector<Bucket>& buckets) {
  Json out = Json::array();
  for (const Bucket& bucket : buckets) {
    out.push_back({{"name", bucket.name},
                   {"from", bucket.from},
                   {"targets", bucket.targets},
                   {"nll", number_or_null(bucket.nll)},
                   {"correct", bucket.correct}});
  }
  return out;
}

Json json_of(const Evaluation& evaluation) {
  Json out = {{"split", evaluation.split},
              {"name", evaluation.name},
              {"step", evaluation.step},
              {"unit", evaluation.unit},
              {"samples", evaluation.samples.size()},
              {"targets", evaluation.targets},
              {"nll", number_or_null(evaluation.nll)},
              {"correct", evaluation.correct}};
  const auto statement = evaluation.record.find("statement");
  if (statement != evaluation.record.end()) out["statement"] = *statement;
  if (!evaluation.place.empty()) out["place"] = json_of(evaluation.place);
  if (!evaluation.distance.empty()) out["distance"] = json_of(evaluation.distance);
  if (!evaluation.frequency.empty()) out["frequency"] = json_of(evaluation.frequency);
  return out;
}

Json json_of(const Run& run) {
  Json evaluations = Json::array();
  for (const Evaluation& one : run.evaluations) evaluations.push_back(json_of(one));
  Json out = {{"seed", run.seed},
              {"folder", run.folder.string()},
              {"done", run.is_done},
              {"evaluations", std::move(evaluations)}};
  if (!run.initial_sha256.empty()) out["initial_sha256"] = run.initial_sha256;
  if (run.error) out["error"] = *run.error;
  return out;
}

Json json_of(const Arm& arm) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? number_or_null(*value) : Json(nullptr);
  };
  Json runs = Json::array();
  for (const Run& run : arm.runs) runs.push_back(json_of(run));
  return {{"name", arm.name},
          {"file", arm.file},
          {"overrides", arm.overrides},
          {"memory", arm.memory},
          {"plugins", arm.plugins},
          {"backbone_parameters", arm.backbone_parameters},
          {"memory_parameters", arm.memory_parameters},
          {"training_flops", optional(arm.training_flops)},
          {"evaluation_flops", optional(arm.evaluation_flops)},
          {"runs", std::move(runs)}};
}

Json json_of(const Comparison& comparison, const Difference& one) {
  return {{"arm", comparison.arms[one.arm].name},
          {"split", one.split},
          {"measure", one.measure == Measure::kLoss ? "loss" : "accuracy"},
          {"seeds", one.seeds},
          {"unit", one.unit},
          {"units", one.units},
          {"block", one.block},
          {"targets", one.targets},
          {"first", number_or_null(one.first)},
          {"other", number_or_null(one.other)},
          {"difference", number_or_null(one.mean)},
          {"low", number_or_null(one.low)},
          {"high", number_or_null(one.high)},
          {"p", number_or_null(one.p)},
          {"p_holm", number_or_null(one.adjusted_p)},
          {"effect", number_or_null(one.effect)},
          {"detectable", number_or_null(one.detectable)},
          {"verdict", to_word(one.verdict)},
          {"reason", one.reason}};
}

}  // namespace

Report make_report(Comparison comparison) {
  Report out{.comparison = std::move(comparison)};
  out.differences = differences(out.comparison);
  out.verdict = verdict_of(out.comparison, out.differences);
  out.sheets = sheets(out.comparison, out.differences);
  out.figures = figures(out.comparison, out.differences);
  return out;
}

Json Report::json() const {
  Json arms = Json::array();
  for (const Arm& arm : comparison.arms) arms.push_back(json_of(arm));
  Json all = Json::array();
  for (const Difference& one : differences) all.push_back(json_of(comparison, one));
  Json tables = Json::array();
  for (const Sheet& sheet : sheets) tables.push_back(to_json(sheet));
  return {{"format", "mneme-report"},
          {"version", 1},
          {"command", comparison.command},
          {"experiment_file", comparison.experiment_file},
          {"mneme", comparison.mneme},
          {"commit", comparison.commit},
          {"machine", comparison.machine},
          {"data", comparison.data},
          {"interrupted", comparison.is_interrupted},
          {"seeds", comparison.seeds},
          {"verdict", verdict},
          {"notes", comparison.notes},
          {"arms", std::move(arms)},
          {"differences", std::move(all)},
          {"tables", std::move(tables)}};
}

std::string Report::text(std::size_t width) const {
  std::string out;
  for (const std::string& line : verdict) {
    out += join(wrap_text(line, width == 0 ? line.size() + 1 : width, 2), "\n") + '\n';
  }
  return out + '\n' + write_sheets(sheets, Format::kText, width);
}

std::string Report::markdown() const {
  const std::string samples = samples_markdown(comparison);
  return write_sheets(sheets, Format::kMarkdown) + (samples.empty() ? "" : '\n' + samples);
}

fs::path Report::write(const fs::path& folder) const {
  std::error_code code;
  fs::create_directories(folder / "figures", code);
  if (code) fail_file(folder, "make the folder", code.value());
  write_file_atomic(folder / "report.json", json_text(json(), 1) + '\n');
  write_file_atomic(folder / "report.txt", text(100));
  write_file_atomic(folder / "report.md", markdown());
  write_file_atomic(folder / "report.tex", write_sheets(sheets, Format::kLatex));
  for (const Sheet& sheet : sheets) {
    write_file_atomic(folder / (sheet.key + ".csv"), write_sheet(sheet, Format::kCsv));
  }
  for (const Figure& figure : figures) {
    figure::save(figure, folder / "figures");
  }
  const fs::path file = folder / "index.html";
  write_file_atomic(file, page(*this));
  return file;
}

}  // namespace mneme::report
