// The kernels of rows on CUDA against their definitions in f64: on a GPU and, as cuda_shim.rows, on
// the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <ostream>
#include <vector>

#include "host/base/random.hpp"
#include "host/kernel/rows.hpp"
#include "mneme/cpp/half.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::kernel {
namespace {

using test::Device;
using test::Memory;

constexpr MaskStream kStream = {0x0123456789ABCDEF, 42};

std::size_t bytes_of(Element element) {
  return element == Element::kF64 ? 8 : element == Element::kF32 ? 4 : 2;
}
Element sums_of(Element element) {
  return element == Element::kF64 ? Element::kF64 : Element::kF32;
}
double tolerance_of(Element element) {
  return element == Element::kF64 ? 1e-12 : element == Element::kF32 ? 3e-5 : 1.0 / 128;
}

Dropout stored_in(Memory& memory, Dropout d) {
  std::memcpy(memory.host(), &d.stream, sizeof(MaskStream));
  memory.upload();
  d.stored = reinterpret_cast<const MaskStream*>(memory.data());
  d.stream = {};
  return d;
}

// RowArrays of one implementation's device. Those of elements begin `skew` elements behind an aligned
// address.
class RowArrays {
 public:
  RowArrays(Device device, std::size_t skew) : device_(device), skew_(skew) {}

  // An array without values, for results that are compared.
  void* room(std::int64_t count, Element element) {
    const auto entries = static_cast<std::size_t>(count);
    arrays_.push_back({element, entries,
                       std::make_unique<Memory>(device_, entries * bytes_of(element),
                                                skew_ * bytes_of(element))});
    return arrays_.back().memory->data();
  }
  void* of(const std::vector<double>& values, Element element) {
    void* const data = room(static_cast<std::int64_t>(values.size()), element);
    Memory& memory = *arrays_.back().memory;
    for (std::size_t i = 0; i < values.size(); ++i) write(memory.host(), element, i, values[i]);
    memory.upload();
    return data;
  }
  // The same masks, of a stream that lies in an array.
  Dropout stored(const Dropout& d) {
    room(sizeof(MaskStream) / 8, Element::kF64);
    return stored_in(*arrays_.back().memory, d);
  }
  // Of the array that begins at `data`.
  std::vector<double> values(const void* data) {
    const auto found = std::find_if(arrays_.begin(), arrays_.end(),
                                    [&](const Array& a) { return a.memory->data() == data; });
    std::vector<double> out;
    if (data == nullptr || found == arrays_.end()) return out;
    found->memory->download();
    for (std::size_t i = 0; i < found->count; ++i) {
      out.push_back(read(found->memory->host(), found->element, i));
    }
    return out;
  }

 private:
  struct Array {
    Element element;
    std::size_t count;
    std::unique_ptr<Memory> memory;
  };

  static void write(unsigned char* to, Element element, std::size_t i, double value) {
    const auto narrow = static_cast<float>(value);
    const BFloat16 half(narrow);
    if (element == Element::kF64) std::memcpy(to + 8 * i, &value, 8);
    if (element == Element::kF32) std::memcpy(to + 4 * i, &narrow, 4);
    if (element == Element::kBF16) std::memcpy(to + 2 * i, &half, 2);
  }
  static double read(const unsigned char* from, Element element, std::size_t i) {
    double value = 0.0;
    float narrow = 0.0F;
    BFloat16 half;
    if (element == Element::kF64) {
      std::memcpy(&value, from + 8 * i, 8);
      return value;
    }
    if (element == Element::kF32) {
      std::memcpy(&narrow, from + 4 * i, 4);
      return static_cast<double>(narrow);
    }
    std::memcpy(&half, from + 2 * i, 2);
    return static_cast<double>(static_cast<float>(half));
  }

  Device device_;
  std::size_t skew_;
  std::vector<Array> arrays_;
};

Dropout dropout_of(double p, std::uint64_t first) {
  if (p == 0.0) return {};
  return {.is_on = true,
          .stream = kStream,
          .first = first,
          .last_kept = static_cast<std::uint32_t>(std::max((1.0 - p) * 0x1p32, 1.0) - 1.0),
          .factor = 1.0 / (1.0 - p)};
}

struct Case {
  std::int64_t rows = 1;
  std::int64_t width = 1;
  double p = 0.0;
  std::uint64_t first = 0;  // word of the masks
  std::size_t skew = 0;
  bool is_stored = false;  // the stream of the device's masks lies in its memory
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.rows << " rows of " << c.width << ", p " << c.p << ", first " << c.first
             << ", skew " << c.skew << (c.is_stored ? ", stored" : "");
}

std::vector<Case> cases() {
  return {{1, 1, 0.0, 0, 0},         {3, 7, 0.1, 5, 1},     {70, 41, 0.1, 0, 0},
          {2, 8, 1.0 - 1e-9, 0, 0},  {5, 64, 0.1, 1026, 0}, {3, 257, 0.5, 3, 3},
          {2, 1030, 0.1, 2, 1},      {2, 2104, 0.1, 0, 0},  {3, 2099, 0.0, 0, 0},
          {1025, 3, 0.3, 1, 0},      {0, 5, 0.1, 0, 0},     {3, 70, 0.1, 5, 0, true},
          {2, 1030, 0.4, 2, 1, true}};
}

// Those of more rows have strips of several.
constexpr std::int64_t kSingleRows = 1024;

// Every function; on the CPU's device of a large case one of each form.
std::vector<Activation> functions_of(const Case& c) {
  constexpr std::array plain = {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                                Activation::kRelu2};
  constexpr std::array gated = {Activation::kSwiglu, Activation::kGeglu};
  if (test::kIsShim && c.rows * c.width > 200) {
    const auto at = static_cast<std::size_t>(c.rows + c.width);
    return {plain[at % plain.size()], gated[at % gated.size()]};
  }
  std::vector<Activation> out(plain.begin(), plain.end());
  out.insert(out.end(), gated.begin(), gated.end());
  return out;
}

class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : random_(seed) {}
  std::vector<double> operator()(std::int64_t count) {
    std::vector<double> out(static_cast<std::size_t>(count));
    for (double& x : out) {  // such as bf16 has
      x = static_cast<float>(BFloat16(std::normal_distribution<float>(0.3F, 1.5F)(random_)));
    }
    return out;
  }

 private:
  std::mt19937 random_;
};

// Named results of one implementation.
struct Result {
  const char* name;
  Element element;  // the coarsest that it went through
  std::vector<double> values;
};
using Results = std::vector<Result>;

void expect_equal(const Results& ours, const Results& theirs, std::int64_t rows) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t r = 0; r < ours.size(); ++r) {
    ASSERT_EQ(ours[r].values.size(), theirs[r].values.size()) << ours[r].name;
    for (std::size_t i = 0; i < ours[r].values.size(); ++i) {
      const double expected = theirs[r].values[i], error = ours[r].values[i] - expected;
      const double tolerance = tolerance_of(ours[r].element) * (1.0 + std::abs(expected));
      ASSERT_TRUE(std::abs(error) <= tolerance * std::sqrt(static_cast<double>(rows)))
          << ours[r].name << " " << i << ": " << ours[r].values[i] << " for " << expected;
    }
  }
}

Results activation_results(const RowKernels& kernels, Device device, const Case& c,
                           Activation function, Element element, bool has_bias) {
  Numbers numbers(11);
  RowArrays arrays(device, c.skew);
  ActivationRows a;
  a.element = element;
  a.function = function;
  a.rows = c.rows;
  a.width = c.width;
  a.x = arrays.of(numbers(c.rows * a.inputs()), element);
  const std::vector<double> bias = numbers(a.inputs());
  if (has_bias) a.bias = arrays.of(bias, sums_of(element));
  a.dropout = dropout_of(c.p, c.first);
  if (c.is_stored && device == Device::kCuda) a.dropout = arrays.stored(a.dropout);
  void* const out = arrays.room(c.rows * c.width, element);
  EXPECT_STREQ(kernels.activate(a, out, nullptr), nullptr);
  ActivationGradients g;
  g.out = arrays.of(numbers(c.rows * c.width), element);
  g.x = arrays.room(c.rows * a.inputs(), element);
  if (has_bias) g.bias = arrays.room(a.inputs(), sums_of(element));
  Memory workspace(device, kernels.workspace(c.rows, has_bias ? a.inputs() : 0, element), 0);
  EXPECT_STREQ(kernels.activate_backward(a, g, workspace.data(), nullptr), nullptr);
  return {{"out", element, arrays.values(out)},
          {"gradient of x", element, arrays.values(g.x)},
          {"gradient of bias", sums_of(element), arrays.values(g.bias)}};
}

// What a sum is made of.
struct Kind {
  Element residual, element, result;
  bool has_h = true, has_x = true, has_bias = false, has_norm = true, is_rms = false;
  bool wants_y = true;
};

Results sum_results(const RowKernels& kernels, Device device, const Case& c, const Kind& k) {
  Numbers numbers(13);
  RowArrays arrays(device, c.skew);
  const Element sums = sums_of(k.residual);
  const std::int64_t entries = c.rows * c.width;
  SumRows a;
  a.residual = k.residual;
  a.element = k.element;
  a.result = k.result;
  a.rows = c.rows;
  a.width = c.width;
  if (k.has_h) a.h = arrays.of(numbers(entries), k.residual);
  if (k.has_x) a.x = arrays.of(numbers(entries), k.element);
  if (k.has_bias) a.bias = arrays.of(numbers(c.width), sums);
  if (k.has_x) a.dropout = dropout_of(c.p, c.first);
  if (k.has_x && c.is_stored && device == Device::kCuda) a.dropout = arrays.stored(a.dropout);
  if (k.has_norm) a.weight = arrays.of(numbers(c.width), sums);
  if (k.has_norm && !k.is_rms) a.shift = arrays.of(numbers(c.width), sums);
  a.is_rms = k.is_rms;
  a.epsilon = 1e-2;  // of a row with one entry: no more than 10 is what it is multiplied with
  SumResults r;
  if (k.has_x) r.y = arrays.room(entries, k.residual);
  if (k.has_norm) r.out = arrays.room(entries, k.result);
  if (k.has_norm && !k.is_rms) r.mean = arrays.room(c.rows, sums);
  if (k.has_norm) r.scale = arrays.room(c.rows, sums);
  EXPECT_STREQ(kernels.add(a, r, nullptr), nullptr);
  SumGradients g;
  const std::vector<double> of_y = numbers(entries);
  if (k.wants_y) g.y = arrays.of(of_y, k.residual);
  if (k.has_norm) g.out = arrays.of(numbers(entries), k.result);
  g.kept = r;
  if (!k.has_x) g.kept.y = const_cast<void*>(a.h);
  if (k.has_h) g.h = arrays.room(entries, k.residual);
  if (k.has_x) g.x = arrays.room(entries, k.element);
  if (k.has_norm) g.weight = arrays.room(c.width, sums);
  if (a.shift != nullptr) g.shift = arrays.room(c.width, sums);
  if (k.has_bias) g.bias = arrays.room(c.width, sums);
  Memory workspace(device, kernels.workspace(c.rows, 3 * c.width, k.residual), 0);
  EXPECT_STREQ(kernels.add_backward(a, g, workspace.data(), nullptr), nullptr);
  // What was rounded to bf16 shows in what is computed of it.
  const bool is_rounded = k.residual == Element::kBF16;
  const Element of_sums = is_rounded ? Element::kBF16 : sums;
  return {{"y", k.residual, arrays.values(r.y)},
          {"out", is_rounded ? k.residual : k.result, arrays.values(r.out)},
          {"mean", of_sums, arrays.values(r.mean)},
          {"scale", of_sums, arrays.values(r.scale)},
          {"gradient of h", k.residual, arrays.values(g.h)},
          {"gradient of x", is_rounded ? k.residual : k.element, arrays.values(g.x)},
          {"gradient of weight", of_sums, arrays.values(g.weight)},
          {"gradient of shift", of_sums, arrays.values(g.shift)},
          {"gradient of bias", of_sums, arrays.values(g.bias)}};
}

// Heads of three dimensions that lie in memory in an order of their own, outermost first.
struct TurnCase {
  using Order = std::array<std::size_t, 3>;
  Order sizes = {1, 1, 1};
  std::int64_t width = 2;
  Order x_order = {0, 1, 2};
  Order out_order = {0, 1, 2};
  std::array<bool, 3> has_angles = {true, true, true};  // else the same along this dimension
  std::int64_t spare = 0;                               // numbers between heads of x
  std::size_t skew = 0;

  // Strides of what is there, a head in `unit` numbers; gives how many numbers all have.
  std::int64_t place(const Order& order, const std::array<bool, 3>& is_there, std::int64_t unit,
                     std::int64_t (&strides)[3]) const {
    std::int64_t count = unit;
    for (std::size_t d = 3; d-- > 0;) {
      const std::size_t own = order[d];
      strides[own] = is_there[own] ? count : 0;
      if (is_there[own]) count *= static_cast<std::int64_t>(sizes[own]);
    }
    return count;
  }
};

std::ostream& operator<<(std::ostream& out, const TurnCase& c) {
  return out << c.sizes[0] << " x " << c.sizes[1] << " x " << c.sizes[2] << " heads of " << c.width
             << ", " << c.spare << " spare, skew " << c.skew;
}

std::vector<TurnCase> turn_cases() {
  const TurnCase::Order keys = {1, 2, 0};  // in memory: lane, row, head
  return {
      {{1, 1, 1}, 2},
      {{2, 5, 3}, 64, {0, 1, 2}, {0, 1, 2}, {false, true, false}, 64},  // queries
      {{3, 2, 5}, 18, keys, {0, 1, 2}, {false, false, true}, 36, 1},    // keys
      {{3, 2, 5}, 16, {0, 1, 2}, keys, {false, true, true}},            // places of lanes, gradient
      {{2, 3, 5}, 130, keys, keys, {false, false, false}, 0, 3},        // all at one place
      {{3, 50, 7}, 32, {2, 0, 1}, {0, 1, 2}, {true, true, true}},       // several blocks
      {{0, 3, 2}, 16},
      {{2, 0, 2}, 16, keys, keys, {false, false, true}},
  };
}

Results turn_results(const RowKernels& kernels, Device device, const TurnCase& c, Element element,
                     bool is_back) {
  Numbers numbers(17);
  RowArrays arrays(device, c.skew);
  constexpr std::array<bool, 3> all = {true, true, true};
  TurnRows a;
  a.element = element;
  a.is_back = is_back;
  a.width = c.width;
  for (std::size_t d = 0; d < 3; ++d) a.sizes[d] = static_cast<std::int64_t>(c.sizes[d]);
  a.x = arrays.of(numbers(c.place(c.x_order, all, c.width + c.spare, a.x_strides)), element);
  const std::int64_t angles = c.place({0, 1, 2}, c.has_angles, c.width / 2, a.angle_strides);
  a.cos = arrays.of(numbers(angles), element);
  a.sin = arrays.of(numbers(angles), element);
  void* const out = arrays.room(c.place(c.out_order, all, c.width, a.out_strides), element);
  EXPECT_STREQ(kernels.turn(a, out, nullptr), nullptr);
  return {{"turned", element, arrays.values(out)}};
}

constexpr Element kF64 = Element::kF64, kF32 = Element::kF32, kBF16 = Element::kBF16;

class RowsOn : public test::OnDevice {
 protected:
  // results(kernels, device) of both, and twice on the device.
  template <typename Get>
  void expect_agreement(const Get& get, std::int64_t rows) {
    const Results ours = get(*cuda_row_kernels(), GetParam());
    expect_equal(ours, get(row_definitions(), Device::kCpu), rows);
    const Results again = get(*cuda_row_kernels(), GetParam());
    for (std::size_t r = 0; r < ours.size(); ++r) EXPECT_EQ(ours[r].values, again[r].values);
  }
};

TEST_P(RowsOn, ActivationEqualsTheReference) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    for (const Activation function : functions_of(c)) {
      for (const Element element : {kF64, kF32, kBF16}) {
        const bool has_bias = (c.rows + static_cast<int>(function)) % 3 != 0;
        SCOPED_TRACE(testing::Message() << "function " << static_cast<int>(function) << ", element "
                                        << static_cast<int>(element));
        expect_agreement(
            [&](const RowKernels& kernels, Device device) {
              return activation_results(kernels, device, c, function, element, has_bias);
            },
            c.rows);
      }
    }
  }
}

TEST_P(RowsOn, SumAndNormEqualTheReference) {
  const std::vector<Kind> kinds = {
      {kF64, kF64, kF64, true, true, true},
      {kF64, kF64, kF64, true, true, false, true, true},
      {kF32, kF32, kF32, true, true, true},
      {kF32, kBF16, kBF16, true, true, true},
      {kF32, kBF16, kF32, true, true, false, true, true, false},
      {kBF16, kBF16, kBF16, true, true, true},
      {kBF16, kF32, kF32},
      // The norm, the residual sum, dropout alone.
      {kF32, kF32, kBF16, true, false, false, true, false, false},
      {kF32, kF32, kF32, true, false, false, true, true, false},
      {kF32, kBF16, kF32, true, true, true, false},
      {kBF16, kBF16, kBF16, false, true, false, false},
  };
  for (const Case& c : cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (test::kIsShim && c.rows > kSingleRows && k % 4 > 1) continue;  // about half of them
      SCOPED_TRACE(testing::Message() << "kind " << k);
      expect_agreement([&](const RowKernels& kernels,
                           Device device) { return sum_results(kernels, device, c, kinds[k]); },
                       c.rows);
    }
  }
}

TEST_P(RowsOn, SumOfRowsOfAnyWidthWithoutNorm) {
  const Kind kind = {kF32, kBF16, kF32, true, true, true, false};
  const Case wide = {3, 2 * kMostRowWidth + 5, 0.1, 7, 0};
  expect_agreement([&](const RowKernels& kernels,
                       Device device) { return sum_results(kernels, device, wide, kind); },
                   wide.rows);
  SumRows a;
  a.width = kMostRowWidth + 1;
  a.weight = &a;
  EXPECT_STREQ(cuda_row_kernels()->add(a, {}, nullptr), "invalid argument");
}

TEST_P(RowsOn, TurnEqualsTheReference) {
  for (const TurnCase& c : turn_cases()) {
    for (const Element element : {kF64, kF32, kBF16}) {
      for (const bool is_back : {false, true}) {
        SCOPED_TRACE(testing::Message() << c << ", element " << static_cast<int>(element)
                                        << (is_back ? ", back" : ""));
        expect_agreement(
            [&](const RowKernels& kernels, Device device) {
              return turn_results(kernels, device, c, element, is_back);
            },
            1);
      }
    }
  }
}

TEST_P(RowsOn, TurnOfMoreHeadsThanAreCountedIsRefused) {
  TurnRows a;
  a.width = 2;
  for (std::int64_t& size : a.sizes) size = 2048;
  EXPECT_STREQ(cuda_row_kernels()->turn(a, nullptr, nullptr), "invalid argument");
}

// Bit for bit those of the stream.
TEST_P(RowsOn, MaskTakesAWordOfTheStreamForEachEntry) {
  struct Runs {
    std::int64_t entries, length, stride;
  };
  for (const Runs runs :
       {Runs{1, 1, 0}, {1003, 1003, 0}, {4096, 4096, 0}, {60, 5, 30}, {96, 12, 50}, {0, 1, 0}}) {
    for (const std::uint64_t first : {0, 3, 1024}) {
      for (const std::int64_t bytes : {2, 4, 8}) {
        for (const double p : {0.1, 0.75, 1.0 - 1e-9}) {
          MaskRows m;
          m.entries = runs.entries;
          m.length = runs.length;
          m.stride = runs.stride;
          m.bytes = bytes;
          m.kept = 0x3FF1234500003F81;
          m.dropout = dropout_of(p, first);
          Memory stream(GetParam(), sizeof(MaskStream), 0);
          if (first == 3) m.dropout = stored_in(stream, m.dropout);
          Memory out(GetParam(), static_cast<std::size_t>(runs.entries * bytes),
                     first == 3 ? static_cast<std::size_t>(bytes) : 0);
          m.out = out.data();
          EXPECT_STREQ(cuda_row_kernels()->mask(m, nullptr), nullptr);
          out.download();
          for (std::int64_t i = 0; i < runs.entries; ++i) {
            const std::uint64_t word =
                first + static_cast<std::uint64_t>(i / runs.length * runs.stride + i % runs.length);
            const bool is_kept = Random::block({.low = kStream.low, .high = kStream.high},
                                               word / 4)[word % 4] <= m.dropout.last_kept;
            const std::uint64_t expected = is_kept ? m.kept : 0;
            ASSERT_EQ(std::memcmp(out.host() + i * bytes, &expected, static_cast<size_t>(bytes)), 0)
                << "entry " << i << ", bytes " << bytes << ", first " << first << ", p " << p;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RowsOn, testing::Values(Device::kCuda), test::name_of);

}  // namespace
}  // namespace mneme::kernel
