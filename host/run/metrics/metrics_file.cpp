#include "host/run/metrics/metrics_file.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json.hpp"

namespace mneme::run {
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

// Calls `use(line, json)` for each line of the file that has its end; returns the file's size.
template <typename Use>
std::size_t read_lines(const std::filesystem::path& path, Use use) {
  const std::string text = std::filesystem::exists(path) ? read_file(path) : std::string();
  std::int64_t number = 0;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    use(line, parse_line(line, path, ++number));
  }
  return text.size();
}

}  // namespace

std::int64_t cut_metrics(const std::filesystem::path& path, std::int64_t step,
                         std::int64_t evaluated) {
  std::string kept;
  std::int64_t lines = 0;
  const std::size_t size = read_lines(path, [&](std::string_view line, const Json& json) {
    const bool is_evaluation = json.at("kind") == "eval";
    if (json.at("step").get<std::int64_t>() > (is_evaluation ? evaluated : step)) return;
    kept.append(line).append("\n");
    ++lines;
  });
  if (kept.size() != size || size == 0) write_file_atomic(path, kept);
  return lines;
}

void check_metrics(const std::filesystem::path& path) {
  read_lines(path, [](std::string_view, const Json&) {});
}

}  // namespace mneme::run
