#include "host/compare/planning/equal_budget.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/memory/stack/tier_outline.hpp"

namespace mneme::compare {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;
constexpr std::int64_t kMaxRefused = 64;  // sizes in a row, before a search ends
constexpr double kNotableShare = 0.05;    // of the budget, as the report's warning has it

// An arm whose own settings give the key has its name from a value that it would not have.
void check_not_given(const ArmSetup& arm, Budget budget, const std::string& key) {
  const auto given = std::ranges::find_if(
      arm.settings, [&](const std::string& setting) { return setting.starts_with(key + '='); });
  if (given == arm.settings.end()) return;
  throw_usage({.where = arm.name,
               .failed = str("--equal ", to_word(budget), " chooses ", key,
                             ", which a --sweep or a setting of the arm gives, too"),
               .expected = "one of the two",
               .got = *given,
               .hint = str("leave out --equal, or the --sweep or setting of ", key)});
}

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
    check_not_given(arms[i], Budget::kParameters, "model.ff");
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

// The bytes that the tiers declare for one lane; absent when one of them does not.
std::optional<std::int64_t> state_bytes(const memory::Stack& stack) {
  std::int64_t bytes = 0;
  for (const memory::TierOutline& tier : stack.outlines(1, 1)) {
    const memory::InstanceOutline& instance = tier.evaluation ? *tier.evaluation : tier.training;
    const auto add = [&](const memory::StateOutline& one) {
      bytes += one.bytes.value_or(0);
      return one.bytes.has_value();
    };
    if (!std::ranges::all_of(instance.slots, add)) return std::nullopt;
    if (!std::ranges::all_of(instance.queues, add)) return std::nullopt;
  }
  return bytes;
}

std::int64_t attended_rows(const memory::Stack& stack) {
  std::int64_t rows = stack.context_rows(memory::Phase::kEvaluation);
  for (const memory::TierOutline& tier : stack.outlines(1, 1))
    rows += (tier.evaluation ? *tier.evaluation : tier.training).read_rows;
  return rows;
}

struct MemorySize {
  std::size_t tier = 0;
  config::OptionSpec spec;
};

// The option that says how much a memory holds; absent when it has none.
std::optional<MemorySize> find_size(const memory::Stack& stack) {
  for (std::size_t tier = 0; tier < stack.tiers().size(); ++tier) {
    for (const config::OptionSpec& spec : stack.tiers()[tier]->option_specs()) {
      if (spec.type == config::OptionType::kInteger && !spec.default_value)
        return MemorySize{tier, spec};
    }
  }
  return std::nullopt;
}

// An arm's memory with other sizes, and what they cost.
class Sizes {
 public:
  Sizes(ArmSetup& arm, Budget budget, const run::RuntimeOptions& options)
      : arm_(arm), budget_(budget), loader_(*options.loader) {
    const run::Runtime runtime = runtime_of(arm.experiment, options);
    info_ = runtime.stack().backbone();
    info_.draws_parameters = false;
    size_ = find_size(runtime.stack());
    cost_ = cost_of(runtime.stack());
    if (!size_) return;
    config::TierConfig& tier = arm.experiment.memory.tiers[size_->tier];
    if (tier.eval_options.find(size_->spec.key) != nullptr) {
      throw_usage({.where = "--equal chooses " + size_->spec.key,
                   .failed = "the memory file gives evaluations a size of their own",
                   .expected = "no eval_" + size_->spec.key,
                   .hint = "remove it from " + arm.file.string()});
    }
    before_ = tier.options.find(size_->spec.key)->as_integer();
  }

  [[nodiscard]] bool has_size() const { return size_.has_value(); }
  [[nodiscard]] std::int64_t cost() const { return cost_; }
  [[nodiscard]] std::int64_t before() const { return before_; }
  [[nodiscard]] std::string key() const {
    return str("memory.tier.", size_->tier, '.', size_->spec.key);
  }
  [[nodiscard]] std::int64_t least() const {
    const std::int64_t least = size_->spec.integers.min;
    return least == config::IntegerRange{}.min ? 1 : least;
  }
  [[nodiscard]] std::int64_t most() const {
    const std::int64_t most = size_->spec.integers.max;
    return most == config::IntegerRange{}.max ? kMaxSize : most;
  }

  std::int64_t cost_with(std::int64_t value) {
    set(value);
    return cost_of(memory::Stack(arm_.experiment.memory, info_, loader_));
  }
  void set(std::int64_t value) {
    config::Value& options = arm_.experiment.memory.tiers[size_->tier].options;
    const config::Position position = options.find(size_->spec.key)->position();
    options.set(size_->spec.key, position, config::Value::integer(value, position, key()));
  }

 private:
  [[nodiscard]] std::int64_t cost_of(const memory::Stack& stack) const {
    if (budget_ == Budget::kAttention) return attended_rows(stack);
    const std::optional<std::int64_t> bytes = state_bytes(stack);
    if (bytes) return *bytes;
    throw_usage({.where = "--equal state",
                 .failed = "the memory does not declare how many bytes its state has",
                 .hint = "mneme plugins describe --in FILE shows which slot or queue; compare with "
                         "--sweep instead"});
  }

  ArmSetup& arm_;
  Budget budget_;
  plugin::PluginLoader& loader_;
  memory::BackboneInfo info_;
  std::optional<MemorySize> size_;
  std::int64_t cost_ = 0;
  std::int64_t before_ = 0;
};

// A size that a memory takes, and what it costs.
struct PricedSize {
  std::int64_t size = 0;
  std::int64_t cost = 0;
};

// The first size from this one on that the memory takes; absent when there is none for a while.
std::optional<PricedSize> price_from(Sizes& sizes, std::int64_t size) {
  const std::int64_t end = std::min(sizes.most(), size + kMaxRefused);
  for (; size <= end; ++size) {
    try {
      return PricedSize{.size = size, .cost = sizes.cost_with(size)};
    } catch (const Error&) {
      continue;  // of the plugin: the size does not suit its other options
    }
  }
  return std::nullopt;
}

// Whether another size has another cost.
bool depends_on_size(Sizes& sizes) {
  const std::int64_t more = std::min(sizes.most(), 2 * std::max<std::int64_t>(sizes.before(), 1));
  const auto other = price_from(sizes, more > sizes.before() ? more : sizes.least());
  return !other || other->cost != sizes.cost();
}

// The size whose cost is nearest to the target; costs grow with sizes.
PricedSize nearest_size(Sizes& sizes, std::int64_t target) {
  PricedSize above{.size = sizes.before(), .cost = sizes.cost()};
  PricedSize below = price_from(sizes, sizes.least()).value_or(above);
  while (above.cost < target && above.size < sizes.most()) {
    below = above;
    const std::int64_t next = std::min(sizes.most(), 2 * std::max<std::int64_t>(above.size, 1));
    const auto found = price_from(sizes, next);
    if (!found) break;
    above = *found;
  }
  std::int64_t low = below.size, high = above.size;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    const auto found = price_from(sizes, middle);
    if (!found || found->size >= high || found->cost >= target) {
      high = middle;
      if (found && found->cost >= target) above = *found;
    } else {
      low = found->size;
      below = *found;
    }
  }
  const auto distance = [&](const PricedSize& size) { return std::abs(size.cost - target); };
  return distance(below) <= distance(above) ? below : above;
}

// Gives an arm the size whose cost is nearest to the budget.
void equalize_memory(const ArmSetup& arm, Budget budget, Sizes& sizes, Equalized& out) {
  if (!sizes.has_size()) {
    out.fixed.push_back({.arm = arm.name, .reason = "has no size to choose"});
    return;
  }
  if (!depends_on_size(sizes)) {
    sizes.set(sizes.before());
    out.fixed.push_back(
        {.arm = arm.name, .reason = str("its cost does not depend on ", sizes.key())});
    return;
  }
  check_not_given(arm, budget, sizes.key());
  const PricedSize chosen = nearest_size(sizes, out.budget);
  sizes.set(chosen.size);
  out.sizes.push_back({.arm = arm.name,
                       .key = sizes.key(),
                       .before = sizes.before(),
                       .after = chosen.size,
                       .budget_before = sizes.cost(),
                       .budget_after = chosen.cost});
}

void equalize_memories(std::vector<ArmSetup>& arms, Budget budget,
                       const run::RuntimeOptions& options, Equalized& out) {
  std::vector<Sizes> all;
  for (ArmSetup& arm : arms) {
    try {
      all.emplace_back(arm, budget, options);
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
      throw_usage({.where = str("--equal ", to_word(budget)),
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
