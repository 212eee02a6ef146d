// Updates by Adam on CUDA against their definition in f64: on a GPU and, as cuda_shim.adam, on the
// CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "host/kernel/adam.hpp"
#include "mneme/cpp/half.hpp"
#include "tests/kernel/cuda/device_arrays.hpp"

namespace mneme::kernel {
namespace {

// A parameter, whose arrays begin `skew` numbers behind an aligned address.
struct Parameter {
  std::vector<float> weight, gradient, mean, square;
  std::vector<std::uint16_t> copy;  // with `skew` numbers before it, and more behind it
  float count = 1.0F;
  std::size_t skew = 0;
  bool has_copy = true;
  std::int64_t width = 1, room = 0;  // of the copy's rows, and between them

  Parameter(std::int64_t numbers, float updates, std::mt19937& random) : count(updates) {
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < numbers; ++i) {
      weight.push_back(normal(random));
      gradient.push_back(normal(random));
      mean.push_back(0.1F * normal(random));
      square.push_back(std::abs(normal(random)));
    }
  }

  [[nodiscard]] std::size_t place(std::size_t i) const {
    const auto columns = static_cast<std::size_t>(width), between = static_cast<std::size_t>(room);
    return i + i / columns * between;
  }
  [[nodiscard]] AdamTensor outline() const {
    return {.numbers = static_cast<std::int64_t>(weight.size()),
            .width = width,
            .stride = width + room};
  }
};

constexpr std::uint16_t kUntouched = 0x4321;

std::vector<Parameter> by_definition(std::vector<Parameter> all, AdamRule rule, float rate,
                                     float skip) {
  std::vector<AdamTensor> tensors;
  for (Parameter& n : all) {
    n.copy.assign(n.place(n.weight.size()), kUntouched);
    AdamTensor& t = tensors.emplace_back(n.outline());
    t.weight = n.weight.data();
    t.gradient = n.gradient.data();
    t.mean = n.mean.data();
    t.square = n.square.data();
    t.count = &n.count;
    t.copy = n.has_copy ? n.copy.data() : nullptr;
  }
  rule.rate = &rate;
  rule.skip = &skip;
  EXPECT_EQ(AdamKernels::by_definition().update(rule, tensors.data(),
                                                static_cast<std::int64_t>(tensors.size()), nullptr),
            nullptr);
  return all;
}

std::vector<Parameter> on_cuda(std::vector<Parameter> all, AdamRule rule, float rate,
                               const float* skip) {
  Arrays arrays;
  struct Copied {
    test::Memory *weight, *mean, *square, *copy;
  };
  const auto skewed = [&](std::vector<float> values, std::size_t skew) -> test::Memory& {
    values.insert(values.begin(), skew, 7.0F);
    return arrays.copy(values.data(), values.size() * sizeof(float));
  };
  const auto data = [](test::Memory& memory, std::size_t skew) {
    return reinterpret_cast<float*>(memory.data()) + skew;
  };
  std::vector<Copied> devices;
  std::vector<AdamTensor> tensors;
  for (Parameter& n : all) {
    n.copy.assign(n.skew + n.place(n.weight.size()) + 3, kUntouched);
    test::Memory& copy = arrays.copy(n.copy.data(), n.copy.size() * sizeof(n.copy[0]));
    const Copied& d = devices.emplace_back(Copied{
        &skewed(n.weight, n.skew), &skewed(n.mean, n.skew), &skewed(n.square, n.skew), &copy});
    AdamTensor& t = tensors.emplace_back(n.outline());
    t.weight = data(*d.weight, n.skew);
    t.gradient = data(skewed(n.gradient, n.skew), n.skew);
    t.mean = data(*d.mean, n.skew);
    t.square = data(*d.square, n.skew);
    t.count = data(skewed({n.count}, 0), 0);
    t.copy = n.has_copy ? reinterpret_cast<std::uint16_t*>(copy.data()) + n.skew : nullptr;
  }
  rule.rate = data(skewed({rate}, 0), 0);
  rule.skip = skip == nullptr ? nullptr : data(skewed({*skip}, 0), 0);
  EXPECT_EQ(AdamKernels::for_cuda()->update(rule, tensors.data(),
                                            static_cast<std::int64_t>(tensors.size()), nullptr),
            nullptr);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Parameter& n = all[i];
    const auto take = [&](test::Memory& memory, std::vector<float>& to) {
      std::vector<float> values(n.skew + to.size());
      download(memory, values);
      to.assign(values.begin() + static_cast<std::ptrdiff_t>(n.skew), values.end());
    };
    take(*devices[i].weight, n.weight);
    take(*devices[i].mean, n.mean);
    take(*devices[i].square, n.square);
    download(*devices[i].copy, n.copy);
  }
  return all;
}

void expect_numbers(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 2e-6 * (1.0 + std::abs(expected[i]))) << "number " << i;
}

// The weights' own roundings, and nothing beside them.
void expect_copy(const Parameter& n) {
  std::vector<std::uint16_t> expected(n.copy.size(), kUntouched);
  for (std::size_t i = 0; n.has_copy && i < n.weight.size(); ++i)
    expected[n.skew + n.place(i)] = BFloat16(n.weight[i]).bits;
  ASSERT_EQ(n.copy, expected);
}

class AdamOn : public test::OnDevice {
 protected:
  static void expect_update(const std::vector<Parameter>& given, const AdamRule& rule) {
    constexpr float kNotSkipped = 0.0F;
    const std::vector<Parameter> got = on_cuda(given, rule, 0.01F, &kNotSkipped),
                                 expected = by_definition(given, rule, 0.01F, kNotSkipped);
    for (std::size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "parameter " << i << " of " << got[i].weight.size());
      expect_numbers(got[i].weight, expected[i].weight);
      expect_numbers(got[i].mean, expected[i].mean);
      expect_numbers(got[i].square, expected[i].square);
      expect_copy(got[i]);
    }
  }
};

// Several blocks and parts of them, addresses of every kind, counts of their own.
TEST_P(AdamOn, EqualsTheReference) {
  std::vector<Parameter> given;
  for (const std::int64_t numbers : {1, 7, 8, 0, 1000, 8192, 20003}) {
    Parameter& n = given.emplace_back(numbers, static_cast<float>(1 + given.size()), random_);
    n.skew = given.size() % 3;
    n.has_copy = given.size() % 2 == 1;
  }
  for (const bool is_decoupled : {false, true}) {
    for (const double decay : {0.0, 0.1}) {
      SCOPED_TRACE(testing::Message()
                   << (is_decoupled ? "AdamW, decay " : "Adam, decay ") << decay);
      expect_update(given, {.is_decoupled = is_decoupled, .beta2 = 0.98, .weight_decay = decay});
    }
  }
}

// Of more parameters than a launch has.
TEST_P(AdamOn, WritesTheCopyOfEachParameter) {
  std::vector<Parameter> given;
  for (int i = 0; i < 100; ++i) given.emplace_back(3, 1.0F, random_);
  expect_update(given, {});
}

// Rows of copies for padded products.
TEST_P(AdamOn, WritesCopiesWhoseRowsLieApart) {
  std::vector<Parameter> given;
  for (const std::int64_t width : {1, 3, 8, 41, 410}) {
    Parameter& n = given.emplace_back(22 * width, 1.0F, random_);
    n.width = width;
    n.room = 8 - width % 8;
  }
  expect_update(given, {});
}

// Halves between two numbers of bf16 go to the even one.
TEST_P(AdamOn, RoundsCopiesToTheNearest) {
  std::vector<Parameter> given = {Parameter(4, 1.0F, random_)};
  given[0].gradient = given[0].mean = given[0].square = {0.0F, 0.0F, 0.0F, 0.0F};
  given[0].weight = {0x1.01p0F, 0x1.03p0F, 0x1.0101p0F, -0x1.0Fp0F};
  const std::vector<Parameter> got = on_cuda(given, {}, 0.01F, nullptr);
  EXPECT_EQ(got[0].weight, given[0].weight);
  EXPECT_EQ((std::vector<std::uint16_t>(got[0].copy.begin(), got[0].copy.begin() + 4)),
            (std::vector<std::uint16_t>{0x3F80, 0x3F82, 0x3F81, 0xBF88}));
}

TEST_P(AdamOn, WritesNothingWhereItIsSkipped) {
  const std::vector<Parameter> given = {Parameter(9, 1.0F, random_)};
  constexpr float kSkipped = 1.0F;
  const std::vector<Parameter> got = on_cuda(given, {}, 0.01F, &kSkipped);
  EXPECT_EQ(got[0].weight, given[0].weight);
  EXPECT_EQ(got[0].mean, given[0].mean);
  EXPECT_EQ(got[0].square, given[0].square);
  EXPECT_EQ(got[0].copy, std::vector<std::uint16_t>(12, kUntouched));
  EXPECT_EQ(by_definition(given, {}, 0.01F, kSkipped)[0].weight, given[0].weight);
}

INSTANTIATE_TEST_SUITE_P(Devices, AdamOn, testing::Values(test::Device::kCuda), test::name_of);

}  // namespace
}  // namespace mneme::kernel
