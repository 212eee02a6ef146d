#include "host/eval/breakdown.hpp"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"
#include "host/data/text/vocabulary.hpp"

namespace mneme::eval {
namespace {

constexpr std::size_t kUnknownBucket = 0;
constexpr std::size_t kUnseenBucket = 1;
constexpr std::size_t kFirstCountBucket = 2;

double ratio(double sum, std::int64_t count) {
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

Score& at_bucket(std::vector<Score>& scores, std::size_t index) {
  if (scores.size() <= index) scores.resize(index + 1);
  return scores[index];
}

std::string range_name(std::int64_t from, std::int64_t to) {
  return from == to ? str(from) : str(from, "-", to);
}

Json to_json(const std::vector<Bucket>& buckets) {
  Json json;
  for (const Bucket& bucket : buckets) {
    json["name"].push_back(bucket.name);
    json["from"].push_back(bucket.from);
    json["tokens"].push_back(bucket.score.tokens);
    json["nll"].push_back(number_or_null(bucket.score.nll));
    json["correct"].push_back(bucket.score.correct);
  }
  return json;
}

// Drops empty buckets; name(i) and from(i) describe bucket i.
template <typename Name, typename From>
std::vector<Bucket> listed(const std::vector<Score>& scores, Name name, From from) {
  std::vector<Bucket> out;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i].tokens > 0) out.push_back({name(i), from(i), scores[i]});
  }
  return out;
}

std::int64_t power(std::int64_t base, std::size_t exponent) {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < exponent; ++i) out *= base;
  return out;
}

}  // namespace

double Score::loss() const { return ratio(nll, tokens); }
double Score::perplexity() const { return tokens == 0 ? 0.0 : std::exp(loss()); }
double Score::accuracy() const { return ratio(static_cast<double>(correct), tokens); }

void Score::add(const Score& other) {
  tokens += other.tokens;
  nll += other.nll;
  correct += other.correct;
}

Json to_json(const Score& score) {
  Json json;
  json["tokens"] = score.tokens;
  json["nll"] = number_or_null(score.nll);
  json["correct"] = score.correct;
  json["loss"] = number_or_null(score.loss());
  json["perplexity"] = number_or_null(score.perplexity());
  json["accuracy"] = number_or_null(score.accuracy());
  return json;
}

Json to_json(const Breakdown& breakdown) {
  Json json = Json::object();
  if (!breakdown.position.empty()) json["position"] = to_json(breakdown.position);
  if (!breakdown.distance.empty()) json["distance"] = to_json(breakdown.distance);
  if (!breakdown.frequency.empty()) json["frequency"] = to_json(breakdown.frequency);
  return json;
}

void BreakdownSums::add(std::int64_t position, std::int64_t distance, std::int64_t id,
                        const Score& score) {
  at_bucket(position_, static_cast<std::size_t>(position)).add(score);
  if (distance >= 1) {
    const auto bits =
        static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(distance)));
    at_bucket(distance_, bits - 1).add(score);
  }
  if (!training_counts_.empty()) at_bucket(frequency_, frequency_bucket(id)).add(score);
}

std::size_t BreakdownSums::frequency_bucket(std::int64_t id) const {
  if (id == unknown_id_) return kUnknownBucket;
  const auto index = static_cast<std::size_t>(id);
  std::int64_t count = index < training_counts_.size() ? training_counts_[index] : 0;
  if (count <= 0) return kUnseenBucket;
  std::size_t bucket = kFirstCountBucket;
  for (; count >= 10; count /= 10) ++bucket;
  return bucket;
}

Breakdown BreakdownSums::breakdown() const {
  Breakdown out;
  out.position = listed(
      position_, [](std::size_t i) { return str(i); },
      [](std::size_t i) { return static_cast<std::int64_t>(i); });
  out.distance = listed(
      distance_, [](std::size_t i) { return range_name(power(2, i), power(2, i + 1) - 1); },
      [](std::size_t i) { return power(2, i); });
  const auto from = [](std::size_t i) {
    return i < kFirstCountBucket ? static_cast<std::int64_t>(i) - 1
                                 : power(10, i - kFirstCountBucket);
  };
  out.frequency = listed(
      frequency_,
      [&](std::size_t i) {
        if (i == kUnknownBucket) return std::string(data::kUnknown);
        return i == kUnseenBucket ? std::string("unseen") : range_name(from(i), 10 * from(i) - 1);
      },
      from);
  return out;
}

}  // namespace mneme::eval
