#include "host/report/pilot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/report/differences/differences.hpp"
#include "host/report/tables/tables.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/trials.hpp"
#include "host/stats/seeds.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::size_t, 6> kSeeds = {2, 3, 5, 8, 12, 20};
constexpr std::array<std::size_t, 3> kUnitFactors = {1, 2, 4};

NoiseFloor noise_of(const Comparison& comparison, const std::string& split) {
  NoiseFloor out;
  double squares = 0.0;
  std::set<fs::path> seen;  // tuned arms may have the runs of their arms
  for (const Arm& arm : comparison.arms) {
    std::vector<double> losses;
    bool is_new = false;
    for (const Run& run : arm.runs) {
      const EvaluationSummary* const found = run.error ? nullptr : run.find(split);
      if (found != nullptr && std::isfinite(found->loss())) losses.push_back(found->loss());
      is_new = seen.insert(run.path).second || is_new;
    }
    const stats::SeedSummary of = stats::summarise_seeds(losses);
    out.seeds.push_back(losses.size());
    out.deviations.push_back(of.deviation);
    if (losses.size() < 2 || !is_new) continue;
    const std::size_t degrees = losses.size() - 1;
    squares += of.deviation * of.deviation * static_cast<double>(degrees);
    out.degrees += degrees;
  }
  out.deviation = std::sqrt(squares / static_cast<double>(out.degrees));
  return out;
}

double bytes_below(const fs::path& folder) {
  std::error_code ignored;
  double bytes = 0.0;
  for (fs::recursive_directory_iterator entry(folder, ignored), end; entry != end;
       entry.increment(ignored)) {
    if (entry->is_regular_file(ignored)) bytes += static_cast<double>(entry->file_size(ignored));
  }
  return bytes;
}

// Of one run; seconds are NaN where its files do not say them.
SeedCost cost_of(const Run& run, const std::string& split) {
  SeedCost out{.seconds = run.training.empty() ? std::nan("") : run.training.back().seconds};
  for (const EvaluationSummary& one : run.evaluations) {
    (one.split == split ? out.split_seconds : out.seconds) += one.result("seconds");
    if (one.split == split)
      out.split_bytes += bytes_below(scores::evaluations_folder(run.path) / one.name);
  }
  out.bytes = bytes_below(run.path) - out.split_bytes;
  return out;
}

// The mean over each arm's runs, summed over the arms. An arm that has the runs of another one
// costs nothing.
SeedCost cost_of(const Comparison& comparison, const std::string& split) {
  SeedCost out;
  std::set<fs::path> seen;
  for (const Arm& arm : comparison.arms) {
    SeedCost sum;
    double runs = 0.0;
    for (const Run& run : arm.runs) {
      if (run.error || run.find(split) == nullptr || !seen.insert(run.path).second) continue;
      const SeedCost one = cost_of(run, split);
      sum.seconds += one.seconds;
      sum.split_seconds += one.split_seconds;
      sum.bytes += one.bytes;
      sum.split_bytes += one.split_bytes;
      runs += 1.0;
    }
    if (runs == 0.0) continue;
    out.seconds += sum.seconds / runs;
    out.split_seconds += sum.split_seconds / runs;
    out.bytes += sum.bytes / runs;
    out.split_bytes += sum.split_bytes / runs;
  }
  return out;
}

std::string known_split(const Comparison& comparison, const std::string& split) {
  if (comparison.arms.size() < 2) {
    throw_usage({.where = "plan",
                 .failed = "there is nothing to compare",
                 .expected = "a pilot of two arms or more",
                 .got = str("one, ", comparison.arms.front().name)});
  }
  if (!has_compared_arms(comparison)) {
    throw_usage({.where = "plan",
                 .failed = "there is nothing to compare",
                 .expected = "a second arm as it is, or a second tuned one",
                 .got = "one of each kind"});
  }
  if (comparison.splits.empty()) {
    throw_usage({.where = "plan",
                 .failed = "no losses are stored",
                 .expected = "evaluations of the pilot's runs",
                 .got = "none",
                 .hint = "run the same `mneme compare` again, or `mneme eval RUN` of each run"});
  }
  if (split.empty()) return comparison.splits.front();
  if (std::ranges::find(comparison.splits, split) == comparison.splits.end()) {
    throw_usage({.where = "--split",
                 .failed = "the pilot has no losses of it",
                 .expected = quoted_list(comparison.splits),
                 .got = str('"', split, '"')});
  }
  return split;
}

PlannedArm plan_arm_of(const Difference& one, const PilotReport& report,
                       const Comparison& comparison) {
  const std::string& name = comparison.arms[one.arm].name;
  try {
    const stats::PilotPlan plan(*one.statistics, {.arms = one.family_size});
    PlannedArm out{.name = name,
                   .baseline = comparison.arms[one.baseline].name,
                   .family = one.family_size,
                   .mean = one.mean,
                   .deviation = stats::summarise_seeds(one.statistics->seed_means).deviation,
                   .variance = plan.components(),
                   .detectable = {},
                   .needed = {}};
    for (const Extent extent : report.extents)
      out.detectable.push_back(plan.detectable(extent.seeds, extent.units));
    if (report.difference > 0.0) {
      for (const std::size_t units : report.units)
        out.needed.push_back(plan.seeds_for(report.difference, units));
    }
    return out;
  } catch (const Error& error) {
    throw error.with_context(name);
  }
}

// --- In words ---

std::string units_words(const PilotReport& report, std::size_t units) {
  std::string text = str(grouped_number(static_cast<double>(units)), ' ', report.unit, "s");
  if (report.block > 0) text += str(" of ", report.block, " targets");
  return text;
}

std::string seeds_words(std::size_t seeds) { return str(seeds, seeds == 1 ? " seed" : " seeds"); }

Cell duration_cell(double seconds) {
  return std::isnan(seconds) ? Cell("-", nullptr) : Cell(format_duration(seconds), seconds);
}

Cell disk_cell(double bytes) {
  return {human_bytes(static_cast<std::uint64_t>(bytes)), static_cast<std::int64_t>(bytes)};
}

// "truly lower than none; with Holm's correction over 2 arms"; with tuned arms "truly lower than its
// baseline, none (2 arms, with Holm's correction over these) or none,tuned (1 arm)".
std::string truth_words(const PilotReport& report) {
  std::vector<std::pair<std::string, std::size_t>> families;
  for (const PlannedArm& arm : report.arms) {
    const std::pair family(arm.baseline, arm.family);
    if (std::ranges::find(families, family) == families.end()) families.push_back(family);
  }
  const char* const holm = "with Holm's correction over ";
  if (families.size() == 1) {
    const auto& [baseline, size] = families.front();
    const std::string correction = size > 1 ? str("; ", holm, size, " arms") : "";
    return str("truly lower than ", baseline, correction);
  }
  std::vector<std::string> parts;
  for (const auto& [baseline, size] : families) {
    parts.push_back(
        str(baseline, " (", size == 1 ? "1 arm" : str(size, " arms, ", holm, "these"), ')'));
  }
  return "truly lower than its baseline, " + join(parts, " or ");
}

// A row an arm and number of seeds, a column a number of units.
Sheet detectable_sheet(const PilotReport& report) {
  Sheet out{.key = "plan-differences",
            .title = "Smallest difference that 80 % of such experiments show",
            .headings = {""}};
  for (const std::size_t units : report.units) out.headings.push_back(units_words(report, units));
  for (const char* const heading : {"time", "disk"}) out.headings.emplace_back(heading);
  for (const PlannedArm& arm : report.arms) {
    for (std::size_t i = 0; i < report.extents.size(); i += report.units.size()) {
      const Extent extent = report.extents[i];
      std::vector<Cell>& row =
          out.rows.emplace_back(std::vector{Cell(arm.name + ": " + seeds_words(extent.seeds))});
      for (std::size_t j = 0; j < report.units.size(); ++j) {
        const double value = arm.detectable[i + j];
        row.emplace_back(positive_text(value), number_or_null(value));
      }
      row.push_back(duration_cell(report.seconds(extent)));
      row.push_back(disk_cell(report.bytes(extent)));
    }
  }
  out.notes.push_back(str(
      "Losses, in nats a token, of an arm that is ", truth_words(report),
      ". 80 % is the mean over pilots like this one, of ", seeds_words(report.seeds),
      ": one of more seeds knows better how trainings differ, and promises smaller differences."));
  out.notes.push_back(str("Time and disk: of all arms, with ",
                          units_words(report, report.units.front()),
                          ", one run after another, as the pilot's runs took: of the time training "
                          "and the stored evaluations",
                          report.is_tuned ? ", without trials" : "",
                          ". Checks, samples, diagnostics and starts of programs come on top."));
  if (report.is_tuned && report.split == scores::kChoiceSplit) {
    out.notes.push_back(str("The values of tuned arms were chosen on ", report.split,
                            ": their differences on test count, of which --split test plans."));
  }
  return out;
}

// The seeds that show the wished difference in every arm; absent where one needs too many.
std::optional<std::size_t> seeds_of_all(const PilotReport& report, std::size_t place) {
  std::size_t most = 0;
  for (const PlannedArm& arm : report.arms) {
    if (!arm.needed[place]) return std::nullopt;
    most = std::max(most, *arm.needed[place]);
  }
  return most;
}

Sheet needed_sheet(const PilotReport& report) {
  Sheet out{.key = "plan-needs",
            .title = str("Seeds that a difference of ", margin_text(report.difference), " needs"),
            .headings = {"", "seeds", "time", "disk"}};
  const auto add = [&](const std::string& name, std::size_t place,
                       std::optional<std::size_t> seeds) {
    const std::size_t units = report.units[place];
    std::vector<Cell>& row =
        out.rows.emplace_back(std::vector{Cell(str(name, ": ", units_words(report, units)))});
    if (!seeds) {
      row.insert(row.end(), {Cell("none", nullptr), Cell("-", nullptr), Cell("-", nullptr)});
      return;
    }
    row.emplace_back(str(*seeds), *seeds);
    row.push_back(duration_cell(report.seconds({*seeds, units})));
    row.push_back(disk_cell(report.bytes({*seeds, units})));
  };
  for (const PlannedArm& arm : report.arms) {
    for (std::size_t i = 0; i < report.units.size(); ++i) add(arm.name, i, arm.needed[i]);
  }
  if (report.arms.size() > 1) {
    for (std::size_t i = 0; i < report.units.size(); ++i)
      add("all arms", i, seeds_of_all(report, i));
  }
  const bool is_one_none = std::ranges::any_of(
      out.rows, [](const std::vector<Cell>& row) { return row[1].value.is_null(); });
  if (!is_one_none) return out;
  out.notes.push_back(str("none: not even ", stats::PilotPlan::kMostSeeds,
                          " seeds show it in 80 % of experiments, because so few ", report.unit,
                          "s leave more open."));
  return out;
}

std::string noise_words(const PilotReport& report) {
  if (report.noise.degrees == 0) return "";
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < report.noise.deviations.size(); ++i) {
    if (std::isnan(report.noise.deviations[i])) continue;
    parts.push_back(str(report.arms_of_noise[i], ' ',
                        positive_text(std::sqrt(2.0) * report.noise.deviations[i])));
  }
  return str("Noise floor: two trainings of one arm whose seeds alone differ have losses on ",
             report.split, " that differ by ", positive_text(report.noise.two_trainings()),
             " nats a token (root mean square, ", report.noise.degrees,
             report.noise.degrees == 1 ? " degree" : " degrees", " of freedom; ", join(parts, ", "),
             ").");
}

// The difference that a pilot saw is none that a comparison shows.
std::string seen_words(const PilotReport& report) {
  std::vector<std::string> parts;
  for (const PlannedArm& arm : report.arms) {
    parts.push_back(str(arm.name, " less ", arm.baseline, ' ', signed_number(arm.mean), " +- ",
                        positive_text(arm.deviation)));
  }
  return str("Seen in the pilot: ", join(parts, ", "), " nats a token on ", report.split,
             " (mean +- standard deviation over the seeds). This describes the pilot and is no "
             "result.");
}

Json json_of(const PilotReport& report, const PlannedArm& arm) {
  Json detectable = Json::array();
  for (std::size_t i = 0; i < report.extents.size(); ++i) {
    const Extent extent = report.extents[i];
    detectable.push_back({{"seeds", extent.seeds},
                          {"units", extent.units},
                          {"difference", number_or_null(arm.detectable[i])},
                          {"seconds", number_or_null(report.seconds(extent))},
                          {"bytes", number_or_null(report.bytes(extent))}});
  }
  Json needed = Json::array();
  for (std::size_t i = 0; i < arm.needed.size(); ++i) {
    const std::size_t units = report.units[i];
    const std::optional<std::size_t> seeds = arm.needed[i];
    needed.push_back({{"units", units},
                      {"seeds", seeds ? Json(*seeds) : Json()},
                      {"seconds", seeds ? number_or_null(report.seconds({*seeds, units})) : Json()},
                      {"bytes", seeds ? number_or_null(report.bytes({*seeds, units})) : Json()}});
  }
  return {{"name", arm.name},
          {"baseline", arm.baseline},
          {"family", arm.family},
          {"pilot_difference",
           {{"mean", number_or_null(arm.mean)}, {"deviation", number_or_null(arm.deviation)}}},
          {"variance",
           {{"seeds", arm.variance.seeds},
            {"units", arm.variance.units},
            {"noise", arm.variance.noise}}},
          {"detectable", std::move(detectable)},
          {"needed", std::move(needed)}};
}

}  // namespace

double NoiseFloor::two_trainings() const { return std::sqrt(2.0) * deviation; }

double PilotReport::seconds(Extent extent) const {
  const double growth = static_cast<double>(extent.units) / static_cast<double>(units.front());
  return static_cast<double>(extent.seeds) * (cost.seconds + growth * cost.split_seconds);
}

double PilotReport::bytes(Extent extent) const {
  const double growth = static_cast<double>(extent.units) / static_cast<double>(units.front());
  return static_cast<double>(extent.seeds) * (cost.bytes + growth * cost.split_bytes);
}

PilotReport read_pilot(const Comparison& comparison, const std::string& split, double difference) {
  if (comparison.looks) {  // a plan asks for its variances, not for what its looks may claim
    Comparison fixed = comparison;
    fixed.looks.reset();
    return read_pilot(fixed, split, difference);
  }
  PilotReport out{.split = known_split(comparison, split),
                  .baseline = comparison.arms.front().name,
                  .difference = difference};
  std::vector<const Difference*> compared;
  const std::vector<Difference> all = differences(comparison);
  for (const Difference& one : all) {
    if (one.split != out.split || one.measure != Measure::kLoss) continue;
    const std::string& name = comparison.arms[one.arm].name;
    if (one.statistics && one.verdict != Verdict::kFaulty) {
      compared.push_back(&one);
    } else {
      out.left_out.push_back(
          str(name, " is left out: ", one.faults.empty() ? one.reason() : one.faults, '.'));
    }
  }
  if (compared.empty()) {
    throw_run({.where = "plan",
               .failed = "no arm can be compared",
               .expected = str("losses on ", out.split, " of two arms and the same seeds"),
               .got = join(out.left_out, " ")});
  }
  out.unit = compared.front()->unit;
  out.block = static_cast<std::size_t>(compared.front()->block);
  out.seeds = compared.front()->seeds.size();
  std::size_t units = compared.front()->statistics->units;
  for (const Difference* const one : compared) {
    out.seeds = std::min(out.seeds, one->seeds.size());
    units = std::min(units, one->statistics->units);
  }
  for (const std::size_t factor : kUnitFactors) out.units.push_back(factor * units);
  for (const std::size_t seeds : kSeeds) {
    for (const std::size_t number : out.units) out.extents.push_back({seeds, number});
  }
  out.is_tuned =
      std::ranges::any_of(comparison.arms, [](const Arm& arm) { return !arm.variant_of.empty(); });
  out.next_seed = comparison.seeds.empty() ? 1 : comparison.seeds.back() + 1;
  out.noise = noise_of(comparison, out.split);
  for (const Arm& arm : comparison.arms) out.arms_of_noise.push_back(arm.name);
  out.cost = cost_of(comparison, out.split);
  for (const Difference* const one : compared)
    out.arms.push_back(plan_arm_of(*one, out, comparison));
  return out;
}

std::string PilotReport::text(std::size_t width) const {
  std::string out = wrapped_line(str("Pilot: ", seeds_words(seeds), ", ",
                                     units_words(*this, units.front()), " of ", split, "."),
                                 width);
  for (const std::string& line : left_out) out += wrapped_line(line, width);
  out += wrapped_line(seen_words(*this), width);
  if (const std::string noise_line = noise_words(*this); !noise_line.empty())
    out += wrapped_line(noise_line, width);
  std::vector<Sheet> tables{detectable_sheet(*this)};
  if (difference > 0.0) tables.push_back(needed_sheet(*this));
  out += '\n' + write_sheets(tables, Format::kText, width) + '\n';
  return out + wrapped_line(
                   str("Train seeds that the pilot does not have, --set train.seed=", next_seed,
                       ": where the pilot decides how many seeds there are and its own are among "
                       "them, identical arms are called different too often."),
                   width);
}

Json PilotReport::json() const {
  Json planned = Json::array();
  for (const PlannedArm& arm : arms) planned.push_back(json_of(*this, arm));
  Json noise_of_arms = Json::array();
  for (std::size_t i = 0; i < noise.deviations.size(); ++i) {
    noise_of_arms.push_back({{"name", arms_of_noise[i]},
                             {"seeds", noise.seeds[i]},
                             {"deviation", number_or_null(noise.deviations[i])}});
  }
  return {{"format", "mneme-plan"},
          {"version", 1},
          {"split", split},
          {"baseline", baseline},
          {"pilot", {{"seeds", seeds}, {"unit", unit}, {"units", units.front()}, {"block", block}}},
          {"next_seed", next_seed},
          {"noise_floor",
           {{"deviation", number_or_null(noise.deviation)},
            {"two_trainings", number_or_null(noise.two_trainings())},
            {"degrees", noise.degrees},
            {"arms", std::move(noise_of_arms)}}},
          {"seed_cost",
           {{"seconds", number_or_null(seconds({1, units.front()}))},
            {"bytes", number_or_null(bytes({1, units.front()}))}}},
          {"difference", difference > 0.0 ? Json(difference) : Json()},
          {"arms", std::move(planned)},
          {"left_out", left_out}};
}

}  // namespace mneme::report
