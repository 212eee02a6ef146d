// The option schema of a tier as a constexpr table:
//
//   static constexpr auto kOptions = mneme::options(
//       mneme::integer("rows", mneme::kRequired, 1, mneme::kUnlimited, "rows that are
//       kept").at_evaluation(), mneme::choice("mode", "mean", "mean|max", "how rows are joined"));
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "mneme/plugin.h"

namespace mneme {
inline namespace sdk_0_1 {

// In place of a default: the manifest must give the option.
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
  constexpr const mneme_option& raw() const { return raw_; }

 private:
  mneme_option raw_;
};

namespace detail {

constexpr Option make_option(const char* key, uint32_t type, uint32_t flags, double number,
                             const char* text, double min, double max, const char* choices,
                             const char* help) {
  return Option(mneme_option{static_cast<uint32_t>(sizeof(mneme_option)), flags, key, help, type,
                             0u, number, text, min, max, choices});
}

}  // namespace detail

constexpr Option integer(const char* key, NumberDefault value, const char* help) {
  return detail::make_option(key, MNEME_OPTION_INTEGER, value.flags, value.value, nullptr, 0, 0,
                             nullptr, help);
}
// Bounds are inclusive.
constexpr Option integer(const char* key, NumberDefault value, double min, double max,
                         const char* help) {
  return detail::make_option(key, MNEME_OPTION_INTEGER, value.flags | MNEME_OPTION_BOUNDED,
                             value.value, nullptr, min, max, nullptr, help);
}
constexpr Option real(const char* key, NumberDefault value, const char* help) {
  return detail::make_option(key, MNEME_OPTION_REAL, value.flags, value.value, nullptr, 0, 0,
                             nullptr, help);
}
// Bounds are inclusive.
constexpr Option real(const char* key, NumberDefault value, double min, double max,
                      const char* help) {
  return detail::make_option(key, MNEME_OPTION_REAL, value.flags | MNEME_OPTION_BOUNDED,
                             value.value, nullptr, min, max, nullptr, help);
}
constexpr Option boolean(const char* key, bool value, const char* help) {
  return detail::make_option(key, MNEME_OPTION_BOOLEAN, 0, value ? 1.0 : 0.0, nullptr, 0, 0,
                             nullptr, help);
}
constexpr Option boolean(const char* key, Required /*tag*/, const char* help) {
  return detail::make_option(key, MNEME_OPTION_BOOLEAN, MNEME_OPTION_REQUIRED, 0, nullptr, 0, 0,
                             nullptr, help);
}
constexpr Option text(const char* key, TextDefault value, const char* help) {
  return detail::make_option(key, MNEME_OPTION_TEXT, value.flags, 0, value.value, 0, 0, nullptr,
                             help);
}
// `choices` are separated by '|'.
constexpr Option choice(const char* key, TextDefault value, const char* choices, const char* help) {
  return detail::make_option(key, MNEME_OPTION_CHOICE, value.flags, 0, value.value, 0, 0, choices,
                             help);
}
// Bounds of a list hold for each of its entries.
constexpr Option integers(const char* key, TextDefault value, const char* help) {
  return detail::make_option(key, MNEME_OPTION_INTEGERS, value.flags, 0, value.value, 0, 0, nullptr,
                             help);
}
constexpr Option integers(const char* key, TextDefault value, double min, double max,
                          const char* help) {
  return detail::make_option(key, MNEME_OPTION_INTEGERS, value.flags | MNEME_OPTION_BOUNDED, 0,
                             value.value, min, max, nullptr, help);
}
constexpr Option reals(const char* key, TextDefault value, const char* help) {
  return detail::make_option(key, MNEME_OPTION_REALS, value.flags, 0, value.value, 0, 0, nullptr,
                             help);
}
constexpr Option reals(const char* key, TextDefault value, double min, double max,
                       const char* help) {
  return detail::make_option(key, MNEME_OPTION_REALS, value.flags | MNEME_OPTION_BOUNDED, 0,
                             value.value, min, max, nullptr, help);
}

// The table; goes into the tier class as `static constexpr auto kOptions`.
template <typename... Options>
constexpr std::array<mneme_option, sizeof...(Options)> options(const Options&... entries) {
  return {entries.raw()...};
}

}  // namespace sdk_0_1
}  // namespace mneme
