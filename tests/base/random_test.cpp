#include "host/base/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace mneme {
namespace {

// kat_vectors of Random123, philox4x32 10 rounds.
TEST(Random, MatchesTheKnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, MixesAsSplitMix64Does) {
  // First outputs of SplitMix64 for state 0 and 1234567 (reference implementation).
  EXPECT_EQ(mix64(0x9E3779B97F4A7C15), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(mix64(1234567 + 0x9E3779B97F4A7C15), 6457827717110365317u);
}

TEST(Random, StreamsArePinned) {
  // Any change of these numbers changes every run of every user.
  Random stream(7, {"motif", std::uint64_t{3}});
  const std::vector<std::uint32_t> first = {stream.next32(), stream.next32(), stream.next32(),
                                            stream.next32(), stream.next32()};
  const std::vector<std::uint32_t> expected = {0x92f77854, 0xee925dd7, 0xbf27d8e1, 0x83d94a95,
                                               0xe0de5cd2};
  EXPECT_EQ(first, expected);
}

TEST(Random, KeysDiffer) {
  const auto key = [](std::uint64_t seed, std::initializer_list<KeyPart> parts) {
    const StreamKey k = StreamKey::derive(seed, {parts.begin(), parts.size()});
    return std::pair(k.low, k.high);
  };
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> keys = {
      key(1, {}),
      key(2, {}),
      key(1, {"a"}),
      key(1, {"a", "b"}),
      key(1, {"ab"}),
      key(1, {"", "ab"}),
      key(1, {"ab", ""}),
      key(1, {std::uint64_t{7}}),
      key(1, {"7"}),
      key(1, {std::uint64_t{1}, std::uint64_t{2}}),
      key(1, {std::uint64_t{2}, std::uint64_t{1}}),
      key(1, {"12345678"}),
      key(1, {std::string_view("12345678\0", 9)}),
  };
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(keys[i].first, keys[j].first) << i << " " << j;
      EXPECT_NE(keys[i].second, keys[j].second) << i << " " << j;
    }
  }
}

TEST(Random, UniformsStayInsideTheirIntervals) {
  Random stream(11);
  double sum = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    const double closed = stream.uniform();
    EXPECT_GE(closed, 0.0);
    EXPECT_LT(closed, 1.0);
    const double open = stream.uniform_open();
    EXPECT_GT(open, 0.0);
    EXPECT_LT(open, 1.0);
    sum += closed;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.01);
}

TEST(Random, NormalsHaveTheirMoments) {
  Random stream(12);
  constexpr int kCount = 50000;
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  double products = 0;
  for (int i = 0; i < kCount; ++i) {
    const auto [a, b] = stream.normal_pair();
    ASSERT_TRUE(std::isfinite(a) && std::isfinite(b));
    sum += a + b;
    squares += a * a + b * b;
    fourths += a * a * a * a + b * b * b * b;
    products += a * b;
  }
  EXPECT_NEAR(sum / (2 * kCount), 0.0, 0.015);
  EXPECT_NEAR(squares / (2 * kCount), 1.0, 0.02);
  EXPECT_NEAR(fourths / (2 * kCount), 3.0, 0.15);
  EXPECT_NEAR(products / kCount, 0.0, 0.02);
}

TEST(Random, NormalKeepsNoHiddenState) {
  Random stream(13);
  Random other(13);
  static_cast<void>(stream.normal());
  for (int i = 0; i < 4; ++i) static_cast<void>(other.next32());
  EXPECT_EQ(stream.next64(), other.next64());
}

TEST(Random, BelowIsUniform) {
  Random stream(14);
  std::vector<int> counts(7);
  constexpr int kCount = 70000;
  for (int i = 0; i < kCount; ++i) ++counts.at(stream.below(7));
  double chi = 0;
  for (const int count : counts) chi += (count - 10000.0) * (count - 10000.0) / 10000.0;
  EXPECT_LT(chi, 22.5);  // 6 degrees of freedom, p = 0.001
  EXPECT_EQ(stream.below(1), 0u);
  EXPECT_EQ(stream.below(0), 0u);
  const std::uint64_t large = (std::uint64_t{1} << 63) + 1;
  for (int i = 0; i < 100; ++i) EXPECT_LT(stream.below(large), large);
}

TEST(Random, BetweenReachesBothEnds) {
  Random stream(15);
  std::vector<int> counts(5);
  for (int i = 0; i < 1000; ++i) ++counts.at(static_cast<std::size_t>(stream.between(-2, 2) + 2));
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 0), 0);
  EXPECT_EQ(stream.between(9, 9), 9);
  constexpr auto kLow = std::numeric_limits<std::int64_t>::min();
  constexpr auto kHigh = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(stream.between(kLow, kHigh), stream.between(kLow, kHigh));
}

TEST(Random, ShuffleMakesEveryOrderEquallyLikely) {
  Random stream(16);
  std::vector<int> counts(6);
  constexpr int kCount = 60000;
  for (int i = 0; i < kCount; ++i) {
    std::vector<int> values = {0, 1, 2};
    stream.shuffle(std::span(values));
    const int order = values[0] * 2 + (values[1] > values[2] ? 1 : 0);
    ++counts.at(static_cast<std::size_t>(order));
  }
  double chi = 0;
  for (const int count : counts) chi += (count - 10000.0) * (count - 10000.0) / 10000.0;
  EXPECT_LT(chi, 20.5);  // 5 degrees of freedom, p = 0.001
}

}  // namespace
}  // namespace mneme
