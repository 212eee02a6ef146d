#include "host/train/metrics_file.hpp"

#include <string>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/file.hpp"
#include "host/base/json.hpp"

namespace mneme::train {
namespace {

// The line as JSON; `number` counts from 1.
Json parse_line(std::string_view line, const std::filesystem::path& path, std::int64_t number) {
  constexpr std::size_t kShown = 60;
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool is_metric = json.is_object() && json.contains("kind") && json.contains("step") &&
                         json["kind"].is_string() && json["step"].is_number_integer();
  if (is_metric) return json;
  throw_run({.where = str(path.string(), ':', number),
             .failed = "the line is damaged",
             .expected = "a JSON object with \"kind\" and \"step\"",
             .got = str('"', line.substr(0, kShown), line.size() > kShown ? "...\"" : "\""),
             .hint = "restore the file, or delete the line: what it said is lost"});
}

}  // namespace

std::int64_t cut_metrics(const std::filesystem::path& path, std::int64_t step,
                         std::int64_t evaluated) {
  const std::string text = std::filesystem::exists(path) ? read_file(path) : std::string();
  std::string kept;
  std::int64_t number = 0, lines = 0;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const Json json = parse_line(line, path, ++number);
    const bool is_evaluation = json.at("kind") == "eval";
    if (json.at("step").get<std::int64_t>() > (is_evaluation ? evaluated : step)) continue;
    kept.append(line).append("\n");
    ++lines;
  }
  if (kept.size() != text.size() || text.empty()) write_file_atomic(path, kept);
  return lines;
}

}  // namespace mneme::train
