// Arms of equal cost: sizes that the program chooses (--equal).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/words.hpp"
#include "host/compare/arms.hpp"
#include "host/run/runtime.hpp"

namespace mneme::compare {

// What is made equal, and by which size.
enum class Budget {
  // Trained numbers of backbone and memory together, by model.ff of every arm but the first. The
  // arms' feed-forward layers then start from different weights.
  kParameters,
  // Declared bytes of the state of one lane while evaluating, by the memory's size
  // (MemorySize): rows, basis functions.
  kState,
  // Rows that a token may attend to beside its segment, of contexts and of what tiers declare that
  // they read, likewise.
  kAttention,
};
constexpr auto words_of(Budget) { return std::array{"parameters", "state", "attention"}; }
// Error (kUsage) for another word.
[[nodiscard]] Budget parse_budget(std::string_view word);

// A size that was chosen. Budgets are numbers of parameters, bytes or rows.
struct ChosenSize {
  std::string arm;
  std::string key;  // "memory.tier.0.rows"
  std::int64_t before = 0, after = 0;
  std::int64_t budget_before = 0, budget_after = 0;
};

// An arm that stays as it is.
struct FixedArm {
  std::string arm;
  std::string reason;  // "has no size to choose"
};

struct Equalized {
  std::string reference;          // the arm whose budget the others get
  std::int64_t budget = 0;        // of the reference
  std::vector<ChosenSize> sizes;  // of the other arms
  std::vector<FixedArm> fixed;    // of the other arms those without a size that changes their cost
};

// Changes sizes of the arms so that their budgets come as near as possible to the reference's: the
// first arm's for parameters, else that of the first arm that has any. The changed settings are
// added to the arms' own. Sizes that a memory refuses, such as those that are no multiple of
// another option, are passed over. Errors: Error (kUsage) when no arm has such a budget, when a
// memory does not declare the bytes of its state, when a memory file gives the size of
// evaluations on its own (eval_rows), and when the settings of an arm, such as those of a sweep,
// give the key that would be chosen; what making an arm throws, with its name in front. A warning
// of the log names an arm whose feed-forward layers get less than half of their width, or more than
// twice as much.
[[nodiscard]] Equalized equalize(std::vector<ArmSetup>& arms, Budget budget,
                                 const run::RuntimeOptions& options);

// What was chosen, a line each, and how far it is from the budget where that is more than 5 %.
[[nodiscard]] std::string text_of(const Equalized& equalized, Budget budget);

}  // namespace mneme::compare
