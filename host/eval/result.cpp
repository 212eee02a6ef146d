#include "host/eval/result.hpp"

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
  if (questions && questions->all.bytes > 0) return questions->all.bits_per_byte();
  const double tokens = protocol.tokens_per_byte();
  return tokens == 0.0 ? std::nullopt : std::optional(loss() * tokens / std::numbers::ln2);
}

std::optional<double> Result::bits_per_character() const {
  const double tokens = protocol.tokens_per_character();
  return tokens == 0.0 ? std::nullopt : std::optional(loss() * tokens / std::numbers::ln2);
}

double Result::tokens_per_second() const {
  return seconds > 0.0 ? static_cast<double>(total.targets) / seconds : 0.0;
}

std::optional<double> Result::partial_share() const {
  if (protocol.targets <= total.targets) return std::nullopt;
  return static_cast<double>(total.targets) / static_cast<double>(protocol.targets);
}

std::optional<double> Result::outside_accuracy() const {
  if (!by_source || (*by_source)[2].targets == 0) return std::nullopt;
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
  if (result.questions) json["questions"] = to_json(*result.questions);
  if (result.end_of_line) json["end_of_line"] = to_json(*result.end_of_line);
  if (result.unknown) json["unknown"] = to_json(*result.unknown);
  json["protocol"] = to_json(result.protocol);
  if (result.by_source) {
    for (std::size_t i = 0; i < scores::kSourceNames.size(); ++i) {
      json["by_source"][scores::kSourceNames[i]] = to_json((*result.by_source)[i]);
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
  if (result.peak_device_bytes) json["peak_device_bytes"] = *result.peak_device_bytes;
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
      text += str(" or the <eos> of a line, which counts (", result.end_of_line->targets,
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
  std::string text = str(result.total.targets, " tokens counted");
  if (result.questions) {
    text += str(", those of the right answers to ", result.questions->all.questions,
                " questions; accuracy is the share of questions that are answered right: by a "
                "choice whose tokens have the lowest sum of losses, or by a free answer each token "
                "of which is the likeliest one");
  }
  if (protocol.tokens > 0) {
    const std::int64_t rest = protocol.tokens - protocol.dropped - result.total.targets;
    text += str(" of the split's ", protocol.tokens, ": ", protocol.dropped,
                " dropped by cutting into ", protocol.lanes, " equal lanes, ", rest,
                " without a prediction (a lane's or document's first",
                result.partial_share() ? ", or not reached)" : ")");
  }
  if (!result.partial_share()) return text;
  return text + str("; eval.steps ended the evaluation after ",
                    percent(result.total.targets, protocol.targets), " % of the split's ",
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
  if (protocol.reset == "mask") return text + "never again, tokens see their document alone";
  return text + "where a sequence of the task begins";
}

std::string unknown(const Result& result) {
  return str("<unk>: ", result.unknown->targets, " of the targets (",
             percent(result.unknown->targets, result.total.targets), " %)");
}

}  // namespace

std::string statement(const Result& result) {
  std::vector<std::string> parts = {normalisation(result), counted(result), context(result),
                                    resets(result)};
  if (result.unknown) parts.push_back(unknown(result));
  return join(parts, "; ") + ".";
}

namespace {

Json to_json(const std::vector<scores::Bucket>& buckets) {
  Json json;
  for (const scores::Bucket& bucket : buckets) {
    json["name"].push_back(bucket.name);
    json["from"].push_back(bucket.from);
    json["tokens"].push_back(bucket.sums.targets);
    json["nll"].push_back(number_or_null(bucket.sums.nll));
    json["correct"].push_back(bucket.sums.correct);
  }
  return json;
}

}  // namespace

Json to_json(const scores::Sums& sums) {
  return {{"tokens", sums.targets},
          {"nll", number_or_null(sums.nll)},
          {"correct", sums.correct},
          {"loss", number_or_null(sums.loss())},
          {"perplexity", number_or_null(sums.perplexity())},
          {"accuracy", number_or_null(sums.accuracy())}};
}

Json to_json(const Breakdown& breakdown) {
  Json json = Json::object();
  if (!breakdown.place.empty()) json[scores::kPlaceKey] = to_json(breakdown.place);
  if (!breakdown.distance.empty()) json["distance"] = to_json(breakdown.distance);
  if (!breakdown.frequency.empty()) json["frequency"] = to_json(breakdown.frequency);
  return json;
}

void BreakdownSums::add(std::int64_t place, std::int64_t distance, std::int64_t id, double nll,
                        bool is_correct) {
  place_.add(static_cast<std::size_t>(place), nll, is_correct);
  if (distance >= 1) distance_.add(scores::power_of_two_bucket(distance), nll, is_correct);
  if (training_counts_.empty()) return;
  if (id == unknown_id_) return unknown_.add(nll, is_correct);
  const auto index = static_cast<std::size_t>(id);
  const std::int64_t count = index < training_counts_.size() ? training_counts_[index] : 0;
  frequency_.add(scores::frequency_bucket(count), nll, is_correct);
}

Breakdown BreakdownSums::breakdown() const {
  Breakdown out;
  out.place = place_.list([](std::size_t i) {
    return scores::Range(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i));
  });
  out.distance = distance_.list(scores::power_of_two_range);
  out.frequency = frequency_.list_frequencies();
  if (unknown_.targets > 0) {
    out.frequency.insert(out.frequency.begin(), {std::string(data::kUnknown), -1, unknown_});
  }
  return out;
}

}  // namespace mneme::eval
