// The option schema of a tier as a constexpr table:
//
//   static constexpr auto kOptions = mneme::options(
//       mneme::integer("rows", mneme::kRequired, 1, mneme::kUnlimited, "rows that are kept")
//           .at_evaluation(),
//       mneme::choice("mode", "mean", "mean|max", "how rows are joined").trained());
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "mneme/plugin.h"

namespace mneme {
inline namespace sdk_0_1 {

// In place of a default: the memory file must give the option.
struct Required {};
inline constexpr Required kRequired{};
// In place of a bound.
inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// A default number, or kRequired.
struct NumberDefault {
  constexpr NumberDefault(double number) : value(number) {}                        // NOLINT
  constexpr NumberDefault(int64_t number) : value(static_cast<double>(number)) {}  // NOLINT
  constexpr NumberDefault(int number) : value(number) {}                           // NOLINT
  constexpr NumberDefault(Required /*tag*/) : flags(MNEME_OPTION_REQUIRED) {}      // NOLINT
  double value = 0.0;
  uint32_t flags = 0;
};

// A default text, or kRequired. Lists are given as TOML text: "[1, 2]".
struct TextDefault {
  constexpr TextDefault(const char* text) : value(text) {}                   // NOLINT
  constexpr TextDefault(Required /*tag*/) : flags(MNEME_OPTION_REQUIRED) {}  // NOLINT
  const char* value = nullptr;
  uint32_t flags = 0;
};

// One option of the schema.
class Option {
 public:
  constexpr explicit Option(const mneme_option& raw) : raw_(raw) {}
  // The key eval_<key> may give another value at evaluation.
  constexpr Option at_evaluation() const {
    mneme_option changed = raw_;
    changed.flags |= MNEME_OPTION_AT_EVALUATION;
    return Option(changed);
  }
  // Trained parameters and saved state mean something only with this option's value: they are not
  // given to a tier with another one. Not together with at_evaluation().
  constexpr Option trained() const {
    mneme_option changed = raw_;
    changed.flags |= MNEME_OPTION_TRAINED;
    return Option(changed);
  }
  constexpr const mneme_option& raw() const { return raw_; }

 private:
  mneme_option raw_;
};

namespace detail {

constexpr Option option(const char* key, uint32_t type, uint32_t flags, double number,
                        const char* text, const char* choices, const char* help) {
  return Option(mneme_option{static_cast<uint32_t>(sizeof(mneme_option)), flags, key, help, type,
                             0u, number, text, 0.0, 0.0, choices});
}
constexpr Option number(const char* key, uint32_t type, NumberDefault value, const char* help) {
  return option(key, type, value.flags, value.value, nullptr, nullptr, help);
}
constexpr Option words(const char* key, uint32_t type, TextDefault value, const char* help,
                       const char* choices = nullptr) {
  return option(key, type, value.flags, 0.0, value.value, choices, help);
}
constexpr Option bounded(const Option& unbounded, double min, double max) {
  mneme_option changed = unbounded.raw();
  changed.flags |= MNEME_OPTION_BOUNDED;
  changed.min = min;
  changed.max = max;
  return Option(changed);
}

}  // namespace detail

// Makers of options: key, default, in places inclusive bounds, and one line of help for people.
constexpr Option integer(const char* key, NumberDefault value, const char* help) {
  return detail::number(key, MNEME_OPTION_INTEGER, value, help);
}
constexpr Option integer(const char* key, NumberDefault value, double min, double max,
                         const char* help) {
  return detail::bounded(integer(key, value, help), min, max);
}
constexpr Option real(const char* key, NumberDefault value, const char* help) {
  return detail::number(key, MNEME_OPTION_REAL, value, help);
}
constexpr Option real(const char* key, NumberDefault value, double min, double max,
                      const char* help) {
  return detail::bounded(real(key, value, help), min, max);
}
constexpr Option boolean(const char* key, bool value, const char* help) {
  return detail::number(key, MNEME_OPTION_BOOLEAN, value ? 1.0 : 0.0, help);
}
constexpr Option boolean(const char* key, Required tag, const char* help) {
  return detail::number(key, MNEME_OPTION_BOOLEAN, tag, help);
}
constexpr Option text(const char* key, TextDefault value, const char* help) {
  return detail::words(key, MNEME_OPTION_TEXT, value, help);
}
// `choices` are separated by '|'.
constexpr Option choice(const char* key, TextDefault value, const char* choices, const char* help) {
  return detail::words(key, MNEME_OPTION_CHOICE, value, help, choices);
}
// Bounds of a list hold for each of its entries.
constexpr Option integers(const char* key, TextDefault value, const char* help) {
  return detail::words(key, MNEME_OPTION_INTEGERS, value, help);
}
constexpr Option integers(const char* key, TextDefault value, double min, double max,
                          const char* help) {
  return detail::bounded(integers(key, value, help), min, max);
}
constexpr Option reals(const char* key, TextDefault value, const char* help) {
  return detail::words(key, MNEME_OPTION_REALS, value, help);
}
constexpr Option reals(const char* key, TextDefault value, double min, double max,
                       const char* help) {
  return detail::bounded(reals(key, value, help), min, max);
}

// The table; goes into the tier class as `static constexpr auto kOptions`.
template <typename... Options>
constexpr std::array<mneme_option, sizeof...(Options)> options(const Options&... entries) {
  return {entries.raw()...};
}

}  // namespace sdk_0_1
}  // namespace mneme
