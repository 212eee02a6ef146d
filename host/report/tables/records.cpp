#include "host/report/tables/records.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "host/base/text.hpp"
#include "host/report/setup/shares.hpp"

namespace mneme::report {
namespace {

// "loss" of "valid.loss".
std::string measure_of(const Metric& metric) {
  return metric.split.empty() ? metric.key : metric.key.substr(metric.split.size() + 1);
}

Json split_of(const Metric& metric) { return metric.split.empty() ? Json() : Json(metric.split); }

// One seed has no deviation.
Json deviation_of(const Spread& of) { return of.count > 1 ? data_number(of.deviation) : Json(); }

}  // namespace

Json data_number(double value) {
  if (std::isnan(value)) return nullptr;
  if (std::isinf(value)) return value > 0.0 ? "inf" : "-inf";
  return value;
}

Json share_read(const Arm& arm, const std::string& split) {
  std::optional<double> least;
  for (const Run& run : arm.runs) {
    const EvaluationSummary* const found = run.error ? nullptr : run.find(split);
    const auto share = found == nullptr ? std::nullopt : share_of(*found);
    if (share) least = std::min(least.value_or(1.0), *share);
  }
  return least ? Json(*least) : Json();
}

Records result_records(const Comparison& comparison, const std::vector<Metric>& all) {
  Records out{.columns = {"split", "measure", "arm", "seeds", "mean", "deviation", "baseline",
                          "difference", "difference_deviation", "ratio", "ratio_deviation",
                          "share_read"}};
  for (const Metric& metric : all) {
    for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
      const Spread of = spread(metric.values[arm]);
      std::vector<Json> row = {split_of(metric), measure_of(metric),   comparison.arms[arm].name,
                               of.count,         data_number(of.mean), deviation_of(of)};
      const std::optional<std::size_t> baseline = baseline_of(comparison, arm);
      const bool is_compared = baseline && metric.against != Metric::Against::kNothing;
      const Spread difference =
          is_compared ? spread(against_baseline(metric, arm, *baseline)) : Spread{};
      row.push_back(is_compared ? Json(comparison.arms[*baseline].name) : Json());
      for (const auto kind : {Metric::Against::kDifference, Metric::Against::kRatio}) {
        const bool is_this = is_compared && metric.against == kind;
        row.push_back(is_this ? data_number(difference.mean) : Json());
        row.push_back(is_this ? deviation_of(difference) : Json());
      }
      row.push_back(metric.split.empty() ? Json() : share_read(comparison.arms[arm], metric.split));
      out.rows.push_back(std::move(row));
    }
  }
  return out;
}

Records run_records(const Comparison& comparison, const std::vector<Metric>& all) {
  Records out{.columns = {"split", "measure", "arm", "seed", "value"}};
  for (const Metric& metric : all) {
    for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
      for (std::size_t i = 0; i < comparison.seeds.size(); ++i) {
        const double value = metric.values[arm][i];
        if (std::isnan(value)) continue;
        out.rows.push_back({split_of(metric), measure_of(metric), comparison.arms[arm].name,
                            comparison.seeds[i], data_number(value)});
      }
    }
  }
  return out;
}

Records difference_records(const Comparison& comparison, const std::vector<Difference>& all) {
  Records out{.columns = {"arm",           "baseline",   "split",    "measure",       "difference",
                          "low",           "high",       "p",        "p_holm",        "family",
                          "effect_size",   "detectable", "seeds",    "unit",          "units",
                          "block_targets", "targets",    "arm_mean", "baseline_mean", "share_read",
                          "verdict",       "reason"}};
  for (const Difference& one : all) {
    const bool is_known = one.verdict != Verdict::kUnknown;
    const auto if_known = [&](Json value) { return is_known ? std::move(value) : Json(); };
    out.rows.push_back({comparison.arms[one.arm].name,
                        comparison.arms[one.baseline].name,
                        one.split,
                        name_of(one.measure),
                        data_number(one.mean),
                        data_number(one.low),
                        data_number(one.high),
                        data_number(one.p),
                        data_number(one.adjusted_p),
                        if_known(one.family_size),
                        data_number(one.effect),
                        data_number(one.detectable),
                        one.seeds.size(),
                        if_known(one.unit),
                        if_known(one.units),
                        one.block > 0 ? Json(one.block) : Json(),
                        if_known(one.targets),
                        data_number(one.arm_mean),
                        data_number(one.baseline_mean),
                        share_read(comparison.arms[one.arm], one.split),
                        verdict_word(one),
                        one.reasons.empty() ? Json() : Json(one.reason())});
  }
  return out;
}

Records margin_records(const Comparison& comparison, const std::vector<Difference>& all) {
  Records out{.columns = {"arm", "baseline", "split", "margin", "difference", "high", "p", "p_holm",
                          "shown"}};
  for (const Difference& one : all) {
    if (!one.margin) continue;
    out.rows.push_back({comparison.arms[one.arm].name, comparison.arms[one.baseline].name,
                        one.split, one.margin->margin, data_number(one.mean), data_number(one.high),
                        data_number(one.margin->p), data_number(one.margin->adjusted_p),
                        one.margin->is_shown});
  }
  return out;
}

double bits_factor(const Comparison& comparison, const std::string& split, const char* key) {
  for (const Run& run : comparison.arms.front().runs) {
    const EvaluationSummary* const found = run.find(split);
    if (found == nullptr) continue;
    return found->result(key) / found->result("loss");
  }
  return std::nan("");
}

Records perplexity_records(const Comparison& comparison, const std::vector<Difference>& all) {
  Records out{.columns = {"arm", "baseline", "split", "perplexity", "ratio", "ratio_low",
                          "ratio_high", "bits_per_byte_difference", "bits_per_byte_low",
                          "bits_per_byte_high", "bits_per_character_difference",
                          "bits_per_character_low", "bits_per_character_high", "share_read"}};
  for (const Difference& one : all) {
    if (one.measure != Measure::kLoss || one.verdict == Verdict::kUnknown) continue;
    std::vector<Json> row = {comparison.arms[one.arm].name, comparison.arms[one.baseline].name,
                             one.split, data_number(one.perplexity)};
    for (const double value : {one.mean, one.low, one.high})
      row.push_back(data_number(std::exp(value)));
    for (const char* key : {"bits_per_byte", "bits_per_character"}) {
      const double factor = bits_factor(comparison, one.split, key);
      for (const double value : {one.mean, one.low, one.high})
        row.push_back(data_number(value * factor));
    }
    row.push_back(share_read(comparison.arms[one.arm], one.split));
    out.rows.push_back(std::move(row));
  }
  return out;
}

Records setting_records(const Comparison& comparison, const std::vector<Setting>& settings) {
  Records out{.columns = {"key", "arm", "value", "is_default"}};
  for (const Setting& setting : settings) {
    for (std::size_t arm = 0; arm < setting.values.size(); ++arm) {
      if (setting.values[arm].empty()) continue;
      out.rows.push_back({setting.key, comparison.arms[arm].name, setting.values[arm],
                          setting.is_default[arm] ? 1 : 0});
    }
  }
  return out;
}

}  // namespace mneme::report
