#include "kernels/reference/kernels.hpp"

#include <algorithm>
#include <cmath>

namespace compressive::reference {
namespace {

// Index of [b][r][h][0] in an array [B,rows,H,d].
std::size_t at(const AttentionShape& s, int64_t b, int64_t rows, int64_t r, int64_t h) {
  return static_cast<std::size_t>(((b * rows + r) * s.heads + h) * s.head_width);
}

double dot(const AttentionShape& s, const double* x, const double* y) {
  double sum = 0.0;
  for (int64_t j = 0; j < s.head_width; ++j) sum += x[j] * y[j];
  return sum;
}

struct Attention {
  std::vector<double> probabilities;  // [rows there are]
  std::vector<double> out;            // [d]
};

// Of one query over the first `count` of `rows` rows of its lane and head.
Attention attend(const AttentionShape& s, const double* q, double scale,
                 const std::vector<double>& k, const std::vector<double>& v, int64_t b, int64_t h,
                 int64_t rows, int64_t count) {
  Attention a;
  for (int64_t r = 0; r < count; ++r) {
    a.probabilities.push_back(scale * dot(s, q, k.data() + at(s, b, rows, r, h)));
  }
  const double most = *std::max_element(a.probabilities.begin(), a.probabilities.end());
  double sum = 0.0;
  for (double& p : a.probabilities) {
    p = std::exp(p - most);
    sum += p;
  }
  for (double& p : a.probabilities) p /= sum;
  a.out.assign(static_cast<std::size_t>(s.head_width), 0.0);
  for (int64_t r = 0; r < count; ++r) {
    for (std::size_t j = 0; j < a.out.size(); ++j) {
      a.out[j] += a.probabilities[static_cast<std::size_t>(r)] * v[at(s, b, rows, r, h) + j];
    }
  }
  return a;
}

// Calls body(b, h, q, old attention, new attention) for the queries of lanes that have rows.
template <typename Body>
void for_each_query(const AttentionShape& s, const AttentionInputs& in, const Body& body) {
  for (int64_t b = 0; b < s.lanes; ++b) {
    const int64_t old_count = in.old_counts[static_cast<std::size_t>(b)];
    const int64_t new_count = in.new_counts[static_cast<std::size_t>(b)];
    if (old_count == 0 || new_count == 0) continue;
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t i = 0; i < s.queries; ++i) {
        const double* q = in.q.data() + at(s, b, s.queries, i, h);
        body(b, h, q, attend(s, q, in.scale, in.k_old, in.v_old, b, h, s.old_rows, old_count),
             attend(s, q, in.scale, in.k_new, in.v_new, b, h, s.new_rows, new_count));
      }
    }
  }
}

// The row of a window that decides its max.
int64_t largest(const Windows& w, const double* rows) {
  int64_t best = 0;
  for (int64_t t = 0; t < w.rate; ++t) {
    const double value = rows[t * w.width];
    if (std::isnan(value)) return t;
    if (value > rows[best * w.width]) best = t;
  }
  return best;
}

// Calls body(index of the window's result, index of its first row) for every window and column.
template <typename Body>
void for_each_window(const Windows& w, const Body& body) {
  for (int64_t b = 0; b < w.lanes; ++b) {
    for (int64_t i = 0; i < w.count(); ++i) {
      for (int64_t j = 0; j < w.width; ++j) {
        body(static_cast<std::size_t>((b * w.count() + i) * w.width + j),
             static_cast<std::size_t>((b * w.rows + i * w.rate) * w.width + j));
      }
    }
  }
}

}  // namespace

std::vector<double> reconstruction_error(const AttentionShape& s, const AttentionInputs& in) {
  std::vector<double> error(static_cast<std::size_t>(s.lanes), 0.0);
  for_each_query(s, in,
                 [&](int64_t b, int64_t, const double*, const Attention& old_attention,
                     const Attention& new_attention) {
                   for (std::size_t j = 0; j < new_attention.out.size(); ++j) {
                     const double difference = new_attention.out[j] - old_attention.out[j];
                     error[static_cast<std::size_t>(b)] += difference * difference;
                   }
                 });
  return error;
}

AttentionGradients reconstruction_gradients(const AttentionShape& s, const AttentionInputs& in,
                                            const std::vector<double>& arriving) {
  AttentionGradients grad;
  grad.k_new.assign(in.k_new.size(), 0.0);
  grad.v_new.assign(in.v_new.size(), 0.0);
  grad.k_terms.assign(in.k_new.size(), 0.0);
  for_each_query(s, in,
                 [&](int64_t b, int64_t h, const double* q, const Attention& old_attention,
                     const Attention& new_attention) {
                   const auto width = static_cast<std::size_t>(s.head_width);
                   std::vector<double> da(width);
                   std::vector<double> terms(width);  // of da
                   for (std::size_t j = 0; j < width; ++j) {
                     const double factor = 2.0 * arriving[static_cast<std::size_t>(b)];
                     da[j] = factor * (new_attention.out[j] - old_attention.out[j]);
                     terms[j] = std::abs(factor * new_attention.out[j]) +
                                std::abs(factor * old_attention.out[j]);
                   }
                   const double mean = dot(s, da.data(), new_attention.out.data());
                   for (std::size_t r = 0; r < new_attention.probabilities.size(); ++r) {
                     const std::size_t row = at(s, b, s.new_rows, static_cast<int64_t>(r), h);
                     const double p = new_attention.probabilities[r];
                     const double* v = in.v_new.data() + row;
                     const double ds = p * (dot(s, da.data(), v) - mean);
                     double ds_terms = 0.0;
                     for (std::size_t j = 0; j < width; ++j) {
                       const double a = new_attention.out[j];
                       ds_terms += p * terms[j] * (std::abs(v[j]) + std::abs(a));
                       grad.v_new[row + j] += p * da[j];
                       grad.k_new[row + j] += in.scale * ds * q[j];
                     }
                     for (std::size_t j = 0; j < width; ++j)
                       grad.k_terms[row + j] += std::abs(in.scale * ds_terms * q[j]);
                   }
                 });
  return grad;
}

std::vector<double> pool(const Windows& w, const std::vector<double>& rows) {
  std::vector<double> pooled(static_cast<std::size_t>(w.lanes * w.count() * w.width));
  for_each_window(w, [&](std::size_t to, std::size_t from) {
    const double* first = rows.data() + from;
    if (w.is_max) {
      pooled[to] = first[largest(w, first) * w.width];
      return;
    }
    for (int64_t t = 0; t < w.rate; ++t) {
      pooled[to] += first[t * w.width] / static_cast<double>(w.rate);
    }
  });
  return pooled;
}

std::vector<double> pool_gradient(const Windows& w, const std::vector<double>& rows,
                                  const std::vector<double>& arriving) {
  std::vector<double> grad(rows.size(), 0.0);
  for_each_window(w, [&](std::size_t to, std::size_t from) {
    if (w.is_max) {
      const int64_t best = largest(w, rows.data() + from);
      grad[from + static_cast<std::size_t>(best * w.width)] += arriving[to];
      return;
    }
    for (int64_t t = 0; t < w.rate; ++t) {
      grad[from + static_cast<std::size_t>(t * w.width)] +=
          arriving[to] / static_cast<double>(w.rate);
    }
  });
  return grad;
}

}  // namespace compressive::reference
