// The checks of `mneme plugins validate`: what a memory has to hold whatever its mechanism is. Each
// check runs in a process of its own, which a plugin may crash.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::validate {

// What is checked: a plugin's file with the options of its tier.
struct Subject {
  std::filesystem::path file;             // absolute
  std::vector<std::string> options = {};  // "option=value"; no check gives them another value
  std::uint64_t seed = 1;                 // of ids, weights and random directions
};

// How a check has ended.
enum class Grade { kPass, kSkip, kWarn, kFail };
[[nodiscard]] std::string_view to_word(Grade grade);

struct Outcome {
  Grade grade = Grade::kPass;
  std::string text = {};  // what was found; "" = nothing to say
};

struct Check {
  std::string_view name;      // "<group>.<name>"
  std::string_view question;  // what is asked, for people
  Outcome (*run)(const Subject& subject);
  // Names of checks without which this one says nothing: when one of them fails it is left out.
  std::vector<std::string_view> after;

  Check(std::string_view own_name, std::string_view asked, Outcome (*work)(const Subject&),
        std::convertible_to<std::string_view> auto... needed)
      : name(own_name), question(asked), run(work), after{needed...} {}
};

// All of them, in the order in which they are to be run.
[[nodiscard]] const std::vector<Check>& all_checks();

// Runs a check here. An Error of the host and any other exception is a failure with its text.
[[nodiscard]] Outcome run_check(const Check& check, const Subject& subject);

// --- For the checks ---

// Thrown by a check: it does not apply, or it fails.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Fails with the problem; "" = there is none.
inline void expect_none(const std::string& problem) {
  if (!problem.empty()) throw Failed(problem);
}

// The checks of each file of checks/, and of kernels/.
[[nodiscard]] std::vector<Check> file_checks();
[[nodiscard]] std::vector<Check> negotiation_checks();
[[nodiscard]] std::vector<Check> option_checks();
[[nodiscard]] std::vector<Check> model_checks();
[[nodiscard]] std::vector<Check> precision_checks();
[[nodiscard]] std::vector<Check> token_checks();
[[nodiscard]] std::vector<Check> row_checks();
[[nodiscard]] std::vector<Check> replay_checks();
[[nodiscard]] std::vector<Check> state_checks();
[[nodiscard]] std::vector<Check> gradient_checks();
[[nodiscard]] std::vector<Check> kernel_checks();
[[nodiscard]] std::vector<Check> device_checks();
[[nodiscard]] std::vector<Check> failure_checks();
[[nodiscard]] std::vector<Check> python_checks();

}  // namespace mneme::validate
