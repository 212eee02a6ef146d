#include "host/report/comparison/hide_folders.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace mneme::report {
namespace {

constexpr std::string_view kBefore = " \t\n\"'`=(,:[<";
constexpr std::string_view kBehind = " \t\n\"'`,;:)]>";
constexpr std::string_view kKey =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";

bool begins_path(const std::string& text, std::size_t i) {
  if (text[i] != '/' || i + 1 == text.size()) return false;
  if (i > 0 && kBefore.find(text[i - 1]) == kBefore.npos) return false;
  return text[i + 1] != '/' && kBehind.find(text[i + 1]) == kBehind.npos;
}

// Whether FILE,KEY=VALUE goes on with its key behind a comma at `i`.
bool begins_setting(const std::string& text, std::size_t i) {
  const std::size_t end = text.find_first_not_of(kKey, i + 1);
  return end != text.npos && end > i + 1 && text[end] == '=';
}

std::size_t end_of_path(const std::string& text, std::size_t begin) {
  const char before = begin > 0 ? text[begin - 1] : ' ';
  const bool is_quoted = before == '"' || before == '\'' || before == '`';
  const std::string_view ends = is_quoted ? std::string_view(&before, 1) : kBehind;
  const std::size_t end = std::min(text.find_first_of(ends, begin), text.size());
  for (std::size_t i = text.find(',', begin); i < end; i = text.find(',', i + 1)) {
    if (begins_setting(text, i)) return i;
  }
  return end;
}

}  // namespace

std::string without_folders(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!begins_path(text, i)) {
      out += text[i];
      continue;
    }
    const std::size_t end = end_of_path(text, i);
    std::string_view path = std::string_view(text).substr(i, end - i);
    while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    out += path.substr(path.rfind('/') + 1);
    i = end - 1;
  }
  return out;
}

Json without_folders(const Json& value) {
  if (value.is_string()) return without_folders(value.get<std::string>());
  if (!value.is_structured()) return value;
  Json out = value;
  for (Json& one : out) one = without_folders(one);
  return out;
}

void hide_folders(Comparison& comparison) {
  for (std::string* text : {&comparison.command, &comparison.experiment_file})
    *text = without_folders(*text);
  for (Json* json : {&comparison.machine, &comparison.data, &comparison.initial_weights})
    *json = without_folders(*json);
  for (Arm& arm : comparison.arms) {
    for (std::string* text : {&arm.file, &arm.memory, &arm.experiment})
      *text = without_folders(*text);
    for (std::string& one : arm.overrides) one = without_folders(one);
    arm.plugins = without_folders(arm.plugins);
  }
}

}  // namespace mneme::report
