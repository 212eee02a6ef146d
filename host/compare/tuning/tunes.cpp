#include "host/compare/tuning/tunes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/compare/arms.hpp"

namespace mneme::compare {
namespace {

constexpr int kMaxDraws = 1000;  // of one combination, until it is another than those before
constexpr std::int64_t kMaxTrials = 10'000;

std::optional<double> parse_number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

bool is_integer_text(std::string_view text) {
  return text.find_first_not_of("-0123456789") == std::string_view::npos;
}

// "log:1e-4:1e-2"; nullopt = a value, and no range. `where` names the option.
std::optional<TuneRange> parse_range(std::string_view text, const std::string& where) {
  const bool is_log = text.starts_with("log:");
  if (!is_log && !text.starts_with("linear:")) return std::nullopt;
  const std::string_view bounds = text.substr(text.find(':') + 1);
  const std::size_t colon = bounds.find(':');
  const std::string_view low_text = bounds.substr(0, colon);
  const std::string_view high_text =
      colon == std::string_view::npos ? std::string_view() : bounds.substr(colon + 1);
  const std::optional<double> low = parse_number(low_text);
  const std::optional<double> high = parse_number(high_text);
  if (!low || !high || *low >= *high || (is_log && *low <= 0.0)) {
    throw_usage({.where = where,
                 .failed = "is no range of numbers",
                 .expected = is_log ? "log:LOW:HIGH with 0 < LOW < HIGH"
                                    : "linear:LOW:HIGH with LOW < HIGH",
                 .got = std::string(text)});
  }
  return TuneRange{.is_log = is_log,
                   .is_integer = is_integer_text(low_text) && is_integer_text(high_text),
                   .low = *low,
                   .high = *high};
}

// Losses of trials are compared: what they are losses of must be the same.
void check_key(const std::string& key, const std::string& where) {
  const std::string table = key.substr(0, key.find('.'));
  const bool is_trained = table == "memory" || table == "model" || table == "train";
  if (is_trained && key != "train.seed") return;
  throw_usage({.where = where,
               .failed = str(key, " cannot be tuned: ",
                             is_trained ? "trials have a seed of their own"
                                        : "losses on other data cannot be compared"),
               .expected = "a key of [memory], [model] or [train]"});
}

// Values are short, so that names and tables are: three digits, unless they leave the range.
std::string draw(const TuneRange& range, Random& random) {
  const double low = range.is_log ? std::log(range.low) : range.low;
  const double high = range.is_log ? std::log(range.high) : range.high;
  if (range.is_integer) {
    // Each integer has an interval of equal length around it.
    const double from = range.is_log ? std::log(range.low - 0.5) : range.low - 0.5;
    const double to = range.is_log ? std::log(range.high + 0.5) : range.high + 0.5;
    const double place = from + random.uniform() * (to - from);
    const double value = std::round(range.is_log ? std::exp(place) : place);
    return str(static_cast<std::int64_t>(std::clamp(value, range.low, range.high)));
  }
  const double place = low + random.uniform() * (high - low);
  const double value = std::clamp(range.is_log ? std::exp(place) : place, range.low, range.high);
  std::string text(32, '\0');
  text.resize(static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%.3g", value)));
  const double rounded = parse_number(text).value_or(value);
  return format_exact(rounded < range.low || rounded > range.high ? value : rounded);
}

std::string draw(const Tune& tune, Random& random) {
  if (tune.values.empty()) return draw(tune.range, random);
  return tune.values[static_cast<std::size_t>(random.below(tune.values.size()))];
}

using Point = std::vector<std::string>;

std::vector<Point> grid(const std::vector<Tune>& tunes) {
  std::vector<Point> out{{}};
  for (const Tune& tune : tunes) {
    std::vector<Point> longer;
    for (const Point& point : out) {
      for (const std::string& value : tune.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
      if (std::ssize(longer) > kMaxTrials) {
        throw_usage({.where = "--tune",
                     .failed = "there are too many combinations of values",
                     .expected = str("at most ", kMaxTrials),
                     .hint = "--tune-trials N tries N of them"});
      }
    }
    out = std::move(longer);
  }
  return out;
}

void check_tunes(const std::vector<Tune>& tunes, bool is_drawn) {
  std::set<std::string> keys;
  for (const Tune& tune : tunes) {
    if (!keys.insert(tune.key.key).second) {
      throw_usage({.where = "--tune " + tune.key.key,
                   .failed = "the key is given twice",
                   .expected = "one --tune or --tune-together for each key"});
    }
    if (tune.values.empty() && !is_drawn) {
      throw_usage({.where = str("--tune ", tune.key.key, '=', tune.key.values),
                   .failed = "values are drawn from a range, and their number is not given",
                   .expected = "--tune-trials N"});
    }
  }
}

}  // namespace

Tune parse_tune(std::string_view word, bool is_together) {
  const std::string option = is_together ? "--tune-together" : "--tune";
  const std::string where = str(option, ' ', word);
  Sweep sweep = parse_sweep(word, option);
  check_key(sweep.key, where);
  Tune out{
      .key = {.key = sweep.key, .values = join(sweep.values, ","), .is_together = is_together}};
  if (sweep.values.size() == 1) {
    if (const auto range = parse_range(sweep.values.front(), where)) {
      out.range = *range;
      return out;
    }
    throw_usage(
        {.where = where,
         .failed = "there is one value: nothing can be chosen",
         .expected = "KEY=VALUE,VALUE,..., or a range KEY=log:LOW:HIGH with --tune-trials"});
  }
  out.values = std::move(sweep.values);
  return out;
}

std::vector<Point> combinations(const std::vector<Tune>& tunes, std::optional<std::int64_t> trials,
                                std::uint64_t seed) {
  check_tunes(tunes, trials.has_value());
  if (!trials) return grid(tunes);
  std::vector<Point> out;
  std::set<Point> taken;
  for (std::int64_t i = 0; i < *trials; ++i) {
    for (std::uint64_t attempt = 0;; ++attempt) {
      Point point;
      for (const Tune& tune : tunes) {
        Random random(seed, {"tune", tune.key.key, static_cast<std::uint64_t>(i), attempt});
        point.push_back(draw(tune, random));
      }
      if (taken.insert(point).second) {
        out.push_back(std::move(point));
        break;
      }
      if (attempt < kMaxDraws) continue;
      throw_usage({.where = str("--tune-trials ", *trials),
                   .failed = "there are fewer combinations of values",
                   .expected = str("at most ", out.size()),
                   .hint = "leave --tune-trials out to try all values of lists, or widen a range"});
    }
  }
  return out;
}

Json tuning_json(const std::vector<Tune>& tunes, const std::vector<scores::Rung>& rungs) {
  Json keys = Json::array();
  for (const Tune& tune : tunes) {
    keys.push_back(
        {{"key", tune.key.key}, {"values", tune.key.values}, {"together", tune.key.is_together}});
  }
  Json json = {{"folder", scores::kTuningFolder}, {"keys", std::move(keys)}};
  for (const scores::Rung& rung : rungs)
    json["rungs"].push_back({{"trials", rung.trials}, {"steps", rung.steps}});
  return json;
}

}  // namespace mneme::compare
