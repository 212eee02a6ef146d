#include "tests/backbone/naive.hpp"

#include <cmath>
#include <limits>

#include "host/tensor/torch.hpp"

namespace mneme::backbone::naive {

double dot(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias, int64_t h, int64_t b,
           int64_t i, int64_t j) {
  const auto qa = q.accessor<double, 4>();
  const auto ka = k.accessor<double, 4>();
  double sum = 0.0;
  for (int64_t c = 0; c < q.size(3); ++c) {
    const double shift = bias.defined() ? bias.accessor<double, 2>()[h][c] : 0.0;
    sum += (qa[b][i][h][c] + shift) * ka[b][j][h][c];
  }
  return sum;
}

double position_dot(const at::Tensor& q, const at::Tensor& weight, const at::Tensor& bias,
                    int64_t h, int64_t b, int64_t i, int64_t distance, int64_t width) {
  const auto qa = q.accessor<double, 4>();
  const auto wa = weight.accessor<double, 2>();
  const auto ba = bias.accessor<double, 2>();
  const int64_t half = width / 2, d = q.size(3);
  double sum = 0.0;
  for (int64_t c = 0; c < d; ++c) {
    double r = 0.0;
    for (int64_t k = 0; k < half; ++k) {
      const double angle =
          static_cast<double>(distance) *
          std::pow(10000.0, -2.0 * static_cast<double>(k) / static_cast<double>(width));
      r += wa[h * d + c][k] * std::sin(angle) + wa[h * d + c][half + k] * std::cos(angle);
    }
    sum += (qa[b][i][h][c] + ba[h][c]) * r;
  }
  return sum;
}

double turned_dot(const at::Tensor& q, const at::Tensor& k, double base, int64_t h, int64_t b,
                  int64_t i, int64_t j, int64_t distance) {
  const auto qa = q.accessor<double, 4>();
  const auto ka = k.accessor<double, 4>();
  const int64_t d = q.size(3), half = d / 2, of = h / (q.size(2) / k.size(2));
  double sum = 0.0;
  for (int64_t c = 0; c < half; ++c) {
    const double angle = static_cast<double>(distance) *
                         std::pow(base, -2.0 * static_cast<double>(c) / static_cast<double>(d));
    const double q1 = qa[b][i][h][c], q2 = qa[b][i][h][c + half];
    const double k1 = ka[b][j][of][c], k2 = ka[b][j][of][c + half];
    sum += (q1 * k1 + q2 * k2) * std::cos(angle) + (q1 * k2 - q2 * k1) * std::sin(angle);
  }
  return sum;
}

Result attend(const at::Tensor& q, const at::Tensor& v, const Score& score) {
  const int64_t lanes = q.size(0), queries = q.size(1), heads = q.size(2), width = q.size(3);
  const int64_t keys = v.size(1);
  const double inf = std::numeric_limits<double>::infinity();
  Result out{at::zeros({lanes, queries, heads, width}, at::kDouble),
             at::zeros({lanes, heads, queries}, at::kDouble),
             at::zeros({lanes, keys}, at::kDouble)};
  auto z = out.z.accessor<double, 4>();
  auto lse = out.lse.accessor<double, 3>();
  auto mass = out.mass.accessor<double, 2>();
  const auto va = v.accessor<double, 4>();
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t b = 0; b < lanes; ++b) {
      for (int64_t i = 0; i < queries; ++i) {
        std::vector<double> s(static_cast<size_t>(keys));
        double sum = 0.0;
        for (int64_t j = 0; j < keys; ++j) {
          s[static_cast<size_t>(j)] = std::exp(score(h, b, i, j));
          sum += s[static_cast<size_t>(j)];
        }
        lse[b][h][i] = sum == 0.0 ? -inf : std::log(sum);
        for (int64_t j = 0; j < keys && sum > 0.0; ++j) {
          const double p = s[static_cast<size_t>(j)] / sum;
          mass[b][j] += p;
          for (int64_t c = 0; c < width; ++c) z[b][i][h][c] += p * va[b][j][h][c];
        }
      }
    }
  }
  return out;
}

}  // namespace mneme::backbone::naive
