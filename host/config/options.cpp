#include "host/config/options.hpp"

#include <utility>

#include "host/base/text.hpp"
#include "host/config/option_range.hpp"

namespace mneme::config {
namespace {

template <typename T>
std::optional<OptionValue> boxed(const std::optional<T>& value) {
  return value ? std::optional<OptionValue>(*value) : std::nullopt;
}

// The value of one key that is present, or nothing where it does not fit (and a problem is added).
std::optional<OptionValue> read_option(Reader& reader, const OptionSpec& spec, Problems& problems) {
  const std::size_t before = problems.size();
  std::optional<OptionValue> value;
  switch (spec.type) {
    case OptionType::kInteger:
      value = boxed(reader.optional_integer(spec.key, integer_range(spec)));
      break;
    case OptionType::kReal:
      value = boxed(reader.optional_real(spec.key, real_range(spec)));
      break;
    case OptionType::kBoolean:
      value = reader.boolean(spec.key, false);
      break;
    case OptionType::kText:
      value = reader.text(spec.key, "");
      break;
    case OptionType::kIntegerList:
      value = boxed(reader.integers(spec.key, integer_range(spec)));
      break;
    case OptionType::kRealList:
      value = boxed(reader.reals(spec.key, real_range(spec)));
      break;
    case OptionType::kChoice:
      value = reader.word(spec.key, spec.choices);
      break;
  }
  return problems.size() == before ? value : std::nullopt;
}

// Stands in for a required option whose value is a problem already, so that reading goes on.
OptionValue blank(OptionType type) {
  switch (type) {
    case OptionType::kInteger:
      return std::int64_t{0};
    case OptionType::kReal:
      return 0.0;
    case OptionType::kBoolean:
      return false;
    case OptionType::kText:
    case OptionType::kChoice:
      return std::string();
    case OptionType::kIntegerList:
      return std::vector<std::int64_t>();
    case OptionType::kRealList:
      break;
  }
  return std::vector<double>();
}

using Values = std::map<std::string, OptionValue, std::less<>>;

Values read_training(const TierConfig& tier, const std::vector<OptionSpec>& specs,
                     Problems& problems) {
  Values values;
  Reader reader(tier.options, problems);
  for (const OptionSpec& spec : specs) {
    std::optional<OptionValue> value;
    if (reader.has(spec.key)) {
      value = read_option(reader, spec, problems);
    } else if (!spec.default_value) {
      reader.require(spec.key, str(option_expectation(spec), " for the plugin ", tier.plugin));
    } else {
      static_cast<void>(reader.value(spec.key));
    }
    values[spec.key] = value ? *value : spec.default_value ? *spec.default_value : blank(spec.type);
  }
  reader.finish(host_tier_keys());
  return values;
}

// `values` with every eval_<key> in place.
Values read_evaluation(const TierConfig& tier, const std::vector<OptionSpec>& specs, Values values,
                       Problems& problems) {
  Reader reader(tier.eval_options, problems);
  std::vector<std::string> allowed;
  for (const OptionSpec& spec : specs) {
    if (spec.may_differ_at_evaluation) allowed.push_back("eval_" + spec.key);
  }
  for (const OptionSpec& spec : specs) {
    const Value* found = reader.value(spec.key);
    if (found == nullptr) continue;
    if (spec.may_differ_at_evaluation) {
      const auto value = read_option(reader, spec, problems);
      if (value) values[spec.key] = *value;
    } else {
      problems.add(
          found->position(), found->path(),
          {.failed = str(spec.key, " may not differ at evaluation"),
           .expected = allowed.empty() ? "no eval_ option for this plugin" : quoted_list(allowed)});
    }
  }
  for (const Member& member : reader.take_rest()) {
    problems.add(member.key_position, member.value.path(),
                 {.failed = "unknown key" + did_you_mean("eval_" + member.key, allowed),
                  .hint = allowed.empty() ? str("the plugin ", tier.plugin, " has no eval_ option")
                                          : "known keys: " + join(allowed, ", ")});
  }
  return values;
}

}  // namespace

OptionMap::OptionMap(std::string plugin, Values values)
    : plugin_(std::move(plugin)), values_(std::move(values)) {}

const OptionValue* OptionMap::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

template <typename T>
const T& OptionMap::get(std::string_view key, std::string_view type) const {
  const OptionValue* value = find(key);
  const std::string where = str("plugin ", plugin_, ": option \"", key, '"');
  if (value == nullptr) {
    std::vector<std::string> keys;
    for (const auto& item : values_) keys.push_back(item.first);
    throw_plugin({.where = where,
                  .failed = "asked for, but not in the schema" + did_you_mean(key, keys),
                  .hint = "declare the option"});
  }
  const T* typed = std::get_if<T>(value);
  if (typed == nullptr) {
    throw_plugin({.where = where,
                  .failed = "read as another type than its schema's",
                  .expected = std::string(type),
                  .got = option_text(*value)});
  }
  return *typed;
}

std::int64_t OptionMap::integer(std::string_view key) const {
  return get<std::int64_t>(key, "integer");
}
double OptionMap::real(std::string_view key) const { return get<double>(key, "real"); }
bool OptionMap::boolean(std::string_view key) const { return get<bool>(key, "boolean"); }
const std::string& OptionMap::text(std::string_view key) const {
  return get<std::string>(key, "text");
}
const std::vector<std::int64_t>& OptionMap::integers(std::string_view key) const {
  return get<std::vector<std::int64_t>>(key, "list of integers");
}
const std::vector<double>& OptionMap::reals(std::string_view key) const {
  return get<std::vector<double>>(key, "list of reals");
}

OptionValues resolve_options(const TierConfig& tier, const std::vector<OptionSpec>& specs,
                             Problems& problems) {
  Values training = read_training(tier, specs, problems);
  Values evaluation = read_evaluation(tier, specs, training, problems);
  return {OptionMap(tier.plugin, std::move(training)),
          OptionMap(tier.plugin, std::move(evaluation))};
}

OptionValues resolve_options(const TierConfig& tier, const std::vector<OptionSpec>& specs) {
  Problems problems;
  OptionValues values = resolve_options(tier, specs, problems);
  problems.throw_if_any();
  return values;
}

}  // namespace mneme::config
