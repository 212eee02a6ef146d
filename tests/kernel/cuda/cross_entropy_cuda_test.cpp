// The kernels of cross_entropy.hpp on CUDA against their definition in f64: on a GPU and, as
// cuda_shim.cross_entropy, on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <ostream>
#include <random>
#include <type_traits>
#include <vector>

#include "host/kernel/cross_entropy.hpp"
#include "tests/kernel/attention_cases.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::kernel {
namespace {

using test::Device;
using test::Memory;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

enum class LogitValues { kNormal, kEqual, kLarge, kSpecial };

// Rows of logits in blocks of ids, which lie `gap` elements apart, the first one `offset` elements
// behind an aligned address.
struct LogitCase {
  int64_t rows;
  std::vector<int64_t> blocks;
  LogitValues values = LogitValues::kNormal;
  int64_t gap = 0, offset = 0;
  bool has_one_scale = false;
  bool has_sum_scale = false;

  int64_t ids() const { return std::accumulate(blocks.begin(), blocks.end(), int64_t{0}); }
};

std::ostream& operator<<(std::ostream& out, const LogitCase& c) {
  return out << c.rows << " rows of " << testing::PrintToString(c.blocks) << " values "
             << static_cast<int>(c.values) << " gap " << c.gap << " offset " << c.offset;
}

// What the kernels are given, and what they answer, as f64.
struct LogitInputs {
  std::vector<double> logits;  // [rows,ids]
  std::vector<int64_t> target;
  std::vector<double> scale;
  std::vector<double> sum_scale;
};
struct LogitResults {
  std::vector<double> log_sum, own, nll, highest;
  std::vector<int64_t> best;
  std::vector<double> gradient;  // [rows,ids]
  std::vector<double> bias;      // [ids]
};

double drawn_logit(std::mt19937& random, LogitValues values) {
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  std::normal_distribution<double> normal(0.0, 3.0);
  if (values == LogitValues::kEqual) return below(3);
  if (values == LogitValues::kLarge) return 1000.0 + 10.0 * normal(random);
  const double value = normal(random);
  if (values == LogitValues::kNormal || below(20) > 0) return value;
  constexpr double kSpecial[] = {kNoLimit, -kNoLimit, -kNoLimit, -kNoLimit,
                                 std::numeric_limits<double>::quiet_NaN()};
  return kSpecial[below(5)];
}

template <typename T>
LogitInputs logit_inputs(const LogitCase& c, std::mt19937& random) {
  LogitInputs out;
  for (int64_t i = 0; i < c.rows * c.ids(); ++i) {
    out.logits.push_back(static_cast<double>(T(static_cast<float>(drawn_logit(random, c.values)))));
  }
  for (int64_t row = 0; row < c.rows; ++row) {
    const auto ids = static_cast<uint64_t>(c.ids());
    out.target.push_back(row % 4 == 3 ? -1 : static_cast<int64_t>(random() % ids));
    out.scale.push_back(static_cast<float>(static_cast<double>(random() % 1000) / 500.0 - 1.0));
    out.sum_scale.push_back(out.scale.back() * 0.5 + 0.125);
  }
  if (c.has_one_scale) out.scale.assign(1, 0.25);
  if (c.values != LogitValues::kSpecial) return out;
  // A row without a number, and one that has none in its first half.
  const auto ids = static_cast<std::ptrdiff_t>(c.ids());
  std::fill_n(out.logits.begin(), ids, -kNoLimit);
  if (c.rows > 1) std::fill_n(out.logits.begin() + ids, (ids + 1) / 2, -kNoLimit);
  return out;
}

template <typename T>
class LogitArray {
 public:
  LogitArray(Device device, const std::vector<double>& values) : LogitArray(device, values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) put(i, values[i]);
    memory.upload();
  }
  LogitArray(Device device, std::size_t count, std::size_t offset = 0)
      : memory(device, count * sizeof(T), offset * sizeof(T)), count_(count) {}

  void put(std::size_t i, double value) {
    const T as =
        T(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value));
    std::memcpy(memory.host() + i * sizeof(T), &as, sizeof(T));
  }
  double at(std::size_t i) {
    T value;
    std::memcpy(&value, memory.host() + i * sizeof(T), sizeof(T));
    return static_cast<double>(value);
  }
  std::vector<double> read() {
    memory.download();
    std::vector<double> out;
    for (std::size_t i = 0; i < count_; ++i) out.push_back(at(i));
    return out;
  }

  Memory memory;

 private:
  std::size_t count_;
};

class IdArray {
 public:
  IdArray(Device device, const std::vector<int64_t>& values)
      : memory(device, values.size() * sizeof(int64_t), 0), count_(values.size()) {
    if (!values.empty()) std::memcpy(memory.host(), values.data(), count_ * sizeof(int64_t));
    memory.upload();
  }
  std::vector<int64_t> read() {
    memory.download();
    std::vector<int64_t> out(count_);
    if (!out.empty()) std::memcpy(out.data(), memory.host(), count_ * sizeof(int64_t));
    return out;
  }
  int64_t* data() { return static_cast<int64_t*>(memory.data()); }

  Memory memory;

 private:
  std::size_t count_;
};

// One run of a device's kernels over all blocks, in elements T.
template <typename T>
class LogitRun {
 public:
  LogitRun(const CrossEntropyKernels& kernels, Device device, const LogitCase& c,
           const LogitInputs& given)
      : kernels_(kernels),
        device_(device),
        case_(c),
        given_(given),
        target_(device, given.target),
        best_(device, given.target),
        scale_(device, given.scale),
        sum_scale_(device, given.sum_scale),
        log_sum_(device, given.target.size()),
        own_(device, given.target.size()),
        nll_(device, given.target.size()),
        highest_(device, given.target.size()) {}

  LogitResults answer(bool wants_best, bool wants_bias) {
    LogitResults out;
    for_each_block([&](const LogitBlock& block, LogitArray<T>& logits) {
      EXPECT_STREQ(
          kernels_.summarize(
              block, logits.memory.data(),
              {log_sum_.memory.data(), own_.memory.data(), nll_.memory.data(),
               wants_best ? highest_.memory.data() : nullptr, wants_best ? best_.data() : nullptr},
              nullptr),
          nullptr);
    });
    out.log_sum = log_sum_.read();
    out.own = own_.read();
    out.nll = nll_.read();
    if (wants_best) {
      out.highest = highest_.read();
      out.best = best_.read();
    }
    out.gradient.resize(given_.logits.size());
    for_each_block([&](const LogitBlock& block, LogitArray<T>& logits) {
      LogitArray<S> bias(device_, static_cast<std::size_t>(block.ids));
      Memory workspace(device_, kernels_.workspace(block), 0);
      EXPECT_STREQ(kernels_.differentiate(
                       block, logits.memory.data(),
                       {log_sum_.memory.data(), scale_.memory.data(), case_.has_one_scale ? 0 : 1,
                        wants_bias ? bias.memory.data() : nullptr,
                        case_.has_sum_scale ? sum_scale_.memory.data() : nullptr},
                       workspace.data(), nullptr),
                   nullptr);
      collect(block, logits, out.gradient);
      if (!wants_bias) return;
      for (const double sum : bias.read()) out.bias.push_back(sum);
    });
    return out;
  }

 private:
  using S = SumOf<T>;

  template <typename Body>
  void for_each_block(const Body& body) {
    LogitBlock block;
    block.element = element_of<T>();
    block.rows = case_.rows;
    block.target = target_.data();
    for (const int64_t ids : case_.blocks) {
      block.ids = ids;
      block.stride = ids + case_.gap;
      const auto count = static_cast<std::size_t>(case_.rows * block.stride);
      LogitArray<T> logits(device_, count, static_cast<std::size_t>(case_.offset));
      for_each_place(block, [&](std::size_t in_block, std::size_t in_row) {
        logits.put(in_block, given_.logits[in_row]);
      });
      logits.memory.upload();
      body(block, logits);
      block.first += ids;
    }
  }
  template <typename Body>
  void for_each_place(const LogitBlock& block, const Body& body) {
    for (int64_t row = 0; row < block.rows; ++row) {
      for (int64_t id = 0; id < block.ids; ++id) {
        body(static_cast<std::size_t>(row * block.stride + id),
             static_cast<std::size_t>(row * case_.ids() + block.first + id));
      }
    }
  }
  // What lies between the rows stays as it was.
  void collect(const LogitBlock& block, LogitArray<T>& logits, std::vector<double>& gradient) {
    logits.memory.download();
    for_each_place(block, [&](std::size_t in_block, std::size_t in_row) {
      gradient[in_row] = logits.at(in_block);
    });
    const std::vector<unsigned char> untouched(static_cast<std::size_t>(case_.gap) * sizeof(T),
                                               0xAB);
    for (int64_t row = 0; row < block.rows && !untouched.empty(); ++row) {
      const auto end = static_cast<std::size_t>(row * block.stride + block.ids) * sizeof(T);
      EXPECT_EQ(std::memcmp(logits.memory.host() + end, untouched.data(), untouched.size()), 0);
    }
  }

  const CrossEntropyKernels& kernels_;
  Device device_;
  const LogitCase& case_;
  const LogitInputs& given_;
  IdArray target_, best_;
  LogitArray<S> scale_, sum_scale_, log_sum_, own_, nll_, highest_;
};

void expect_near_all(const char* what, const std::vector<double>& got,
                     const std::vector<double>& expected, double relative, double absolute) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool are_same = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]));
    const double most = absolute + relative * std::fabs(expected[i]);
    ASSERT_TRUE(are_same || std::fabs(got[i] - expected[i]) <= most)
        << what << " " << i << ": " << got[i] << ", expected " << expected[i];
  }
}

bool have_equal_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 8) == 0);
}

template <typename T>
void expect_logit_agreement(const LogitCase& c, std::mt19937& random) {
  SCOPED_TRACE(testing::Message() << sizeof(T) << " bytes, " << testing::PrintToString(c));
  const LogitInputs given = logit_inputs<T>(c, random);
  const CrossEntropyKernels* const kernels = CrossEntropyKernels::for_cuda();
  ASSERT_NE(kernels, nullptr);
  const LogitResults expected =
      LogitRun<double>(CrossEntropyKernels::by_definition(), Device::kCpu, c, given)
          .answer(true, true);
  LogitResults got = LogitRun<T>(*kernels, Device::kCuda, c, given).answer(true, true);
  const LogitResults again = LogitRun<T>(*kernels, Device::kCuda, c, given).answer(true, true);
  EXPECT_TRUE(have_equal_bits(got.log_sum, again.log_sum) &&
              have_equal_bits(got.gradient, again.gradient) &&
              have_equal_bits(got.bias, again.bias));
  const LogitResults less = LogitRun<T>(*kernels, Device::kCuda, c, given).answer(false, false);
  EXPECT_TRUE(have_equal_bits(got.nll, less.nll) && have_equal_bits(got.gradient, less.gradient));

  for (std::size_t row = 0; row < given.target.size(); ++row) {
    if (given.target[row] < 0) got.own[row] = expected.own[row];  // any number
  }
  EXPECT_EQ(got.best, expected.best);
  expect_near_all("highest", got.highest, expected.highest, 0.0, 0.0);
  expect_near_all("own", got.own, expected.own, 0.0, 0.0);
  const bool is_f64 = std::is_same_v<T, double>;
  // Of sums near `size` in S: so much is lost where a logit and the sum are subtracted.
  const double size = c.values == LogitValues::kLarge ? 1000.0 : 10.0;
  const double exact = size * (is_f64 ? 2e-15 : 5e-7);
  expect_near_all("log_sum", got.log_sum, expected.log_sum, 0.0, exact);
  expect_near_all("nll", got.nll, expected.nll, 0.0, exact);
  const double rounding = std::is_same_v<T, BFloat16> ? 1.0 / 256 : 0.0;
  expect_near_all("gradient", got.gradient, expected.gradient, rounding, 2.0 * exact);
  const std::int64_t summands = 2 + c.rows / 8;
  expect_near_all("bias", got.bias, expected.bias, 1e-6, exact * static_cast<double>(summands));
}

class CrossEntropyOn : public test::OnDevice {
 protected:
  void expect_in_every_dtype(const LogitCase& c) {
    expect_logit_agreement<float>(c, random_);
    expect_logit_agreement<double>(c, random_);
    expect_logit_agreement<BFloat16>(c, random_);
  }
};

TEST_P(CrossEntropyOn, EqualsTheReferenceForEveryDtype) {
  for (const int64_t ids : {1, 2, 7, 8, 9, 33, 204, 257, 2048, 2049, 4099}) {
    const int64_t rows = ids > 2048 ? 3 : 11;
    expect_in_every_dtype({.rows = rows, .blocks = {ids}, .gap = (8 - ids % 8) % 8});
    expect_in_every_dtype({.rows = rows, .blocks = {ids}, .values = LogitValues::kLarge, .gap = 1});
  }
}

TEST_P(CrossEntropyOn, ReadsRowsAtAnyAddress) {
  for (const int64_t gap : {0, 1, 5, 8}) {
    for (const int64_t offset : {0, 1, 4}) {
      expect_in_every_dtype({.rows = 3, .blocks = {37}, .gap = gap, .offset = offset});
    }
  }
}

TEST_P(CrossEntropyOn, JoinsBlocksOfIds) {
  for (const LogitValues values :
       {LogitValues::kNormal, LogitValues::kEqual, LogitValues::kLarge, LogitValues::kSpecial}) {
    expect_in_every_dtype({.rows = 9, .blocks = {8, 8, 3}, .values = values});
    expect_in_every_dtype({.rows = 4, .blocks = {1, 40, 2100}, .values = values, .gap = 4});
  }
}

TEST_P(CrossEntropyOn, FindsTheFirstOfTheLargestAlsoWithInfinitiesAndNaN) {
  for (const LogitValues values : {LogitValues::kEqual, LogitValues::kSpecial}) {
    for (const int64_t ids : {3, 19, 300, 2500}) {
      expect_in_every_dtype({.rows = 6, .blocks = {ids}, .values = values});
    }
  }
}

// Several stripes of rows, and more of them than a block has warps; no row at all.
TEST_P(CrossEntropyOn, SumsTheGradientOfTheBiasOverManyRows) {
  for (const int64_t rows : {0, 1, 64, 65, 200, 603}) {
    expect_in_every_dtype({.rows = rows, .blocks = {5}});
  }
  expect_in_every_dtype({.rows = 131, .blocks = {270}, .gap = 2, .has_one_scale = true});
}

TEST_P(CrossEntropyOn, AddsTheGradientOfTheLogOfTheSum) {
  expect_in_every_dtype({.rows = 9, .blocks = {8, 8, 3}, .has_sum_scale = true});
  expect_in_every_dtype(
      {.rows = 70, .blocks = {270}, .gap = 2, .has_one_scale = true, .has_sum_scale = true});
}

TEST_P(CrossEntropyOn, RefusesMoreBlocksThanALaunchHas) {
  LogitBlock block;
  block.rows = int64_t{1} << 33;
  block.ids = 3000;
  EXPECT_STREQ(CrossEntropyKernels::for_cuda()->summarize(block, nullptr, {}, nullptr),
               "invalid argument");
}

INSTANTIATE_TEST_SUITE_P(Devices, CrossEntropyOn, testing::Values(Device::kCuda), test::name_of);

}  // namespace
}  // namespace mneme::kernel
