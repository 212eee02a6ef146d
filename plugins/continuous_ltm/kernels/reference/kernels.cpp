#include "kernels/reference/kernels.hpp"

#include <cmath>

namespace continuous_ltm::reference {
namespace {

constexpr double kTwoPi = 6.283185307179586476925;

// Index of [a][b][c] in an array whose inner extents are nb and nc.
std::size_t at(int64_t a, int64_t b, int64_t nb, int64_t c, int64_t nc) {
  return static_cast<std::size_t>((a * nb + b) * nc + c);
}

double cdf(double at, double mean, double variance) {
  return 0.5 * std::erfc((mean - at) / std::sqrt(2.0 * variance));
}

double edge(int64_t k, int64_t bins) {
  if (k == 0) return -1e-6;
  if (k == bins) return 1.0 + 1e-6;
  return static_cast<double>(k) / static_cast<double>(bins);
}

// Calls body(b, h, i, n) for every lane, head, query and function.
template <typename Body>
void for_each(const Basis& basis, const Densities& p, const Body& body) {
  for (int64_t b = 0; b < p.lanes; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t i = 0; i < p.queries; ++i) {
        for (int64_t n = 0; n < basis.count; ++n) body(b, h, i, n);
      }
    }
  }
}

}  // namespace

double Basis::centre(int64_t n) const {
  const auto per_centre = static_cast<int64_t>(widths.size());
  const int64_t centres = count / per_centre;
  if (centres == 1) return 0.0;
  return static_cast<double>(n / per_centre) / static_cast<double>(centres - 1);
}

double Basis::width(int64_t n) const { return widths[static_cast<std::size_t>(n) % widths.size()]; }

double normal(double at, double mean, double variance) {
  const double distance = at - mean;
  return std::exp(-0.5 * distance * distance / variance) / std::sqrt(kTwoPi * variance);
}

std::vector<double> expect(const Basis& basis, const Densities& p,
                           const std::vector<double>& values, int64_t head_width) {
  const int64_t d = head_width;
  std::vector<double> context(static_cast<std::size_t>(p.lanes * p.queries * p.heads * d));
  for_each(basis, p, [&](int64_t b, int64_t h, int64_t i, int64_t n) {
    const std::size_t q = at(b, h, p.heads, i, p.queries);
    const double width = basis.width(n);
    const double r = normal(p.mu[q], basis.centre(n), width * width + p.variance[q]);
    for (int64_t j = 0; j < d; ++j) {
      context[at(b * p.queries + i, h, p.heads, j, d)] +=
          r * values[at(b * basis.count + n, h, p.heads, j, d)];
    }
  });
  return context;
}

ExpectationGradients expect_backward(const Basis& basis, const Densities& p,
                                     const std::vector<double>& values, int64_t head_width,
                                     const std::vector<double>& context_grad) {
  const int64_t d = head_width;
  ExpectationGradients grad;
  grad.mu.assign(p.mu.size(), 0.0);
  grad.variance.assign(p.mu.size(), 0.0);
  grad.values.assign(values.size(), 0.0);
  for_each(basis, p, [&](int64_t b, int64_t h, int64_t i, int64_t n) {
    const std::size_t q = at(b, h, p.heads, i, p.queries);
    const double v = basis.width(n) * basis.width(n) + p.variance[q];
    const double distance = p.mu[q] - basis.centre(n);
    const double r = normal(p.mu[q], basis.centre(n), v);
    double dr = 0.0;
    for (int64_t j = 0; j < d; ++j) {
      const double upstream = context_grad[at(b * p.queries + i, h, p.heads, j, d)];
      const std::size_t value = at(b * basis.count + n, h, p.heads, j, d);
      dr += upstream * values[value];
      grad.values[value] += r * upstream;
    }
    grad.mu[q] += dr * r * (-distance / v);
    grad.variance[q] += dr * r * 0.5 * (distance * distance / (v * v) - 1.0 / v);
  });
  return grad;
}

std::vector<double> histogram(const Densities& p, const std::vector<uint8_t>& valid, int64_t bins) {
  std::vector<double> mass(static_cast<std::size_t>(p.lanes * bins));
  for (int64_t b = 0; b < p.lanes; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t i = 0; i < p.queries; ++i) {
        if (valid[static_cast<std::size_t>(b * p.queries + i)] == 0) continue;
        const std::size_t q = at(b, h, p.heads, i, p.queries);
        for (int64_t k = 0; k < bins; ++k) {
          mass[static_cast<std::size_t>(b * bins + k)] +=
              cdf(edge(k + 1, bins), p.mu[q], p.variance[q]) -
              cdf(edge(k, bins), p.mu[q], p.variance[q]);
        }
      }
    }
  }
  return mass;
}

std::vector<double> signal(const Basis& basis, int64_t lanes, const std::vector<double>& positions,
                           const std::vector<double>& coefficients, int64_t width) {
  const auto samples = lanes == 0 ? 0 : static_cast<int64_t>(positions.size()) / lanes;
  std::vector<double> rows(static_cast<std::size_t>(lanes * samples * width));
  for (int64_t b = 0; b < lanes; ++b) {
    for (int64_t m = 0; m < samples; ++m) {
      for (int64_t n = 0; n < basis.count; ++n) {
        const double psi = normal(positions[static_cast<std::size_t>(b * samples + m)],
                                  basis.centre(n), basis.width(n) * basis.width(n));
        for (int64_t j = 0; j < width; ++j) {
          rows[at(b, m, samples, j, width)] += psi * coefficients[at(b, n, basis.count, j, width)];
        }
      }
    }
  }
  return rows;
}

}  // namespace continuous_ltm::reference
