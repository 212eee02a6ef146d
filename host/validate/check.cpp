#include "host/validate/check.hpp"

#include <exception>
#include <utility>

#include "host/base/text.hpp"

namespace mneme::validate {

std::string_view to_word(Grade grade) {
  constexpr std::string_view kWords[] = {"pass", "skip", "warn", "fail"};
  return kWords[static_cast<std::size_t>(grade)];
}

namespace {

// The check that runs the memory for the first time: where it fails no other run says more.
constexpr std::string_view kFirstRun = "options.run";

}  // namespace

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = [] {
    std::vector<Check> out;
    const auto add = [&](std::vector<Check> some, std::string_view base) {
      for (Check& check : some) {
        if (!base.empty() && check.name != base) check.after.push_back(base);
        out.push_back(std::move(check));
      }
    };
    add(file_checks(), "");
    add(negotiation_checks(), "");
    for (const auto& group : {option_checks, python_checks, model_checks, kernel_checks,
                              precision_checks, token_checks, row_checks, replay_checks,
                              state_checks, gradient_checks, device_checks, failure_checks}) {
      add(group(), kFirstRun);
    }
    return out;
  }();
  return checks;
}

Outcome run_check(const Check& check, const Subject& subject) {
  try {
    return check.run(subject);
  } catch (const Skipped& skipped) {
    return {Grade::kSkip, skipped.what()};
  } catch (const std::exception& error) {
    return {Grade::kFail, without_trace(error.what())};
  }
}

}  // namespace mneme::validate
