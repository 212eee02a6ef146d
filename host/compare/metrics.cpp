#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>

#include "host/compare/comparison.hpp"

namespace mneme::compare {
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
    // A few steps before a failure are no measurement.
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
