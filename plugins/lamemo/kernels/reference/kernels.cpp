#include "kernels/reference/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lamemo::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One query of one head of one lane, and where its rows lie.
struct Query {
  const Shape& s;
  const Inputs& in;
  int64_t b, i, h;

  std::size_t scalar() const {  // in an array [B,M,H]
    return static_cast<std::size_t>((b * s.queries + i) * s.heads + h);
  }
  std::size_t row() const { return scalar() * width(); }
  std::size_t bias() const { return static_cast<std::size_t>(h) * width(); }
  std::size_t key(int64_t c) const {
    return static_cast<std::size_t>((b * s.keys + c) * s.heads + h) * width();
  }
  std::size_t position(int64_t c) const {  // the row of the table for key c
    return static_cast<std::size_t>(h * s.offsets + s.first + c - i - s.least) * width();
  }
  std::size_t width() const { return static_cast<std::size_t>(s.head_width); }
  double carried_lse() const { return in.lse[scalar()]; }

  // The keys that the query attends, in their order.
  std::vector<int64_t> keys() const {
    std::vector<int64_t> attended;
    for (int64_t c = 0; c < s.keys; ++c) {
      const bool is_valid = in.valid[static_cast<std::size_t>(b * s.keys + c)] != 0;
      if (is_valid && s.first + c - i >= s.least) attended.push_back(c);
    }
    return attended;
  }
  double score(int64_t c) const {
    double sum = 0.0;
    for (std::size_t j = 0; j < width(); ++j) {
      const double q = in.q[row() + j];
      sum += (q + in.content_bias[bias() + j]) * in.k[key(c) + j];
      sum += (q + in.position_bias[bias() + j]) * in.table[position(c) + j];
    }
    return in.scale * sum;
  }
};

template <typename Body>
void for_each_query(const Shape& s, const Inputs& in, const Body& body) {
  for (int64_t b = 0; b < s.lanes; ++b) {
    for (int64_t i = 0; i < s.queries; ++i) {
      for (int64_t h = 0; h < s.heads; ++h) body(Query{s, in, b, i, h});
    }
  }
}

double log_sum_exp(const std::vector<double>& logits) {
  double most = -kInfinity;
  for (const double logit : logits) most = std::max(most, logit);
  if (most == -kInfinity) return most;
  double sum = 0.0;
  for (const double logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum);
}

Results empty_results(const Shape& s) {
  const auto scalars = static_cast<std::size_t>(s.lanes * s.queries * s.heads);
  return {std::vector<double>(scalars * static_cast<std::size_t>(s.head_width)),
          std::vector<double>(scalars)};
}

// Adds the derivatives through one score.
void add_score_gradient(const Query& at, int64_t c, double slope, Gradients& grad) {
  for (std::size_t j = 0; j < at.width(); ++j) {
    const double q = at.in.q[at.row() + j];
    const double u = at.in.content_bias[at.bias() + j];
    const double w = at.in.position_bias[at.bias() + j];
    const double by_content = slope * at.in.k[at.key(c) + j];
    const double by_position = slope * at.in.table[at.position(c) + j];
    grad.q[at.row() + j] += by_content + by_position;
    grad.content_bias[at.bias() + j] += by_content;
    grad.position_bias[at.bias() + j] += by_position;
    grad.k[at.key(c) + j] += slope * (q + u);
    grad.table[at.position(c) + j] += slope * (q + w);
  }
}

}  // namespace

Results look_ahead(const Shape& s, const Inputs& in) {
  Results out = empty_results(s);
  for_each_query(s, in, [&](const Query& at) {
    const std::vector<int64_t> keys = at.keys();
    std::vector<double> logits = {at.carried_lse()};
    for (const int64_t c : keys) logits.push_back(at.score(c));
    const double lse = log_sum_exp(logits);
    out.lse[at.scalar()] = lse;
    for (std::size_t j = 0; j < at.width(); ++j) {
      const double carried = in.context[at.row() + j];
      double& to = out.context[at.row() + j];
      to = lse == -kInfinity ? carried : 0.0;
      if (logits[0] > -kInfinity) to = std::exp(logits[0] - lse) * carried;
      for (std::size_t n = 0; n < keys.size(); ++n) {
        to += std::exp(logits[n + 1] - lse) * in.v[at.key(keys[n]) + j];
      }
    }
  });
  return out;
}

Results look_ahead_in_two_passes(const Shape& s, const Inputs& in) {
  Results out = empty_results(s);
  for_each_query(s, in, [&](const Query& at) {
    const std::vector<int64_t> keys = at.keys();
    std::vector<double> logits;
    for (const int64_t c : keys) logits.push_back(at.score(c));
    const double carried_lse = at.carried_lse();
    const double ahead_lse = log_sum_exp(logits);
    const double most = std::max(carried_lse, ahead_lse);
    const double of_carried = std::exp(carried_lse - most);
    const double alpha = of_carried / (of_carried + std::exp(ahead_lse - most));
    out.lse[at.scalar()] = most + std::log(of_carried + std::exp(ahead_lse - most));
    for (std::size_t j = 0; j < at.width(); ++j) {
      double ahead = 0.0;
      for (std::size_t n = 0; n < keys.size(); ++n) {
        ahead += std::exp(logits[n] - ahead_lse) * in.v[at.key(keys[n]) + j];
      }
      out.context[at.row() + j] = alpha * in.context[at.row() + j] + (1.0 - alpha) * ahead;
    }
  });
  return out;
}

Gradients look_ahead_gradients(const Shape& s, const Inputs& in, const Results& arriving) {
  const Results out = look_ahead(s, in);
  Gradients grad = {std::vector<double>(in.q.size()),
                    std::vector<double>(in.k.size()),
                    std::vector<double>(in.v.size()),
                    std::vector<double>(in.table.size()),
                    std::vector<double>(in.content_bias.size()),
                    std::vector<double>(in.position_bias.size())};
  for_each_query(s, in, [&](const Query& at) {
    const double* change = arriving.context.data() + at.row();
    double inner = -arriving.lse[at.scalar()];
    for (std::size_t j = 0; j < at.width(); ++j) inner += change[j] * out.context[at.row() + j];
    for (const int64_t c : at.keys()) {
      const double p = std::exp(at.score(c) - out.lse[at.scalar()]);
      double product = 0.0;
      for (std::size_t j = 0; j < at.width(); ++j) {
        product += change[j] * in.v[at.key(c) + j];
        grad.v[at.key(c) + j] += p * change[j];
      }
      add_score_gradient(at, c, in.scale * p * (product - inner), grad);
    }
  });
  return grad;
}

}  // namespace lamemo::reference
