#include "host/compare/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "host/base/text.hpp"
#include "host/memory/tier_outline.hpp"
#include "host/run/run_folder.hpp"
#include "mneme/abi.h"

namespace mneme::compare {
namespace {

// JSON has no NaN.
Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number_or_null(value));
  return list;
}

Json json_of(const NllSums& sums) {
  return {{"nll", numbers(sums.nll)}, {"targets", sums.targets}};
}

Json json_of(const SeedResult& seed) {
  Json curve = Json::array();
  for (const run::StepReport& report : seed.curve) curve.push_back(run::to_json(report));
  Json splits = Json::object();
  for (const SplitResult& split : seed.splits) {
    splits[std::string(data::to_word(split.split))] = {{"result", eval::to_json(split.result)},
                                                       {"lanes", json_of(split.lanes)},
                                                       {"segments", json_of(split.segments)}};
  }
  Json json = {
      {"seed", seed.seed},         {"initial_sha256", seed.initial_sha256},
      {"steps", seed.steps},       {"tokens", seed.tokens},
      {"seconds", seed.seconds},   {"tokens_per_second", number_or_null(seed.tokens_per_second())},
      {"curve", std::move(curve)}, {"splits", std::move(splits)}};
  if (!seed.folder.empty()) json["run"] = seed.folder.string();
  if (seed.error) {
    json["error"] = {{"message", seed.error->what()}, {"exit_code", seed.error->exit_code()}};
  }
  return json;
}

Json json_of(const Arm& arm) {
  Json plugins = Json::array();
  for (const memory::TierIdentity& plugin : arm.plugins) plugins.push_back(run::to_json(plugin));
  Json seeds = Json::array();
  for (const SeedResult& seed : arm.seeds) seeds.push_back(json_of(seed));
  return {{"name", arm.name},
          {"file", arm.file.string()},
          {"memory", arm.memory},
          {"plugins", std::move(plugins)},
          {"backbone_parameters", arm.backbone_parameters},
          {"memory_parameters", arm.memory_parameters},
          {"seeds", std::move(seeds)}};
}

Json json_of(const Metric& metric, const std::vector<Arm>& arms) {
  Json columns = Json::object();
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const Spread of = spread(metric.values[i]);
    Json column = {{"values", numbers(metric.values[i])},
                   {"mean", number_or_null(of.mean)},
                   {"deviation", number_or_null(of.deviation)}};
    if (i > 0 && metric.against != Metric::Against::kNothing) {
      const bool is_ratio = metric.against == Metric::Against::kRatio;
      column[is_ratio ? "ratio_to_first" : "difference_to_first"] =
          numbers(against_first(metric, i));
    }
    columns[arms[i].name] = std::move(column);
  }
  return {{"name", metric.name}, {"arms", std::move(columns)}};
}

}  // namespace

Json to_json(const Comparison& comparison) {
  Json arms = Json::array();
  for (const Arm& arm : comparison.arms) arms.push_back(json_of(arm));
  Json table = Json::array();
  for (const Metric& metric : metrics(comparison)) {
    table.push_back(json_of(metric, comparison.arms));
  }
  Json json = {{"format", "mneme-comparison"},
               {"revision", 1},
               {"mneme", MNEME_SDK_VERSION},
               {"experiment_file", comparison.file.string()},
               {"experiment", comparison.experiment},
               {"machine", comparison.machine},
               {"data", comparison.data},
               {"interrupted", comparison.is_interrupted}};
  if (comparison.alphabet > 0) json["chance"] = comparison.chance();
  json["arms"] = std::move(arms);
  json["table"] = std::move(table);
  return json;
}

namespace {

std::string number(double value, int digits, bool has_sign) {
  if (std::isnan(value)) return "-";
  return (has_sign && value > 0.0 ? "+" : "") + format_number(value, digits);
}

std::string spread_text(const std::vector<double>& values, int digits, bool has_sign = false) {
  const Spread of = spread(values);
  std::string text = number(of.mean, digits, has_sign);
  if (std::ranges::count_if(values, [](double value) { return !std::isnan(value); }) > 1) {
    text += " +- " + format_number(of.deviation, digits);
  }
  return text;
}

// A number of one arm; "failed" when none of its seeds got that far.
std::string arm_text(const Arm& arm, const std::vector<double>& values, int digits) {
  const bool has_failed =
      std::ranges::any_of(arm.seeds, [](const SeedResult& seed) { return seed.error.has_value(); });
  const std::string text = spread_text(values, digits);
  return has_failed && text == "-" ? "failed" : text;
}

std::string against_text(const Metric& metric, std::size_t arm) {
  switch (metric.against) {
    case Metric::Against::kDifference:
      return spread_text(against_first(metric, arm), metric.digits, true);
    case Metric::Against::kRatio: {
      const std::string text = spread_text(against_first(metric, arm), 2);
      return text == "-" ? text : "x " + text;
    }
    case Metric::Against::kNothing:
      break;
  }
  return "";
}

Table table_of(const Comparison& comparison) {
  std::vector<std::string> headings{""};
  for (const Arm& arm : comparison.arms) headings.push_back(arm.name);
  for (std::size_t arm = 1; arm < comparison.arms.size(); ++arm) {
    headings.push_back(str(comparison.arms[arm].name, " against ", comparison.arms[0].name));
  }
  Table table(std::move(headings));
  for (const Metric& metric : metrics(comparison)) {
    std::vector<std::string> row{metric.name};
    for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
      row.push_back(arm_text(comparison.arms[arm], metric.values[arm], metric.digits));
    }
    for (std::size_t arm = 1; arm < comparison.arms.size(); ++arm) {
      row.push_back(against_text(metric, arm));
    }
    table.add_row(std::move(row));
  }
  return table;
}

// In lines of at most `width` columns (0 = any).
std::string wrapped(const std::string& line, std::size_t width) {
  return join(wrap_text(line, width == 0 ? line.size() + 1 : width, 2), "\n") + '\n';
}

// A line for each seed that failed, as its message is, and what that means for the numbers of its
// arm.
std::string failures_text(const Comparison& comparison, std::size_t width) {
  std::string text;
  bool is_partial = false;
  for (const Arm& arm : comparison.arms) {
    std::size_t failed = 0;
    for (const SeedResult& seed : arm.seeds) {
      if (!seed.error) continue;
      ++failed;
      text += str("failed: ", arm.name, " (seed ", seed.seed, "): ", seed.error->what(), '\n');
    }
    is_partial = is_partial || (failed > 0 && failed < arm.seeds.size());
  }
  if (is_partial) {
    text += wrapped(
        "the numbers of an arm are over its seeds that have them, differences over the seeds that "
        "both arms have",
        width);
  }
  return text;
}

}  // namespace

std::string table_text(const Comparison& comparison, std::size_t width) {
  std::string text = table_of(comparison).text(width);
  std::vector<std::vector<memory::TierIdentity>> plugins;
  for (const Arm& arm : comparison.arms) plugins.push_back(arm.plugins);
  const std::vector<std::string> labels = memory::plugin_labels(plugins);
  for (std::size_t arm = 0; arm < labels.size(); ++arm) {
    text += wrapped(str("plugins of ", comparison.arms[arm].name, ": ", labels[arm]), width);
  }
  if (comparison.alphabet > 0) {
    text += str("chance: ", format_number(comparison.chance(), 4), " (one of ", comparison.alphabet,
                " symbols)\n");
  }
  if (comparison.is_interrupted) text += "stopped before every arm and seed was done\n";
  const std::size_t seeds = comparison.arms.empty() ? 0 : comparison.arms.front().seeds.size();
  if (seeds == 1) {
    text += str("one seed: no interval; a difference may be chance\n");
  } else {
    text += wrapped(str(seeds,
                        " seeds: mean +- standard deviation over seeds; differences are paired by "
                        "seed"),
                    width);
  }
  return text + failures_text(comparison, width);
}

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

using Value = std::function<double(const Comparison&, const Arm&, const SeedResult&)>;

// A line of one number a seed; nothing when no arm knows it.
void add(std::vector<Metric>& lines, const Comparison& comparison, Metric line,
         const Value& value) {
  bool is_known = false;
  for (const Arm& arm : comparison.arms) {
    std::vector<double> row;
    for (const SeedResult& seed : arm.seeds) {
      row.push_back(value(comparison, arm, seed));
      is_known = is_known || !std::isnan(row.back());
    }
    line.values.push_back(std::move(row));
  }
  if (is_known) lines.push_back(std::move(line));
}

const SplitResult* find(const SeedResult& seed, data::Split split) {
  const auto found = std::ranges::find(seed.splits, split, &SplitResult::split);
  return found == seed.splits.end() ? nullptr : &*found;
}

using OfResult = std::function<double(const eval::Result&)>;

void add_result(std::vector<Metric>& lines, const Comparison& comparison, data::Split split,
                Metric line, const OfResult& value) {
  line.name = std::string(data::to_word(split)) + ' ' + line.name;
  add(lines, comparison, std::move(line), [&](const auto&, const auto&, const SeedResult& seed) {
    const SplitResult* const found = find(seed, split);
    return found == nullptr ? kUnknown : value(found->result);
  });
}

OfResult accuracy_from(data::Source source) {
  return [source](const eval::Result& result) {
    if (!result.by_source) return kUnknown;
    const eval::Score& score = (*result.by_source)[static_cast<std::size_t>(source)];
    return score.tokens == 0 ? kUnknown : score.accuracy();
  };
}

void add_split(std::vector<Metric>& lines, const Comparison& comparison, data::Split split) {
  const auto line = [&](const char* name, int digits, const OfResult& value) {
    add_result(lines, comparison, split, {.name = name, .digits = digits, .values = {}}, value);
  };
  line("loss, nats a token", 4, [](const eval::Result& r) { return r.loss(); });
  line("perplexity", 3, [](const eval::Result& r) { return r.perplexity(); });
  line("perplexity a word", 3,
       [](const eval::Result& r) { return r.perplexity_per_word().value_or(kUnknown); });
  line("bits a byte", 4,
       [](const eval::Result& r) { return r.bits_per_byte().value_or(kUnknown); });
  line("bits a character", 4,
       [](const eval::Result& r) { return r.bits_per_character().value_or(kUnknown); });
  line("accuracy", 4, [](const eval::Result& r) { return r.accuracy(); });
  line("accuracy, source inside the segment", 4, accuracy_from(data::Source::kInside));
  line("accuracy, source outside the segment", 4, accuracy_from(data::Source::kOutside));
}

double rate(const SeedResult& seed, data::Split split) {
  const SplitResult* const found = find(seed, split);
  return found == nullptr ? kUnknown : found->result.tokens_per_second();
}

void add_costs(std::vector<Metric>& lines, const Comparison& comparison) {
  using Against = Metric::Against;
  const auto line = [&](const char* name, Against against, const Value& value) {
    add(lines, comparison, {.name = name, .digits = 0, .against = against, .values = {}}, value);
  };
  line("parameters of the backbone", Against::kNothing,
       [](const auto&, const Arm& arm, const auto&) {
         return static_cast<double>(arm.backbone_parameters);
       });
  line("parameters of the memory", Against::kNothing, [](const auto&, const Arm& arm, const auto&) {
    return static_cast<double>(arm.memory_parameters);
  });
  line("state bytes a lane", Against::kNothing,
       [](const auto&, const auto&, const SeedResult& seed) {
         if (seed.splits.empty() || seed.splits.front().result.lanes == 0) return kUnknown;
         const eval::Result& result = seed.splits.front().result;
         return static_cast<double>(result.state_bytes) / static_cast<double>(result.lanes);
       });
  line("training tokens/s", Against::kRatio, [](const auto&, const auto&, const SeedResult& seed) {
    // The speed of a training that failed after a few steps is not reported.
    return seed.splits.empty() ? kUnknown : seed.tokens_per_second();
  });
  line("evaluation tokens/s", Against::kRatio,
       [](const auto&, const auto&, const SeedResult& seed) {
         return seed.splits.empty() ? kUnknown : rate(seed, seed.splits.front().split);
       });
}

}  // namespace

double SeedResult::tokens_per_second() const {
  return seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0;
}

bool Comparison::has_failures() const {
  return std::ranges::any_of(arms, [](const Arm& arm) {
    return std::ranges::any_of(arm.seeds, [](const SeedResult& s) { return s.error.has_value(); });
  });
}

double Comparison::chance() const {
  return alphabet > 0 ? 1.0 / static_cast<double>(alphabet) : 0.0;
}

std::vector<Metric> metrics(const Comparison& comparison) {
  std::vector<Metric> lines;
  for (const data::Split split : data::kSplits) add_split(lines, comparison, split);
  add_costs(lines, comparison);
  return lines;
}

Spread spread(const std::vector<double>& all) {
  std::vector<double> values;
  std::ranges::copy_if(all, std::back_inserter(values),
                       [](double value) { return !std::isnan(value); });
  if (values.empty()) return {.mean = kUnknown, .deviation = kUnknown};
  const auto count = static_cast<double>(values.size());
  Spread out;
  for (const double value : values) out.mean += value / count;
  if (values.size() < 2) return out;
  double squares = 0.0;
  for (const double value : values) squares += (value - out.mean) * (value - out.mean);
  out.deviation = std::sqrt(squares / (count - 1.0));
  return out;
}

std::vector<double> against_first(const Metric& metric, std::size_t arm) {
  const std::vector<double>& first = metric.values.front();
  const std::vector<double>& values = metric.values.at(arm);
  std::vector<double> out;
  for (std::size_t i = 0; i < std::min(first.size(), values.size()); ++i) {
    out.push_back(metric.against == Metric::Against::kRatio ? values[i] / first[i]
                                                            : values[i] - first[i]);
  }
  return out;
}

}  // namespace mneme::compare
