#include "host/scores/memory_checks.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"

namespace mneme::scores {
namespace {

constexpr std::string_view kChecksFormat = "mneme-checks";

// Of the values of CheckResult.
constexpr std::array<std::string_view, 3> kResultWords = {"holds", "fails", "not checked"};

Json json_or_null(const std::optional<MemoryChecks>& checks) {
  return checks ? to_json(*checks) : Json(nullptr);
}

}  // namespace

std::string_view to_word(CheckResult result) {
  return kResultWords.at(static_cast<std::size_t>(result));
}

CheckResult result_of(std::string_view word) {
  const auto place = std::ranges::find(kResultWords, word) - kResultWords.begin();
  return static_cast<CheckResult>(std::min<std::ptrdiff_t>(place, 2));
}

std::string fault_words(std::string_view check) {
  if (check == "causality") return "not causal";
  return check == "reset" ? "keeps state over a reset" : "lanes touch";
}

bool MemoryChecks::has_failed() const { return std::ranges::any_of(checks, &MemoryCheck::fails); }

bool MemoryChecks::is_complete() const {
  return !checks.empty() && std::ranges::none_of(checks, [](const MemoryCheck& one) {
    return one.result == CheckResult::kNotChecked;
  });
}

std::string MemoryChecks::faults() const {
  std::vector<std::string> words;
  for (const MemoryCheck& one : checks) {
    if (one.fails()) words.push_back(fault_words(one.name));
  }
  return join(words, ", ");
}

std::vector<std::string> warnings(const MemoryChecks& checks) {
  const std::string when =
      checks.step == 0 ? std::string() : str(" (with the weights of step ", checks.step, ")");
  std::vector<std::string> lines;
  std::vector<std::string> left_out;
  std::string reason;
  for (const MemoryCheck& one : checks.checks) {
    if (one.fails()) {
      lines.push_back(str("its memory is faulty, and its losses say nothing: ",
                          fault_words(one.name), when, ": ", one.text));
    } else if (one.result == CheckResult::kNotChecked) {
      left_out.push_back(one.name);
      reason = one.text;
    }
  }
  if (!left_out.empty()) {
    lines.push_back(
        str("its memory was not checked for ", join(left_out, ", "), when, ": ", reason));
  }
  return lines;
}

Json to_json(const MemoryChecks& checks) {
  Json list = Json::array();
  for (const MemoryCheck& one : checks.checks) {
    list.push_back({{"name", one.name}, {"result", to_word(one.result)}, {"text", one.text}});
  }
  return {{"step", checks.step}, {"parameters", checks.parameters}, {"checks", std::move(list)}};
}

std::optional<MemoryChecks> read_memory_checks(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  try {
    MemoryChecks out{.step = json.at("step").get<std::int64_t>(),
                     .parameters = json.at("parameters").get<std::int64_t>()};
    for (const Json& one : json.at("checks")) {
      out.checks.push_back({.name = one.at("name").get<std::string>(),
                            .result = result_of(one.at("result").get<std::string>()),
                            .text = one.at("text").get<std::string>()});
    }
    return out;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::filesystem::path checks_file(const std::filesystem::path& run_folder) {
  return run_folder / "checks.json";
}

RunChecks read_run_checks(const std::filesystem::path& run_folder) {
  std::error_code ignored;
  const std::filesystem::path file = checks_file(run_folder);
  if (!std::filesystem::exists(file, ignored)) return {};
  const Json json = parse_json(read_file(file));
  if (!json.is_object() || json.value("format", Json()) != kChecksFormat) return {};
  return {.before = read_memory_checks(json.value("before", Json())),
          .after = read_memory_checks(json.value("after", Json()))};
}

void write_run_checks(const std::filesystem::path& run_folder, const RunChecks& checks) {
  const Json json = {{"format", kChecksFormat},
                     {"version", 1},
                     {"before", json_or_null(checks.before)},
                     {"after", json_or_null(checks.after)}};
  write_file_atomic(checks_file(run_folder), json_text(json, 2) + "\n");
}

}  // namespace mneme::scores
