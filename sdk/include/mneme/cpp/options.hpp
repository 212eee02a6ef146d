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
#include <type_traits>

#include "mneme/plugin.h"

namespace mneme {
inline namespace sdk_0_1 {

// In place of a default: the memory file must give the option.
struct Required {};
inline constexpr Required kRequired{};
// In place of a bound.
inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

namespace detail {

// A number as an integer; a compile error when it is not whole.
constexpr int64_t whole(double number) {
  constexpr double kLimit = 9223372036854774784.0;  // the largest double below 2^63
  if (number > kLimit) return std::numeric_limits<int64_t>::max();
  if (number < -kLimit) return std::numeric_limits<int64_t>::min();
  const auto integer = static_cast<int64_t>(number);
  if (static_cast<double>(integer) != number) throw "an integer option needs whole numbers";
  return integer;
}

}  // namespace detail

// A default number, or kRequired.
struct NumberDefault {
  constexpr NumberDefault(double number) : value(number) {}  // NOLINT
  constexpr NumberDefault(int64_t number)                    // NOLINT
      : value(static_cast<double>(number)), integer(number), is_integer(true) {}
  constexpr NumberDefault(int number) : NumberDefault(static_cast<int64_t>(number)) {}  // NOLINT
  constexpr NumberDefault(Required /*tag*/) : flags(MNEME_OPTION_REQUIRED) {}           // NOLINT
  constexpr int64_t as_integer() const { return is_integer ? integer : detail::whole(value); }
  double value = 0.0;
  int64_t integer = 0;
  bool is_integer = false;
  uint32_t flags = 0;
};

// An inclusive bound of numbers, or kUnlimited.
struct Bound {
  template <typename Number, std::enable_if_t<std::is_arithmetic_v<Number>, int> = 0>
  constexpr Bound(Number number)  // NOLINT
      : real(static_cast<double>(number)), is_integer(std::is_integral_v<Number>) {
    if constexpr (std::is_integral_v<Number>) integer = static_cast<int64_t>(number);
  }
  constexpr int64_t as_integer() const { return is_integer ? integer : detail::whole(real); }
  double real = 0.0;
  int64_t integer = 0;
  bool is_integer = false;
};

// A default text, or kRequired. Lists are written "[1, 2]".
struct TextDefault {
  constexpr TextDefault(const char* text) : value(text) {}                   // NOLINT
  constexpr TextDefault(Required /*tag*/) : flags(MNEME_OPTION_REQUIRED) {}  // NOLINT
  const char* value = nullptr;
  uint32_t flags = 0;
};

// One option of the schema.
class Option {
 public:
  constexpr explicit Option(const mneme_option& raw, const char* list = nullptr,
                            const char* words = nullptr)
      : raw_(raw), list_(list), words_(words) {}
  // The key eval_<key> may give another value at evaluation.
  constexpr Option at_evaluation() const { return with(MNEME_OPTION_AT_EVALUATION); }
  // Trained parameters and saved state mean something only with this option's value: they are not
  // given to a tier with another one. Not together with at_evaluation().
  constexpr Option trained() const { return with(MNEME_OPTION_TRAINED); }
  constexpr Option bounded(Bound min, Bound max) const {
    Option changed = with(MNEME_OPTION_BOUNDED);
    if (raw_.type == MNEME_OPTION_INTEGER || raw_.type == MNEME_OPTION_INTEGERS) {
      changed.raw_.min_integer = min.as_integer();
      changed.raw_.max_integer = max.as_integer();
    } else {
      changed.raw_.min_real = min.real;
      changed.raw_.max_real = max.real;
    }
    return changed;
  }
  // As the host gets it, but for the pointers to lists and words, which detail::option_table fills.
  constexpr const mneme_option& raw() const { return raw_; }
  // "[1, 2]" or null.
  constexpr const char* list() const { return list_; }
  // "mean|max" or null.
  constexpr const char* words() const { return words_; }

 private:
  constexpr Option with(uint32_t flag) const {
    Option changed = *this;
    changed.raw_.flags |= flag;
    return changed;
  }
  mneme_option raw_;
  const char* list_;
  const char* words_;
};

namespace detail {

constexpr mneme_option raw_option(const char* key, uint32_t type, uint32_t flags,
                                  const char* help) {
  mneme_option raw{};
  raw.struct_size = static_cast<uint32_t>(sizeof(mneme_option));
  raw.flags = flags;
  raw.key = key;
  raw.help = help;
  raw.type = type;
  return raw;
}
constexpr Option list_option(const char* key, uint32_t type, TextDefault value, const char* help) {
  return Option(raw_option(key, type, value.flags, help), value.value);
}
constexpr Option text_option(const char* key, uint32_t type, TextDefault value, const char* help,
                             const char* words = nullptr) {
  mneme_option raw = raw_option(key, type, value.flags, help);
  raw.default_text = value.value;
  return Option(raw, nullptr, words);
}
constexpr Option boolean_option(const char* key, int64_t value, uint32_t flags, const char* help) {
  mneme_option raw = raw_option(key, MNEME_OPTION_BOOLEAN, flags, help);
  raw.default_integer = value;
  return Option(raw);
}

}  // namespace detail

// Makers of options: key, default, in places inclusive bounds, and one line of help for people.
constexpr Option integer(const char* key, NumberDefault value, const char* help) {
  mneme_option raw = detail::raw_option(key, MNEME_OPTION_INTEGER, value.flags, help);
  raw.default_integer = value.as_integer();
  return Option(raw);
}
constexpr Option integer(const char* key, NumberDefault value, Bound min, Bound max,
                         const char* help) {
  return integer(key, value, help).bounded(min, max);
}
constexpr Option real(const char* key, NumberDefault value, const char* help) {
  mneme_option raw = detail::raw_option(key, MNEME_OPTION_REAL, value.flags, help);
  raw.default_real = value.value;
  return Option(raw);
}
constexpr Option real(const char* key, NumberDefault value, Bound min, Bound max,
                      const char* help) {
  return real(key, value, help).bounded(min, max);
}
constexpr Option boolean(const char* key, bool value, const char* help) {
  return detail::boolean_option(key, value ? 1 : 0, 0, help);
}
constexpr Option boolean(const char* key, Required /*tag*/, const char* help) {
  return detail::boolean_option(key, 0, MNEME_OPTION_REQUIRED, help);
}
constexpr Option text(const char* key, TextDefault value, const char* help) {
  return detail::text_option(key, MNEME_OPTION_TEXT, value, help);
}
// `choices` are separated by '|'.
constexpr Option choice(const char* key, TextDefault value, const char* choices, const char* help) {
  return detail::text_option(key, MNEME_OPTION_CHOICE, value, help, choices);
}
// Bounds of a list hold for each of its entries.
constexpr Option integers(const char* key, TextDefault value, const char* help) {
  return detail::list_option(key, MNEME_OPTION_INTEGERS, value, help);
}
constexpr Option integers(const char* key, TextDefault value, Bound min, Bound max,
                          const char* help) {
  return integers(key, value, help).bounded(min, max);
}
constexpr Option reals(const char* key, TextDefault value, const char* help) {
  return detail::list_option(key, MNEME_OPTION_REALS, value, help);
}
constexpr Option reals(const char* key, TextDefault value, Bound min, Bound max, const char* help) {
  return reals(key, value, help).bounded(min, max);
}

// The table; goes into the tier class as `static constexpr auto kOptions`.
template <typename... Options>
constexpr std::array<Option, sizeof...(Options)> options(const Options&... entries) {
  return {entries...};
}

// --- The table as the host reads it, made when the plugin is compiled ---

namespace detail {

// Of one option: entries of its list, words of its choice, and their characters with each word's
// NUL.
struct OptionCounts {
  uint32_t numbers = 0, words = 0;
  std::size_t characters = 0;
};

// A decimal number at `text`, which is moved behind it. Exact for up to 15 digits and powers of ten
// up to 22, since both are exact doubles then; others are a compile error.
constexpr double decimal(const char*& text) {
  const bool is_negative = *text == '-';
  if (*text == '-' || *text == '+') ++text;
  double digits = 0.0;
  int count = 0, power = 0;
  bool is_fraction = false, any = false;
  for (;; ++text) {
    if (*text == '.' && !is_fraction) {
      is_fraction = true;
    } else if (*text >= '0' && *text <= '9') {
      any = true;
      digits = digits * 10.0 + (*text - '0');
      if (digits > 0.0) ++count;
      if (is_fraction) --power;
    } else {
      break;
    }
  }
  if (*text == 'e' || *text == 'E') {
    ++text;
    const bool is_small = *text == '-';
    if (*text == '-' || *text == '+') ++text;
    int given = 0;
    for (; *text >= '0' && *text <= '9'; ++text) given = given * 10 + (*text - '0');
    power += is_small ? -given : given;
  }
  if (!any || count > 15 || power > 22 || power < -22) throw "a list needs numbers of few digits";
  double scale = 1.0;
  for (int i = 0; i < (power < 0 ? -power : power); ++i) scale *= 10.0;
  const double value = power < 0 ? digits / scale : digits * scale;
  return is_negative ? -value : value;
}

// Calls take(number) for each entry of "[1, 2]".
template <typename Take>
constexpr void read_list(const char* text, Take take) {
  const auto skip = [&text] {
    while (*text == ' ') ++text;
  };
  skip();
  if (*text != '[') throw "a list is written \"[1, 2]\"";
  ++text;
  for (skip(); *text != ']'; skip()) {
    take(decimal(text));
    skip();
    if (*text == ',') {
      ++text;
    } else if (*text != ']') {
      throw "a list is written \"[1, 2]\"";
    }
  }
}

constexpr OptionCounts counts_of(const Option& option) {
  OptionCounts counts;
  if (option.list() != nullptr) read_list(option.list(), [&](double) { ++counts.numbers; });
  if (option.words() == nullptr) return counts;
  counts.words = *option.words() == '\0' ? 0 : 1;
  for (const char* c = option.words(); *c != '\0'; ++c) {
    ++counts.characters;
    if (*c == '|') ++counts.words;
  }
  ++counts.characters;
  return counts;
}

template <std::size_t n>
constexpr OptionCounts total_of(const std::array<Option, n>& entries) {
  OptionCounts total;
  for (std::size_t i = 0; i < n; ++i) {
    const OptionCounts counts = counts_of(entries[i]);
    total.numbers += counts.numbers;
    total.words += counts.words;
    total.characters += counts.characters;
  }
  return total;
}

// Lists and words of all options of a tier class T; static, since the table points into them. One
// more of each, so that none is empty.
template <typename T>
struct OptionLists {
  static constexpr OptionCounts kTotal = total_of(T::kOptions);
  std::array<int64_t, kTotal.numbers + 1> integers{};
  std::array<double, kTotal.numbers + 1> reals{};
  std::array<char, kTotal.characters + 1> text{};
  std::array<std::size_t, kTotal.words + 1> word{};  // where each begins in `text`
};

template <typename T>
constexpr OptionLists<T> lists_of() {
  OptionLists<T> lists;
  std::size_t number = 0, word = 0, character = 0;
  for (const Option& option : T::kOptions) {
    if (option.list() != nullptr) {
      const bool is_whole = option.raw().type == MNEME_OPTION_INTEGERS;
      read_list(option.list(), [&](double value) {
        lists.reals[number] = value;
        lists.integers[number++] = is_whole ? whole(value) : 0;
      });
    }
    if (option.words() == nullptr) continue;
    bool is_new = true;
    for (const char* c = option.words(); *c != '\0'; ++c) {
      if (is_new) lists.word[word++] = character;
      is_new = *c == '|';
      lists.text[character++] = is_new ? '\0' : *c;
    }
    ++character;
  }
  return lists;
}

template <typename T>
inline constexpr OptionLists<T> kOptionLists = lists_of<T>();

template <typename T>
constexpr std::array<const char*, OptionLists<T>::kTotal.words + 1> words_of() {
  std::array<const char*, OptionLists<T>::kTotal.words + 1> words{};
  for (std::size_t i = 0; i < OptionLists<T>::kTotal.words; ++i)
    words[i] = &kOptionLists<T>.text[kOptionLists<T>.word[i]];
  return words;
}

template <typename T>
inline constexpr auto kOptionWords = words_of<T>();

template <typename T, std::size_t n>
constexpr std::array<mneme_option, n> raw_options(const std::array<Option, n>& entries) {
  std::array<mneme_option, n> table{};
  std::size_t number = 0, word = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const OptionCounts counts = counts_of(entries[i]);
    mneme_option& raw = table[i];
    raw = entries[i].raw();
    raw.default_count = counts.numbers;
    raw.choice_count = counts.words;
    if (raw.type == MNEME_OPTION_INTEGERS) raw.default_integers = &kOptionLists<T>.integers[number];
    if (raw.type == MNEME_OPTION_REALS) raw.default_reals = &kOptionLists<T>.reals[number];
    if (counts.words > 0) raw.choices = &kOptionWords<T>[word];
    number += counts.numbers;
    word += counts.words;
  }
  return table;
}

// What mneme_plugin.options points to.
template <typename T>
inline constexpr auto kOptionTable = raw_options<T>(T::kOptions);

}  // namespace detail
}  // namespace sdk_0_1
}  // namespace mneme
