#include "host/config/options.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "host/base/text.hpp"

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
      value = boxed(reader.optional_integer(spec.key, spec.integers));
      break;
    case OptionType::kReal:
      value = boxed(reader.optional_real(spec.key, spec.reals));
      break;
    case OptionType::kBoolean:
      value = reader.boolean(spec.key, false);
      break;
    case OptionType::kText:
      value = reader.text(spec.key, "");
      break;
    case OptionType::kIntegerList:
      value = boxed(reader.integers(spec.key, spec.integers));
      break;
    case OptionType::kRealList:
      value = boxed(reader.reals(spec.key, spec.reals));
      break;
    case OptionType::kChoice:
      value = reader.choice(spec.key, spec.choices);
      break;
  }
  return problems.size() == before ? value : std::nullopt;
}

struct TypeInfo {
  std::string_view text;
  // Holds the type that values have. Replaces a required option whose value was refused, so that
  // reading can continue and find further problems.
  OptionValue blank;
};

const TypeInfo& info_of(OptionType type) {
  static const TypeInfo kTypes[] = {{"integer", std::int64_t{0}},
                                    {"real", 0.0},
                                    {"boolean", false},
                                    {"text", std::string()},
                                    {"choice", std::string()},
                                    {"list of integers", std::vector<std::int64_t>()},
                                    {"list of reals", std::vector<double>()}};
  return kTypes[static_cast<std::size_t>(type)];
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
    values[spec.key] = value                ? *value
                       : spec.default_value ? *spec.default_value
                                            : info_of(spec.type).blank;
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

namespace {

// What is wrong with the bounds of one option; "" = nothing.
std::string bounds_fault(const OptionSpec& spec) {
  const bool takes_integers =
      spec.type == OptionType::kInteger || spec.type == OptionType::kIntegerList;
  const bool takes_reals = spec.type == OptionType::kReal || spec.type == OptionType::kRealList;
  if ((spec.integers != IntegerRange{} && !takes_integers) ||
      (spec.reals != RealRange{} && !takes_reals)) {
    return str("bounds of another type: expected those of ", option_type_text(spec.type));
  }
  if (std::isnan(spec.reals.min) || std::isnan(spec.reals.max)) return "a bound is not a number";
  const auto order = [](const auto& range) {
    return range.min > range.max ? str("min ", range.min, " exceeds max ", range.max) : "";
  };
  return takes_integers ? order(spec.integers) : order(spec.reals);
}

bool is_in_range(const OptionSpec& spec, const OptionValue& value) {
  struct Check {
    bool operator()(std::int64_t x) const {
      return x >= spec.integers.min && x <= spec.integers.max;
    }
    bool operator()(double x) const { return spec.reals.contains(x); }
    bool operator()(bool) const { return true; }
    bool operator()(const std::string& x) const {
      return spec.type == OptionType::kText ||
             std::ranges::find(spec.choices, x) != spec.choices.end();
    }
    bool operator()(const std::vector<std::int64_t>& x) const {
      return std::ranges::all_of(x, *this);
    }
    bool operator()(const std::vector<double>& x) const { return std::ranges::all_of(x, *this); }

    const OptionSpec& spec;
  };
  return std::visit(Check{spec}, value);
}

bool is_well_formed(const std::string& key) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !key.empty() && is_letter(key.front()) && std::ranges::all_of(key, [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
  });
}

// What is wrong with one option of a schema; "" = nothing.
std::string schema_fault(const OptionSpec& spec) {
  const auto& hosts = host_tier_keys();
  if (!is_well_formed(spec.key)) {
    return "bad key: expected small letters, digits and '_', starting with a letter";
  }
  if (std::find(hosts.begin(), hosts.end(), spec.key) != hosts.end()) {
    return "the key belongs to the host; choose another name";
  }
  if (spec.key.starts_with("eval_")) {
    return "keys that begin with eval_ belong to the host; choose another name";
  }
  if (spec.type == OptionType::kChoice && spec.choices.empty()) return "a choice without choices";
  if (std::string fault = bounds_fault(spec); !fault.empty()) return fault;
  if (spec.is_trained && spec.may_differ_at_evaluation) {
    return "an option with whose value parameters are trained may not differ at evaluation";
  }
  if (!spec.default_value) return "";
  if (spec.default_value->index() != info_of(spec.type).blank.index()) {
    return str("the default has another type: expected ", option_type_text(spec.type), ", got ",
               option_text(*spec.default_value));
  }
  if (!is_in_range(spec, *spec.default_value)) {
    return str("the default is out of range: expected ", option_expectation(spec), ", got ",
               option_text(*spec.default_value));
  }
  return "";
}

}  // namespace

std::string_view option_type_text(OptionType type) { return info_of(type).text; }

std::string option_text(const OptionValue& value) {
  struct Writer {
    std::string operator()(std::int64_t x) const { return std::to_string(x); }
    std::string operator()(double x) const { return format_exact(x); }
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(const std::string& x) const { return toml_string(x); }
    std::string operator()(const std::vector<std::int64_t>& x) const { return list_text(x); }
    std::string operator()(const std::vector<double>& x) const {
      std::vector<std::string> parts;
      for (const double item : x) parts.push_back(format_exact(item));
      return '[' + join(parts, ", ") + ']';
    }
  };
  return std::visit(Writer{}, value);
}

std::string option_expectation(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::kInteger:
      return range_text(spec.integers);
    case OptionType::kReal:
      return range_text(spec.reals);
    case OptionType::kBoolean:
      return "true or false";
    case OptionType::kText:
      return "a string";
    case OptionType::kChoice:
      return quoted_list(spec.choices);
    case OptionType::kIntegerList:
      return "a list, each " + range_text(spec.integers);
    case OptionType::kRealList:
      break;
  }
  return "a list, each " + range_text(spec.reals);
}

void check_schema(const std::string& plugin, const std::vector<OptionSpec>& specs) {
  std::vector<std::string> faults;
  std::set<std::string> seen;
  for (const OptionSpec& spec : specs) {
    const std::string where = str("plugin ", plugin, ": option ", toml_string(spec.key), ": ");
    const std::string fault = schema_fault(spec);
    if (!fault.empty()) faults.push_back(where + fault);
    if (!seen.insert(spec.key).second) faults.push_back(where + "declared twice");
  }
  if (!faults.empty()) throw Error(ErrorKind::kPlugin, join(faults, "\n"));
}

}  // namespace mneme::config
