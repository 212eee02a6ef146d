// What was found of a memory whose numbers are compared: whether no token sees a later one, a reset
// forgets, and lanes do not touch (host/checks finds it).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"

namespace mneme::scores {

enum class CheckResult { kHolds, kFails, kNotChecked };
// "holds", "fails", "not checked"
[[nodiscard]] std::string_view to_word(CheckResult result);
// Of another word: kNotChecked.
[[nodiscard]] CheckResult result_of(std::string_view word);

struct MemoryCheck {
  std::string name;  // "causality" | "reset" | "lanes"
  CheckResult result = CheckResult::kHolds;
  std::string text = {};  // what is wrong, or why it was not checked; "" = it holds

  [[nodiscard]] bool fails() const { return result == CheckResult::kFails; }
};

// What a memory does that fails the check, as tables say it: "not causal".
[[nodiscard]] std::string fault_words(std::string_view check);

struct MemoryChecks {
  std::int64_t step = 0;        // of the weights; 0 = those of the beginning
  std::int64_t parameters = 0;  // numbers of the model that was run
  std::vector<MemoryCheck> checks = {};

  [[nodiscard]] bool has_failed() const;
  // Whether every check was made.
  [[nodiscard]] bool is_complete() const;
  // "not causal, lanes touch"; "" = nothing is wrong.
  [[nodiscard]] std::string faults() const;
};

// A line for each check that failed or was not made: "the memory is not causal: in training, ...".
[[nodiscard]] std::vector<std::string> warnings(const MemoryChecks& checks);

[[nodiscard]] Json to_json(const MemoryChecks& checks);
// nullopt for what to_json did not write, null among it.
[[nodiscard]] std::optional<MemoryChecks> read_memory_checks(const Json& json);

// RUN/checks.json: those before the training and those with its last weights.
struct RunChecks {
  std::optional<MemoryChecks> before = {}, after = {};
};
[[nodiscard]] std::filesystem::path checks_file(const std::filesystem::path& run_folder);
// What the file holds; nothing where there is none, or one that cannot be read.
[[nodiscard]] RunChecks read_run_checks(const std::filesystem::path& run_folder);
// Error (kRun) when it cannot be written.
void write_run_checks(const std::filesystem::path& run_folder, const RunChecks& checks);

}  // namespace mneme::scores
