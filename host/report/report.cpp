#include "host/report/report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/figure/pictures.hpp"
#include "host/report/comparison/hide_folders.hpp"
#include "host/report/differences/soundness.hpp"
#include "host/report/latex/paper.hpp"
#include "host/report/looks/looks.hpp"
#include "host/report/samples/samples.hpp"
#include "host/report/setup/baseline.hpp"
#include "host/report/setup/setup.hpp"
#include "host/report/setup/shares.hpp"
#include "host/report/tuning/tuning.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLatexHead =
    "% Needs \\usepackage{booktabs}. Lines are at most 345 points wide, as those of the class "
    "article.\n\n";

using Differences = std::vector<const Difference*>;

// "On valid by loss, of 3 arms against none: 2 better, 1 without a shown difference."; of pairs
// without the first arm "of 3 pairs of other arms".
std::string summary(const Comparison& comparison, const Differences& all, bool are_pairs) {
  std::vector<std::string> parts;
  for (const auto& [verdict, words] :
       {std::pair(Verdict::kBetter, "better"), std::pair(Verdict::kWorse, "worse"),
        std::pair(Verdict::kNoDifference, "without a shown difference"),
        std::pair(Verdict::kFaulty, "with a faulty memory"),
        std::pair(Verdict::kUnknown, "not compared")}) {
    const auto count = std::ranges::count(all, verdict, &Difference::verdict);
    if (count > 0) parts.push_back(str(count, ' ', words));
  }
  const std::string& split = all.front()->split;
  const std::string share = share_words(comparison, split);
  const std::string what = are_pairs ? str(all.size() == 1 ? " pair" : " pairs", " of other arms")
                                     : str(all.size() == 1 ? " arm" : " arms", " against ",
                                           comparison.arms[all.front()->baseline].name);
  return str("On ", split, share.empty() ? "" : " (" + share + ")", " by ",
             name_of(all.front()->measure), ", of ", all.size(), what, ": ", join(parts, ", "),
             '.');
}

// A statement for each split and measure.
void add_differences(const Comparison& comparison, const Differences& all, bool are_pairs,
                     bool says_seed, std::vector<Statement>& out) {
  for (std::size_t begin = 0; begin < all.size();) {
    Differences group;
    std::size_t end = begin;
    for (; end < all.size() && all[end]->split == all[begin]->split &&
           all[end]->measure == all[begin]->measure &&
           (are_pairs || all[end]->baseline == all[begin]->baseline);
         ++end) {
      group.push_back(all[end]);
    }
    Statement& statement = out.emplace_back(Statement{summary(comparison, group, are_pairs)});
    // Six scores of answers would be too many sentences; the table has them.
    for (const Difference* const one : group) {
      if (is_answer_score(one->measure)) break;
      statement.sentences.push_back(sentence(comparison, *one, says_seed));
    }
    begin = end;
  }
}

// `pairs`: of all arms, or none. Those of `differences` are said already.
std::vector<Statement> verdict_of(const Comparison& comparison,
                                  const std::vector<Difference>& differences,
                                  const std::vector<Difference>& pairs) {
  std::vector<Statement> out;
  const auto add_checks = [&] {
    for (std::string& line : check_sentences(comparison)) out.push_back({std::move(line)});
  };
  const bool are_faulty = has_faults(comparison);
  if (are_faulty) add_checks();  // first: whatever follows rests on it
  if (comparison.arms.size() < 2) {
    out.push_back(
        {str("One arm, ", comparison.arms.front().name, ": there is nothing to compare.")});
    for (Statement& one : tuning_statements(comparison)) out.push_back(std::move(one));
    if (!are_faulty) add_checks();
    return out;
  }
  Differences against_baseline, others;
  for (const Difference& one : differences) against_baseline.push_back(&one);
  for (const Difference& one : pairs) {
    const bool is_said = std::ranges::any_of(differences, [&](const Difference& said) {
      return said.baseline == one.baseline && said.arm == one.arm;
    });
    if (!is_said) others.push_back(&one);
  }
  const auto is_known = [](const Difference* one) { return one->verdict != Verdict::kUnknown; };
  const auto has_one_seed = [&](const Difference* one) {
    return !is_known(one) || one->seeds.size() == 1;
  };
  // Of several sentences it is said once, behind them.
  const bool says_seed = std::ranges::count_if(against_baseline, is_known) < 2 ||
                         !std::ranges::all_of(against_baseline, has_one_seed);
  add_differences(comparison, against_baseline, /*are_pairs=*/false, says_seed, out);
  add_differences(comparison, others, /*are_pairs=*/true, says_seed, out);
  if (std::optional<Statement> looks = looks_statement(comparison, differences))
    out.push_back(std::move(*looks));
  if (!says_seed) out.push_back({"One seed: all of this holds for these trained models only."});
  if (!has_compared_arms(comparison) && pairs.empty()) {
    out.push_back(
        {"No arm is compared: arms as they are stand against the first one as it is, tuned arms "
         "against its tuned form, and there is no second one. `mneme report --pairs` compares "
         "every arm with every other."});
  } else if (differences.empty() && pairs.empty()) {
    out.push_back({"No losses are stored that could be compared."});
  }
  for (const std::string& split : comparison.splits) {
    if (std::string partial = share_sentence(comparison, split); !partial.empty())
      out.push_back({std::move(partial)});
  }
  for (Statement& one : tuning_statements(comparison)) out.push_back(std::move(one));
  if (std::string warning = budget_warning(comparison); !warning.empty())
    out.push_back({std::move(warning)});
  if (!are_faulty) add_checks();
  return out;
}

template <typename T>
Json list_of(const std::vector<T>& items, Json (*json_of_item)(const T&)) {
  Json out = Json::array();
  for (const T& one : items) out.push_back(json_of_item(one));
  return out;
}

Json with_sums(Json out, const scores::Sums& sums) {
  out["targets"] = sums.targets;
  out["nll"] = number_or_null(sums.nll);
  out["correct"] = sums.correct;
  if (sums.questions > 0) out["questions"] = sums.questions;
  return out;
}

Json json_of(const Bucket& bucket) {
  return with_sums({{"name", bucket.name}, {"from", bucket.from}}, bucket.sums);
}

Json json_of(const GroupSums& one) { return with_sums({{"groups", one.groups}}, one.sums); }

Json json_of(const EvaluationSummary& evaluation) {
  Json out = with_sums({{"split", evaluation.split},
                        {"name", evaluation.name},
                        {"step", evaluation.step},
                        {"unit", evaluation.unit},
                        {"samples", evaluation.samples.size()}},
                       evaluation.total);
  const auto statement = evaluation.record.find("statement");
  if (statement != evaluation.record.end()) out["statement"] = *statement;
  if (!evaluation.place.empty()) out["place"] = list_of(evaluation.place, json_of);
  if (!evaluation.distance.empty()) out["distance"] = list_of(evaluation.distance, json_of);
  if (!evaluation.frequency.empty()) out["frequency"] = list_of(evaluation.frequency, json_of);
  if (!evaluation.groups.empty()) out["groups"] = list_of(evaluation.groups, json_of);
  return out;
}

Json json_of(const CurvePoint& point) {
  return {{"step", point.step}, {"targets", point.targets}, {"loss", number_or_null(point.loss)}};
}

Json json_of(const std::optional<scores::MemoryChecks>& checks) {
  return checks ? without_folders(scores::to_json(*checks)) : Json(nullptr);
}

Json json_of(const Run& run) {
  Json out = {{"seed", run.seed},
              {"folder", without_folders(run.folder.string())},
              {"done", run.is_done},
              {"evaluations", list_of(run.evaluations, json_of)}};
  if (!run.other_lengths.empty()) out["other_lengths"] = list_of(run.other_lengths, json_of);
  if (!run.initial_sha256.empty()) out["initial_sha256"] = run.initial_sha256;
  if (!run.curve.empty()) out["curve"] = list_of(run.curve, json_of);
  if (run.error) out["error"] = without_folders(*run.error);
  out["checks"] = json_of(run.checks);
  if (run.certificate) out["certificate"] = without_folders(scores::to_json(*run.certificate));
  return out;
}

Json json_of(const Arm& arm) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? number_or_null(*value) : Json(nullptr);
  };
  return {{"name", arm.name},
          {"file", arm.file},
          {"overrides", arm.overrides},
          {"variant_of", arm.variant_of.empty() ? Json(nullptr) : Json(arm.variant_of)},
          {"memory", arm.memory},
          {"plugins", arm.plugins},
          {"backbone_parameters", arm.backbone_parameters},
          {"memory_parameters", arm.memory_parameters},
          {"training_flops", optional(arm.training_flops)},
          {"evaluation_flops", optional(arm.evaluation_flops)},
          {"checks", json_of(arm.checks)},
          {"runs", list_of(arm.runs, json_of)}};
}

// What interval, p and effect were computed from, for readers who check them.
Json json_of_statistics(const Difference& one) {
  if (!one.statistics) return nullptr;
  const stats::PairedResult& result = *one.statistics;
  return {{"seed_differences", result.seed_means},
          {"standard_error", result.standard_error},
          {"variance",
           {{"seeds", result.variance.seeds},
            {"units", result.variance.units},
            {"interaction", result.variance.interaction}}},
          {"seed_share", result.seed_share},
          {"effective_units", result.effective_units},
          {"exact_p", result.is_p_exact},
          {"covers_seeds", result.covers_seeds},
          {"block_autocorrelation",
           one.block > 0 ? number_or_null(one.block_autocorrelation) : Json(nullptr)},
          {"blocks_correlated", one.block > 0 ? Json(one.are_blocks_correlated) : Json(nullptr)}};
}

Json json_of(const Comparison& comparison, const Difference& one) {
  Json out = {{"arm", comparison.arms[one.arm].name},
              {"baseline", comparison.arms[one.baseline].name},
              {"split", one.split},
              {"measure", name_of(one.measure)},
              {"seeds", one.seeds},
              {"unit", one.unit},
              {"units", one.units},
              {"block", one.block},
              {"targets", one.targets},
              {"first", number_or_null(one.baseline_mean)},
              {"other", number_or_null(one.arm_mean)},
              {"difference", number_or_null(one.mean)},
              {"low", number_or_null(one.low)},
              {"high", number_or_null(one.high)},
              {"p", number_or_null(one.p)},
              {"p_holm", number_or_null(one.adjusted_p)},
              {"effect", number_or_null(one.effect)},
              {"detectable", number_or_null(one.detectable)},
              {"statistics", json_of_statistics(one)},
              {"verdict", verdict_word(one)},
              {"reason", one.reason()}};
  if (one.margin) {
    out["margin"] = {{"margin", one.margin->margin},
                     {"p", one.margin->p},
                     {"p_holm", one.margin->adjusted_p},
                     {"shown", one.margin->is_shown}};
  }
  return out;
}

Json list_of(const Comparison& comparison, const std::vector<Difference>& all) {
  Json out = Json::array();
  for (const Difference& one : all) out.push_back(json_of(comparison, one));
  return out;
}

}  // namespace

std::vector<std::string> sentences_of(const std::vector<Statement>& verdict) {
  std::vector<std::string> out;
  for (const Statement& one : verdict) {
    out.push_back(one.summary);
    out.insert(out.end(), one.sentences.begin(), one.sentences.end());
  }
  return out;
}

Report make_report(Comparison comparison, bool has_pairs, double margin) {
  Report out{.comparison = std::move(comparison), .margin = margin};
  out.differences = differences(out.comparison, margin);
  if (has_pairs) out.pairs = pair_differences(out.comparison);
  out.verdict = verdict_of(out.comparison, out.differences, out.pairs);
  out.sheets = sheets(out.comparison, out.differences, out.pairs);
  out.figures = figures(out.comparison, out.differences);
  return out;
}

Json Report::json() const {
  Json tables = Json::array();
  for (const Sheet& sheet : sheets) {
    Json table = to_json(sheet);
    table["notes"] = without_folders(table["notes"]);
    tables.push_back(std::move(table));
  }
  Json setup = Json::object();
  for (const auto& [key, value] : setup_facts(comparison)) setup[key] = value;
  Json keys = Json::array(), missing = Json::array();
  for (const Figure& figure : figures) keys.push_back(figure.key);
  for (const MissingBaseline& one : missing_baselines(comparison)) missing.push_back(one.name);
  return {{"format", "mneme-report"},
          {"version", 1},
          {"command", comparison.command},
          {"experiment_file", comparison.experiment_file},
          {"mneme", comparison.mneme},
          {"commit", comparison.commit},
          {"machine", comparison.machine},
          {"data", comparison.data},
          {"initial_weights", comparison.initial_weights},
          {"interrupted", comparison.is_interrupted},
          {"seeds", comparison.seeds},
          {"setup", std::move(setup)},
          {"verdict", without_folders(Json(sentences_of(verdict)))},
          {"notes", without_folders(Json(comparison.notes))},
          {"missing_baselines", std::move(missing)},
          {"arms", list_of(comparison.arms, json_of)},
          {"differences", list_of(comparison, differences)},
          {"pairs", list_of(comparison, pairs)},
          {"tuning", json_of_tuning(comparison)},
          {"until_decided", json_of_looks(comparison)},
          {"tables", std::move(tables)},
          {"figures", std::move(keys)}};
}

std::string Report::text(std::size_t width) const {
  std::string out;
  for (const std::string& line : sentences_of(verdict)) out += wrapped_line(line, width);
  out += '\n';
  for (const auto& [key, value] : setup_facts(comparison))
    out += wrapped_line(str(key, ": ", value), width);
  return out + '\n' + write_sheets(sheets, Format::kText, width);
}

std::string Report::latex() const {
  return str(kLatexHead, paper_latex(comparison, differences), "% --- Appendix ---\n\n",
             appendix_latex(comparison, differences, pairs, sheets));
}

std::string Report::markdown() const {
  const std::string samples = samples_markdown(comparison);
  std::string head;
  for (const auto& [key, value] : setup_facts(comparison))
    head += str("- ", key, ": ", markdown_text(value), '\n');
  return head + '\n' + without_folders(write_sheets(sheets, Format::kMarkdown)) +
         (samples.empty() ? "" : '\n' + samples);
}

namespace {

fs::path table_file(const std::string& key) { return key + ".csv"; }
fs::path figure_file(const std::string& key) { return fs::path("figures") / (key + ".vl.json"); }

// The tables and figures of the report that is in a folder, by its report.json: below the folder.
std::set<fs::path> files_of_earlier(const fs::path& folder) {
  std::set<fs::path> out;
  std::error_code ignored;
  if (!fs::exists(folder / "report.json", ignored)) return out;
  const Json json = parse_json(read_file(folder / "report.json"));
  if (!json.is_object() || json.value("format", Json()) != "mneme-report") return out;
  const auto add = [&](const Json& key, fs::path (*file)(const std::string&)) {
    const bool is_name = key.is_string() && key.get<std::string>().find('/') == std::string::npos;
    if (is_name) out.insert(file(key.get<std::string>()));
  };
  for (const Json& table : json.value("tables", Json::array())) {
    if (table.is_object()) add(table.value("key", Json()), &table_file);
  }
  for (const Json& key : json.value("figures", Json::array())) {
    add(key, &figure_file);
    // Pictures that were drawn of it show what that report said.
    for (const std::string& format : figure::picture_formats()) {
      if (key.is_string() && key.get<std::string>().find('/') == std::string::npos)
        out.insert(fs::path("figures") / str(key.get<std::string>(), '.', format));
    }
  }
  return out;
}

}  // namespace

std::vector<fs::path> Report::figure_files(const fs::path& folder) const {
  std::vector<fs::path> out;
  for (const Figure& figure : figures) out.push_back(folder / figure_file(figure.key));
  return out;
}

fs::path Report::write(const fs::path& folder) const {
  std::error_code code;
  fs::create_directories(folder / "figures", code);
  if (code) fail_file(folder, "make the folder", code.value());
  for (const fs::path& one : {folder, folder / "figures"}) remove_temporaries(one, Writers::kAny);
  std::set<fs::path> left_over = files_of_earlier(folder);
  write_file_atomic(folder / "report.json", json_text(json(), 1) + '\n');
  write_file_atomic(folder / "report.txt", without_folders(text(100)));
  write_file_atomic(folder / "report.md", markdown());
  write_file_atomic(folder / "report.tex", latex());
  write_file_atomic(folder / "table.tex", kLatexHead + paper_latex(comparison, differences));
  write_file_atomic(folder / "appendix.tex",
                    kLatexHead + appendix_latex(comparison, differences, pairs, sheets));
  for (const Sheet& sheet : sheets) {
    write_file_atomic(folder / table_file(sheet.key), write_sheet(sheet, Format::kCsv));
    left_over.erase(table_file(sheet.key));
  }
  for (const Figure& figure : figures) {
    figure::save(figure, folder / "figures");
    left_over.erase(figure_file(figure.key));
  }
  for (const fs::path& file : left_over) fs::remove(folder / file, code);  // best effort
  const fs::path file = folder / "index.html";
  write_file_atomic(file, page(*this));
  return file;
}

}  // namespace mneme::report
