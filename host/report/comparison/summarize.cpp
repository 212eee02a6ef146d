#include "host/report/comparison/summarize.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "host/base/error.hpp"
#include "host/report/comparison/depths.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPlaces = 64;        // buckets of a long segment
constexpr std::size_t kMaxAnswers = 5;        // sequences that are shown
constexpr std::size_t kMaxAnswerTokens = 32;  // of each

using scores::Columns;

// Sums of the targets by bucket_of(i), the targets' values as it needs them.
template <typename BucketOf>
scores::BucketSums sums_by(const Columns& columns, BucketOf bucket_of) {
  scores::BucketSums sums;
  for (std::size_t i = 0; i < columns.target.size(); ++i) {
    const std::optional<std::size_t> bucket = bucket_of(i);
    if (bucket) sums.add(*bucket, columns.nll(i), columns.correct[i] != 0);
  }
  return sums;
}

std::vector<Bucket> by_place(const Columns& columns) {
  const std::int32_t last = *std::ranges::max_element(columns.place);
  const auto width = static_cast<std::int64_t>(static_cast<std::size_t>(last) / kMaxPlaces + 1);
  const auto bucket_of = [&](std::size_t i) -> std::size_t {
    return static_cast<std::size_t>(columns.place[i] / width);
  };
  return sums_by(columns, bucket_of).list([&](std::size_t i) {
    const std::int64_t from = static_cast<std::int64_t>(i) * width;
    return scores::Range(from, std::min<std::int64_t>(from + width - 1, last));
  });
}

std::vector<Bucket> by_distance(const Columns& columns) {
  const auto bucket_of = [&](std::size_t i) -> std::optional<std::size_t> {
    if (columns.distance[i] < 1) return std::nullopt;  // unknown, or the document's first
    return scores::power_of_two_bucket(columns.distance[i]);
  };
  return sums_by(columns, bucket_of).list(scores::power_of_two_range);
}

std::vector<Bucket> by_frequency(const scores::StoredEvaluation& stored, const Columns& columns) {
  const std::vector<std::int64_t> counts = stored.vocabulary_counts();
  if (counts.empty()) return {};
  const auto bucket_of = [&](std::size_t i) {
    const auto id = static_cast<std::size_t>(columns.target[i]);
    return scores::frequency_bucket(id < counts.size() ? counts[id] : 0);
  };
  return sums_by(columns, bucket_of).list_frequencies();
}

std::map<std::string, scores::Sums> by_source(const Columns& columns) {
  std::map<std::string, scores::Sums> out;
  for (std::size_t i = 0; i < columns.source.size(); ++i) {
    out[scores::kSourceNames.at(columns.source[i])].add(columns.nll(i), columns.correct[i] != 0);
  }
  return out;
}

// Error (kRun) for groups that no needle has: figures and tables by depth would be wrong.
void check_depth(const fs::path& folder, const std::map<std::string, std::string>& groups) {
  const auto depth = groups.find("depth");
  if (depth == groups.end() || has_depth(groups)) return;
  const auto length = groups.find("length");
  throw_run({.where = (folder / "samples.jsonl").string(),
             .failed = "a sample's groups are no depth and length of a needle",
             .expected = "a depth such as 0.2-0.3, and a length",
             .got = str(depth->second, " and ", length == groups.end() ? "none" : length->second),
             .hint = "evaluate the run again: mneme eval RUN"});
}

std::vector<GroupSums> by_groups(const scores::StoredEvaluation& stored) {
  std::map<std::map<std::string, std::string>, scores::Sums> sums;
  for (const scores::Sample& sample : stored.samples()) {
    if (sample.groups.empty()) continue;
    sums[sample.groups].add(sample.sums);
  }
  std::vector<GroupSums> out;
  for (const auto& [groups, bucket] : sums) {
    // Questions have the groups that their file gives them.
    if (stored.sample_unit() != scores::SampleUnit::kQuestion) check_depth(stored.folder(), groups);
    out.push_back({.groups = groups, .sums = bucket});
  }
  return out;
}

// The losses of every lane in the order in which it was read; lanes in the order of their samples.
std::vector<LaneLosses> by_lane(const Columns& columns) {
  const std::vector<std::int32_t> sample =
      scores::samples_of_targets(columns, scores::SampleUnit::kLane);
  std::vector<std::size_t> order(sample.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::tuple(sample[i], columns.segment[i], columns.place[i]);
  });
  std::vector<LaneLosses> lanes;
  for (const std::size_t i : order) {
    const auto index = static_cast<std::size_t>(sample[i]);
    if (lanes.size() <= index) lanes.resize(index + 1);
    LaneLosses& lane = lanes[index];
    lane.nll.push_back(columns.nll(i));
    lane.correct.push_back(columns.correct[i]);
  }
  return lanes;
}

// What was predicted in place of the last targets of the first samples.
std::vector<Shown> answers_of(const scores::StoredEvaluation& stored, const Columns& columns) {
  if (columns.predicted.empty()) return {};
  const std::vector<std::int32_t> sample =
      scores::samples_of_targets(columns, stored.sample_unit());
  const std::size_t count = std::min(kMaxAnswers, stored.samples().size());
  std::vector<Shown> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i].id = stored.samples()[i].id;
    out[i].is_answer = true;
  }
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const auto of = static_cast<std::size_t>(sample[i]);
    if (of >= count) continue;
    out[of].expected.push_back(columns.target[i]);
    out[of].made.push_back(columns.predicted[i]);
  }
  for (Shown& one : out) {
    if (one.expected.size() <= kMaxAnswerTokens) continue;
    const auto extra = static_cast<std::ptrdiff_t>(one.expected.size() - kMaxAnswerTokens);
    one.expected.erase(one.expected.begin(), one.expected.begin() + extra);
    one.made.erase(one.made.begin(), one.made.begin() + extra);
    one.left_out = extra;
  }
  return out;
}

}  // namespace

EvaluationSummary summarize(const scores::StoredEvaluation& stored) {
  const Columns columns = stored.columns();
  EvaluationSummary out{.name = stored.folder().filename().string(),
                        .split = stored.split(),
                        .unit = stored.unit(),
                        .step = stored.step(),
                        .record = stored.info(),
                        .samples = scores::by_unit(stored.samples())};
  const bool has_few_documents =
      stored.unit() == "document" && stored.samples().size() < scores::kFewestDocuments;
  const bool has_lanes = has_few_documents || stored.sample_unit() == scores::SampleUnit::kLane;
  if (has_lanes) {
    out.unit = "lane";
    out.samples =
        scores::make_samples(columns, scores::SampleUnit::kLane, stored.split(), stored.seed());
    out.lanes = by_lane(columns);
  }
  for (std::size_t i = 0; i < columns.target.size(); ++i) {
    out.total.add(columns.nll(i), columns.correct[i] != 0);
  }
  for (const Sample& sample : out.samples) out.total.questions += sample.sums.questions;
  out.slices = by_source(columns);
  out.place = by_place(columns);
  out.distance = by_distance(columns);
  // How often a byte occurs says nothing of how rare a word is.
  if (out.token_unit() != "byte") out.frequency = by_frequency(stored, columns);
  out.groups = by_groups(stored);
  out.shown = answers_of(stored, columns);
  return out;
}

}  // namespace mneme::report
