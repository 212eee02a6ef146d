#include "host/kernel/attention.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace mneme::kernel {
namespace {

const double* row_of(const Rows& rows, int64_t lane, int64_t head, int64_t row) {
  return static_cast<const double*>(rows.data) + lane * rows.lane + head * rows.head +
         row * rows.row;
}

struct Column {
  const double* k;
  const double* v;
};

Column column_of(const AttentionInputs& in, int64_t lane, int64_t head, int64_t column) {
  const KeyPiece* piece = in.pieces;
  while (column >= piece->rows) column -= (piece++)->rows;
  return {row_of(piece->k, lane, head, column), row_of(piece->v, lane, head, column)};
}

double dot(const double* a, const double* a_bias, const double* b, int64_t b_stride, int64_t n) {
  double sum = 0.0;
  for (int64_t j = 0; j < n; ++j) {
    sum += (a[j] + (a_bias == nullptr ? 0.0 : a_bias[j])) * b[j * b_stride];
  }
  return sum;
}

const double* of_head(const void* bias, int64_t head, int64_t width) {
  return bias == nullptr ? nullptr : static_cast<const double*>(bias) + head * width;
}

// -inf where query i does not see column j.
double score(const AttentionShape& s, const AttentionInputs& in, int64_t lane, int64_t h, int64_t i,
             int64_t j) {
  const double none = -std::numeric_limits<double>::infinity();
  if (in.valid != nullptr && in.valid[lane * s.keys + j] == 0) return none;
  const double* q = row_of(in.q, lane, h, i);
  double out = dot(q, of_head(in.content_bias, h, s.width),
                   column_of(in, lane, h / s.shared(), j).k, 1, s.width);
  double distance_term = 0.0;
  if (j >= s.free) {
    const int64_t place = j - s.free;
    const int64_t distance = s.before() + i - place;
    if (distance < 0 || (s.window > 0 && distance >= s.window)) return none;
    if (in.table != nullptr) {
      const double* column =
          static_cast<const double*>(in.table) + h * in.table_head + (s.queries - 1 - i + place);
      out += dot(q, of_head(in.position_bias, h, s.width), column, in.table_row, s.width);
    }
    if (in.slopes != nullptr) {
      const int64_t counted = s.clamp > 0 && distance > s.clamp ? s.clamp : distance;
      distance_term = -static_cast<const double*>(in.slopes)[h] * static_cast<double>(counted);
    }
  }
  out = s.scale * out + distance_term;
  if (in.bias == nullptr) return out;
  return out +
         static_cast<const double*>(in.bias)[h * in.bias_stride[0] + lane * in.bias_stride[1] +
                                             i * in.bias_stride[2] + j * in.bias_stride[3]];
}

}  // namespace

void attend_by_definition(const AttentionShape& s, const AttentionInputs& in,
                          const AttentionResults& out) {
  std::vector<double> scores(static_cast<size_t>(s.keys));
  for (int64_t b = 0; b < s.lanes; ++b) {
    for (int64_t i = 0; i < s.queries; ++i) {
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t at = (h * s.lanes + b) * s.queries + i;
        double top = -std::numeric_limits<double>::infinity();
        for (int64_t j = 0; j < s.keys; ++j) {
          scores[static_cast<size_t>(j)] = score(s, in, b, h, i, j);
          top = std::fmax(top, scores[static_cast<size_t>(j)]);
        }
        const bool has_virtual = in.virtual_logit != nullptr;
        const double logit =
            has_virtual ? static_cast<const double*>(in.virtual_logit)[at] : -INFINITY;
        top = std::fmax(top, logit);
        double* z = static_cast<double*>(out.z) + ((b * s.queries + i) * s.heads + h) * s.width;
        for (int64_t c = 0; c < s.width; ++c) z[c] = 0.0;
        double sum = 0.0;
        const auto add = [&](double value, const double* row) {
          const double weight = value == -INFINITY ? 0.0 : std::exp(value - top);
          sum += weight;
          for (int64_t c = 0; c < s.width && weight > 0.0; ++c) z[c] += weight * row[c];
        };
        for (int64_t j = 0; j < s.keys; ++j) {
          add(scores[static_cast<size_t>(j)], column_of(in, b, h / s.shared(), j).v);
        }
        if (has_virtual) add(logit, static_cast<const double*>(in.virtual_value) + at * s.width);
        for (int64_t c = 0; c < s.width && sum > 0.0; ++c) z[c] /= sum;
        if (out.lse != nullptr) {
          static_cast<double*>(out.lse)[(b * s.heads + h) * s.queries + i] = top + std::log(sum);
        }
      }
    }
  }
}

}  // namespace mneme::kernel
