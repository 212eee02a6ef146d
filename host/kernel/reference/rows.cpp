// The rows of rows.hpp by their definitions: in f64, entry by entry.
#include "host/kernel/rows.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <utility>
#include <vector>

#include "host/kernel/reference/dropout.hpp"
#include "host/kernel/reference/elements.hpp"

namespace mneme::kernel {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

double rounded(Element element, double value) {
  double room = 0.0;
  write_value(&room, element, 0, value);
  return value_of(&room, element, 0);
}

Element sums_of(Element element) {
  return element == Element::kF64 ? Element::kF64 : Element::kF32;
}

// Of a parameter that may be missing.
double value_or(const void* data, Element element, std::int64_t i, double missing) {
  return data == nullptr ? missing : value_of(data, sums_of(element), i);
}

struct WithSlope {
  double value;
  double slope;
};

WithSlope logistic(double x) {
  const double y = 1.0 / (1.0 + std::exp(-x));
  return {y, y * (1.0 - y)};
}

WithSlope activated(Activation function, double x) {
  if (function == Activation::kRelu) return x > 0.0 ? WithSlope{x, 1.0} : WithSlope{0.0, 0.0};
  if (function == Activation::kRelu2)
    return x > 0.0 ? WithSlope{x * x, 2.0 * x} : WithSlope{0.0, 0.0};
  if (function == Activation::kGelu) {
    const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
    return {x * below, below + x * density};
  }
  if (function == Activation::kGeluTanh || function == Activation::kGeglu) {
    const double k = std::sqrt(2.0 / std::numbers::pi);
    const double t = std::tanh(k * (x + 0.044715 * x * x * x));
    const double slope = (1.0 - t * t) * k * (1.0 + 3.0 * 0.044715 * x * x);
    return {0.5 * x * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * x * slope};
  }
  const WithSlope gate = logistic(x);
  return {x * gate.value, gate.value + x * gate.slope};
}

double input(const ActivationRows& a, std::int64_t row, std::int64_t column) {
  return value_of(a.x, a.element, row * a.inputs() + column) +
         value_or(a.bias, a.element, column, 0.0);
}

std::uint64_t workspace(std::int64_t /*rows*/, std::int64_t /*columns*/, Element /*element*/) {
  return 0;
}

const char* activate(const ActivationRows& a, void* out, void* /*stream*/) {
  for (std::int64_t row = 0; row < a.rows; ++row) {
    for (std::int64_t column = 0; column < a.width; ++column) {
      const std::int64_t entry = row * a.width + column;
      double value = activated(a.function, input(a, row, column)).value;
      if (is_gated(a.function)) value *= input(a, row, a.width + column);
      write_value(out, a.element, entry, value * factor_of(a.dropout, entry));
    }
  }
  return nullptr;
}

const char* activate_backward(const ActivationRows& a, const ActivationGradients& g,
                              void* /*workspace*/, void* /*stream*/) {
  std::vector<double> bias(at(a.inputs()));
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const auto leave = [&](std::int64_t column, double value) {
      write_value(g.x, a.element, row * a.inputs() + column, value);
      bias[at(column)] += value;
    };
    for (std::int64_t column = 0; column < a.width; ++column) {
      const std::int64_t entry = row * a.width + column;
      const double arriving = value_of(g.out, a.element, entry) * factor_of(a.dropout, entry);
      const WithSlope f = activated(a.function, input(a, row, column));
      if (is_gated(a.function)) {
        leave(column, arriving * f.slope * input(a, row, a.width + column));
        leave(a.width + column, arriving * f.value);
      } else {
        leave(column, arriving * f.slope);
      }
    }
  }
  for (std::int64_t i = 0; i < a.inputs(); ++i)
    write_value(g.bias, sums_of(a.element), i, bias[at(i)]);
  return nullptr;
}

double sum_at(const SumRows& a, std::int64_t row, std::int64_t column) {
  const std::int64_t entry = row * a.width + column;
  double y = a.h == nullptr ? 0.0 : value_of(a.h, a.residual, entry);
  if (a.x != nullptr) {
    const double x = value_of(a.x, a.element, entry) + value_or(a.bias, a.element, column, 0.0);
    y += x * factor_of(a.dropout, entry);
  }
  return rounded(a.residual, y);
}

const char* add(const SumRows& a, const SumResults& r, void* /*stream*/) {
  const auto width = static_cast<double>(a.width);
  for (std::int64_t row = 0; row < a.rows; ++row) {
    std::vector<double> y(at(a.width));
    double mean = 0.0, squares = 0.0;
    for (std::int64_t i = 0; i < a.width; ++i) {
      y[at(i)] = sum_at(a, row, i);
      write_value(r.y, a.residual, row * a.width + i, y[at(i)]);
      if (!a.is_rms) mean += y[at(i)] / width;
    }
    if (a.weight == nullptr) continue;
    for (const double value : y) squares += (value - mean) * (value - mean);
    const double scale = 1.0 / std::sqrt(squares / width + a.epsilon);
    write_value(r.mean, sums_of(a.residual), row, mean);
    write_value(r.scale, sums_of(a.residual), row, scale);
    for (std::int64_t i = 0; i < a.width; ++i) {
      write_value(r.out, a.result, row * a.width + i,
                  (y[at(i)] - mean) * scale * value_or(a.weight, a.residual, i, 1.0) +
                      value_or(a.shift, a.residual, i, 0.0));
    }
  }
  return nullptr;
}

// What arrives at the sums of a row, directly and through the norm; adds to sums of parameters.
std::vector<double> arriving_at(const SumRows& a, const SumGradients& g, std::int64_t row,
                                std::vector<double>& weight, std::vector<double>& shift) {
  std::vector<double> total(at(a.width)), normal(at(a.width)), of_normal(at(a.width));
  double mean = 0.0, along = 0.0;
  for (std::int64_t i = 0; i < a.width && g.out != nullptr; ++i) {
    const double out = value_of(g.out, a.result, row * a.width + i);
    normal[at(i)] = (value_of(g.kept.y, a.residual, row * a.width + i) -
                     (a.is_rms ? 0.0 : value_or(g.kept.mean, a.residual, row, 0.0))) *
                    value_or(g.kept.scale, a.residual, row, 0.0);
    of_normal[at(i)] = out * value_or(a.weight, a.residual, i, 1.0);
    weight[at(i)] += out * normal[at(i)];
    shift[at(i)] += out;
    if (!a.is_rms) mean += of_normal[at(i)] / static_cast<double>(a.width);
    along += of_normal[at(i)] * normal[at(i)] / static_cast<double>(a.width);
  }
  for (std::int64_t i = 0; i < a.width; ++i) {
    if (g.y != nullptr) total[at(i)] = value_of(g.y, a.residual, row * a.width + i);
    if (g.out == nullptr) continue;
    total[at(i)] += (of_normal[at(i)] - mean - normal[at(i)] * along) *
                    value_or(g.kept.scale, a.residual, row, 0.0);
  }
  return total;
}

const char* add_backward(const SumRows& a, const SumGradients& g, void* /*workspace*/,
                         void* /*stream*/) {
  std::vector<double> weight(at(a.width)), shift(at(a.width)), bias(at(a.width));
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const std::vector<double> total = arriving_at(a, g, row, weight, shift);
    for (std::int64_t i = 0; i < a.width; ++i) {
      const std::int64_t entry = row * a.width + i;
      const double x = total[at(i)] * factor_of(a.dropout, entry);
      write_value(g.h, a.residual, entry, total[at(i)]);
      write_value(g.x, a.element, entry, x);
      bias[at(i)] += x;
    }
  }
  for (const auto& [to, from] :
       {std::pair{g.weight, &weight}, std::pair{g.shift, &shift}, std::pair{g.bias, &bias}}) {
    for (std::int64_t i = 0; i < a.width; ++i)
      write_value(to, sums_of(a.residual), i, (*from)[at(i)]);
  }
  return nullptr;
}

const char* mask(const MaskRows& m, void* /*stream*/) {
  for (std::int64_t i = 0; i < m.entries; ++i) {
    const std::int64_t word = i / m.length * m.stride + i % m.length;
    const std::uint64_t bits = is_kept(m.dropout, static_cast<std::uint64_t>(word)) ? m.kept : 0;
    std::memcpy(static_cast<unsigned char*>(m.out) + i * m.bytes, &bits, at(m.bytes));
  }
  return nullptr;
}

void turn_head(const TurnRows& a, std::int64_t x, std::int64_t angles, std::int64_t to, void* out) {
  const std::int64_t half = a.width / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const double first = value_of(a.x, a.element, x + i);
    const double second = value_of(a.x, a.element, x + half + i);
    const double cos = value_of(a.cos, a.element, angles + i);
    const double sin = value_of(a.sin, a.element, angles + i) * (a.is_back ? -1.0 : 1.0);
    write_value(out, a.element, to + i, first * cos - second * sin);
    write_value(out, a.element, to + half + i, second * cos + first * sin);
  }
}

const char* turn(const TurnRows& a, void* out, void* /*stream*/) {
  for (std::int64_t i = 0; i < a.sizes[0]; ++i) {
    for (std::int64_t j = 0; j < a.sizes[1]; ++j) {
      for (std::int64_t k = 0; k < a.sizes[2]; ++k) {
        const auto head = [&](const std::int64_t(&strides)[3]) {
          return i * strides[0] + j * strides[1] + k * strides[2];
        };
        turn_head(a, head(a.x_strides), head(a.angle_strides), head(a.out_strides), out);
      }
    }
  }
  return nullptr;
}

}  // namespace

const RowKernels& row_definitions() {
  static constexpr RowKernels kDefinitions = {
      workspace, activate, activate_backward, add, add_backward, mask, turn};
  return kDefinitions;
}

#ifndef MNEME_HAS_CUDA
const RowKernels* cuda_row_kernels() { return nullptr; }
#endif

}  // namespace mneme::kernel
