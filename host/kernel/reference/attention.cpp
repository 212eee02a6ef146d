#include "host/kernel/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "host/kernel/reference/dropout.hpp"

namespace mneme::kernel {
namespace {

const double* row_of(const Rows& rows, std::int64_t lane, std::int64_t head, std::int64_t row) {
  return static_cast<const double*>(rows.data) + lane * rows.lane + head * rows.head +
         row * rows.row;
}

struct Column {
  const double* k;
  const double* v;
};

Column column_of(const AttentionInputs& in, std::int64_t lane, std::int64_t head,
                 std::int64_t column) {
  const KeyPiece* piece = in.pieces;
  while (column >= piece->rows) column -= (piece++)->rows;
  return {row_of(piece->k, lane, head, column), row_of(piece->v, lane, head, column)};
}

double dot(const double* a, const double* a_bias, const double* b, std::int64_t b_stride,
           std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t j = 0; j < n; ++j) {
    sum += (a[j] + (a_bias == nullptr ? 0.0 : a_bias[j])) * b[j * b_stride];
  }
  return sum;
}

const double* of_head(const void* bias, std::int64_t head, std::int64_t width) {
  return bias == nullptr ? nullptr : static_cast<const double*>(bias) + head * width;
}

// Of a column with a place: its row of the table; null without a table.
const double* table_column(const AttentionShape& s, const AttentionInputs& in, std::int64_t h,
                           std::int64_t i, std::int64_t j) {
  if (in.table == nullptr || j < s.free) return nullptr;
  return static_cast<const double*>(in.table) + h * in.table_head + s.queries - 1 - i + j - s.free;
}

// -inf where query i does not see column j.
double score(const AttentionShape& s, const AttentionInputs& in, std::int64_t lane, std::int64_t h,
             std::int64_t i, std::int64_t j) {
  const double none = -std::numeric_limits<double>::infinity();
  if (in.valid != nullptr && in.valid[lane * s.keys + j] == 0) return none;
  const double* q = row_of(in.q, lane, h, i);
  double out = dot(q, of_head(in.content_bias, h, s.width),
                   column_of(in, lane, h / s.shared(), j).k, 1, s.width);
  double distance_term = 0.0;
  if (j >= s.free) {
    const std::int64_t place = j - s.free;
    const std::int64_t distance = s.before() + i - place;
    if (distance < 0 || (s.window > 0 && distance >= s.window)) return none;
    if (in.table != nullptr) {
      out += dot(q, of_head(in.position_bias, h, s.width), table_column(s, in, h, i, j),
                 in.table_row, s.width);
    }
    if (in.slopes != nullptr) {
      const std::int64_t counted = s.clamp > 0 && distance > s.clamp ? s.clamp : distance;
      distance_term = -static_cast<const double*>(in.slopes)[h] * static_cast<double>(counted);
    }
  }
  out = s.scale * out + distance_term;
  if (in.bias == nullptr) return out;
  return out +
         static_cast<const double*>(in.bias)[h * in.bias_stride[0] + lane * in.bias_stride[1] +
                                             i * in.bias_stride[2] + j * in.bias_stride[3]];
}

// What dropout multiplies a probability by.
double kept_factor(const AttentionShape& s, const AttentionInputs& in, std::int64_t lane,
                   std::int64_t h, std::int64_t i, std::int64_t j) {
  return factor_of(in.dropout.mask, h * in.dropout.head + (lane * s.queries + i) * s.keys + j);
}

}  // namespace

void attend_by_definition(const AttentionShape& s, const AttentionInputs& in,
                          const AttentionResults& out) {
  std::vector<double> scores(static_cast<std::size_t>(s.keys));
  for (std::int64_t b = 0; b < s.lanes; ++b) {
    for (std::int64_t i = 0; i < s.queries; ++i) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        double top = -std::numeric_limits<double>::infinity();
        for (std::int64_t j = 0; j < s.keys; ++j) {
          scores[static_cast<std::size_t>(j)] = score(s, in, b, h, i, j);
          top = std::fmax(top, scores[static_cast<std::size_t>(j)]);
        }
        double* z = static_cast<double*>(out.z) + ((b * s.queries + i) * s.heads + h) * s.width;
        for (std::int64_t c = 0; c < s.width; ++c) z[c] = 0.0;
        double sum = 0.0;
        for (std::int64_t j = 0; j < s.keys; ++j) {
          const double value = scores[static_cast<std::size_t>(j)];
          const double weight = value == -INFINITY ? 0.0 : std::exp(value - top);
          sum += weight;
          const double used = weight == 0.0 ? 0.0 : weight * kept_factor(s, in, b, h, i, j);
          const double* row = column_of(in, b, h / s.shared(), j).v;
          for (std::int64_t c = 0; c < s.width && used > 0.0; ++c) z[c] += used * row[c];
        }
        for (std::int64_t c = 0; c < s.width && sum > 0.0; ++c) z[c] /= sum;
        if (out.lse != nullptr) {
          static_cast<double*>(out.lse)[(b * s.heads + h) * s.queries + i] = top + std::log(sum);
        }
      }
    }
  }
}

namespace {

struct Gradients {
  const AttentionShape& s;
  const AttentionInputs& in;
  const AttentionGradients& out;

  double* of_rows(void* grads, std::int64_t lane, std::int64_t row, std::int64_t rows,
                  std::int64_t heads, std::int64_t head) const {
    return static_cast<double*>(grads) + ((lane * rows + row) * heads + head) * s.width;
  }
  // Gradients of a column's key and value; null = not wanted.
  std::pair<double*, double*> of_column(std::int64_t b, std::int64_t head,
                                        std::int64_t column) const {
    std::int64_t p = 0;
    for (; column >= in.pieces[p].rows; ++p) column -= in.pieces[p].rows;
    const auto of = [&](void* grads) {
      return grads == nullptr ? nullptr
                              : of_rows(grads, b, column, in.pieces[p].rows, s.key_heads, head);
    };
    return {of(out.pieces[p].k), of(out.pieces[p].v)};
  }
  void add(double* grads, double factor, const double* x, const double* bias = nullptr,
           std::int64_t stride = 1) const {
    if (grads == nullptr) return;
    for (std::int64_t c = 0; c < s.width; ++c) {
      grads[c] += factor * (x[c * stride] + (bias == nullptr ? 0.0 : bias[c]));
    }
  }
  double* of_bias(void* grads, std::int64_t head) const {
    return grads == nullptr ? nullptr : static_cast<double*>(grads) + head * s.width;
  }

  // g: the gradient of the score s_ij.
  void add_score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, double g) const {
    const double* q = row_of(in.q, b, h, i);
    const double* u = of_head(in.content_bias, h, s.width);
    const double* w = of_head(in.position_bias, h, s.width);
    const double* k = column_of(in, b, h / s.shared(), j).k;
    add(of_rows(out.q, b, i, s.queries, s.heads, h), s.scale * g, k);
    add(of_column(b, h / s.shared(), j).first, s.scale * g, q, u);
    add(of_bias(out.content_bias, h), s.scale * g, k);
    const double* r = table_column(s, in, h, i, j);
    if (r == nullptr) return;
    add(of_rows(out.q, b, i, s.queries, s.heads, h), s.scale * g, r, nullptr, in.table_row);
    add(of_bias(out.position_bias, h), s.scale * g, r, nullptr, in.table_row);
    if (out.table == nullptr) return;
    const std::int64_t row = s.queries - 1 - i + j - s.free, padded = padded_width(s);
    add(static_cast<double*>(out.table) + (h * (in.table_rows + kTableSpare) + row) * padded,
        s.scale * g, q, w);
  }
};

void clear(void* numbers, std::int64_t count) {
  if (numbers != nullptr) std::fill_n(static_cast<double*>(numbers), count, 0.0);
}

}  // namespace

void attend_backward_by_definition(const AttentionShape& s, const AttentionInputs& in,
                                   const AttentionPass& pass, const AttentionGradients& out) {
  clear(out.q, s.lanes * s.queries * s.heads * s.width);
  for (std::int64_t p = 0; p < in.n_pieces; ++p) {
    for (void* grads : {out.pieces[p].k, out.pieces[p].v}) {
      clear(grads, s.lanes * in.pieces[p].rows * s.key_heads * s.width);
    }
  }
  clear(out.table, s.heads * (in.table_rows + kTableSpare) * padded_width(s));
  clear(out.content_bias, s.heads * s.width);
  clear(out.position_bias, s.heads * s.width);
  const Gradients gradients{s, in, out};
  for (std::int64_t b = 0; b < s.lanes; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.queries; ++i) {
        const std::int64_t at = (b * s.heads + h) * s.queries + i;
        const double lse = static_cast<const double*>(pass.lse)[at];
        if (lse == -INFINITY) continue;
        const double* z =
            static_cast<const double*>(pass.z) + ((b * s.queries + i) * s.heads + h) * s.width;
        const double* dz = row_of(pass.grad_z, b, h, i);
        const double dlse =
            pass.grad_lse == nullptr ? 0.0 : static_cast<const double*>(pass.grad_lse)[at];
        const double shift = dlse - dot(dz, nullptr, z, 1, s.width);
        for (std::int64_t j = 0; j < s.keys; ++j) {
          const double p = std::exp(score(s, in, b, h, i, j) - lse);
          if (p == 0.0) continue;
          const double kept = kept_factor(s, in, b, h, i, j);
          gradients.add(gradients.of_column(b, h / s.shared(), j).second, kept * p, dz);
          const double* v = column_of(in, b, h / s.shared(), j).v;
          gradients.add_score(b, h, i, j, p * (kept * dot(dz, nullptr, v, 1, s.width) + shift));
        }
      }
    }
  }
}

}  // namespace mneme::kernel
