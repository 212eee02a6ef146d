// Draws of tokens on CUDA against their definition in f64: on a GPU and, as cuda_shim.sampling, on
// the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <set>
#include <type_traits>
#include <vector>

#include "host/kernel/sampling.hpp"
#include "mneme/cpp/half.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::kernel {
namespace {

using test::Device;
using test::Memory;

enum class SampledValues { kNormal, kEqual, kHuge, kSmall };

struct SamplingCase {
  int64_t rows, ids;
  SampledValues values = SampledValues::kNormal;
  int64_t gap = 0;  // elements between rows
};

std::ostream& operator<<(std::ostream& out, const SamplingCase& c) {
  return out << c.rows << " rows of " << c.ids << " values " << static_cast<int>(c.values);
}

const std::vector<Sampling>& rules() {
  static const std::vector<Sampling> all = {
      {},
      {.is_greedy = true},
      {.temperature = 0.6},
      {.temperature = 3.0},
      {.top_k = 1},
      {.top_k = 5},
      {.top_k = 40},
      {.top_k = 1 << 20},
      {.top_p = 0.3},
      {.top_p = 0.95},
      {.min_p = 0.1},
      {.temperature = 1.3, .top_k = 30, .top_p = 0.8, .min_p = 0.05}};
  return all;
}

Element sampled_element(float) { return Element::kF32; }
Element sampled_element(double) { return Element::kF64; }
Element sampled_element(BFloat16) { return Element::kBF16; }

double drawn_value(std::mt19937& random, SampledValues values) {
  std::normal_distribution<double> normal(0.0, 2.0);
  const double value = normal(random);
  switch (values) {
    case SampledValues::kNormal:
      return value;
    case SampledValues::kEqual:  // signed zeros among them, which are equal
      return random() % 3 == 0 ? -0.0 : static_cast<double>(random() % 3);
    case SampledValues::kHuge:
      return 1e30 * value;
    case SampledValues::kSmall:
      return -1000.0 + 1e-3 * value;
  }
  return 0.0;
}

// The rows of a case as elements T.
template <typename T>
struct SampledInputs {
  std::vector<T> logits;
  std::vector<double> uniform;
  SampledRows rows;

  SampledInputs(const SamplingCase& c, std::mt19937& random) {
    rows.element = sampled_element(T{});
    rows.rows = c.rows;
    rows.ids = c.ids;
    rows.stride = c.ids + c.gap;
    for (int64_t i = 0; i < c.rows * rows.stride; ++i) put(drawn_value(random, c.values));
    std::uniform_real_distribution<double> uniform_of(0.0, 1.0);
    for (int64_t row = 0; row < c.rows; ++row) uniform.push_back(uniform_of(random));
    uniform.back() = std::nextafter(1.0, 0.0);
    uniform.front() = 0.0;
  }
  void put(double value) {
    logits.push_back(
        T(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value)));
  }

  std::vector<int64_t> by_definition(const Sampling& s, double shift = 0.0) const {
    std::vector<double> moved = uniform;
    for (double& u : moved) u = std::min(std::max(u + shift, 0.0), std::nextafter(1.0, 0.0));
    SampledRows given = rows;
    given.logits = logits.data();
    given.uniform = moved.data();
    std::vector<int64_t> out(uniform.size(), -2);
    EXPECT_EQ(SamplingKernels::by_definition().draw(given, s, out.data(), nullptr), nullptr);
    return out;
  }
  std::vector<int64_t> on_cuda(const Sampling& s) const {
    Memory values(Device::kCuda, logits.size() * sizeof(T), 0);
    Memory draws(Device::kCuda, uniform.size() * sizeof(double), 0);
    Memory ids(Device::kCuda, uniform.size() * sizeof(int64_t), 0);
    std::memcpy(values.host(), logits.data(), logits.size() * sizeof(T));
    std::memcpy(draws.host(), uniform.data(), uniform.size() * sizeof(double));
    values.upload();
    draws.upload();
    SampledRows given = rows;
    given.logits = values.data();
    given.uniform = s.is_greedy ? nullptr : static_cast<const double*>(draws.data());
    EXPECT_EQ(
        SamplingKernels::for_cuda()->draw(given, s, static_cast<int64_t*>(ids.data()), nullptr),
        nullptr);
    ids.download();
    std::vector<int64_t> out(uniform.size());
    std::memcpy(out.data(), ids.host(), out.size() * sizeof(int64_t));
    return out;
  }
};

// What the definition draws for sums that are rounded otherwise.
template <typename T>
std::vector<std::set<int64_t>> nearly_drawn(const SampledInputs<T>& given, const Sampling& s) {
  const double rounding = std::is_same_v<T, double> ? 1e-9 : 2e-5;
  std::vector<std::set<int64_t>> out(given.uniform.size());
  for (const double p : {-rounding, 0.0, rounding}) {
    for (const double u : {-rounding, 0.0, rounding}) {
      Sampling near = s;
      if (s.top_p < 1.0) near.top_p += p;
      if (s.min_p > 0.0) near.min_p += p;
      const std::vector<int64_t> ids = given.by_definition(near, u);
      for (std::size_t row = 0; row < ids.size(); ++row) out[row].insert(ids[row]);
    }
  }
  return out;
}

class SamplingOn : public test::OnDevice {
 protected:
  template <typename T>
  void expect_draws(const SamplingCase& c, const Sampling& s) {
    SCOPED_TRACE(testing::Message() << sizeof(T) << " bytes, " << testing::PrintToString(c)
                                    << ", temperature " << s.temperature << " top_k " << s.top_k
                                    << " top_p " << s.top_p << " min_p " << s.min_p);
    ASSERT_NE(SamplingKernels::for_cuda(), nullptr);
    const SampledInputs<T> given(c, random_);
    const std::vector<int64_t> got = given.on_cuda(s), expected = given.by_definition(s);
    if (!test::kIsShim || std::is_same_v<T, float>) {
      EXPECT_EQ(got, given.on_cuda(s)) << "another draw";
    }
    if (got == expected) return;
    const std::vector<std::set<int64_t>> near = nearly_drawn(given, s);
    for (std::size_t row = 0; row < got.size(); ++row) {
      ASSERT_TRUE(near[row].contains(got[row]))
          << "row " << row << ": " << got[row] << ", expected " << expected[row];
      differing_ += got[row] != expected[row];
    }
  }
  void expect_in_every_dtype(const SamplingCase& c) {
    for (const Sampling& s : rules()) {
      expect_draws<float>(c, s);
      expect_draws<double>(c, s);
      expect_draws<BFloat16>(c, s);
    }
  }
  int differing_ = 0;  // draws that another rounding moved
};

TEST_P(SamplingOn, EqualsTheReferenceForEveryDtype) {
  for (const int64_t ids : {1, 2, 16, 17, 257, 1025}) {
    expect_in_every_dtype({.rows = 3, .ids = ids, .gap = ids % 3});
  }
  EXPECT_LE(differing_, 3);
}

TEST_P(SamplingOn, TakesLowerIdsOfEqualLogits) {
  for (const int64_t ids : {3, 300}) {
    expect_in_every_dtype({.rows = 3, .ids = ids, .values = SampledValues::kEqual});
  }
}

TEST_P(SamplingOn, TakesLogitsOfAnySize) {
  for (const SampledValues values : {SampledValues::kHuge, SampledValues::kSmall}) {
    expect_in_every_dtype({.rows = 2, .ids = 70, .values = values});
    for (const double temperature : {1e-300, 1e-12, 1e12, 1e300}) {
      expect_draws<float>({.rows = 2, .ids = 70, .values = values}, {.temperature = temperature});
      expect_draws<double>({.rows = 2, .ids = 70, .values = values}, {.temperature = temperature});
    }
  }
}

TEST_P(SamplingOn, DrawsFromALargeVocabulary) {
  for (const Sampling& s : {Sampling{}, Sampling{.top_k = 50, .top_p = 0.9}}) {
    expect_draws<float>({.rows = 2, .ids = 50257}, s);
    expect_draws<BFloat16>({.rows = 2, .ids = 50257}, s);
  }
}

TEST_P(SamplingOn, MarksRowsWithoutADistribution) {
  SampledInputs<float> given({.rows = 4, .ids = 40}, random_);
  given.logits[1 * 40 + 7] = std::numeric_limits<float>::quiet_NaN();
  given.logits[2 * 40 + 39] = -std::numeric_limits<float>::infinity();
  for (const Sampling& s : rules()) {
    const std::vector<int64_t> ids = given.on_cuda(s);
    EXPECT_EQ(ids, given.by_definition(s));
    EXPECT_GE(ids[0], 0);
    EXPECT_EQ(ids[1], -1);
    EXPECT_EQ(ids[2], -1);
    EXPECT_GE(ids[3], 0);
  }
}

TEST_P(SamplingOn, RefusesMoreIdsThanItsSumsHold) {
  SampledRows rows;
  rows.rows = 1;
  for (const int64_t ids : {int64_t{0}, SampledRows::kMostIds + 1}) {
    rows.ids = ids;
    EXPECT_STREQ(SamplingKernels::for_cuda()->draw(rows, {}, nullptr, nullptr), "invalid argument");
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SamplingOn, testing::Values(Device::kCuda), test::name_of);

}  // namespace
}  // namespace mneme::kernel
