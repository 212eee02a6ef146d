#include "host/report/latex/paper.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/report/comparison/hide_folders.hpp"
#include "host/report/differences/soundness.hpp"
#include "host/report/looks/looks.hpp"
#include "host/report/setup/setup.hpp"
#include "host/report/setup/shares.hpp"

namespace mneme::report {
namespace {

constexpr const char* kNone = "--";

const Difference* find(const std::vector<Difference>& all, std::size_t arm,
                       const std::string& split, Measure measure) {
  const auto found = std::ranges::find_if(all, [&](const Difference& one) {
    return one.arm == arm && one.split == split && one.measure == measure;
  });
  return found == all.end() || found->verdict == Verdict::kUnknown ? nullptr : &*found;
}

std::string spread_text(const std::vector<double>& values, int digits) {
  const Spread of = spread(values);
  if (of.count == 0) return kNone;
  const bool has_deviation = of.count > 1 && of.deviation > 1e-12 * std::abs(of.mean);
  return number_text(of.mean, digits) +
         (has_deviation ? " +- " + number_text(of.deviation, digits) : "");
}

std::string p_text(double p) { return std::isnan(p) ? kNone : positive_text(p); }

// "+0.123 [+0.100, +0.150]"
std::string interval_text(const Difference& one) {
  return str(signed_number(one.mean, 3), " [", signed_number(one.low, 3), ", ",
             signed_number(one.high, 3), ']');
}

// The number that the table shows, and how arms differ by it.
struct Subject {
  const Metric* metric = nullptr;
  std::string heading;
  std::string word;
  int digits = 3;
  bool is_higher_better = false;
  Measure measure = Measure::kLoss;
};

Subject subject_of(const Comparison& comparison, const std::vector<Metric>& all,
                   const std::string& split) {
  if (is_generated(comparison)) {
    return {.metric = find_metric(all, split + ".accuracy"),
            .heading = "Accuracy",
            .word = "accuracy",
            .is_higher_better = true,
            .measure = Measure::kAccuracy};
  }
  const EvaluationSummary* first = nullptr;
  for (const Run& run : comparison.arms.front().runs) {
    if (first == nullptr) first = run.find(split);
  }
  const std::string unit = first == nullptr ? "" : first->token_unit();
  for (const auto& [of, key, heading, word] :
       {std::array{"byte", ".bits_per_byte", "Bits/byte", "bits a byte"},
        std::array{"char", ".bits_per_character", "Bits/char.", "bits a character"}}) {
    const Metric* const metric = unit == of ? find_metric(all, split + key) : nullptr;
    if (metric != nullptr) return {.metric = metric, .heading = heading, .word = word};
  }
  return {.metric = find_metric(all, split + ".perplexity"),
          .heading = "Perplexity",
          .word = "perplexity",
          .digits = 2};
}

// "FLOPs" in a unit that leaves the numbers short.
struct Scale {
  double unit = 1.0;
  std::string letter = {};
};
Scale scale_of(const Metric& metric) {
  double most = 0.0;
  for (const auto& values : metric.values) {
    const double mean = spread(values).mean;
    if (std::isfinite(mean)) most = std::max(most, mean);
  }
  Scale out;
  for (const char* letter : {"K", "M", "G", "T", "P"}) {
    if (most < 1000.0 * out.unit) break;
    out = {.unit = 1000.0 * out.unit, .letter = letter};
  }
  return out;
}

std::string caption_of(const Comparison& comparison, const std::vector<Difference>& all,
                       const std::string& split, const Subject& subject) {
  const std::size_t arms = comparison.arms.size() - 1;
  std::string text = str(comparison.arms.size(), " memories on ", split, ": ", subject.word);
  if (comparison.seeds.size() > 1) text += ", mean +- standard deviation over seeds";
  if (arms > 0) {
    text += str("; the difference to ", baseline_words(comparison), " in ",
                subject.measure == Measure::kLoss ? "loss, nats a token," : "accuracy",
                " with its 95 % interval, and p", arms > 1 ? " after Holm's correction" : "");
  }
  text += "; bytes of a lane's memory; FLOPs of training on a token. Bold: the best mean.";
  std::vector<const Difference*> shown;
  for (const Difference& one : all) {
    if (one.split == split && one.measure == subject.measure) shown.push_back(&one);
  }
  const auto known = std::ranges::find_if(
      shown, [](const Difference* one) { return one->verdict != Verdict::kUnknown; });
  if (known != shown.end()) {
    text += str(" Intervals are over ",
                comparison.looks ? units_text(**known) + " and the seeds that were added"
                                 : extent_words(**known),
                comparison.looks ? ". " : ".", looks_note(comparison));
  }
  text += correlation_caption(comparison, shown);
  if (const std::string words = share_words(comparison, split); !words.empty())
    text += str(" Only ", words, '.');
  for (const Arm& arm : comparison.arms) {
    if (const std::string faults = faults_of(arm); !faults.empty()) {
      text += str(' ', arm.name, " is faulty (", faults, "): its numbers say nothing.");
    }
  }
  return text;
}

// Numbers of a faulty memory are never the best.
void mark_best(LatexTable& table, const Comparison& comparison, const Subject& subject) {
  double best = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> means;
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    means.push_back(faults_of(comparison.arms[arm]).empty()
                        ? spread(subject.metric->values[arm]).mean
                        : std::numeric_limits<double>::quiet_NaN());
    const double mean = means.back();
    const bool is_better =
        std::isnan(best) || (subject.is_higher_better ? mean > best : mean < best);
    if (std::isfinite(mean) && is_better) best = mean;
  }
  for (std::size_t arm = 0; arm < means.size(); ++arm) {
    // Equal as printed is equally good.
    table.rows[arm][1].is_bold =
        std::isfinite(means[arm]) &&
        format_number(means[arm], subject.digits) == format_number(best, subject.digits);
  }
}

// --- The appendix ---

LatexTable setup_table(const Comparison& comparison) {
  LatexTable out{.label = "mneme-setup",
                 .caption = "What was trained on what",
                 .headings = {"", ""},
                 .is_number = {false, false}};
  for (const auto& [key, value] : setup_facts(comparison)) out.rows.push_back({{key}, {value}});
  return out;
}

LatexTable results_table(const Comparison& comparison, const std::vector<Metric>& all) {
  LatexTable out{.label = "mneme-results",
                 .caption = "All numbers" + share_suffix(comparison),
                 .headings = {"Number", "Memory", "Mean", "Against the first"},
                 .is_number = {false, false, true, true}};
  for (const Metric& metric : all) {
    for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
      std::string compared = "";
      const std::optional<std::size_t> baseline = baseline_of(comparison, arm);
      if (baseline && metric.against == Metric::Against::kRatio) {
        compared = "x " + spread_text(against_baseline(metric, arm, *baseline), 2);
      } else if (baseline && metric.against == Metric::Against::kDifference) {
        compared = spread_text(against_baseline(metric, arm, *baseline), metric.digits);
      }
      if (compared.ends_with(kNone)) compared = kNone;
      out.rows.push_back({{arm == 0 ? metric.name : ""},
                          {comparison.arms[arm].name},
                          {spread_text(metric.values[arm], metric.digits)},
                          {compared}});
    }
  }
  out.notes.push_back(str(
      comparison.seeds.size() < 2 ? "One seed." : "Mean +- standard deviation over seeds.",
      " Against ", baseline_words(comparison), ": differences, and ratios (x), paired by seed."));
  return out;
}

LatexTable differences_table(const Comparison& comparison, const std::vector<Difference>& all,
                             const std::string& key, const std::string& title) {
  LatexTable out{
      .label = "mneme-" + key,
      .caption = title + share_suffix(comparison),
      .headings = {"Memory", "Measure", "Difference [95 %]", "p (Holm)", "Effect", "Detectable"},
      .is_number = {false, false, true, true, true, true}};
  std::vector<std::string> units;
  for (const Difference& one : all) {
    const auto number = [&](double value, int digits) {
      return std::isnan(value) ? std::string(kNone) : format_number(value, digits);
    };
    const std::string baseline =
        key == "pairs" ? " against " + comparison.arms[one.baseline].name : std::string();
    const std::string measure = one.split + ' ' + name_of(one.measure);
    const bool is_known = one.verdict != Verdict::kUnknown;
    out.rows.push_back({{comparison.arms[one.arm].name + baseline},
                        {measure},
                        {is_known ? interval_text(one) : kNone},
                        {p_text(one.adjusted_p)},
                        {number(one.effect, 2)},
                        {std::isnan(one.detectable) ? kNone : positive_text(one.detectable, 3)}});
    const std::string extent = str(measure, ": over ", extent_words(one), '.');
    if (is_known && std::ranges::find(units, extent) == units.end()) units.push_back(extent);
  }
  out.notes = std::move(units);
  for (const std::string& note : reason_notes(comparison, all, key == "pairs"))
    out.notes.push_back(note + '.');
  if (comparison.looks) out.notes.push_back(looks_note(comparison));
  return out;
}

LatexTable perplexity_table(const Comparison& comparison, const std::vector<Difference>& all) {
  LatexTable out{.label = "mneme-perplexity",
                 .caption = "Differences as ratios of perplexities" + share_suffix(comparison),
                 .headings = {"Memory", "Split", "Perplexity", "Ratio [95 %]"},
                 .is_number = {false, false, true, true},
                 .notes = {kPerplexityNote}};
  for (const Difference& one : all) {
    if (one.measure != Measure::kLoss || one.verdict == Verdict::kUnknown) continue;
    const auto ratio = [](double value) { return format_number(std::exp(value), 4); };
    out.rows.push_back({{comparison.arms[one.arm].name},
                        {one.split},
                        {format_number(one.perplexity, 3)},
                        {str(ratio(one.mean), " [", ratio(one.low), ", ", ratio(one.high), ']')}});
  }
  return out;
}

// A row for each value of a key, with the arms that have it.
LatexTable settings_table(const Comparison& comparison) {
  LatexTable out{.label = "mneme-settings",
                 .caption = "Settings that differ",
                 .headings = {"Key", "Value", "Memories"},
                 .is_number = {false, false, false}};
  for (const Setting& setting : differing_settings(comparison)) {
    std::vector<std::pair<std::string, std::vector<std::string>>> values;
    for (std::size_t arm = 0; arm < setting.values.size(); ++arm) {
      const std::string value = setting.text(arm);
      auto found = std::ranges::find(values, value, &decltype(values)::value_type::first);
      if (found == values.end()) found = values.insert(values.end(), {value, {}});
      found->second.push_back(comparison.arms[arm].name);
    }
    bool is_first = true;
    for (const auto& [value, arms] : values) {
      if (value.empty()) continue;  // arms without the key
      out.rows.push_back({{is_first ? setting.key : ""}, {value}, {join(arms, ", ")}});
      is_first = false;
    }
  }
  return out;
}

// The columns of numbers below one another: "first, column, number".
LatexTable with_a_row_each(const LatexTable& table) {
  LatexTable out{.label = table.label,
                 .caption = table.caption,
                 .headings = {table.headings.front(), "", ""},
                 .is_number = {false, false, true},
                 .notes = table.notes};
  for (const std::vector<LatexCell>& row : table.rows) {
    for (std::size_t i = 1; i < row.size(); ++i)
      out.rows.push_back({i == 1 ? row.front() : LatexCell(), {table.headings[i]}, row[i]});
  }
  return out;
}

}  // namespace

LatexTable paper_table(const Comparison& comparison, const std::vector<Difference>& all,
                       const std::string& split) {
  const std::vector<Metric> numbers = metrics(comparison);
  const Subject subject = subject_of(comparison, numbers, split);
  if (subject.metric == nullptr) return {};
  const Metric* const bytes = find_metric(numbers, "state_bytes");
  const Metric* const flops = find_metric(numbers, "training_flops");
  const Scale scale = flops == nullptr ? Scale{} : scale_of(*flops);
  LatexTable out{.label = "mneme-" + split,
                 .caption = caption_of(comparison, all, split, subject),
                 .headings = {"Memory", subject.heading, "Difference [95 %]", "p", "Bytes",
                              scale.letter + "FLOPs"},
                 .is_number = {false, true, true, true, true, true}};
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    const Difference* const one = find(all, arm, split, subject.measure);
    std::vector<double> scaled;
    if (flops != nullptr) {
      for (const double value : flops->values[arm]) scaled.push_back(value / scale.unit);
    }
    out.rows.push_back({{comparison.arms[arm].name},
                        {spread_text(subject.metric->values[arm], subject.digits)},
                        {one == nullptr ? kNone : interval_text(*one)},
                        {one == nullptr || !one->faults.empty() ? kNone : p_text(one->adjusted_p)},
                        {bytes == nullptr ? kNone : spread_text(bytes->values[arm], 0)},
                        {spread_text(scaled, scale.letter.empty() ? 0 : 2)}});
  }
  mark_best(out, comparison, subject);
  return out;
}

LatexTable latex_table(const Sheet& sheet) {
  LatexTable out{.label = "mneme-" + sheet.key,
                 .caption = sheet.title,
                 .headings = sheet.headings,
                 .notes = sheet.notes};
  for (std::size_t i = 0; i < sheet.headings.size(); ++i) {
    out.is_number.push_back(i > 0 && std::ranges::none_of(sheet.rows, [&](const auto& row) {
                              return i < row.size() && row[i].value.is_string();
                            }));
  }
  for (const std::vector<Cell>& row : sheet.rows) {
    std::vector<LatexCell>& cells = out.rows.emplace_back(sheet.headings.size());
    for (std::size_t i = 0; i < row.size(); ++i) cells[i].text = row[i].text;
  }
  const auto numbers = std::ranges::count(out.is_number, true);
  return numbers < 2 || has_room(out) ? out : with_a_row_each(out);
}

std::string paper_latex(const Comparison& comparison, const std::vector<Difference>& all) {
  std::string out;
  for (const std::string& split : comparison.splits) {
    const LatexTable table = paper_table(comparison, all, split);
    if (!table.rows.empty()) out += write_latex(table) + '\n';
  }
  return out;
}

std::string appendix_latex(const Comparison& comparison, const std::vector<Difference>& all,
                           const std::vector<Difference>& pairs, const std::vector<Sheet>& sheets) {
  std::string out;
  const auto add = [&](const LatexTable& table) {
    if (!table.rows.empty()) out += write_latex(table) + '\n';
  };
  add(setup_table(comparison));
  add(results_table(comparison, metrics(comparison)));
  add(differences_table(comparison, all, "differences",
                        "Differences to " + baseline_words(comparison)));
  add(differences_table(comparison, pairs, "pairs", "Differences of all pairs"));
  if (is_text(comparison)) add(perplexity_table(comparison, all));
  add(settings_table(comparison));
  for (const Sheet& sheet : sheets) {
    if (sheet.key == "margin" || sheet.key == "plugins" || sheet.key == "trials")
      add(latex_table(sheet));
    // What was left out and why.
    if (sheet.key == "results") {
      std::vector<std::string> notes;
      for (const std::string& note : comparison.notes) notes.push_back(without_folders(note));
      if (comparison.is_interrupted) notes.emplace_back("Not every planned run is done.");
      out += write_latex_notes(notes);
    }
  }
  return out;
}

}  // namespace mneme::report
