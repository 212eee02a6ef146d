// JSON as text: reading the files of other programs, and writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"

namespace mneme {

// The most levels of objects and lists in each other. Values are printed and destroyed by functions
// that call themselves for each level, so deeper texts are refused.
inline constexpr std::size_t kMaxJsonDepth = 100;

// The number of levels of objects and lists in a JSON text; brackets in quotes do not count. The
// text need not be valid.
[[nodiscard]] std::size_t json_depth(std::string_view text);

// The value, or a discarded one for a text that is no JSON or deeper than kMaxJsonDepth.
[[nodiscard]] Json parse_json(std::string_view text);

// The value. Json::exception, which says where, for the same texts. `repeated` gets the first key
// that one object of the text has twice.
[[nodiscard]] Json parse_json_or_throw(std::string_view text,
                                       std::optional<std::string>* repeated = nullptr);

// A text that Python's json reads as JSON: NaN, Infinity, -Infinity and numbers beyond those of 64
// bits, which JSON has not, become strings, so that only a key that needs a number refuses them.
[[nodiscard]] std::string json_of_python(std::string_view text);

// The value as text for a file, a program or a terminal: on one line, or indented. Bytes that are
// no UTF-8, which names of files may have, become U+FFFD; numbers that JSON cannot hold become
// null.
[[nodiscard]] std::string json_text(const Json& json, int indent = -1);

// --- Whole numbers of a value ---
// Json::get would convert any number; beyond the range of the type it would do what the processor
// does. These throw Json::exception for a value that is no integer, or not from `min` to `max`.

[[nodiscard]] std::int64_t json_integer(
    const Json& json, std::int64_t min = std::numeric_limits<std::int64_t>::min(),
    std::int64_t max = std::numeric_limits<std::int64_t>::max());
[[nodiscard]] std::uint64_t json_unsigned(const Json& json);
[[nodiscard]] std::vector<std::int64_t> json_integers(const Json& json);
[[nodiscard]] std::vector<std::int32_t> json_ids(const Json& json);

}  // namespace mneme
