#include "host/base/text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

namespace mneme {
namespace {

TEST(Text, ConcatenatesAsAStreamWould) {
  EXPECT_EQ(str("a", 1, '-', 2.5, true), "a1-2.5true");
  EXPECT_EQ(str(), "");
  const std::string text = "t";
  EXPECT_EQ(str(text, std::string_view("v"), std::filesystem::path("a \"b\\"), false),
            "tv\"a \\\"b\\\\\"false");
}

// Every type of number against the stream whose format str() promises.
TEST(Text, NumbersPrintAsAStreamPrintsThem) {
  const auto streamed = [](auto value) {
    std::ostringstream out;
    out << value;
    return out.str();
  };
  using Real = std::numeric_limits<double>;
  for (const double value : {0.0,
                             -0.0,
                             1.0,
                             0.1,
                             1.0 / 3.0,
                             -2.5e-7,
                             1e-5,
                             0.0001,
                             123456.0,
                             123456.5,
                             1234567.0,
                             999999.5,
                             1e6,
                             1e15,
                             1e100,
                             Real::max(),
                             Real::min(),
                             Real::denorm_min(),
                             Real::epsilon(),
                             Real::infinity(),
                             -Real::infinity(),
                             Real::quiet_NaN()}) {
    EXPECT_EQ(str(value), streamed(value));
    EXPECT_EQ(str(static_cast<float>(value)), streamed(static_cast<float>(value)));
  }
  const auto both_ends = [&](auto zero) {
    using Number = decltype(zero);
    for (const Number value :
         {zero, std::numeric_limits<Number>::min(), std::numeric_limits<Number>::max()}) {
      EXPECT_EQ(str(value), streamed(value));
    }
  };
  both_ends(static_cast<short>(0));
  both_ends(static_cast<unsigned short>(0));
  both_ends(0);
  both_ends(0u);
  both_ends(0L);
  both_ends(0UL);
  both_ends(0LL);
  both_ends(0ULL);
  EXPECT_EQ(str(static_cast<signed char>('a'), static_cast<unsigned char>('b')), "ab");
}

TEST(Text, EditDistanceCountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("layres", "layers"), 1u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
  EXPECT_EQ(edit_distance("same", "same"), 0u);
}

TEST(Text, NearestFindsATypoAndRefusesStrangers) {
  const std::vector<std::string> names = {"layers", "heads", "width", "dropout"};
  EXPECT_EQ(nearest("layres", names), "layers");
  EXPECT_EQ(nearest("dorpuot", names), "dropout");
  EXPECT_EQ(nearest("banana", names), "");
  EXPECT_EQ(nearest("w", names), "");
  EXPECT_EQ(nearest("w", {"h"}), "");
  EXPECT_EQ(nearest("hl", {"lr", "h"}), "h");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest("heads", {}), "");
  EXPECT_EQ(nearest("bat", {"cat", "rat"}), "cat");
  EXPECT_EQ(did_you_mean("layres", names), " (did you mean \"layers\"?)");
  EXPECT_EQ(did_you_mean("banana", names), "");
}

TEST(Text, NearestKnowsWordsOfOtherPrograms) {
  EXPECT_EQ(nearest("gpu", {"cpu", "cuda"}), "cuda");
  EXPECT_EQ(nearest("CUDA", {"cpu", "cuda"}), "cuda");
  EXPECT_EQ(nearest("cqu", {"cpu", "cuda"}), "cpu");
  EXPECT_EQ(nearest("validation", {"valid", "test"}), "valid");
  EXPECT_EQ(nearest("fp32", {"f64", "f32", "bf16"}), "f32");
  EXPECT_EQ(nearest("bfloat16", {"f64", "f32", "bf16"}), "bf16");
  EXPECT_EQ(nearest("md", {"text", "markdown"}), "markdown");
  EXPECT_EQ(nearest("gpu", {"valid", "test"}), "");
}

TEST(Text, JoinsAndQuotes) {
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(quoted_list({"a", "b"}), "\"a\" | \"b\"");
  EXPECT_EQ(list_text({2, -3}), "[2, -3]");
  EXPECT_EQ(list_text({}), "[]");
}

TEST(Text, LosesTheStackTraceOfLibTorch) {
  EXPECT_EQ(without_trace("a\nb\nException raised from f at g.cpp:1 (most recent call first):\n#0"),
            "a\nb");
  EXPECT_EQ(without_trace("a"), "a");
}

TEST(Text, ListsTheFirstOfManyNames) {
  EXPECT_EQ(first_names({}, 2), "");
  EXPECT_EQ(first_names({"a", "b"}, 2), "a, b");
  EXPECT_EQ(first_names({"a", "b", "c"}, 2), "a, b and 1 more");
}

TEST(Text, LosesBlanksAtItsEndsAlone) {
  EXPECT_EQ(trimmed(" \ta b\r"), "a b");
  EXPECT_EQ(trimmed("\ta\t", " "), "\ta\t");
  EXPECT_EQ(trimmed(" \t "), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Text, BytesGetBinaryUnits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(std::uint64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(Text, DurationsAreShort) {
  EXPECT_EQ(format_duration(0.416), "0.42s");
  EXPECT_EQ(format_duration(9.999), "10.0s");
  EXPECT_EQ(format_duration(12.34), "12.3s");
  EXPECT_EQ(format_duration(59.96), "1m00s");
  EXPECT_EQ(format_duration(185), "3m05s");
  EXPECT_EQ(format_duration(3599.7), "1h00m");
  EXPECT_EQ(format_duration(2 * 3600 + 7 * 60), "2h07m");
  EXPECT_EQ(format_duration(4 * 86400 + 3 * 3600), "4d03h");
  EXPECT_EQ(format_duration(-1), "--");
  EXPECT_EQ(format_duration(std::nan("")), "--");
  EXPECT_EQ(format_duration(INFINITY), "--");
}

TEST(Text, NumbersKeepTheirDigits) {
  EXPECT_EQ(format_number(1.0 / 3.0, 4), "0.3333");
  EXPECT_EQ(format_number(-2.0, 1), "-2.0");
  EXPECT_EQ(format_number(std::nan(""), 2), "nan");
  EXPECT_EQ(format_number(INFINITY, 2), "inf");
  EXPECT_EQ(format_number(-INFINITY, 2), "-inf");
}

TEST(Text, ExactNumbersReadBack) {
  for (const double value : {0.1, 1.0, -0.0, 1e300, 5e-324, 1.0 / 3.0, 123456789.0, 1e22}) {
    const std::string text = format_exact(value);
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
    EXPECT_NE(text.find_first_of(".e"), std::string::npos) << text;
  }
  EXPECT_EQ(format_exact(1.0), "1.0");
  EXPECT_EQ(format_exact(0.001), "0.001");
  EXPECT_EQ(format_exact(std::nan("")), "nan");
  EXPECT_EQ(format_exact(-INFINITY), "-inf");
}

TEST(Text, CountsGetDecimalUnits) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999.4), "999");
  EXPECT_EQ(format_count(1000), "1.00k");
  EXPECT_EQ(format_count(12345), "12.3k");
  EXPECT_EQ(format_count(999600), "1.00M");
  EXPECT_EQ(format_count(456e6), "456M");
  EXPECT_EQ(format_count(-2500), "-2.50k");
  EXPECT_EQ(format_count(INFINITY), "inf");
}

}  // namespace
}  // namespace mneme
