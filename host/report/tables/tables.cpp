#include "host/report/tables/tables.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "host/report/comparison/depths.hpp"
#include "host/report/differences/soundness.hpp"
#include "host/report/looks/looks.hpp"
#include "host/report/samples/samples.hpp"
#include "host/report/setup/baseline.hpp"
#include "host/report/setup/shares.hpp"
#include "host/report/tables/certificates.hpp"
#include "host/report/tables/records.hpp"
#include "host/report/tuning/tuning.hpp"

namespace mneme::report {
namespace {

Cell number_cell(double value, int digits, bool has_sign = false) {
  if (std::isnan(value)) return {"-", nullptr};
  return {(has_sign && value > 0.0 ? "+" : "") + number_text(value, digits), number_or_null(value)};
}

// Of differences, which are not shown as 0 unless they are.
Cell signed_cell(double value) {
  if (std::isnan(value)) return {"-", nullptr};
  return {signed_number(value), number_or_null(value)};
}

// Of p values and other numbers that are never 0.
Cell positive_cell(double value) {
  if (std::isnan(value)) return {"-", nullptr};
  return {positive_text(value), number_or_null(value)};
}

Cell count_cell(std::int64_t value) { return {grouped_number(static_cast<double>(value)), value}; }

// --- results and runs ---

Cell spread_cell(const std::vector<double>& values, int digits, bool has_sign = false) {
  const Spread of = spread(values);
  Cell cell = number_cell(of.mean, digits, has_sign);
  const bool is_constant = of.deviation <= 1e-12 * std::abs(of.mean);
  if (of.count > 1 && !is_constant) cell.text += " +- " + number_text(of.deviation, digits);
  return cell;
}

// A number of one arm; "failed" when none of its seeds got that far.
Cell arm_cell(const Arm& arm, const std::vector<double>& values, int digits) {
  Cell cell = spread_cell(values, digits);
  const bool has_failed =
      std::ranges::any_of(arm.runs, [](const Run& run) { return run.error.has_value(); });
  if (has_failed && cell.value.is_null()) cell.text = "failed";
  return cell;
}

Cell against_cell(const Metric& metric, std::size_t arm, std::size_t baseline) {
  switch (metric.against) {
    case Metric::Against::kDifference:
      return spread_cell(against_baseline(metric, arm, baseline), metric.digits, true);
    case Metric::Against::kRatio: {
      Cell cell = spread_cell(against_baseline(metric, arm, baseline), 2);
      if (!cell.value.is_null()) cell.text = "x " + cell.text;
      return cell;
    }
    case Metric::Against::kNothing:
      break;
  }
  return {};
}

std::string seeds_note(const Comparison& comparison) {
  const std::size_t seeds = comparison.seeds.size();
  if (seeds < 2) return "One seed: nothing is said of other seeds.";
  return str(seeds,
             " seeds: mean +- standard deviation over seeds; differences and ratios (x) are paired "
             "by seed.");
}

// Some arm read other targets than its baseline.
bool has_other_targets(const Metric& metric) {
  return std::ranges::any_of(metric.is_paired, [](const std::vector<bool>& row) {
    return std::ranges::find(row, false) != row.end();
  });
}

bool is_in_python(const Arm& arm) {
  return std::ranges::any_of(arm.plugins, [](const Json& one) { return one.contains("python"); });
}

// Whose peak memory has more than that of the memory itself; "" where all arms have the same.
std::string memory_note(const Comparison& comparison, const std::vector<Metric>& lines) {
  std::vector<std::string> names;
  for (const Arm& arm : comparison.arms) {
    if (is_in_python(arm)) names.push_back(arm.name);
  }
  if (names.empty() || names.size() == comparison.arms.size() ||
      find_metric(lines, "peak_mebibytes") == nullptr)
    return "";
  return str("Peak memory of the process: that of ", join(names, ", "),
             " holds Python and torch's Python package too, hundreds of MiB that the other arms "
             "do not load.");
}

// Whether a utilization is a share of a product that is not known, as an earlier program's.
bool has_unknown_product(const Comparison& comparison) {
  return std::ranges::any_of(runs_of(comparison), [](const ArmRun& of) {
    return std::ranges::any_of(of.run.training, [](const TrainingPoint& point) {
      return !std::isnan(point.mfu) && std::isnan(point.product_flops);
    });
  });
}

// Of which product the utilization is a share; "" where the table has none.
std::string utilization_note(const Comparison& comparison, const std::vector<Metric>& lines) {
  if (find_metric(lines, "training_mfu") == nullptr) return "";
  std::vector<std::string> parts;
  for (const auto& [device, peak] : product_peaks(comparison)) {
    parts.push_back(str(format_number(peak / 1e9, 1), " GFLOPs a second (", device, ')'));
  }
  if (parts.empty())
    return "MFU: a share of the product of two matrices that each run timed as it began.";
  return str(
      "MFU: a share of the fastest product of two matrices that these runs timed on their device, ",
      join(parts, ", "),
      has_unknown_product(comparison)
          ? "; where a run's metrics lack its product, a share of the one that it timed itself."
          : ".");
}

Sheet results_sheet(const Comparison& comparison, const std::vector<Metric>& lines) {
  Sheet out{.key = "results", .title = "Results" + share_suffix(comparison), .headings = {""}};
  for (const Arm& arm : comparison.arms) out.headings.push_back(arm.name);
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    if (const auto baseline = baseline_of(comparison, arm)) {
      out.headings.push_back(
          str(comparison.arms[arm].name, " against ", comparison.arms[*baseline].name));
    }
  }
  for (const Metric& metric : lines) {
    std::vector<Cell> row{Cell(metric.name)};
    for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
      row.push_back(arm_cell(comparison.arms[arm], metric.values[arm], metric.digits));
    }
    for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
      if (const auto baseline = baseline_of(comparison, arm))
        row.push_back(against_cell(metric, arm, *baseline));
    }
    out.rows.push_back(std::move(row));
  }
  out.notes.push_back(seeds_note(comparison));
  if (std::ranges::any_of(lines, has_other_targets)) {
    out.notes.emplace_back(
        "Arms that read other targets than the first have no difference here; the table "
        "differences has it over the targets that both read.");
  }
  if (const double guess = chance(comparison); guess > 0.0) {
    out.notes.push_back(str("Accuracy of guessing: ", format_number(guess, 4), '.'));
  }
  for (const Arm& arm : comparison.arms) {
    if (const std::string faults = faults_of(arm); !faults.empty()) {
      out.notes.push_back(str(arm.name, " is faulty (", faults, "): its numbers say nothing."));
    }
  }
  for (std::string note : {utilization_note(comparison, lines), memory_note(comparison, lines),
                           missing_baselines_note(comparison)}) {
    if (!note.empty()) out.notes.push_back(std::move(note));
  }
  if (comparison.is_interrupted) {
    out.notes.emplace_back("Not every planned run is done.");
  }
  for (const std::string& note : comparison.notes) out.notes.push_back(note);
  const bool has_certificate = std::ranges::any_of(
      runs_of(comparison), [](const ArmRun& of) { return of.run.certificate.has_value(); });
  if (std::string note = uncertified_note(comparison); !has_certificate && !note.empty())
    out.notes.push_back(std::move(note));
  out.records = result_records(comparison, lines);
  return out;
}

Sheet runs_sheet(const Comparison& comparison, const std::vector<Metric>& lines) {
  Sheet out{.key = "runs", .title = "Every number of every run", .is_for_programs = true};
  out.records = run_records(comparison, lines);
  return out;
}

// --- needles ---

Sheet depths_sheet(const Comparison& comparison) {
  Sheet out{.key = "depths",
            .title = "Accuracy by a needle's depth and length" + share_suffix(comparison),
            .headings = {"split", "arm", "length", "depth", "accuracy", "correct", "targets",
                         "loss", "seeds"},
            .is_for_programs = true};
  for (const DepthCell& cell : depth_cells(comparison)) {
    out.rows.push_back(
        {Cell(cell.split), Cell(comparison.arms[cell.arm].name), count_cell(cell.length),
         Cell(cell.depth), number_cell(cell.sums.accuracy(), 4), count_cell(cell.sums.correct),
         count_cell(cell.sums.judged()), number_cell(cell.sums.loss(), 4), count_cell(cell.seeds)});
  }
  for (const std::string& split : comparison.splits) {
    const std::string pooled = pooled_words(comparison, split);
    if (!pooled.empty()) out.notes.push_back(str("Rows on ", split, " are ", pooled, '.'));
  }
  return out;
}

// --- differences ---

// `has_baseline`: of a table of pairs, which names both arms.
std::string row_name(const Comparison& comparison, const Difference& one,
                     bool has_baseline = false) {
  const std::string baseline = has_baseline ? " against " + comparison.arms[one.baseline].name : "";
  return str(comparison.arms[one.arm].name, baseline, ": ", one.split, ' ', name_of(one.measure));
}

// How intervals and p values are computed. Only several seeds say something of other seeds.
std::string method_note(const std::vector<Difference>& all) {
  const bool has_seeds =
      std::ranges::any_of(all, [](const Difference& one) { return one.seeds.size() > 1; });
  const bool has_one =
      std::ranges::any_of(all, [](const Difference& one) { return one.seeds.size() == 1; });
  const bool has_arms =
      std::ranges::any_of(all, [](const Difference& one) { return one.family_size > 1; });
  std::string text = "Intervals: t intervals over units";
  if (has_seeds) text += " and seeds";
  text += ", lengthened by a bootstrap where units are skewed";
  if (has_seeds && has_one) text += "; with one seed over units alone";
  if (has_arms) text += "; not corrected for several arms";
  text += ". p: sign flips of units";
  if (has_seeds) text += ", larger where the seeds differ";
  text += ". Detectable: the smallest true difference that 80 % of such experiments find";
  if (has_arms) text += " with Holm's correction";
  return text + "; inf: none can be found.";
}

Sheet differences_sheet(const Comparison& comparison, const std::vector<Difference>& all,
                        bool are_pairs) {
  Sheet out{.key = are_pairs ? "pairs" : "differences",
            .title = str(are_pairs ? "Differences of all pairs"
                                   : "Differences to " + baseline_words(comparison),
                         share_suffix(comparison)),
            // The verdict first: a screen may cut a wide table at its right.
            .headings = {"", "verdict", "difference", "95 % from", "to", "p", "p (Holm)",
                         "effect size", "detectable", "seeds", "units"}};
  for (const Difference& one : all) {
    const bool is_known = one.verdict != Verdict::kUnknown;
    out.rows.push_back({Cell(row_name(comparison, one, are_pairs)), Cell(verdict_word(one)),
                        signed_cell(one.mean), signed_cell(one.low), signed_cell(one.high),
                        positive_cell(one.p), positive_cell(one.adjusted_p),
                        number_cell(one.effect, 2, true), positive_cell(one.detectable),
                        count_cell(std::ssize(one.seeds)),
                        is_known ? Cell(units_text(one), one.units) : Cell("-", nullptr)});
  }
  out.notes = reason_notes(comparison, all, are_pairs);
  out.notes.push_back(str("Losses in nats a token, accuracies and scores as shares; arm minus ",
                          are_pairs           ? "the arm behind \"against\""
                          : comparison.tuning ? "its baseline"
                                              : "first arm",
                          ", on equal targets. ", method_note(all)));
  if (comparison.looks) out.notes.push_back(looks_note(comparison));
  if (std::string note = blocks_note(all); !note.empty()) out.notes.push_back(std::move(note));
  out.records = difference_records(comparison, all);
  return out;
}

// --- losses against a margin ---

Sheet margin_sheet(const Comparison& comparison, const std::vector<Difference>& all) {
  Sheet out{.key = "margin",
            .title = "Losses against the margin" + share_suffix(comparison),
            .headings = {"", "verdict", "difference", "95 % to", "margin", "p", "p (Holm)"}};
  for (const Difference& one : all) {
    if (!one.margin) continue;
    out.rows.push_back({Cell(row_name(comparison, one)), Cell(margin_words(*one.margin)),
                        signed_cell(one.mean), signed_cell(one.high),
                        Cell(margin_text(one.margin->margin), one.margin->margin),
                        positive_cell(one.margin->p), positive_cell(one.margin->adjusted_p)});
  }
  out.notes.emplace_back(
      "An arm is not worse by more than the margin where its interval ends below the margin and p "
      "(Holm) is at most 0.05. p: one-sided, of the test that the arm's loss is higher by the "
      "margin "
      "or more. Nats a token; a margin that was chosen after looking at the differences shows "
      "nothing.");
  out.records = margin_records(comparison, all);
  return out;
}

// --- diagnostics ---

Sheet diagnostics_sheet(const Comparison& comparison) {
  Sheet sheet{.key = "diagnostics",
              .title = "Diagnostics",
              .headings = {"arm", "seed", "split", "measure", "tier", "layer", "place", "value"},
              .is_for_programs = true};
  for (const ArmRun& read : runs_of(comparison)) {
    for (const EvaluationSummary& evaluation : read.run.evaluations) {
      if (!evaluation.diagnostics) continue;
      const auto add = [&](const char* measure, const std::string& tier, std::int64_t layer,
                           std::int64_t place, double value) {
        sheet.rows.push_back({Cell(read.arm.name), Cell("", read.run.seed), Cell(evaluation.split),
                              Cell(std::string(measure)), Cell(tier), count_cell(layer),
                              count_cell(place), Cell("", number_or_null(value))});
      };
      const scores::Diagnostics& of = *evaluation.diagnostics;
      // The first distance, age in tokens, or the number of a bin or row.
      for (const auto& [measure, layers, first, width] :
           {std::tuple("attention by distance", &of.distance, std::int64_t{1}, of.distance_width),
            std::tuple("density", &of.density, std::int64_t{0}, std::int64_t{1}),
            std::tuple("age", &of.age, std::int64_t{0}, of.stretch),
            std::tuple("alpha", &of.alpha, std::int64_t{0}, std::int64_t{1})}) {
        for (const scores::LayerValues& one : *layers) {
          std::int64_t place = first;
          for (const double value : one.values) {
            add(measure, one.tier, one.layer, std::exchange(place, place + width), value);
          }
        }
      }
      for (const scores::LayerRegions& one : of.regions) {
        for (std::size_t r = 0; r < one.shares.size(); ++r) {
          add("attention by region", one.tier, one.layer, static_cast<std::int64_t>(r),
              one.shares[r]);
        }
      }
    }
  }
  return sheet;
}

// --- the same differences as perplexity and bits ---

Sheet perplexity_sheet(const Comparison& comparison, const std::vector<Difference>& all) {
  Sheet out{.key = "perplexity",
            .title = "The same differences as perplexity and bits" + share_suffix(comparison),
            .headings = {"", "perplexity", "ratio", "95 % from", "to"}};
  struct Bits {
    const char* key;
    const char* name;
  };
  std::vector<Bits> units;
  for (const Bits& one :
       {Bits{"bits_per_byte", "bits a byte"}, Bits{"bits_per_character", "bits a character"}}) {
    const bool is_known = std::ranges::any_of(all, [&](const Difference& difference) {
      return !std::isnan(bits_factor(comparison, difference.split, one.key));
    });
    if (is_known) units.push_back(one);
  }
  for (const Bits& one : units) {
    for (const char* part : {"", " from", " to"}) out.headings.push_back(str(one.name, part));
  }
  for (const Difference& one : all) {
    if (one.measure != Measure::kLoss || one.verdict == Verdict::kUnknown) continue;
    std::vector<Cell> row{Cell(row_name(comparison, one)), number_cell(one.perplexity, 3)};
    for (const double value : {one.mean, one.low, one.high}) {
      row.push_back(number_cell(std::exp(value), 4));
    }
    for (const Bits& unit : units) {
      const double factor = bits_factor(comparison, one.split, unit.key);
      for (const double value : {one.mean, one.low, one.high}) {
        row.push_back(number_cell(value * factor, 4, true));
      }
    }
    out.rows.push_back(std::move(row));
  }
  out.notes.emplace_back(kPerplexityNote);
  out.records = perplexity_records(comparison, all);
  return out;
}

// --- settings and plugins ---

Sheet settings_sheet(const Comparison& comparison) {
  Sheet out{.key = "settings", .title = "Settings that differ", .headings = {"key"}};
  for (const Arm& arm : comparison.arms) out.headings.push_back(arm.name);
  const std::vector<Setting> settings = differing_settings(comparison);
  out.records = setting_records(comparison, settings);
  for (const Setting& setting : settings) {
    std::vector<Cell> row{Cell(setting.key)};
    for (std::size_t arm = 0; arm < setting.values.size(); ++arm) {
      const std::string text = setting.text(arm);
      row.push_back(text.empty() ? Cell("-", nullptr) : Cell(text));
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

// "python 3.11.7, torch 2.11.0" of a memory in Python; "" of another plugin.
std::string python_text(const Json& plugin) {
  std::vector<std::string> words;
  const Json versions = plugin.value("python", Json::object());
  for (const auto& [name, version] : versions.items())
    words.push_back(str(name, ' ', word_at(versions, name.c_str())));
  return join(words, ", ");
}

Sheet plugins_sheet(const Comparison& comparison) {
  Sheet out{.key = "plugins",
            .title = "Plugins",
            .headings = {"arm", "tier", "plugin", "version", "sha256"}};
  const bool has_python = std::ranges::any_of(comparison.arms, is_in_python);
  if (has_python) out.headings.emplace_back("python");
  for (const Arm& arm : comparison.arms) {
    std::int64_t tier = 0;
    for (const Json& plugin : arm.plugins) {
      out.rows.push_back({Cell(arm.name),
                          count_cell(tier++),
                          Cell(word_at(plugin, "id")),
                          Cell(word_at(plugin, "version")),
                          {word_at(plugin, "sha256").substr(0, 16), word_at(plugin, "sha256")}});
      if (has_python) out.rows.back().emplace_back(python_text(plugin));
    }
  }
  return out;
}

}  // namespace

std::vector<Sheet> sheets(const Comparison& comparison, const std::vector<Difference>& all,
                          const std::vector<Difference>& pairs) {
  const std::vector<Metric> lines = metrics(comparison);
  std::vector<Sheet> out{results_sheet(comparison, lines)};
  if (!all.empty()) out.push_back(differences_sheet(comparison, all, false));
  out.push_back(margin_sheet(comparison, all));
  if (!pairs.empty()) out.push_back(differences_sheet(comparison, pairs, true));
  if (is_text(comparison)) out.push_back(perplexity_sheet(comparison, all));
  out.push_back(looks_sheet(comparison));
  out.push_back(trials_sheet(comparison));
  out.push_back(settings_sheet(comparison));
  out.push_back(plugins_sheet(comparison));
  out.push_back(certificates_sheet(comparison));
  out.push_back(depths_sheet(comparison));
  out.push_back(runs_sheet(comparison, lines));
  out.push_back(samples_sheet(comparison));
  out.push_back(diagnostics_sheet(comparison));
  std::erase_if(
      out, [](const Sheet& sheet) { return sheet.rows.empty() && sheet.records.rows.empty(); });
  return out;
}

}  // namespace mneme::report
