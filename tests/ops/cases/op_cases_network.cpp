// Golden cases: normalisation, convolution, pooling, rotary positions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ops/op_case.hpp"

namespace mneme::memory::test {
namespace {

struct Convolution {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

// Number of windows of `taps` places in `length`, padding included at both ends.
int64_t windows(int64_t length, int64_t taps, const Convolution& c) {
  return (length + 2 * c.padding - c.dilation * (taps - 1) - 1) / c.stride + 1;
}

Array naive_conv1d(const Arrays& in, const Convolution& c) {
  const Array& x = in[0];
  const Array& w = in[1];
  const int64_t length = x.shape[2];
  const int64_t taps = w.shape[2];
  const int64_t per_group_in = w.shape[1];
  const int64_t per_group_out = w.shape[0] / c.groups;
  return build({x.shape[0], w.shape[0], windows(length, taps, c)}, [&](const Index& i) {
    double sum = in.size() > 2 && !in[2].is_absent ? in[2].at({i[1]}) : 0.0;
    const int64_t first = i[1] / per_group_out * per_group_in;
    for (int64_t channel = 0; channel < per_group_in; ++channel) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t t = i[2] * c.stride - c.padding + tap * c.dilation;
        if (t < 0 || t >= length) continue;
        sum += x.at({i[0], first + channel, t}) * w.at({i[1], channel, tap});
      }
    }
    return sum;
  });
}

void convolution(CaseList& list, const char* label, Arrays inputs, const Convolution& c,
                 std::vector<Attr> attrs) {
  list.add1("conv1d/1", label, std::move(inputs), std::move(attrs),
            [c](const Arrays& in) { return naive_conv1d(in, c); })
      .slack = 16;
}

Array naive_pool1d(const Array& x, int64_t kernel, const Convolution& c, bool is_max) {
  const int64_t length = x.shape[2];
  return build({x.shape[0], x.shape[1], windows(length, kernel, c)}, [&](const Index& i) {
    double sum = 0.0;
    double high = -std::numeric_limits<double>::infinity();
    for (int64_t tap = 0; tap < kernel; ++tap) {
      const int64_t t = i[2] * c.stride - c.padding + tap * c.dilation;
      if (t < 0 || t >= length) continue;
      sum += x.at({i[0], i[1], t});
      high = std::max(high, x.at({i[0], i[1], t}));
    }
    return is_max ? high : sum / static_cast<double>(kernel);
  });
}

void add_pooling_cases(CaseList& list) {
  const Array x = noise({2, 2, 7}, 1);
  const auto golden = [](int64_t kernel, Convolution c, bool is_max) {
    return [=](const Arrays& in) { return naive_pool1d(in[0], kernel, c, is_max); };
  };
  list.add1("max_pool1d/1", "kernel", {x}, {integer("kernel", 3)}, golden(3, {.stride = 3}, true));
  list.add1(
      "max_pool1d/1", "all attributes", {x},
      {integer("kernel", 3), integer("stride", 2), integer("padding", 1), integer("dilation", 2)},
      golden(3, {.stride = 2, .padding = 1, .dilation = 2}, true));
  list.add1("avg_pool1d/1", "kernel", {x}, {integer("kernel", 3)}, golden(3, {.stride = 3}, false))
      .slack = 4;
  list.add1("avg_pool1d/1", "all attributes", {x},
            {integer("kernel", 2), integer("stride", 2), integer("padding", 1)},
            golden(2, {.stride = 2, .padding = 1}, false))
      .slack = 4;
}

// Along the last dimension, with a weight and a bias where they are given.
Array naive_layer_norm(const Arrays& in, double eps) {
  const auto width = static_cast<double>(in[0].shape.back());
  Array y = along(in[0], -1, [&](const std::vector<double>& row) {
    double mean = 0.0;
    double variance = 0.0;
    for (const double v : row) mean += v / width;
    for (const double v : row) variance += (v - mean) * (v - mean) / width;
    std::vector<double> result;
    for (const double v : row) result.push_back((v - mean) / std::sqrt(variance + eps));
    return result;
  });
  const auto given = [&](std::size_t i) { return i < in.size() && !in[i].is_absent; };
  return build(y.shape, [&](const Index& i) {
    const double scaled = y.at(i) * (given(1) ? in[1].at({i.back()}) : 1.0);
    return scaled + (given(2) ? in[2].at({i.back()}) : 0.0);
  });
}

void add_layer_norm_cases(CaseList& list) {
  const auto golden = [](double eps) {
    return [eps](const Arrays& in) { return naive_layer_norm(in, eps); };
  };
  const Array x = noise({2, 3, 5}, 2);
  list.add1("layer_norm/1", "plain", {x}, {}, golden(1e-5)).slack = 8;
  list.add1("layer_norm/1", "weight and bias", {x, noise({5}, 3), noise({5}, 4)},
            {real("eps", 0.125)}, golden(0.125))
      .slack = 8;
  list.add1("layer_norm/1", "bias alone", {x, absent(), noise({5}, 5)}, {}, golden(1e-5)).slack = 8;
  list.add1("layer_norm/1", "width 1", {noise({3, 1}, 6)}, {}, golden(1e-5)).slack = 8;
}

// Numbers i and i + d/2 of x [B,T,H,d] turned by place * base^(-2i/d).
Array naive_rotate(const Array& x, const Array& places, double base) {
  const int64_t width = x.shape[3], half = width / 2;
  return build(x.shape, [&](const Index& at) {
    const int64_t i = at[3] % half;
    const double place = places.at({places.shape[0] == 1 ? 0 : at[0], at[1]});
    const double angle =
        place * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    const double a = x.at({at[0], at[1], at[2], i}), b = x.at({at[0], at[1], at[2], i + half});
    return at[3] < half ? a * std::cos(angle) - b * std::sin(angle)
                        : b * std::cos(angle) + a * std::sin(angle);
  });
}

void add_rotation_cases(CaseList& list) {
  const auto golden = [](double base) {
    return [base](const Arrays& in) { return naive_rotate(in[0], in[1], base); };
  };
  list.add1("rotate/1", "places", {noise({2, 3, 2, 4}, 16), whole({2, 3}, 17, -3, 6)}, {},
            golden(10000.0))
      .slack = 8;
  list.add1("rotate/1", "one row of places", {noise({2, 3, 1, 6}, 18), whole({1, 3}, 19, 0, 6)},
            {real("base", 20.0)}, golden(20.0))
      .slack = 8;
}

}  // namespace

void add_network_cases(CaseList& list) {
  const Array x = noise({2, 4, 7}, 7);
  convolution(list, "plain", {x, noise({3, 4, 3}, 8)}, {}, {});
  convolution(list, "bias", {x, noise({3, 4, 2}, 9), noise({3}, 10)}, {}, {});
  convolution(list, "compression", {noise({2, 3, 8}, 13), noise({3, 3, 4}, 14), noise({3}, 15)},
              {.stride = 4}, {integer("stride", 4)});
  convolution(
      list, "all attributes", {x, noise({4, 2, 2}, 11), noise({4}, 12)},
      {.stride = 2, .padding = 1, .dilation = 3, .groups = 2},
      {integer("stride", 2), integer("padding", 1), integer("dilation", 3), integer("groups", 2)});
  add_pooling_cases(list);
  add_layer_norm_cases(list);
  add_rotation_cases(list);
}

}  // namespace mneme::memory::test
