#include "host/compare/planning/equal_budget.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/compare/planning/memory_size.hpp"

namespace mneme::compare {
namespace {

constexpr double kNotableShare = 0.05;  // of the budget, as the report's warning has it

std::string option_of(Budget budget) { return str("--equal ", to_word(budget)); }

// --- Parameters, by the width of the feed-forward layers ---

std::int64_t parameters_of(const run::Runtime& runtime) {
  return runtime.backbone_parameter_count() + runtime.memory_parameter_count();
}

run::Runtime runtime_of(const config::Experiment& experiment, run::RuntimeOptions options) {
  options.weights_follow = true;
  return run::Runtime(experiment, options);
}

void equalize_parameters(std::vector<ArmSetup>& arms, const run::RuntimeOptions& options,
                         Equalized& out) {
  out.reference = arms.front().name;
  out.budget = parameters_of(runtime_of(arms.front().experiment, options));
  for (std::size_t i = 1; i < arms.size(); ++i) {
    check_not_given(arms[i], option_of(Budget::kParameters), "model.ff");
    config::ModelConfig& model = arms[i].experiment.model;
    const std::int64_t before = model.ff;
    const std::int64_t count = parameters_of(runtime_of(arms[i].experiment, options));
    model.ff = before + 1;
    const std::int64_t slope = parameters_of(runtime_of(arms[i].experiment, options)) - count;
    const auto change = static_cast<std::int64_t>(
        std::llround(static_cast<double>(out.budget - count) / static_cast<double>(slope)));
    model.ff = std::max<std::int64_t>(1, before + change);
    out.sizes.push_back({.arm = arms[i].name,
                         .key = "model.ff",
                         .before = before,
                         .after = model.ff,
                         .budget_before = count,
                         .budget_after = count + (model.ff - before) * slope});
  }
}

// --- State and attention, by the size of the memory ---

// Gives an arm the size whose cost is nearest to the budget.
void equalize_memory(const ArmSetup& arm, Budget budget, MemorySize& size, Equalized& out) {
  if (!size.exists()) {
    out.fixed.push_back({.arm = arm.name, .reason = "has no size to choose"});
    return;
  }
  if (!size.changes_cost()) {
    out.fixed.push_back(
        {.arm = arm.name, .reason = str("its cost does not depend on ", size.key())});
    return;
  }
  check_not_given(arm, option_of(budget), size.key());
  const PricedSize chosen = size.nearest(out.budget);
  size.set(chosen.size);
  out.sizes.push_back({.arm = arm.name,
                       .key = size.key(),
                       .before = size.before(),
                       .after = chosen.size,
                       .budget_before = size.cost(),
                       .budget_after = chosen.cost});
}

void equalize_memories(std::vector<ArmSetup>& arms, Budget budget,
                       const run::RuntimeOptions& options, Equalized& out) {
  const SizeCost cost = budget == Budget::kState ? SizeCost::kStateBytes : SizeCost::kAttendedRows;
  std::vector<MemorySize> all;
  for (ArmSetup& arm : arms) {
    try {
      all.emplace_back(arm, cost, option_of(budget), options);
    } catch (const Error& error) {
      throw error.with_context(arm.name);
    }
    if (!out.reference.empty() || all.back().cost() == 0) continue;
    out.reference = arm.name;
    out.budget = all.back().cost();
  }
  if (out.reference.empty()) return;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (arms[i].name != out.reference) equalize_memory(arms[i], budget, all[i], out);
  }
}

// What a reader of the comparison should know of a size that was chosen; "" = nothing.
std::string miss_text(const ChosenSize& size, std::int64_t budget) {
  const double share = static_cast<double>(size.budget_after - budget) /
                       static_cast<double>(std::max<std::int64_t>(budget, 1));
  std::string text;
  if (std::abs(share) > kNotableShare) {
    text = str("; this is ", format_number(100.0 * std::abs(share), 0), " % ",
               share > 0.0 ? "above" : "below", " the budget, the nearest that it can have");
  }
  if (size.after == 0) text += str("; with ", size.key, " = 0 this part of the memory is empty");
  return text;
}

// Arms are to differ in their memories.
void warn_of_other_model(const ChosenSize& size) {
  if (2 * size.after >= size.before && size.after <= 2 * size.before) return;
  log_warning(size.arm, ": --equal parameters chose ", size.key, " = ", size.after, " in place of ",
              size.before,
              ": so much of the model is another one that differences may be due to it, and not to "
              "the memory");
}

}  // namespace

Budget parse_budget(std::string_view word) {
  if (const auto budget = find_word<Budget>(word)) return *budget;
  throw_usage({.where = "--equal",
               .failed = "there is no such budget",
               .expected = join(all_words<Budget>(), ", "),
               .got = std::string(word)});
}

Equalized equalize(std::vector<ArmSetup>& arms, Budget budget, const run::RuntimeOptions& options) {
  Equalized out;
  // Memories are made in many sizes here; the arms say what they have to say when they are made.
  std::optional<LogListener> silent([](LogLevel, std::string_view) { return false; });
  if (budget == Budget::kParameters) {
    equalize_parameters(arms, options, out);
  } else {
    equalize_memories(arms, budget, options, out);
    if (out.reference.empty()) {
      throw_usage({.where = option_of(budget),
                   .failed = "no arm has a memory that could be the measure",
                   .expected = "a memory with state among the arms"});
    }
  }
  silent.reset();
  for (const ChosenSize& size : out.sizes) {
    if (budget == Budget::kParameters) warn_of_other_model(size);
    if (size.after == size.before) continue;
    const auto arm = std::ranges::find(arms, size.arm, &ArmSetup::name);
    arm->settings.push_back(str(size.key, '=', size.after));
  }
  return out;
}

std::string text_of(const Equalized& equalized, Budget budget) {
  const char* const unit = budget == Budget::kParameters ? " parameters"
                           : budget == Budget::kState    ? " bytes of state a lane"
                                                         : " rows that a token may attend to";
  std::string text =
      str("equal budgets: ", equalized.budget, unit, ", those of ", equalized.reference, '\n');
  for (const ChosenSize& size : equalized.sizes) {
    text += str("  ", size.arm, ": ", size.key, " = ", size.after, " in place of ", size.before,
                ": ", size.budget_after, unit, " in place of ", size.budget_before,
                miss_text(size, equalized.budget), '\n');
  }
  for (const FixedArm& fixed : equalized.fixed)
    text += str("  ", fixed.arm, ": ", fixed.reason, ", and stays as it is\n");
  return text;
}

}  // namespace mneme::compare
