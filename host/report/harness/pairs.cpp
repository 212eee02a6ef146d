#include "host/report/harness/pairs.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/report/differences/differences.hpp"
#include "host/report/tables/records.hpp"
#include "host/stats/holm.hpp"
#include "host/stats/paired.hpp"

namespace mneme::report {
namespace {

// One metric of a task over the documents that both have.
struct MetricPair {
  std::string task;
  std::string metric;
  double baseline_mean = 0.0;
  double mean = 0.0;
  stats::PairedDifferences differences = {};
  stats::PairedResult result = {};
};

// The folder's last name; the whole paths where both have the same.
std::pair<std::string, std::string> names_of(const HarnessResults& a, const HarnessResults& b) {
  const auto last = [](const HarnessResults& one) {
    return (one.folder / "").lexically_normal().parent_path().filename().string();
  };
  if (last(a) != last(b)) return {last(a), last(b)};
  return {a.folder.string(), b.folder.string()};
}

[[noreturn]] void refuse_sample(const HarnessTask& baseline, const HarnessTask& other,
                                std::int64_t id, const std::string& what, const std::string& hint) {
  throw_run({.where = str(baseline.file.string(), " and ", other.file.string()),
             .failed = str("the document ", id, " has another ", what),
             .hint = hint});
}

void check_sample(const HarnessTask& baseline, const HarnessTask& other, std::int64_t id,
                  const HarnessSample& a, const HarnessSample& b) {
  if (a.doc_hash != b.doc_hash)
    refuse_sample(baseline, other, id, "content", "the tasks have to read the same data");
  if (a.target_hash != b.target_hash)
    refuse_sample(baseline, other, id, "target", "the tasks have to be of the same version");
  if (a.prompt_hash != b.prompt_hash) {
    refuse_sample(baseline, other, id, "prompt",
                  "both need the same --num_fewshot, --seed and --apply_chat_template");
  }
}

// By metric; `left_out` and `one_sided` gather what has no partner.
std::map<std::string, MetricPair> pair_task(const std::string& name, const HarnessTask& baseline,
                                            const HarnessTask& other, std::size_t& left_out,
                                            std::set<std::string>& one_sided) {
  std::map<std::string, MetricPair> out;
  std::set<std::int64_t> all, common;
  for (const auto& [key, sample] : other.samples) all.insert(key.first);
  for (const auto& [key, a] : baseline.samples) {
    all.insert(key.first);
    const auto found = other.samples.find(key);
    if (found == other.samples.end()) continue;
    common.insert(key.first);
    const HarnessSample& b = found->second;
    check_sample(baseline, other, key.first, a, b);
    for (const auto& [metric, score] : b.scores) {
      if (!a.scores.contains(metric)) one_sided.insert(metric);
    }
    for (const auto& [metric, score] : a.scores) {
      const auto same = b.scores.find(metric);
      if (same == b.scores.end()) {
        one_sided.insert(metric);
        continue;
      }
      if (score.count != same->second.count)
        throw_run(other.file.string(), ": the document ", key.first,
                  " has another number of words");
      MetricPair& pair = out.try_emplace(metric, MetricPair{name, metric}).first->second;
      if (pair.differences.sums.empty()) pair.differences.sums.emplace_back();
      pair.differences.sums[0].push_back(same->second.total - score.total);
      pair.differences.targets.push_back(score.count);
      pair.baseline_mean += score.total;
      pair.mean += same->second.total;
    }
  }
  left_out = all.size() - common.size();
  return out;
}

std::vector<MetricPair> metric_pairs(const HarnessResults& baseline, const HarnessResults& other,
                                     const std::string& metric, std::vector<std::string>& notes) {
  std::vector<MetricPair> out;
  bool has_common = false;
  for (const auto& [task, samples] : baseline.tasks) {
    const auto found = other.tasks.find(task);
    if (found == other.tasks.end()) {
      notes.push_back(str("Only ", baseline.folder.string(), " has the task ", task, '.'));
      continue;
    }
    has_common = true;
    std::size_t left_out = 0;
    std::set<std::string> one_sided;
    std::map<std::string, MetricPair> pairs =
        pair_task(task, samples, found->second, left_out, one_sided);
    if (left_out > 0)
      notes.push_back(str(task, ": ", left_out, " unpaired documents are left out."));
    for (const std::string& name : one_sided) {
      if (name == metric)
        throw_usage("--metric ", metric, ": only one of both has it for the task ", task);
      notes.push_back(str(task, ": only one of both has the metric ", name, '.'));
    }
    // The same losses, over another count: one of them is enough for the correction.
    for (const char* const same : {"byte_perplexity", "bits_per_byte"}) {
      if (metric.empty() && pairs.contains("word_perplexity")) pairs.erase(same);
    }
    for (auto& [name, pair] : pairs) {
      if (metric.empty() || name == metric) out.push_back(std::move(pair));
    }
  }
  for (const auto& [task, samples] : other.tasks) {
    if (!baseline.tasks.contains(task))
      notes.push_back(str("Only ", other.folder.string(), " has the task ", task, '.'));
  }
  const std::string both = str(baseline.folder.string(), " and ", other.folder.string());
  if (!has_common) throw_run(both, ": no task is in both; ", join(notes, " "));
  if (out.empty() && !metric.empty())
    throw_usage("--metric ", metric, ": no task has it in both, ", both);
  if (out.empty()) throw_run(both, ": no document and metric is in both; ", join(notes, " "));
  return out;
}

const char* word_of(const MetricPair& pair, double adjusted) {
  switch (stats::verdict(pair.result, adjusted)) {
    case stats::Verdict::kLower:
      return "lower";
    case stats::Verdict::kHigher:
      return "higher";
    case stats::Verdict::kNoDifferenceShown:
      break;
  }
  return "no difference shown";
}

void add_row(const MetricPair& pair, double adjusted, std::size_t family, Sheet& sheet) {
  const stats::PairedResult& result = pair.result;
  const std::string verdict = word_of(pair, adjusted);
  const auto number = [](double value) {
    return Cell(format_number(value, 4), data_number(value));
  };
  const auto with_sign = [](double value) {
    return Cell(signed_number(value), data_number(value));
  };
  const auto of_test = [](double value) { return Cell(positive_text(value), data_number(value)); };
  sheet.rows.push_back({Cell(pair.task), Cell(pair.metric), number(pair.baseline_mean),
                        number(pair.mean), with_sign(result.mean), with_sign(result.low),
                        with_sign(result.high), of_test(result.p), of_test(adjusted),
                        Cell(str(result.units), result.units), Cell(verdict)});
  sheet.records.rows.push_back(
      {pair.task, pair.metric, data_number(pair.baseline_mean), data_number(pair.mean),
       data_number(result.mean), data_number(result.low), data_number(result.high),
       data_number(result.p), data_number(adjusted), family, data_number(result.effect_size),
       data_number(result.smallest_detectable), result.units, data_number(result.targets),
       verdict});
  for (const std::string& warning : result.warnings)
    sheet.notes.push_back(str(pair.task, ", ", pair.metric, ": ", warning, '.'));
}

}  // namespace

Sheet harness_pairs(const HarnessResults& baseline, const HarnessResults& other,
                    const std::string& metric) {
  std::vector<std::string> notes;
  std::vector<MetricPair> pairs = metric_pairs(baseline, other, metric, notes);
  std::vector<double> p_values;
  bool has_losses = false;
  for (MetricPair& pair : pairs) {
    pair.result = stats::compare_paired(pair.differences, {.arms = pairs.size()});
    pair.baseline_mean /= pair.result.targets;
    pair.mean /= pair.result.targets;
    p_values.push_back(pair.result.p);
    has_losses |= pair.metric.starts_with("bits_per_byte") ||
                  pair.metric.find("perplexity") != std::string::npos;
  }
  const auto [first, second] = names_of(baseline, other);
  Sheet sheet{.key = "pairs",
              .title = str("Samples of ", second, " against ", first),
              .headings = {"task", "metric", first, second, "difference", "95 % from", "to", "p",
                           "p (Holm)", "documents", "verdict"},
              .notes = std::move(notes)};
  sheet.records.columns = {
      "task",   "metric", "baseline_mean", "mean",       "difference", "low",     "high",   "p",
      "p_holm", "family", "effect_size",   "detectable", "documents",  "targets", "verdict"};
  if (has_losses) {
    sheet.notes.emplace_back(
        "Of perplexities and bits the means are losses: nats a word or byte, lower is better.");
  }
  const std::vector<double> adjusted = stats::holm(p_values);
  for (std::size_t i = 0; i < pairs.size(); ++i)
    add_row(pairs[i], adjusted[i], pairs.size(), sheet);
  return sheet;
}

Json harness_json(const Sheet& sheet) {
  Json rows = Json::array();
  for (const std::vector<Json>& row : sheet.records.rows) {
    Json one = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i) one[sheet.records.columns[i]] = row[i];
    rows.push_back(std::move(one));
  }
  return {{"format", "mneme-pairs"},
          {"version", 1},
          {"title", sheet.title},
          {"pairs", std::move(rows)},
          {"notes", sheet.notes}};
}

}  // namespace mneme::report
