#include "host/plugin/plugin_options.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/config/toml/schema.hpp"
#include "host/config/toml/toml.hpp"
#include "host/plugin/host_groups.hpp"
#include "host/plugin/known_fields.hpp"

namespace mneme::plugin {
namespace {

using config::OptionSpec;
using config::OptionType;
using config::OptionValue;

static_assert(offsetof(mneme_option, reserved) + sizeof(std::uint32_t) == kOptionSizeV1,
              "a mneme_option has all fields up to here");

constexpr std::uint32_t kMaxOptionBytes = 64 * 1024;
constexpr std::uint32_t kMaxOptions = 1024;
constexpr std::size_t kMaxOptionText = 4096;
constexpr std::size_t kMaxKey = 64;
constexpr std::uint32_t kMaxListed = 4096;  // entries of a default list, words of a choice

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
  const auto check_list = [&](const char* what, std::uint32_t count, bool is_given) {
    if (count > kMaxListed)
      refuse_schema(where, str("option \"", *key, "\", ", what),
                    str("at most ", kMaxListed, " entries"), str(count));
    if (count > 0 && !is_given)
      refuse_schema(where, str("option \"", *key, "\", ", what), str(count, " entries"), "NULL");
  };
  check_list("default", option.default_count,
             option.type == MNEME_OPTION_REALS ? option.default_reals != nullptr
                                               : option.default_integers != nullptr);
  check_list("choices", option.choice_count, option.choices != nullptr);
  for (std::uint32_t i = 0; i < option.choice_count; ++i) {
    if (!read_text(option.choices[i], kMaxOptionText)) {
      refuse_schema(where, str("option \"", *key, "\", choice ", i),
                    str("a text of at most ", kMaxOptionText, " bytes"),
                    no_text(option.choices[i]));
    }
  }
  return option;
}

// Both lists have one order, from 1 and from 0.
static_assert(MNEME_OPTION_INTEGER == 1 && static_cast<int>(OptionType::kInteger) == 0);
static_assert(MNEME_OPTION_CHOICE == 5 && static_cast<int>(OptionType::kChoice) == 4);
static_assert(MNEME_OPTION_REALS == 7 && static_cast<int>(OptionType::kRealList) == 6);

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

OptionValue default_of(const mneme_option& option, OptionType type, const std::string& where) {
  switch (type) {
    case OptionType::kInteger:
      return std::int64_t{option.default_integer};
    case OptionType::kReal:
      return option.default_real;
    case OptionType::kBoolean:
      if (option.default_integer != 0 && option.default_integer != 1) {
        refuse_schema(where, str("option \"", option.key, "\", default"), "0 or 1",
                      str(option.default_integer));
      }
      return option.default_integer == 1;
    case OptionType::kIntegerList:
      return std::vector<std::int64_t>(option.default_integers,
                                       option.default_integers + option.default_count);
    case OptionType::kRealList:
      return std::vector<double>(option.default_reals, option.default_reals + option.default_count);
    case OptionType::kText:
    case OptionType::kChoice:
      break;
  }
  return text_or_empty(option.default_text);
}

OptionSpec spec_of(const mneme_option& option, const std::string& where) {
  if (option.type < MNEME_OPTION_INTEGER || option.type > MNEME_OPTION_REALS) {
    refuse_schema(where, str("option \"", option.key, "\", type"), "1 to 7 (MNEME_OPTION_*)",
                  str(option.type));
  }
  const auto type = static_cast<OptionType>(option.type - MNEME_OPTION_INTEGER);
  OptionSpec spec;
  spec.key = option.key;
  spec.type = type;
  spec.text = text_or_empty(option.help);
  spec.may_differ_at_evaluation = (option.flags & MNEME_OPTION_AT_EVALUATION) != 0;
  spec.is_trained = (option.flags & MNEME_OPTION_TRAINED) != 0;
  if (type == OptionType::kChoice)
    spec.choices.assign(option.choices, option.choices + option.choice_count);
  if ((option.flags & MNEME_OPTION_BOUNDED) != 0) {
    const bool takes_integers = type == OptionType::kInteger || type == OptionType::kIntegerList;
    const bool takes_reals = type == OptionType::kReal || type == OptionType::kRealList;
    if (!takes_integers && !takes_reals) {
      refuse_schema(where, str("option \"", option.key, "\", flags"),
                    "MNEME_OPTION_BOUNDED for numbers alone",
                    config::option_type_text(type).data());
    }
    if (takes_integers) spec.integers = {option.min_integer, option.max_integer};
    if (takes_reals) spec.reals = {.min = option.min_real, .max = option.max_real};
  }
  if ((option.flags & MNEME_OPTION_REQUIRED) == 0) {
    spec.default_value = default_of(option, type, where);
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
  unbounded.integers = {};
  unbounded.reals = {};
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
constexpr const char* kDeclaredIn =
    "mneme_plugin.losses (C++: static constexpr const char* kLosses)";

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find('|', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

}  // namespace

LossNames read_loss_names(const mneme_plugin& table, const std::string& where) {
  if (table.losses == nullptr) return std::nullopt;
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw_plugin({.where = where,
                  .failed = "bad table of functions: its losses",
                  .expected = expected,
                  .got = got,
                  .hint = "report it to the plugin's author"});
  };
  const auto text = read_text(table.losses, kMaxLossesText);
  if (!text) refuse("names separated by '|'", no_text(table.losses));
  std::vector<std::string> names = split_names(*text);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) refuse("names separated by '|'", '"' + *text + '"');
    const auto before = std::span(names).first(i);
    if (std::ranges::find(before, names[i]) != before.end()) {
      refuse("each name once", '"' + *text + '"');
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
        {.failed = str("the plugin ", tier.plugin, " declares no auxiliary loss \"", name, '"',
                       did_you_mean(name, *names)),
         .expected = names->empty() ? "no weight.<loss>" : "weight.<loss> of " + join(*names, ", "),
         .hint =
             str(names->empty() && written != nullptr ? config::removal_of(*written) + "; " : "",
                 "the plugin's author declares losses in ", kDeclaredIn)});
  }
}

void check_declared(const LossNames& names, const std::string& name) {
  if (!names || std::ranges::find(*names, name) != names->end()) return;
  throw CallError(MNEME_E_INVALID_ARGUMENT,
                  str("aux: the plugin does not declare the auxiliary loss \"", name, '"',
                      did_you_mean(name, *names), "; declared: ",
                      names->empty() ? "none" : quoted_list(*names), "; add it to ", kDeclaredIn));
}

}  // namespace mneme::plugin
