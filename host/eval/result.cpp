#include "host/eval/result.hpp"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <vector>

#include "host/base/text.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::eval {
namespace {

Json numbers(const std::map<std::string, double>& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = number_or_null(value);
  return json;
}

}  // namespace

std::optional<double> Result::perplexity_per_word() const {
  const double tokens = protocol.tokens_per_word();
  if (tokens == 0.0 || protocol.unit == "byte" || protocol.unit == "char") return std::nullopt;
  return std::exp(loss() * tokens);
}

std::optional<double> Result::perplexity_per_byte() const {
  const double tokens = protocol.tokens_per_byte();
  return tokens == 0.0 ? std::nullopt : std::optional(std::exp(loss() * tokens));
}

std::optional<double> Result::perplexity_per_block() const {
  if (blocks == 0) return std::nullopt;
  return std::exp(block_loss / static_cast<double>(blocks));
}

std::optional<double> Result::bits_per_byte() const {
  const double tokens = protocol.tokens_per_byte();
  return tokens == 0.0 ? std::nullopt : std::optional(loss() * tokens / std::numbers::ln2);
}

std::optional<double> Result::bits_per_character() const {
  const double tokens = protocol.tokens_per_character();
  return tokens == 0.0 ? std::nullopt : std::optional(loss() * tokens / std::numbers::ln2);
}

double Result::tokens_per_second() const {
  return seconds > 0.0 ? static_cast<double>(total.tokens) / seconds : 0.0;
}

std::optional<double> Result::partial_share() const {
  if (protocol.targets <= total.tokens) return std::nullopt;
  return static_cast<double>(total.tokens) / static_cast<double>(protocol.targets);
}

std::optional<double> Result::outside_accuracy() const {
  if (!by_source || (*by_source)[2].tokens == 0) return std::nullopt;
  return (*by_source)[2].accuracy();
}

Json to_json(const Result& result) {
  Json json = to_json(result.total);
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value) json[key] = number_or_null(*value);
  };
  add("perplexity_per_word", result.perplexity_per_word());
  add("perplexity_per_byte", result.perplexity_per_byte());
  add("perplexity_per_block", result.perplexity_per_block());
  add("bits_per_byte", result.bits_per_byte());
  add("bits_per_character", result.bits_per_character());
  if (result.end_of_line) json["end_of_line"] = to_json(*result.end_of_line);
  if (result.unknown) json["unknown"] = to_json(*result.unknown);
  json["protocol"] = to_json(result.protocol);
  if (result.by_source) {
    constexpr std::array kNames = {"none", "inside", "outside"};
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      json["by_source"][kNames[i]] = to_json((*result.by_source)[i]);
    }
  }
  if (!result.losses.empty()) json["losses"] = numbers(result.losses);
  if (!result.metrics.empty()) json["metrics"] = numbers(result.metrics);
  json["segments"] = result.segments;
  json["lanes"] = result.lanes;
  json["seconds"] = number_or_null(result.seconds);
  json["tokens_per_second"] = number_or_null(result.tokens_per_second());
  json["state_bytes"] = result.state_bytes;
  json["final_state_bytes"] = result.final_state_bytes;
  json["cached_projection_bytes"] = result.cached_projection_bytes;
  return json;
}

namespace {

std::string percent(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "0";
  return format_number(100.0 * static_cast<double>(part) / static_cast<double>(whole), 2);
}

std::string normalisation(const Result& result) {
  const std::string& unit = result.protocol.unit;
  std::string text = "loss and perplexity are per token; a token is ";
  if (unit == "word") {
    text += "a word";
    if (result.end_of_line) {
      text += str(" or the <eos> of a line, which counts (", result.end_of_line->tokens,
                  " of the targets)");
    }
  } else if (unit == "char") {
    text += "a character";
  } else if (unit == "tokenizer") {
    text += "a token of the model's tokenizer";
  } else {
    text += unit.empty() ? std::string("an id of the task or file") : "a " + unit;
  }
  return text;
}

std::string counted(const Result& result) {
  const Protocol& protocol = result.protocol;
  std::string text = str(result.total.tokens, " tokens counted");
  if (protocol.tokens > 0) {
    const std::int64_t rest = protocol.tokens - protocol.dropped - result.total.tokens;
    text += str(" of the split's ", protocol.tokens, ": ", protocol.dropped,
                " dropped by cutting into ", protocol.lanes, " equal lanes, ", rest,
                " without a prediction (a lane's or document's first",
                result.partial_share() ? ", or not reached)" : ")");
  }
  if (!result.partial_share()) return text;
  return text + str("; eval.steps ended the evaluation after ",
                    percent(result.total.tokens, protocol.targets), " % of the split's ",
                    protocol.targets, " targets");
}

std::string context(const Result& result) {
  const Protocol& protocol = result.protocol;
  return str("context: the segment of at most ", protocol.segment, " tokens and at most ",
             protocol.context_rows, " memory rows",
             protocol.read_rows > 0
                 ? str(", and at most ", protocol.read_rows, " rows that memories read")
                 : std::string());
}

std::string resets(const Result& result) {
  const Protocol& protocol = result.protocol;
  std::string text =
      str("each of the ", protocol.lanes, " lanes starts with an empty memory, which is emptied ");
  if (protocol.reset == "document") return text + "where a document begins";
  if (protocol.reset == "segment") return text + "at the segment after a document's start";
  if (protocol.reset == "never") return text + "never again, documents run on";
  return text + "where a sequence of the task begins";
}

std::string unknown(const Result& result) {
  return str("<unk>: ", result.unknown->tokens, " of the targets (",
             percent(result.unknown->tokens, result.total.tokens), " %)");
}

}  // namespace

std::string statement(const Result& result) {
  std::vector<std::string> parts = {normalisation(result), counted(result), context(result),
                                    resets(result)};
  if (result.unknown) parts.push_back(unknown(result));
  return join(parts, "; ") + ".";
}

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
