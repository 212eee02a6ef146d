#include <algorithm>
#include <cmath>

#include "host/base/text.hpp"
#include "host/base/wrap.hpp"
#include "host/compare/comparison.hpp"
#include "host/base/table.hpp"
#include "host/memory/plugin_labels.hpp"

namespace mneme::compare {
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

// A number of one arm; "failed" when none of its seeds came so far.
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

}  // namespace mneme::compare
