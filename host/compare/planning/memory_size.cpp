#include "host/compare/planning/memory_size.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/memory/stack/tier_outline.hpp"

namespace mneme::compare {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;
constexpr std::int64_t kMaxRefused = 64;  // sizes in a row, before a search ends

// The bytes that the tiers declare for one lane, where an extent changes with the rows that they
// declare; absent when one of them does not.
std::optional<std::int64_t> state_bytes(const memory::Stack& stack) {
  std::int64_t bytes = 0;
  for (const memory::TierOutline& tier : stack.outlines(1, 1)) {
    const memory::InstanceOutline& instance = tier.evaluation ? *tier.evaluation : tier.training;
    const auto add = [&](const memory::StateOutline& one) {
      const std::optional<std::int64_t> known = one.bytes ? one.bytes : one.bytes_of_rows;
      bytes += known.value_or(0);
      return known.has_value();
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

// The setting of the arm that gives `key`, or nullptr.
const std::string* setting_of(const ArmSetup& arm, const std::string& key) {
  const auto given = std::ranges::find_if(
      arm.settings, [&](const std::string& setting) { return setting.starts_with(key + '='); });
  return given == arm.settings.end() ? nullptr : &*given;
}

run::RuntimeOptions without_weights(run::RuntimeOptions options) {
  options.weights_follow = true;
  return options;
}

}  // namespace

MemorySize::MemorySize(ArmSetup& arm, SizeCost cost, std::string option,
                       const run::RuntimeOptions& options)
    : arm_(arm), kind_(cost), option_(std::move(option)), loader_(*options.loader) {
  const run::Runtime runtime(arm.experiment, without_weights(options));
  info_ = runtime.stack().backbone();
  info_.draws_parameters = false;
  cost_ = cost_of(runtime.stack());
  place_ = required_place(runtime.stack());
  if (!place_) {
    find_given(runtime.stack());
    return;
  }
  const config::TierConfig& tier = arm.experiment.memory.tiers[place_->tier];
  if (tier.eval_options.find(place_->spec.key) != nullptr) {
    throw_usage({.where = str(option_, " chooses ", place_->spec.key),
                 .failed = "the memory file gives evaluations a size of their own",
                 .expected = "no eval_" + place_->spec.key,
                 .hint = "remove it from " + arm.file.string()});
  }
  before_ = tier.options.find(place_->spec.key)->as_integer();
}

std::optional<MemorySize::Place> MemorySize::required_place(const memory::Stack& stack) {
  for (std::size_t tier = 0; tier < stack.tiers().size(); ++tier) {
    for (const config::OptionSpec& spec : stack.tiers()[tier]->option_specs()) {
      if (spec.type == config::OptionType::kInteger && !spec.default_value)
        return Place{tier, spec};
    }
  }
  return std::nullopt;
}

// The cost is that of evaluating: an option with an eval_<option> beside it does not change it.
void MemorySize::find_given(const memory::Stack& stack) {
  for (std::size_t tier = 0; tier < stack.tiers().size(); ++tier) {
    const std::vector<config::OptionSpec>& specs = stack.tiers()[tier]->option_specs();
    const config::Value given = arm_.experiment.memory.tiers[tier].options;  // other_size sets it
    for (const config::Member& member : given.members()) {
      const auto spec = std::ranges::find(specs, member.key, &config::OptionSpec::key);
      if (spec->type != config::OptionType::kInteger) continue;
      place_ = Place{tier, *spec};
      before_ = member.value.as_integer();
      if (setting_of(arm_, key()) != nullptr) continue;
      const auto other = other_size();
      if (other && other->cost != cost_ && (other->size > before_) == (other->cost > cost_)) return;
    }
  }
  place_.reset();
}

std::string MemorySize::key() const {
  return str("memory.tier.", place_->tier, '.', place_->spec.key);
}

std::int64_t MemorySize::least() const {
  const std::int64_t least = place_->spec.integers.min;
  return least == config::IntegerRange{}.min ? 1 : least;
}

std::int64_t MemorySize::most() const {
  const std::int64_t most = place_->spec.integers.max;
  return most == config::IntegerRange{}.max ? kMaxSize : most;
}

std::int64_t MemorySize::cost_of(const memory::Stack& stack) const {
  if (kind_ == SizeCost::kAttendedRows) return attended_rows(stack);
  const std::optional<std::int64_t> bytes = state_bytes(stack);
  if (bytes) return *bytes;
  throw_usage({.where = option_,
               .failed = "the memory does not declare how many bytes its state has",
               .hint = "mneme plugins describe --in FILE shows which slot or queue; compare with "
                       "--sweep instead"});
}

void MemorySize::set(std::int64_t size) {
  config::Value& options = arm_.experiment.memory.tiers[place_->tier].options;
  const config::Position position = options.find(place_->spec.key)->position();
  options.set(place_->spec.key, position, config::Value::integer(size, position, key()));
}

// The first size from this one on that the memory takes; absent when there is none for a while.
std::optional<PricedSize> MemorySize::price_from(std::int64_t size) {
  const std::int64_t end = std::min(most(), size + kMaxRefused);
  for (; size <= end; ++size) {
    try {
      set(size);
      return PricedSize{.size = size,
                        .cost = cost_of(memory::Stack(arm_.experiment.memory, info_, loader_))};
    } catch (const Error&) {
      continue;  // of the plugin: the size does not suit its other options
    }
  }
  return std::nullopt;
}

std::optional<PricedSize> MemorySize::other_size() {
  const std::int64_t more = std::min(most(), 2 * std::max<std::int64_t>(before_, 1));
  const auto other = price_from(more > before_ ? more : least());
  set(before_);
  return other;
}

bool MemorySize::changes_cost() {
  const auto other = other_size();
  return !other || other->cost != cost_;
}

PricedSize MemorySize::nearest(std::int64_t target) {
  PricedSize above{.size = before_, .cost = cost_};
  PricedSize below = price_from(least()).value_or(above);
  while (above.cost < target && above.size < most()) {
    below = above;
    const auto found = price_from(std::min(most(), 2 * std::max<std::int64_t>(above.size, 1)));
    if (!found) break;
    above = *found;
  }
  std::int64_t low = below.size, high = above.size;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    const auto found = price_from(middle);
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

void check_not_given(const ArmSetup& arm, const std::string& option, const std::string& key) {
  const std::string* const given = setting_of(arm, key);
  if (given == nullptr) return;
  throw_usage({.where = arm.name,
               .failed = str(option, " chooses ", key,
                             ", which a --sweep or a setting of the arm gives, "
                             "too"),
               .expected = "one of the two",
               .got = *given,
               .hint = str("leave out ", option.substr(0, option.find(' ')),
                           ", or the --sweep or setting of ", key)});
}

}  // namespace mneme::compare
