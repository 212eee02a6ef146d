#include "host/eval/result.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

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
  return tokens == 0.0 ? std::nullopt : std::optional(std::exp(loss() * tokens));
}

std::optional<double> Result::perplexity_per_byte() const {
  const double tokens = protocol.tokens_per_byte();
  return tokens == 0.0 ? std::nullopt : std::optional(std::exp(loss() * tokens));
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

}  // namespace mneme::eval
