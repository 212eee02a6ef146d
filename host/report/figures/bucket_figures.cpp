// Loss by place in the segment, distance into the document and word frequency.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "host/report/figures/figure.hpp"

namespace mneme::report {
namespace {

struct Grouping {
  std::vector<Bucket> EvaluationSummary::*buckets;
  const char* key;
  const char* words;  // "by place in the segment"
  const char* axis;
  bool is_continuous;  // an axis of numbers, not of named groups
};

constexpr Grouping kGroupings[] = {
    {&EvaluationSummary::place, "place", "by place in the segment", "place in the segment, tokens",
     true},
    {&EvaluationSummary::distance, "distance", "by distance into the document",
     "distance into the document, tokens", false},
    {&EvaluationSummary::frequency, "frequency", "by frequency of the token",
     "occurrences in the training data", false},
};

// Numbers of one bucket by seed.
struct Group {
  std::map<std::uint64_t, double> loss;
  std::int64_t targets = 0;  // of all seeds
};
// By Bucket::from and name: equal places of longer segments may be in other buckets.
using Groups = std::map<std::pair<std::int64_t, std::string>, Group>;

bool has_equal_buckets(const std::vector<Bucket>& a, const std::vector<Bucket>& b) {
  return std::ranges::equal(a, b, [](const Bucket& x, const Bucket& y) {
    return x.name == y.name && x.sums.targets == y.sums.targets;
  });
}

// With `baseline` only the seeds of which both arms put the same targets into the same buckets.
Groups groups_of(const Arm& arm, const std::string& split, const Grouping& grouping,
                 const Arm* baseline = nullptr) {
  Groups out;
  for (const Run& run : arm.runs) {
    const EvaluationSummary* const found = run.error ? nullptr : run.find(split);
    if (found == nullptr) continue;
    const std::vector<Bucket>& buckets = found->*grouping.buckets;
    if (baseline != nullptr) {
      const Run* const first = baseline->find(run.seed);
      const EvaluationSummary* const of = first == nullptr ? nullptr : first->find(split);
      if (of == nullptr || !has_equal_targets(*of, *found) ||
          !has_equal_buckets(of->*grouping.buckets, buckets)) {
        continue;
      }
    }
    for (const Bucket& bucket : buckets) {
      Group& group = out[{bucket.from, bucket.name}];
      group.loss[run.seed] = bucket.sums.loss();
      group.targets += bucket.sums.targets;
    }
  }
  return out;
}

// The group's losses, less those of `baseline` seed by seed when there is one.
std::vector<double> numbers_of(const Group& group, const Group* baseline) {
  std::vector<double> out;
  for (const auto& [seed, loss] : group.loss) {
    if (baseline == nullptr) {
      out.push_back(loss);
    } else if (const auto found = baseline->loss.find(seed); found != baseline->loss.end()) {
      out.push_back(loss - found->second);
    }
  }
  return out;
}

// Targets of one seed.
std::int64_t targets_of(const Group& group) { return group.targets / std::ssize(group.loss); }

// Groups with fewer targets of a seed are noise that would set the axis: fewer than 1 % of all, and
// fewer than a hundred.
std::int64_t fewest_targets(const Groups& groups) {
  constexpr std::int64_t kEnough = 100;
  std::int64_t all = 0;
  for (const auto& [key, group] : groups) all += targets_of(group);
  return std::min(kEnough, all / 100);
}

// The groups of the first arm that are shown, and in words those that are left out; counts are
// those of one seed.
struct ShownGroups {
  std::map<Groups::key_type, std::int64_t> targets = {};
  std::string left_out = {};
};

ShownGroups shown_groups(const Comparison& comparison, const std::string& split,
                         const Grouping& grouping) {
  // An arm that failed has no groups; all arms read the same targets.
  Groups groups;
  for (const Arm& arm : comparison.arms) {
    if (groups.empty()) groups = groups_of(arm, split, grouping);
  }
  ShownGroups out;
  std::vector<std::string> few;
  const std::int64_t fewest = fewest_targets(groups);
  for (const auto& [key, group] : groups) {
    const std::int64_t count = targets_of(group);
    if (count < fewest) {
      few.push_back(str(key.second, " (", count, ')'));
    } else {
      out.targets.emplace(key, count);
    }
  }
  if (!few.empty()) out.left_out = " Left out, with too few targets: " + join(few, ", ") + '.';
  return out;
}

// Points of all arms; with `is_difference` of those that have a baseline, less its own.
Json points_of(const Comparison& comparison, const std::string& split, const Grouping& grouping,
               const ShownGroups& shown, bool is_difference) {
  Json values = Json::array();
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    const std::optional<std::size_t> of =
        is_difference ? baseline_of(comparison, arm) : std::nullopt;
    if (is_difference && !of) continue;
    const Arm* const baseline = of ? &comparison.arms[*of] : nullptr;
    const Groups first = of ? groups_of(*baseline, split, grouping) : Groups{};
    for (const auto& [key, group] : groups_of(comparison.arms[arm], split, grouping, baseline)) {
      const auto& [from, name] = key;
      const auto known = shown.targets.find(key);
      if (known == shown.targets.end()) continue;
      const auto of_baseline = first.find(key);
      if (is_difference && of_baseline == first.end()) continue;
      const auto band = band_of(numbers_of(group, is_difference ? &of_baseline->second : nullptr));
      if (!band) continue;
      Json point = {{"arm", comparison.arms[arm].name},
                    {"group", name},
                    {"from", from},
                    {"mean", band->mean},
                    {"low", band->low},
                    {"high", band->high},
                    {"targets", group.targets}};
      // Names of groups have their number of targets behind them.
      point["x"] =
          grouping.is_continuous
              ? Json(from)
              : Json(str(name, " (", grouped_number(static_cast<double>(known->second)), ')'));
      values.push_back(std::move(point));
    }
  }
  return values;
}

Json spec_of(const Comparison& comparison, Json values, const Grouping& grouping,
             const std::string& what) {
  Json x = axis_channel({.field = "x", .title = grouping.axis});
  if (!grouping.is_continuous) {
    x = {{"field", "x"},
         {"type", "ordinal"},
         {"title", grouping.axis},
         {"sort", {{"field", "from"}, {"op", "min"}}},
         {"scale", {{"padding", 0.3}}},
         {"axis", {{"labelAngle", -35}, {"labelOverlap", false}, {"grid", true}}}};
    // A sort by a field is computed once for all layers only from equal data.
    std::vector<std::pair<std::int64_t, std::string>> order;
    for (const Json& value : values) order.emplace_back(value["from"], value["x"]);
    std::ranges::sort(order);
    order.erase(std::unique(order.begin(), order.end()), order.end());
    x["sort"] = Json::array();
    for (const auto& [from, name] : order) x["sort"].push_back(name);
  }
  const Json tooltip =
      Json::array({tip("arm", "arm"), tip("group", grouping.axis), tip("mean", what, ".4f"),
                   tip("low", "lowest seed", ".4f"), tip("high", "highest seed", ".4f"),
                   tip("targets", "targets of all seeds", ",d")});
  Json layers = line_layers(comparison, std::move(x),
                            axis_channel({.field = "mean", .title = what}), true, tooltip);
  return layered(std::move(values), std::move(layers), 300);
}

// A dashed line at 0, below the others.
void add_zero(Json& spec) {
  spec["layer"].insert(
      spec["layer"].begin(),
      Json{{"mark", {{"type", "rule"}, {"color", "#8c8c8c"}, {"strokeDash", {4, 3}}}},
           {"encoding", {{"y", {{"datum", 0}}}}}});
}

void add_grouping(const Comparison& comparison, const std::string& split, const Grouping& grouping,
                  std::vector<Figure>& out) {
  const ShownGroups shown = shown_groups(comparison, split, grouping);
  Json values = points_of(comparison, split, grouping, shown, false);
  const bool has_groups = std::ranges::any_of(
      values, [&](const Json& value) { return value["from"] != values.front()["from"]; });
  if (!has_groups) return;
  const std::string counts = grouping.is_continuous ? "" : " In brackets: targets of a seed.";
  out.push_back({.key = str(grouping.key, '-', split),
                 .section = "position",
                 .title = str("Loss on ", split, ' ', grouping.words),
                 .caption = band_words(comparison) + counts + shown.left_out,
                 .spec = spec_of(comparison, std::move(values), grouping, "loss, nats a token")});
  Json differences = points_of(comparison, split, grouping, shown, true);
  if (differences.empty()) return;
  Json spec = spec_of(comparison, std::move(differences), grouping, "difference in loss, nats");
  add_zero(spec);
  out.push_back({.key = str(grouping.key, '-', split, "-difference"),
                 .section = "position",
                 .title = str("Difference to ", baseline_words(comparison), " on ", split, ' ',
                              grouping.words),
                 .caption = "Below the dashed line the loss is lower. " + band_words(comparison) +
                            counts + shown.left_out,
                 .spec = std::move(spec)});
}

}  // namespace

void add_bucket_figures(const Comparison& comparison, std::vector<Figure>& out) {
  for (const std::string& split : comparison.splits) {
    for (const Grouping& grouping : kGroupings) add_grouping(comparison, split, grouping, out);
  }
}

}  // namespace mneme::report
