#include "host/report/suite/aggregates.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "host/figure/charts.hpp"
#include "host/stats/aggregates.hpp"

namespace mneme::report {
namespace {

constexpr int kSteps = 100;               // of a profile's threshold, from 0 to 1
constexpr std::size_t kEnoughSeeds = 10;  // docs/statistics.md, "Many tasks"

using ScoredTask = SuiteScores::Task;

// The scores of an arm that has all of them.
struct ScoredArm {
  std::string name;
  stats::TaskScores scores;
};

std::size_t seeds_of_arm(const ScoredTask& task, const std::string& arm) {
  const auto found = task.values.find(arm);
  return found == task.values.end() ? 0 : found->second.size();
}

// Why an arm has no aggregates; "" = it has.
std::string why_left_out(const SuiteScores& all, const std::vector<ScoredTask>& tasks,
                         const std::string& arm, std::size_t seeds) {
  if (all.faulty_arms.contains(arm)) return "its memory is faulty";
  for (const ScoredTask& task : tasks) {
    const std::size_t own = seeds_of_arm(task, arm);
    if (own < seeds) return str("it has ", own, " of ", seeds, " seeds of ", task.name);
  }
  return "";
}

stats::TaskScores normalised_scores(const std::vector<ScoredTask>& tasks, const std::string& arm) {
  stats::TaskScores out;
  for (const ScoredTask& task : tasks) {
    auto& runs = out.emplace_back(task.values.at(arm));
    for (double& one : runs) one = (one - task.chance) / (1.0 - task.chance);
  }
  return out;
}

// "Score: (accuracy - chance) / (1 - chance), chance 0.0625 (copy, needle); the accuracy of text,
// whose chance is not known."
std::string score_note(const std::vector<ScoredTask>& tasks) {
  std::map<double, std::vector<std::string>> names;
  for (const ScoredTask& task : tasks) names[task.chance].push_back(task.name);
  std::vector<std::string> parts;
  for (const auto& [chance, of] : names) {
    if (chance > 0.0) parts.push_back(str(format_number(chance, 4), " (", join(of, ", "), ')'));
  }
  std::string out = "Score: ";
  if (!parts.empty()) out += "(accuracy - chance) / (1 - chance), chance " + join(parts, ", ");
  if (const auto raw = names.find(0.0); raw != names.end()) {
    out += str(parts.empty() ? "" : "; ", "the accuracy of ", join(raw->second, ", "),
               ", whose chance is not known");
  }
  return out + '.';
}

std::vector<std::string> notes_of(const SuiteScores& all, const std::vector<ScoredTask>& tasks,
                                  std::size_t seeds) {
  std::vector<std::string> out = {
      score_note(tasks),
      str("IQM: the mean of the middle half of all scores, of ", tasks.size(), " tasks with ",
          seeds,
          " seeds. Median: over tasks, of the mean over seeds. Optimality gap: the mean of "
          "1 - score, lower is better. In brackets 95 % intervals over other seeds of the same "
          "tasks, by a bootstrap stratified by task",
          seeds < kEnoughSeeds ? "; they are too narrow for so few seeds." : ".")};
  for (const ScoredTask& task : all.tasks) {
    if (!task.is_accuracy) out.push_back(task.name + " is left out: its measure is the loss.");
  }
  for (const std::string& arm : all.arms) {
    if (const std::string why = why_left_out(all, tasks, arm, seeds); !why.empty())
      out.push_back(str(arm, " is left out: ", why, '.'));
  }
  return out;
}

class AggregateTables {
 public:
  explicit AggregateTables(const std::vector<ScoredArm>& arms) : arms_(arms) {
    for (int i = 0; i <= kSteps; ++i) thresholds_.push_back(static_cast<double>(i) / kSteps);
    for (const ScoredArm& arm : arms)
      aggregates_.push_back(stats::aggregate_scores(arm.scores, thresholds_));
  }

  [[nodiscard]] Sheet aggregates(const std::string& baseline) const {
    Sheet sheet{.key = kAggregatesKey, .title = "Aggregates over tasks"};
    sheet.headings = {"aggregate"};
    for (const ScoredArm& arm : arms_) sheet.headings.push_back(arm.name);
    sheet.records.columns = {"arm", "aggregate", "tasks", "seeds", "value", "low", "high"};
    const auto add = [&](const std::string& name, const std::string& key, const auto& of) {
      sheet.rows.push_back({Cell(name)});
      for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
        const std::optional<stats::Aggregate> one = of(arm);
        if (!one) {
          sheet.rows.back().emplace_back("-", nullptr);
          continue;
        }
        sheet.rows.back().emplace_back(
            str(format_number(one->value, 3), " [", format_number(one->low, 3), ", ",
                format_number(one->high, 3), ']'),
            Json{{"value", one->value}, {"low", one->low}, {"high", one->high}});
        const stats::TaskScores& scores = arms_[arm].scores;
        sheet.records.rows.push_back({arms_[arm].name, key, scores.size(), scores.front().size(),
                                      one->value, one->low, one->high});
      }
    };
    const auto member = [&](stats::Aggregate stats::Aggregates::*of) {
      return [this, of](std::size_t arm) { return aggregates_[arm].*of; };
    };
    add("IQM", "iqm", member(&stats::Aggregates::interquartile_mean));
    add("mean", "mean", member(&stats::Aggregates::mean));
    add("median", "median", member(&stats::Aggregates::median));
    add("optimality gap", "optimality_gap", member(&stats::Aggregates::optimality_gap));
    const auto first = std::ranges::find(arms_, baseline, &ScoredArm::name);
    if (first != arms_.end() && arms_.size() > 1) {
      add(str("P(better than ", baseline, ')'), "probability_of_improvement",
          [&](std::size_t arm) -> std::optional<stats::Aggregate> {
            if (arms_[arm].name == baseline) return std::nullopt;
            return stats::probability_of_improvement(arms_[arm].scores, first->scores);
          });
    }
    return sheet;
  }

  [[nodiscard]] Sheet profiles() const {
    Sheet sheet{.key = kProfilesKey, .title = "Performance profiles", .is_for_programs = true};
    sheet.headings = {"arm", "threshold", "share", "low", "high"};
    for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
      for (std::size_t i = 0; i < thresholds_.size(); ++i) {
        const stats::Aggregate& one = aggregates_[arm].profile[i];
        std::vector<Cell>& row = sheet.rows.emplace_back();
        row.emplace_back(arms_[arm].name);
        for (const double number : {thresholds_[i], one.value, one.low, one.high})
          row.emplace_back(format_number(number, 4), number);
      }
    }
    return sheet;
  }

 private:
  const std::vector<ScoredArm>& arms_;
  std::vector<double> thresholds_;
  std::vector<stats::Aggregates> aggregates_;  // [arm]
};

figure::Figure profile_figure(const Sheet& profiles, const std::vector<ScoredArm>& arms) {
  figure::Chart chart{.x = figure::from_zero("threshold", "threshold of the score"),
                      .y = figure::from_zero("share", "share of runs above it"),
                      .colour = {.field = "arm", .names = {}, .legend_width = 330},
                      .tips = {{"arm", "memory"},
                               {"threshold", "threshold", ".2f"},
                               {"share", "share", ".3f"},
                               {"low", "from", ".3f"},
                               {"high", "to", ".3f"}},
                      .low = "low",
                      .high = "high"};
  for (const ScoredArm& arm : arms) chart.colour.names.push_back(arm.name);
  for (const std::vector<Cell>& row : profiles.rows) {
    Json& point = chart.values.emplace_back(Json::object());
    for (std::size_t i = 0; i < row.size(); ++i) point[profiles.headings[i]] = row[i].value;
  }
  const stats::TaskScores& scores = arms.front().scores;
  return {
      .key = profiles.key,
      .section = "suite",
      .title = profiles.title,
      .caption = str("Share of the runs, of ", scores.size(), " tasks with ", scores.front().size(),
                     " seeds, whose score is above the threshold. Bands "
                     "are 95 % intervals over other seeds of the same tasks, at each "
                     "threshold."),
      .spec = figure::lines(chart)};
}

}  // namespace

SuiteAggregates aggregate_suite(const SuiteScores& scores) {
  SuiteAggregates out;
  std::vector<ScoredTask> tasks;
  std::ranges::copy_if(scores.tasks, std::back_inserter(tasks), &ScoredTask::is_accuracy);
  std::size_t seeds = 0;
  for (const ScoredTask& task : tasks) {
    for (const auto& [arm, values] : task.values) seeds = std::max(seeds, values.size());
  }
  std::vector<ScoredArm> arms;
  if (tasks.size() < 2) {
    out.why_none = "they need two tasks with an accuracy";
  } else if (seeds < 2) {
    out.why_none = "they need two seeds";
  } else {
    for (const std::string& arm : scores.arms) {
      if (why_left_out(scores, tasks, arm, seeds).empty())
        arms.push_back({arm, normalised_scores(tasks, arm)});
    }
    if (arms.empty()) out.why_none = str("no memory has ", seeds, " seeds of every task");
  }
  if (!out.why_none.empty()) {
    out.why_none = str("No aggregates over tasks: ", out.why_none, '.');
    return out;
  }
  const AggregateTables tables(arms);
  out.sheets = {tables.aggregates(scores.arms.front()), tables.profiles()};
  out.sheets.front().notes = notes_of(scores, tasks, seeds);
  out.figures.push_back(profile_figure(out.sheets.back(), arms));
  return out;
}

}  // namespace mneme::report
