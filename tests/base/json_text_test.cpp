#include "host/base/json_text.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/utf8.hpp"

namespace mneme {
namespace {

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Json::exception& error) {
    return error.what();
  }
  return "none";
}

TEST(JsonText, RefusesDeepTexts) {
  const std::string deep(101, '['), end(101, ']');
  EXPECT_TRUE(parse_json(deep + end).is_discarded());
  EXPECT_EQ(parse_json_or_throw("[" + std::string(99, '[') + std::string(99, ']') + "]").size(),
            1U);
  EXPECT_EQ(refusal_of([&] { static_cast<void>(parse_json_or_throw(deep + end)); }),
            "[json.exception.other_error.501] objects and lists in each other: expected at most "
            "100, got 101");
}

TEST(JsonText, NamesTheFirstKeyThatOneObjectHasTwice) {
  const auto repeated = [](const std::string& text) {
    std::optional<std::string> key;
    static_cast<void>(parse_json_or_throw(text, &key));
    return key.value_or("none");
  };
  EXPECT_EQ(repeated(R"([{"a": {"a": 1}, "b": 1}, {"a": 1}])"), "none");
  EXPECT_EQ(repeated(R"({"a": 1, "c": {"b": 1, "b": 2}, "a": 2})"), "b");
}

TEST(JsonText, BytesThatAreNoUtf8AreReplaced) {
  const Json json = {{"caf\xe9", {"caf\xe9/\u00e9", 1.5}}};
  EXPECT_EQ(json_text(json), "{\"caf\uFFFD\":[\"caf\uFFFD/\u00e9\",1.5]}");
  EXPECT_EQ(json_text(Json{{"a", 1}}, 2), "{\n  \"a\": 1\n}");
  EXPECT_EQ(json_text(parse_json(json_text(json))), json_text(json));
  for (const std::string text : {"caf\xe9", "\xe9\xe8", "\u00e9", "\xc3", "\xed\xa0\x80"}) {
    EXPECT_EQ(json_text(text), '"' + as_utf8(text) + '"');
  }
}

TEST(JsonText, NumbersThatPythonWritesAndJsonHasNotAreStrings) {
  EXPECT_EQ(json_of_python(R"({"a": NaN, "b": [Infinity,-Infinity], "c": 1e999, "d": -1.5e300,
                              "NaN \" -Infinity": ": NaN", "e\\": -1e999})"),
            R"({"a": "NaN", "b": ["Infinity","-Infinity"], "c": "1e999", "d": -1.5e300,
                              "NaN \" -Infinity": ": NaN", "e\\": "-1e999"})");
  EXPECT_EQ(json_of_python("NaN"), "\"NaN\"");
  for (const std::string text :
       {"", "nan", "inf", "+Infinity", "-NaN", "{\"a\": Nan}", "\"NaN", "\"\\", "{} -", "e"}) {
    EXPECT_EQ(json_of_python(text), text);
  }
}

TEST(JsonText, WholeNumbersAreNotRounded) {
  EXPECT_EQ(json_integer(Json::parse("-9223372036854775808")), INT64_MIN);
  EXPECT_EQ(json_integer(Json::parse("9223372036854775807")), INT64_MAX);
  EXPECT_EQ(json_unsigned(Json::parse("18446744073709551615")), UINT64_MAX);
  EXPECT_EQ(json_unsigned(Json(3)), 3U);
  EXPECT_EQ(json_ids(Json::parse("[1,-2]")), (std::vector<std::int32_t>{1, -2}));
  EXPECT_EQ(json_integers(Json::parse("[]")), std::vector<std::int64_t>{});
  for (const char* const text : {"9223372036854775808", "1e300", "0.5", "-1e300", "true"}) {
    EXPECT_NE(refusal_of([&] { static_cast<void>(json_integer(Json::parse(text))); }), "none")
        << text;
  }
  EXPECT_EQ(refusal_of([] { static_cast<void>(json_integer(Json::parse("1e300"), 0, 5)); }),
            "[json.exception.type_error.302] expected an integer from 0 to 5, got 1e+300");
  EXPECT_EQ(
      refusal_of([] { static_cast<void>(json_unsigned(Json::parse("\"a\""))); }),
      "[json.exception.type_error.302] expected an integer from 0 to 9223372036854775807, got "
      "string");
  EXPECT_EQ(refusal_of([] { static_cast<void>(json_ids(Json::parse("[4294967296]"))); }),
            "[json.exception.type_error.302] expected an integer from -2147483648 to 2147483647, "
            "got 4294967296");
  EXPECT_EQ(refusal_of([] { static_cast<void>(json_integers(Json::parse("{\"a\":1}"))); }),
            "[json.exception.type_error.302] expected a list of integers, got object");
}

}  // namespace
}  // namespace mneme
