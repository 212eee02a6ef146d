#include "host/report/comparison/summarize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <regex>
#include <set>
#include <tuple>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/config/toml/toml.hpp"
#include "host/scores/generated.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPlaces = 64;  // buckets of a long segment
// Of fewer units intervals and p are rough, and below 6 no sign flips reach p = 0.05: blocks of the
// lanes say more (docs/statistics.md, "Blocks of a stream").
constexpr std::size_t kFewestDocuments = 10;
constexpr std::size_t kMaxAnswers = 5;        // sequences that are shown
constexpr std::size_t kMaxAnswerTokens = 32;  // of each

struct Columns {
  std::vector<double> nll;
  std::vector<std::uint8_t> correct;
};

std::vector<Bucket> by_place(const scores::StoredEvaluation& stored, const Columns& columns) {
  const std::vector<std::int32_t> place = stored.column(scores::Column::kPlace);
  const std::int32_t last = *std::ranges::max_element(place);
  const auto width = static_cast<std::int64_t>(static_cast<std::size_t>(last) / kMaxPlaces + 1);
  scores::BucketSums sums;
  for (std::size_t i = 0; i < place.size(); ++i) {
    sums.add(static_cast<std::size_t>(place[i] / width), columns.nll[i], columns.correct[i] != 0);
  }
  return sums.list([&](std::size_t i) {
    const std::int64_t from = static_cast<std::int64_t>(i) * width;
    return scores::Range(from, std::min<std::int64_t>(from + width - 1, last));
  });
}

std::vector<Bucket> by_distance(const scores::StoredEvaluation& stored, const Columns& columns) {
  const std::vector<std::int32_t> distance = stored.column(scores::Column::kDistance);
  scores::BucketSums sums;
  for (std::size_t i = 0; i < distance.size(); ++i) {
    if (distance[i] < 1) continue;  // unknown, or the document's first
    sums.add(scores::power_of_two_bucket(distance[i]), columns.nll[i], columns.correct[i] != 0);
  }
  return sums.list(scores::power_of_two_range);
}

std::vector<Bucket> by_frequency(const scores::StoredEvaluation& stored, const Columns& columns) {
  const std::vector<std::int64_t> counts = stored.vocabulary_counts();
  if (counts.empty()) return {};
  const std::vector<std::int32_t> target = stored.column(scores::Column::kTarget);
  scores::BucketSums sums;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto id = static_cast<std::size_t>(target[i]);
    const std::int64_t count = id < counts.size() ? counts[id] : 0;
    sums.add(count < 1 ? 0 : 1 + scores::power_of_ten_bucket(count), columns.nll[i],
             columns.correct[i] != 0);
  }
  std::vector<Bucket> out = sums.list([](std::size_t i) {
    return i == 0 ? scores::Range(0, 0) : scores::power_of_ten_range(i - 1);
  });
  if (!out.empty() && out.front().from == 0) out.front().name = "unseen";
  return out;
}

std::map<std::string, scores::Sums> by_source(const scores::StoredEvaluation& stored,
                                              const Columns& columns) {
  constexpr std::array kNames = {"none", "inside", "outside"};
  const std::vector<std::uint8_t> source = stored.source();
  std::map<std::string, scores::Sums> out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    out[kNames.at(source[i])].add(columns.nll[i], columns.correct[i] != 0);
  }
  return out;
}

// Error (kRun) for groups that no needle has: figures and tables by depth would be wrong.
void check_depth(const fs::path& folder, const std::map<std::string, std::string>& groups) {
  const auto depth = groups.find("depth");
  if (depth == groups.end()) return;
  static const std::regex kTenth("0\\.[0-9]-(0\\.[1-9]|1\\.0)"), kLength("[1-9][0-9]{0,8}");
  const auto length = groups.find("length");
  const bool is_right = std::regex_match(depth->second, kTenth) && length != groups.end() &&
                        std::regex_match(length->second, kLength);
  if (is_right) return;
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
    check_depth(stored.folder(), groups);
    out.push_back({.groups = groups, .sums = bucket});
  }
  return out;
}

// The losses of every lane in the order in which it was read; lanes in the order of samples_by().
std::vector<LaneLosses> by_lane(const scores::StoredEvaluation& stored, const Columns& columns) {
  const std::vector<std::int32_t> segment = stored.column(scores::Column::kSegment);
  const std::vector<std::int32_t> place = stored.column(scores::Column::kPlace);
  const std::vector<std::int32_t> sample = stored.sample_of_target(scores::SampleUnit::kLane);
  std::vector<std::size_t> order(segment.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {},
                    [&](std::size_t i) { return std::tuple(sample[i], segment[i], place[i]); });
  std::vector<LaneLosses> lanes;
  for (const std::size_t i : order) {
    const auto index = static_cast<std::size_t>(sample[i]);
    if (lanes.size() <= index) lanes.resize(index + 1);
    LaneLosses& lane = lanes[index];
    lane.nll.push_back(columns.nll[i]);
    lane.correct.push_back(columns.correct[i]);
  }
  return lanes;
}

// What was predicted in place of the last targets of the first samples.
std::vector<Shown> answers_of(const scores::StoredEvaluation& stored) {
  const std::vector<std::int32_t> predicted = stored.predicted();
  if (predicted.empty()) return {};
  const std::vector<std::int32_t> target = stored.column(scores::Column::kTarget);
  const std::vector<std::int32_t> sample = stored.sample_of_target();
  const std::size_t count = std::min(kMaxAnswers, stored.samples().size());
  std::vector<Shown> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i].id = stored.samples()[i].id;
    out[i].is_answer = true;
  }
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto of = static_cast<std::size_t>(sample[i]);
    if (of >= count) continue;
    out[of].expected.push_back(target[i]);
    out[of].made.push_back(predicted[i]);
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

Evaluation summarize(const scores::StoredEvaluation& stored) {
  const Columns columns{.nll = stored.nll(), .correct = stored.correct()};
  Evaluation out{.name = stored.folder().filename().string(),
                 .split = stored.split(),
                 .unit = stored.unit(),
                 .step = stored.step(),
                 .record = stored.info()};
  const bool has_few_documents =
      stored.unit() == "document" && stored.samples().size() < kFewestDocuments;
  const bool has_lanes = has_few_documents || stored.sample_unit() == scores::SampleUnit::kLane;
  if (has_lanes) out.unit = "lane";
  for (const scores::Sample& sample :
       has_few_documents ? stored.samples_by(scores::SampleUnit::kLane) : stored.samples()) {
    out.samples.push_back({.id = sample.id, .sha256 = sample.sha256, .sums = sample.sums});
  }
  for (std::size_t i = 0; i < columns.nll.size(); ++i) {
    out.total.add(columns.nll[i], columns.correct[i] != 0);
  }
  out.slices = by_source(stored, columns);
  out.place = by_place(stored, columns);
  out.distance = by_distance(stored, columns);
  // How often a byte occurs says nothing of how rare a word is.
  if (out.token_unit() != "byte") out.frequency = by_frequency(stored, columns);
  if (has_lanes) out.lanes = by_lane(stored, columns);
  out.groups = by_groups(stored);
  out.shown = answers_of(stored);
  return out;
}

}  // namespace mneme::report
