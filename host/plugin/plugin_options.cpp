#include "host/plugin/plugin_options.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/config/toml/schema.hpp"
#include "host/config/toml/toml.hpp"
#include "host/plugin/host_object.hpp"
#include "host/plugin/known_fields.hpp"

namespace mneme::plugin {
namespace {

using config::OptionSpec;
using config::OptionType;
using config::OptionValue;

static_assert(offsetof(mneme_option, choices) + sizeof(const char*) == kOptionSizeV1,
              "the fields of ABI 0.1 stay where they are");

constexpr std::uint32_t kMaxOptionBytes = 64 * 1024;
constexpr std::uint32_t kMaxOptions = 1024;
constexpr std::size_t kMaxOptionText = 4096;
constexpr std::size_t kMaxKey = 64;

[[noreturn]] void refuse_schema(const std::string& where, const std::string& failed,
                                const std::string& expected, const std::string& got) {
  throw_plugin({.where = where,
                .failed = "bad option schema: " + failed,
                .expected = expected,
                .got = got,
                .hint = "report it to the plugin's author"});
}

void check_option_text(const char* text, const std::string& what, std::size_t limit,
                       const std::string& where) {
  if (text == nullptr || read_text(text, limit)) return;
  refuse_schema(where, what, str("a text of at most ", limit, " bytes"), no_text(text));
}

mneme_option read_option(const std::byte* at, std::uint32_t stride, const std::string& name,
                         const std::string& where) {
  std::uint32_t size = 0;
  std::memcpy(&size, at, sizeof(size));
  if (size < kOptionSizeV1 || size > stride) {
    refuse_schema(where, name + " has a struct_size out of range",
                  str(kOptionSizeV1, " to ", stride, " (the stride)"), str(size));
  }
  mneme_option option{};
  std::memcpy(&option, at, std::min<std::size_t>(size, sizeof(option)));
  option.struct_size = sizeof(option);
  const auto key = read_text(option.key, kMaxKey);
  if (!key) refuse_schema(where, name + " has a bad key", "a text", no_text(option.key));
  if (option.reserved != 0) {
    refuse_schema(where, str("option \"", *key, "\", reserved field"), "0", str(option.reserved));
  }
  if (const auto unknown = unknown_value(option)) {
    refuse_schema(where, str("option \"", *key, "\", ", unknown->field), unknown->expected,
                  unknown->got);
  }
  check_option_text(option.help, str("option \"", *key, "\", help"), kMaxOptionText, where);
  check_option_text(option.default_text, str("option \"", *key, "\", default"), kMaxOptionText,
                    where);
  check_option_text(option.choices, str("option \"", *key, "\", choices"), kMaxOptionText, where);
  return option;
}

std::optional<OptionType> type_of(std::uint32_t type) {
  switch (type) {
    case MNEME_OPTION_INTEGER:
      return OptionType::kInteger;
    case MNEME_OPTION_REAL:
      return OptionType::kReal;
    case MNEME_OPTION_BOOLEAN:
      return OptionType::kBoolean;
    case MNEME_OPTION_TEXT:
      return OptionType::kText;
    case MNEME_OPTION_CHOICE:
      return OptionType::kChoice;
    case MNEME_OPTION_INTEGERS:
      return OptionType::kIntegerList;
    case MNEME_OPTION_REALS:
      return OptionType::kRealList;
    default:
      return std::nullopt;
  }
}

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

std::vector<std::string> split_choices(const char* choices) {
  std::vector<std::string> words;
  std::string word;
  for (const char letter : text_or_empty(choices)) {
    if (letter == '|') {
      words.push_back(std::exchange(word, {}));
    } else {
      word += letter;
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

// The numbers of a list default, "[1, 2]".
std::vector<config::Value> list_items(const mneme_option& option, const std::string& where) {
  const std::string text = text_or_empty(option.default_text);
  if (text.empty()) return {};
  const std::string failed = str("option \"", option.key, "\", default");
  try {
    const config::Value root = config::parse_toml("list = " + text, option.key);
    const config::Value* const list = root.find("list");
    if (list != nullptr && list->kind() == config::Kind::kArray && root.members().size() == 1) {
      return list->items();
    }
  } catch (const Error&) {
    // The position inside this generated line would mean nothing to the reader.
  }
  refuse_schema(where, failed, "a TOML list such as \"[1, 2]\"", '"' + text + '"');
}

OptionValue whole_number(const mneme_option& option, const std::string& where) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it doubles skip integers
  const double number = option.default_number;
  if (number != std::floor(number) || std::abs(number) > kExact) {
    refuse_schema(where, str("option \"", option.key, "\", default"),
                  "a whole number of at most 2^53 in absolute value", format_exact(number));
  }
  return static_cast<std::int64_t>(number);
}

OptionValue flag(const mneme_option& option, const std::string& where) {
  if (option.default_number != 0.0 && option.default_number != 1.0) {
    refuse_schema(where, str("option \"", option.key, "\", default"), "0 or 1",
                  format_exact(option.default_number));
  }
  return option.default_number == 1.0;
}

template <typename Number, typename Read>
OptionValue list_default(const mneme_option& option, const std::string& expected, Read&& read,
                         const std::string& where) {
  std::vector<Number> numbers;
  for (const config::Value& item : list_items(option, where)) {
    const std::optional<Number> number = read(item);
    if (!number) {
      refuse_schema(where, str("option \"", option.key, "\", default"), expected,
                    option.default_text);
    }
    numbers.push_back(*number);
  }
  return numbers;
}

OptionValue default_of(const mneme_option& option, OptionType type, const std::string& where) {
  const auto as_integer = [](const config::Value& value) {
    return value.kind() == config::Kind::kInteger ? std::optional(value.as_integer())
                                                  : std::nullopt;
  };
  const auto as_real = [](const config::Value& value) {
    const bool is_number =
        value.kind() == config::Kind::kReal || value.kind() == config::Kind::kInteger;
    return is_number ? std::optional(value.as_real()) : std::nullopt;
  };
  switch (type) {
    case OptionType::kInteger:
      return whole_number(option, where);
    case OptionType::kReal:
      return option.default_number;
    case OptionType::kBoolean:
      return flag(option, where);
    case OptionType::kIntegerList:
      return list_default<std::int64_t>(option, "a list of integers", as_integer, where);
    case OptionType::kRealList:
      return list_default<double>(option, "a list of numbers", as_real, where);
    case OptionType::kText:
    case OptionType::kChoice:
      break;
  }
  return text_or_empty(option.default_text);
}

OptionSpec spec_of(const mneme_option& option, const std::string& where) {
  const auto type = type_of(option.type);
  if (!type) {
    refuse_schema(where, str("option \"", option.key, "\", type"), "1 to 7 (MNEME_OPTION_*)",
                  str(option.type));
  }
  OptionSpec spec;
  spec.key = option.key;
  spec.type = *type;
  spec.text = text_or_empty(option.help);
  spec.may_differ_at_evaluation = (option.flags & MNEME_OPTION_AT_EVALUATION) != 0;
  spec.is_trained = (option.flags & MNEME_OPTION_TRAINED) != 0;
  if (*type == OptionType::kChoice) spec.choices = split_choices(option.choices);
  if ((option.flags & MNEME_OPTION_BOUNDED) != 0) {
    spec.min = option.min;
    spec.max = option.max;
  }
  if ((option.flags & MNEME_OPTION_REQUIRED) == 0) {
    spec.default_value = default_of(option, *type, where);
  }
  return spec;
}

}  // namespace

std::optional<std::string> read_text(const char* text, std::size_t limit) {
  if (text == nullptr) return std::nullopt;
  const std::size_t size = ::strnlen(text, limit + 1);
  return size > limit ? std::nullopt : std::optional(std::string(text, size));
}

std::vector<mneme_option> read_options(const mneme_plugin& table, const std::string& where) {
  std::vector<mneme_option> options;
  if (table.option_count == 0) return options;
  if (table.options == nullptr) {
    refuse_schema(where, "no array", str(table.option_count, " options"), "NULL");
  }
  if (table.option_count > kMaxOptions) {
    refuse_schema(where, "too many options", str("at most ", kMaxOptions), str(table.option_count));
  }
  const std::uint32_t stride = table.option_stride;
  if (stride < kOptionSizeV1 || stride > kMaxOptionBytes || stride % 8 != 0) {
    refuse_schema(where, "option_stride is out of range",
                  str(kOptionSizeV1, " to ", kMaxOptionBytes, ", a multiple of 8"), str(stride));
  }
  const auto* const first = reinterpret_cast<const std::byte*>(table.options);
  for (std::size_t i = 0; i < table.option_count; ++i) {
    options.push_back(read_option(first + i * stride, stride, str("option ", i), where));
  }
  return options;
}

std::vector<OptionSpec> option_specs(const mneme_plugin& table, const std::string& where) {
  std::vector<OptionSpec> specs;
  for (const mneme_option& option : std::span(table.options, table.option_count)) {
    specs.push_back(spec_of(option, where));
  }
  config::check_schema(where, specs);
  return specs;
}

namespace {

// The value of one option as TOML.
std::string value_text(const config::Value& options, const config::OptionSpec& spec) {
  const config::Value* const given = options.find(spec.key);
  if (given == nullptr) {
    return spec.default_value ? config::option_text(*spec.default_value) : "no value";
  }
  config::TierConfig tier;
  tier.options.set(spec.key, given->position(), *given);
  config::OptionSpec unbounded = spec;
  unbounded.min.reset();
  unbounded.max.reset();
  config::Problems problems;
  const config::OptionValues values = config::resolve_options(tier, {unbounded}, problems);
  // A value that cannot be read, for instance one of another type, counts as different.
  return problems.empty() ? config::option_text(*values.training.find(spec.key)) : given->toml();
}

}  // namespace

std::string OptionChange::text() const {
  return str(option, " = ", now, ", trained with ", trained);
}

config::Value trained_options(const std::vector<config::OptionSpec>& specs,
                              const config::OptionMap& values) {
  std::string lines;
  for (const config::OptionSpec& spec : specs) {
    if (!spec.is_trained) continue;
    lines +=
        str(config::toml_key(spec.key), " = ", config::option_text(*values.find(spec.key)), '\n');
  }
  return config::parse_toml(lines, "options");
}

std::vector<OptionChange> changed_options(const std::string& tier,
                                          const std::vector<config::OptionSpec>& specs,
                                          const config::Value& trained,
                                          const config::OptionMap& now) {
  std::vector<OptionChange> changes;
  for (const config::OptionSpec& spec : specs) {
    if (!spec.is_trained) continue;
    OptionChange change{.tier = tier,
                        .option = spec.key,
                        .trained = value_text(trained, spec),
                        .now = config::option_text(*now.find(spec.key))};
    if (change.trained != change.now) changes.push_back(std::move(change));
  }
  return changes;
}

std::string to_text(const config::Value& options) { return options.toml(); }

config::Value parse_options(const std::string& text, const std::string& source) {
  const config::Value root = config::parse_toml("options = " + text, source);
  const config::Value& options = root.members().front().value;
  if (root.members().size() == 1 && options.is_table()) return options;
  throw_usage({.where = source,
               .failed = "the options of a tier cannot be read",
               .expected = "one table, { key = value }",
               .got = config::toml_string(text)});
}

bool is_changed(const std::vector<OptionChange>& changes, const std::string& tier) {
  return std::ranges::any_of(changes,
                             [&](const OptionChange& change) { return change.tier == tier; });
}

void throw_changed_options(const std::string& where, const std::vector<OptionChange>& changes,
                           const std::string& hint) {
  std::string lines;
  for (const OptionChange& change : changes) {
    lines += str("\n  tier ", change.tier, ": ", change.text());
  }
  throw_usage({.where = where,
               .failed = str("the memory was trained with other options:", lines, "\n"),
               .hint = hint});
}

namespace {

constexpr std::size_t kMaxLossesText = 4096;

[[noreturn]] void refuse_losses(const std::string& where, const std::string& expected,
                                const std::string& got) {
  throw_plugin({.where = where,
                .failed = "bad table of functions: its losses",
                .expected = expected,
                .got = got,
                .hint = "report it to the plugin's author"});
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find('|', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::string declared_text(const std::vector<std::string>& names) {
  return names.empty() ? "none" : quoted_list(names);
}

}  // namespace

LossNames read_loss_names(const mneme_plugin& table, const std::string& where) {
  if (table.losses == nullptr) return std::nullopt;
  const auto text = read_text(table.losses, kMaxLossesText);
  if (!text) refuse_losses(where, "names separated by '|'", no_text(table.losses));
  std::vector<std::string> names = split_names(*text);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) refuse_losses(where, "names separated by '|'", '"' + *text + '"');
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      refuse_losses(where, "each name once", '"' + *text + '"');
    }
  }
  return names;
}

void check_weights(const config::TierConfig& tier, const LossNames& names,
                   config::Problems& problems) {
  for (const auto& weight : tier.weights) {
    const std::string& name = weight.first;
    if (!names) {
      log_warning(tier.position.text(), ": the plugin ", tier.plugin,
                  " does not declare its auxiliary losses: weight.", name,
                  " is taken unchecked, and does nothing when no loss has this name");
      continue;
    }
    if (std::ranges::find(*names, name) != names->end()) continue;
    const config::Value* const written = tier.weight_table.find(name);
    problems.add(
        written == nullptr ? tier.position : written->position(),
        written == nullptr ? "weight." + config::toml_key(name) : written->path(),
        {.failed = str("the plugin ", tier.plugin, " gives no auxiliary loss \"", name, '"',
                       did_you_mean(name, *names)),
         .expected = names->empty() ? "no weight.<loss>" : "weight.<loss> of " + join(*names, ", "),
         .hint = names->empty() && written != nullptr ? config::removal_of(*written) : ""});
  }
}

void check_declared(const LossNames& names, const std::string& name) {
  if (!names || std::ranges::find(*names, name) != names->end()) return;
  throw CallError(
      MNEME_E_INVALID_ARGUMENT,
      str("aux: the plugin does not declare the auxiliary loss \"", name, '"',
          did_you_mean(name, *names), "; declared: ", declared_text(*names),
          "; add it to mneme_plugin.losses (C++: static constexpr const char* kLosses)"));
}

}  // namespace mneme::plugin
