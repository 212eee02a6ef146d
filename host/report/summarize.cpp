#include "host/report/summarize.hpp"

#include <algorithm>
#include <array>
#include <bit>
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

constexpr std::size_t kMostPlaces = 64;  // buckets of a long segment
// Of fewer units intervals and p are rough, and below 6 no sign flips reach p = 0.05: blocks of the
// lanes say more (docs/statistics.md, "Blocks of a stream").
constexpr std::size_t kFewestDocuments = 10;
constexpr std::size_t kMostAnswers = 5;        // sequences that are shown
constexpr std::size_t kMostAnswerTokens = 32;  // of each

// Sums by bucket, which grow as targets come.
class BucketSums {
 public:
  void add(std::size_t index, double nll, bool is_correct) {
    if (sums_.size() <= index) sums_.resize(index + 1);
    Bucket& bucket = sums_[index];
    ++bucket.targets;
    bucket.nll += nll;
    bucket.correct += is_correct ? 1 : 0;
  }

  // Those that hold a target; range(i) gives the smallest and largest value of bucket i.
  template <typename Range>
  [[nodiscard]] std::vector<Bucket> list(Range range) const {
    std::vector<Bucket> out;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i].targets == 0) continue;
      const auto [from, to] = range(i);
      Bucket bucket = sums_[i];
      bucket.from = from;
      bucket.name = from == to ? str(from) : str(from, "-", to);
      out.push_back(std::move(bucket));
    }
    return out;
  }

 private:
  std::vector<Bucket> sums_;
};

using Range = std::pair<std::int64_t, std::int64_t>;

std::int64_t power_of_ten(std::size_t exponent) {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < exponent; ++i) out *= 10;
  return out;
}

// 0 for an id that never occurs, else one more than the number of its count's digits less one.
std::size_t digits_of(std::int64_t count) {
  std::size_t digits = 0;
  for (; count > 0; count /= 10) ++digits;
  return digits;
}

struct Columns {
  std::vector<double> nll;
  std::vector<std::uint8_t> correct;
};

std::vector<Bucket> by_place(const scores::StoredEvaluation& stored, const Columns& columns) {
  const std::vector<std::int32_t> place = stored.column(scores::Column::kPlace);
  const std::int32_t last = *std::ranges::max_element(place);
  const auto width = static_cast<std::int64_t>(static_cast<std::size_t>(last) / kMostPlaces + 1);
  BucketSums sums;
  for (std::size_t i = 0; i < place.size(); ++i) {
    sums.add(static_cast<std::size_t>(place[i] / width), columns.nll[i], columns.correct[i] != 0);
  }
  return sums.list([&](std::size_t i) {
    const std::int64_t from = static_cast<std::int64_t>(i) * width;
    return Range(from, std::min<std::int64_t>(from + width - 1, last));
  });
}

std::vector<Bucket> by_distance(const scores::StoredEvaluation& stored, const Columns& columns) {
  const std::vector<std::int32_t> position = stored.column(scores::Column::kPosition);
  BucketSums sums;
  for (std::size_t i = 0; i < position.size(); ++i) {
    if (position[i] < 1) continue;  // unknown, or the document's first
    const auto bits = std::bit_width(static_cast<std::uint32_t>(position[i]));
    sums.add(static_cast<std::size_t>(bits - 1), columns.nll[i], columns.correct[i] != 0);
  }
  return sums.list([](std::size_t i) {
    const std::int64_t from = std::int64_t{1} << i;
    return Range(from, 2 * from - 1);
  });
}

std::vector<Bucket> by_frequency(const scores::StoredEvaluation& stored, const Columns& columns) {
  const std::vector<std::int64_t> counts = stored.vocabulary_counts();
  if (counts.empty()) return {};
  const std::vector<std::int32_t> target = stored.column(scores::Column::kTarget);
  BucketSums sums;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto id = static_cast<std::size_t>(target[i]);
    sums.add(digits_of(id < counts.size() ? counts[id] : 0), columns.nll[i],
             columns.correct[i] != 0);
  }
  std::vector<Bucket> out = sums.list([](std::size_t i) {
    return i == 0 ? Range(0, 0) : Range(power_of_ten(i - 1), power_of_ten(i) - 1);
  });
  if (!out.empty() && out.front().from == 0) out.front().name = "unseen";
  return out;
}

std::map<std::string, Bucket> by_source(const scores::StoredEvaluation& stored,
                                        const Columns& columns) {
  constexpr std::array kNames = {"none", "inside", "outside"};
  const std::vector<std::uint8_t> source = stored.source();
  std::map<std::string, Bucket> out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    Bucket& bucket = out[kNames.at(source[i])];
    ++bucket.targets;
    bucket.nll += columns.nll[i];
    bucket.correct += columns.correct[i] != 0 ? 1 : 0;
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
  std::map<std::map<std::string, std::string>, Bucket> sums;
  for (const scores::Sample& sample : stored.samples()) {
    if (sample.groups.empty()) continue;
    Bucket& bucket = sums[sample.groups];
    bucket.targets += sample.sums.targets;
    bucket.nll += sample.sums.nll;
    bucket.correct += sample.sums.correct;
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
  const std::size_t count = std::min(kMostAnswers, stored.samples().size());
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
    if (one.expected.size() <= kMostAnswerTokens) continue;
    const auto extra = static_cast<std::ptrdiff_t>(one.expected.size() - kMostAnswerTokens);
    one.expected.erase(one.expected.begin(), one.expected.begin() + extra);
    one.made.erase(one.made.begin(), one.made.begin() + extra);
    one.left_out = extra;
  }
  return out;
}

// The texts that a run generated with the weights of an evaluation.
std::vector<Shown> continuations_of(const scores::Generated& stored) {
  std::vector<Shown> out;
  for (const scores::GeneratedSample& sample : stored.samples) {
    out.push_back({.id = sample.id,
                   .prompt = sample.prompt,
                   .expected = sample.expected,
                   .made = sample.generated,
                   .prompt_text = sample.prompt_text,
                   .expected_text = sample.expected_text,
                   .made_text = sample.generated_text});
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
                 .record = stored.info(),
                 .targets = stored.targets()};
  const bool has_few_documents = stored.sample_unit() == scores::SampleUnit::kDocument &&
                                 stored.samples().size() < kFewestDocuments;
  const bool has_lanes = has_few_documents || stored.sample_unit() == scores::SampleUnit::kLane;
  if (has_lanes) out.unit = "lane";
  for (const scores::Sample& sample :
       has_few_documents ? stored.samples_by(scores::SampleUnit::kLane) : stored.samples()) {
    out.samples.push_back({.id = sample.id,
                           .sha256 = sample.sha256,
                           .targets = sample.sums.targets,
                           .nll = sample.sums.nll,
                           .correct = sample.sums.correct});
  }
  for (std::size_t i = 0; i < columns.nll.size(); ++i) {
    out.nll += columns.nll[i];
    out.correct += columns.correct[i] != 0 ? 1 : 0;
  }
  out.slices = by_source(stored, columns);
  out.place = by_place(stored, columns);
  out.distance = by_distance(stored, columns);
  out.frequency = by_frequency(stored, columns);
  if (has_lanes) out.lanes = by_lane(stored, columns);
  out.groups = by_groups(stored);
  out.shown = answers_of(stored);
  return out;
}

namespace {

double number_or_nan(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>()
                                                   : std::numeric_limits<double>::quiet_NaN();
}

std::map<std::string, double> numbers_of(const Json& line, const char* key) {
  std::map<std::string, double> out;
  const auto found = line.find(key);
  if (found == line.end() || !found->is_object()) return out;
  for (const auto& [name, value] : found->items()) {
    if (value.is_number()) out[name] = value.get<double>();
  }
  return out;
}

// False when the line is no metric.
bool read_line(const Json& line, Run& run) {
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer())
    return false;
  const auto step = line["step"].get<std::int64_t>();
  const std::string kind = line.value("kind", "");
  if (kind == "step") {
    const double tokens = number_or_nan(line, "tokens");
    const double seconds = number_or_nan(line, "seconds");
    if (std::isnan(tokens) || std::isnan(seconds)) return false;
    run.training.push_back({.step = step,
                            .loss = number_or_nan(line, "loss"),
                            .tokens = static_cast<std::int64_t>(tokens),
                            .seconds = seconds,
                            .metrics = numbers_of(line, "metrics"),
                            .losses = numbers_of(line, "losses")});
    return true;
  }
  if (kind != "eval" || !line.contains("result") || !line["result"].is_object()) return false;
  run.while_training.push_back({.step = step,
                                .split = line.value("split", ""),
                                .loss = number_or_nan(line["result"], "loss")});
  return true;
}

}  // namespace

std::int64_t read_metrics(const fs::path& file, Run& run) {
  if (!fs::exists(file)) return 0;
  const std::string text = read_file(file);
  std::int64_t damaged = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    const Json json = Json::parse(line, nullptr, false);
    try {
      if (!read_line(json, run)) ++damaged;
    } catch (const Json::exception&) {  // a key of another type
      ++damaged;
    }
  }
  return damaged;
}

Json without_places(const Json& data) {
  static const std::set<std::string> kPlaces = {"files", "file", "path", "prepared",
                                                "vocabulary_file"};
  if (!data.is_object()) return data;
  Json out = Json::object();
  for (const auto& [key, value] : data.items()) {
    if (!kPlaces.contains(key)) out[key] = without_places(value);
  }
  return out;
}

namespace {

// Equal as far as both say: older descriptions may lack a key, and those of an evaluation the
// splits that it did not need.
bool agree(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object()) return a == b;
  return std::ranges::all_of(a.items(), [&](const auto& item) {
    const auto found = b.find(item.key());
    return found == b.end() || agree(item.value(), *found);
  });
}

// Needles in haystacks that are longer or shorter, all else being equal: their length; else 0.
std::int64_t other_length(Json data, Json own) {
  const bool is_needle = data.is_object() && own.is_object() && data.value("task", "") == "needle";
  if (!is_needle || !data.contains("length") || !own.contains("length")) return 0;
  const auto length = data["length"].get<std::int64_t>();
  // The places follow from the length and the depths.
  for (const char* key : {"length", "first_place", "last_place"}) {
    data.erase(key);
    own.erase(key);
  }
  return agree(data, own) ? length : 0;
}

struct Candidate {
  scores::StoredEvaluation stored;
  bool has_own_plugins = false;   // the files that the run was trained with
  bool has_own_settings = false;  // [eval]
};

std::vector<std::string> checksums_of(const Json& info) {
  std::vector<std::string> out;
  for (const Json& plugin : info.value("plugins", Json::array())) {
    out.push_back(plugin.value("sha256", ""));
  }
  return out;
}

// Whether the part `key` of two experiments is equal.
bool has_equal(const config::Value& a, const config::Value& b, const char* key) {
  const config::Value* const x = a.find(key);
  const config::Value* const y = b.find(key);
  return x == nullptr || y == nullptr ? x == y : *x == *y;
}

// The samples and diagnostics that stand beside a run's evaluation.
void add_what_was_made_beside(const fs::path& folder, Evaluation& evaluation,
                              std::vector<std::string>& notes) {
  const fs::path file = scores::generated_file(folder, evaluation.name);
  try {
    if (fs::exists(file)) evaluation.shown = continuations_of(scores::read_generated(file));
  } catch (const std::exception& error) {
    notes.push_back(str("generated samples were left out: ", error.what()));
  }
  const fs::path measured = scores::diagnostics_file(folder, evaluation.name);
  try {
    if (fs::exists(measured)) evaluation.diagnostics = scores::read_diagnostics(measured);
  } catch (const std::exception& error) {
    notes.push_back(str("diagnostics were left out: ", error.what()));
  }
}

}  // namespace

void read_evaluations(const fs::path& folder, const std::string& experiment, Run& run,
                      std::vector<std::string>& notes) {
  const config::Value own = config::parse_toml(experiment, "experiment.toml");
  const Json own_data =
      run.info.is_object() ? without_places(run.info.value("data", Json())) : Json();
  std::map<std::pair<std::int64_t, std::string>, Candidate> best;  // by other length (0) and split
  for (const fs::path& path : scores::list_evaluations(folder)) {
    try {
      scores::StoredEvaluation stored = scores::StoredEvaluation::open(path);
      const config::Value used = config::parse_toml(
          stored.info().at("experiment").get<std::string>(), path.filename().string());
      const Json data = without_places(stored.info().value("data", Json()));
      if (!has_equal(own, used, "memory")) continue;  // `mneme eval --memory`: another arm
      const bool is_own = own_data.is_null() || agree(data, own_data);
      const std::int64_t length = is_own ? 0 : other_length(data, own_data);
      if (!is_own && length == 0) continue;
      const auto rank = [](const Candidate& one) {
        return std::tuple(one.stored.step(), one.has_own_plugins, one.has_own_settings);
      };
      const bool has_plugins = checksums_of(stored.info()) == checksums_of(run.info);
      Candidate candidate{.stored = std::move(stored),
                          .has_own_plugins = has_plugins,
                          .has_own_settings = has_equal(own, used, "eval")};
      const std::pair key(length, candidate.stored.split());
      const auto found = best.find(key);
      if (found == best.end()) {
        best.emplace(key, std::move(candidate));
      } else if (rank(candidate) > rank(found->second)) {
        found->second = std::move(candidate);
      }
    } catch (const std::exception& error) {
      notes.push_back(str("a stored evaluation was left out: ", error.what()));
    }
  }
  for (const auto& [key, candidate] : best) {
    try {
      Evaluation one = summarize(candidate.stored);
      if (key.first == 0) {
        add_what_was_made_beside(folder, one, notes);
        run.evaluations.push_back(std::move(one));
        continue;
      }
      const Evaluation* const trained = run.find(one.split);
      if (trained != nullptr && trained->step == one.step)
        run.other_lengths.push_back(std::move(one));
    } catch (const Error& error) {
      notes.push_back(str("a stored evaluation was left out: ", error.what()));
    }
  }
}

}  // namespace mneme::report
