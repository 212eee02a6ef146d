#include "host/eval/result.hpp"

#include <cmath>

namespace mneme::eval {
namespace {

double ratio(double sum, std::int64_t count) {
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json numbers(const std::map<std::string, double>& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = number(value);
  return json;
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

double Result::tokens_per_second() const {
  return seconds > 0.0 ? static_cast<double>(total.tokens) / seconds : 0.0;
}

std::optional<double> Result::outside_accuracy() const {
  if (!by_source || (*by_source)[2].tokens == 0) return std::nullopt;
  return (*by_source)[2].accuracy();
}

Json to_json(const Score& score) {
  Json json;
  json["tokens"] = score.tokens;
  json["loss"] = number(score.loss());
  json["perplexity"] = number(score.perplexity());
  json["accuracy"] = number(score.accuracy());
  return json;
}

Json to_json(const Result& result) {
  Json json = to_json(result.total);
  if (result.bits_per_character) json["bits_per_character"] = number(*result.bits_per_character);
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
  json["seconds"] = number(result.seconds);
  json["tokens_per_second"] = number(result.tokens_per_second());
  json["state_bytes"] = result.state_bytes;
  json["final_state_bytes"] = result.final_state_bytes;
  json["cached_projection_bytes"] = result.cached_projection_bytes;
  return json;
}

}  // namespace mneme::eval
