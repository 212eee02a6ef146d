#include "host/report/suite/scale.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"
#include "host/stats/power_law.hpp"

namespace mneme::report {
namespace {

constexpr double kBytesOfParameter = 4.0;

double tokens_read_by(const Run& run) {
  return run.training.empty() ? std::nan("") : run.training.back().tokens_read;
}

double seconds_of_run(const Run& run) {
  return run.training.empty() ? std::nan("") : run.training.back().seconds;
}

// The mean over an arm's runs.
template <typename Value>
double mean_over(const Arm& arm, Value&& value) {
  std::vector<double> values;
  for (const Run& run : arm.runs) values.push_back(value(run));
  return spread(values).mean;
}

// A memory's losses at the sizes at which it has all of them.
struct Losses {
  std::vector<double> x;
  stats::LadderLosses losses;
};

// Whether a cell has losses above 0 and this cost.
bool is_usable(const Json& value, const std::string& cost) {
  return !value.is_null() && value.contains(cost) &&
         std::ranges::all_of(value.at("values"),
                             [](const Json& loss) { return loss.get<double>() > 0.0; });
}

Losses losses_of(const Sheet& sheet, std::size_t arm, const std::string& cost) {
  Losses out;
  for (const std::vector<Cell>& row : sheet.rows) {
    const Json& value = row[arm].value;
    if (!is_usable(value, cost)) continue;
    out.x.push_back(value.at(cost));
    out.losses.push_back(value.at("values").get<std::vector<double>>());
  }
  return out;
}

std::string exponent_note(const Sheet& sheet, std::size_t arm) {
  const Losses of = losses_of(sheet, arm, "operations");
  const std::string& name = sheet.headings[arm];
  if (of.x.size() < stats::kFitPoints) {
    return str(name, ": ", of.x.size(), of.x.size() == 1 ? " size has" : " sizes have",
               " losses and operations; an exponent needs ", stats::kFitPoints, '.');
  }
  std::vector<double> means;
  for (const std::vector<double>& losses : of.losses) means.push_back(spread(losses).mean);
  const stats::PowerLaw law = stats::fit_power_law(of.x, means);
  const stats::SeedInterval interval = stats::exponent_interval(of.x, of.losses);
  std::string text =
      str(name, ": loss over operations has exponent ", format_number(law.exponent, 3));
  if (!std::isnan(interval.low))
    text += str(" [", format_number(interval.low, 3), ", ", format_number(interval.high, 3), ']');
  if (law.has_floor) {
    text += str(", of the power law ", format_number(law.floor, 3), " + a C^-b fitted to ",
                of.x.size(), " sizes.");
  } else {
    text += str(", the slope of logarithms at ", of.x.size(), " sizes; a floor needs ",
                stats::kFloorPoints, '.');
  }
  return text;
}

std::string size_words(double parameters, const std::vector<double>& x) {
  if (parameters <= 0.0) return "below " + format_count(x.front());
  if (std::isinf(parameters)) return "above " + format_count(x.back());
  return format_count(parameters);
}

std::string crossing_words(const std::vector<double>& x, const stats::Crossing& found,
                           const std::string& first, const std::string& second) {
  const std::string& lower = found.is_second_below ? second : first;
  const std::string& higher = found.is_second_below ? first : second;
  const bool has_draws = !std::isnan(found.share);
  const std::string share = format_number(100.0 * found.share, 0);
  if (!found.at) {
    return str(first, " and ", second, ": no crossing in this range, ", format_count(x.front()),
               " to ", format_count(x.back()), " parameters of the backbone",
               has_draws ? str("; ", share, " % of resamples have one") : "", '.');
  }
  const bool is_open = found.interval.low <= 0.0 || std::isinf(found.interval.high);
  std::string text = str(higher, is_open ? " crosses " : " overtakes ", lower, " at ",
                         format_count(*found.at), " parameters of the backbone");
  if (has_draws) {
    text += str(" [", size_words(found.interval.low, x), ", ", size_words(found.interval.high, x),
                is_open ? "], not decided: the interval leaves the range; " : "]; ", share,
                " % of resamples have a crossing");
  }
  if (found.count > 1) text += str("; the losses cross ", found.count, " times");
  return text + '.';
}

// Of the sizes that both have.
std::string crossing_note(const Sheet& sheet, std::size_t first, std::size_t second) {
  std::vector<double> x;
  stats::LadderLosses of_first, of_second;
  for (const std::vector<Cell>& row : sheet.rows) {
    const Json& a = row[first].value;
    const Json& b = row[second].value;
    if (!is_usable(a, "parameters") || !is_usable(b, "parameters")) continue;
    x.push_back(a.at("parameters"));
    of_first.push_back(a.at("values").get<std::vector<double>>());
    of_second.push_back(b.at("values").get<std::vector<double>>());
  }
  if (x.size() < 2) return "";
  return crossing_words(x, stats::find_crossing(x, of_first, of_second), sheet.headings[first],
                        sheet.headings[second]);
}

}  // namespace

void add_costs(const Comparison& comparison, std::map<std::string, Cell>& cells) {
  const std::vector<Metric> all = metrics(comparison);
  const Metric* const state = find_metric(all, "state_bytes");
  for (std::size_t i = 0; i < comparison.arms.size(); ++i) {
    const Arm& arm = comparison.arms[i];
    const auto cell = cells.find(arm.name);
    if (cell == cells.end() || cell->second.value.is_null()) continue;
    const auto add = [&](const char* key, double value) {
      if (std::isfinite(value)) cell->second.value[key] = value;
    };
    const auto backbone = static_cast<double>(arm.backbone_parameters);
    const double parameters = backbone + static_cast<double>(arm.memory_parameters);
    const double state_bytes = state == nullptr ? 0.0 : spread(state->values[i]).mean;
    add("parameters", backbone);
    add("operations", arm.training_flops.value_or(std::nan("")) * mean_over(arm, tokens_read_by));
    add("bytes", kBytesOfParameter * parameters + state_bytes);
    add("seconds", mean_over(arm, seconds_of_run));
  }
}

std::vector<std::string> scale_notes(const Sheet& sheet) {
  std::vector<std::string> out;
  for (std::size_t arm = 1; arm < sheet.headings.size(); ++arm)
    out.push_back(exponent_note(sheet, arm));
  for (std::size_t first = 1; first < sheet.headings.size(); ++first) {
    for (std::size_t second = first + 1; second < sheet.headings.size(); ++second) {
      std::string note = crossing_note(sheet, first, second);
      if (!note.empty()) out.push_back(std::move(note));
    }
  }
  return out;
}

}  // namespace mneme::report
