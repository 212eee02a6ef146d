#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "host/base/text.hpp"
#include "host/config/option_range.hpp"
#include "host/config/options.hpp"

namespace mneme::config {

IntegerRange integer_range(const OptionSpec& spec) {
  constexpr double kLimit = 9.2e18;  // just inside the 64-bit range
  IntegerRange range;
  if (spec.min && *spec.min > -kLimit) {
    range.min = static_cast<std::int64_t>(std::ceil(std::min(*spec.min, kLimit)));
  }
  if (spec.max && *spec.max < kLimit) {
    range.max = static_cast<std::int64_t>(std::floor(std::max(*spec.max, -kLimit)));
  }
  return range;
}

RealRange real_range(const OptionSpec& spec) {
  // The largest double is how C writes that there is no bound.
  constexpr double kLargest = std::numeric_limits<double>::max();
  RealRange range;
  if (spec.min && *spec.min > -kLargest) range.min = *spec.min;
  if (spec.max && *spec.max < kLargest) range.max = *spec.max;
  return range;
}

namespace {

bool is_number_type(OptionType type) {
  return type == OptionType::kInteger || type == OptionType::kReal ||
         type == OptionType::kIntegerList || type == OptionType::kRealList;
}

bool holds_type(OptionType type, const OptionValue& value) {
  switch (type) {
    case OptionType::kInteger:
      return std::holds_alternative<std::int64_t>(value);
    case OptionType::kReal:
      return std::holds_alternative<double>(value);
    case OptionType::kBoolean:
      return std::holds_alternative<bool>(value);
    case OptionType::kText:
    case OptionType::kChoice:
      return std::holds_alternative<std::string>(value);
    case OptionType::kIntegerList:
      return std::holds_alternative<std::vector<std::int64_t>>(value);
    case OptionType::kRealList:
      break;
  }
  return std::holds_alternative<std::vector<double>>(value);
}

bool is_in_range(const OptionSpec& spec, const OptionValue& value) {
  const IntegerRange integers = integer_range(spec);
  const RealRange reals = real_range(spec);
  const auto has_integer = [&](std::int64_t x) { return x >= integers.min && x <= integers.max; };
  const auto has_real = [&](double x) { return reals.contains(x); };
  switch (spec.type) {
    case OptionType::kInteger:
      return has_integer(std::get<std::int64_t>(value));
    case OptionType::kReal:
      return has_real(std::get<double>(value));
    case OptionType::kIntegerList: {
      const auto& list = std::get<std::vector<std::int64_t>>(value);
      return std::all_of(list.begin(), list.end(), has_integer);
    }
    case OptionType::kRealList: {
      const auto& list = std::get<std::vector<double>>(value);
      return std::all_of(list.begin(), list.end(), has_real);
    }
    case OptionType::kChoice:
      return std::find(spec.choices.begin(), spec.choices.end(), std::get<std::string>(value)) !=
             spec.choices.end();
    case OptionType::kBoolean:
    case OptionType::kText:
      break;
  }
  return true;
}

bool is_well_formed(const std::string& key) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !key.empty() && is_letter(key.front()) && std::all_of(key.begin(), key.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
  });
}

// What is wrong with one option of a schema; "" = nothing.
std::string schema_fault(const OptionSpec& spec) {
  const auto& hosts = host_tier_keys();
  if (!is_well_formed(spec.key)) {
    return "bad key: expected letters, digits and '_', starting with a letter";
  }
  if (std::find(hosts.begin(), hosts.end(), spec.key) != hosts.end()) {
    return "the key belongs to the host; choose another name";
  }
  if (spec.key.starts_with("eval_")) {
    return "keys that begin with eval_ belong to the host; choose another name";
  }
  if (spec.type == OptionType::kChoice && spec.choices.empty()) return "a choice without choices";
  if ((spec.min || spec.max) && !is_number_type(spec.type)) {
    return "bounds are for numbers only";
  }
  if ((spec.min && std::isnan(*spec.min)) || (spec.max && std::isnan(*spec.max))) {
    return "a bound is not a number";
  }
  if (spec.min && spec.max && *spec.min > *spec.max) {
    return str("min ", *spec.min, " exceeds max ", *spec.max);
  }
  if (spec.is_trained && spec.may_differ_at_evaluation) {
    return "an option with whose value parameters are trained may not differ at evaluation";
  }
  if (!spec.default_value) return "";
  if (!holds_type(spec.type, *spec.default_value)) {
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

std::string_view option_type_text(OptionType type) {
  switch (type) {
    case OptionType::kInteger:
      return "integer";
    case OptionType::kReal:
      return "real";
    case OptionType::kBoolean:
      return "boolean";
    case OptionType::kText:
      return "text";
    case OptionType::kChoice:
      return "choice";
    case OptionType::kIntegerList:
      return "list of integers";
    case OptionType::kRealList:
      break;
  }
  return "list of reals";
}

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
      return range_text(integer_range(spec));
    case OptionType::kReal:
      return range_text(real_range(spec));
    case OptionType::kBoolean:
      return "true or false";
    case OptionType::kText:
      return "a string";
    case OptionType::kChoice:
      return quoted_list(spec.choices);
    case OptionType::kIntegerList:
      return "a list, each " + range_text(integer_range(spec));
    case OptionType::kRealList:
      break;
  }
  return "a list, each " + range_text(real_range(spec));
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
