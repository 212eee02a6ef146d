// Attention problems with the gradients of their results and room for those of their inputs, for
// the tests of the backward passes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/kernel/attention_cases.hpp"

namespace mneme::kernel {

// A case's pass, gradients of its results, and room for those of its inputs.
template <typename T>
class Problem {
 public:
  using Sum = SumOf<T>;

  Problem(const Case& c, Rounding rounding) : shape(c.shape), inputs(c, rounding) {
    shape.element = element_of<T>();
    const AttentionInputs& in = inputs.get();
    const int64_t queries = shape.lanes * shape.heads * shape.queries;
    std::mt19937 random(11);
    const auto draw = [&] {
      const float x = std::uniform_real_distribution<float>(-1.0F, 1.0F)(random);
      return rounding != Rounding::kNone ? static_cast<float>(BFloat16(x)) : x;
    };
    for (int64_t i = 0; i < queries * shape.width; ++i) dz.push_back(static_cast<T>(draw()));
    for (int64_t i = 0; i < queries; ++i) dlse.push_back(static_cast<Sum>(draw()));
    // The gradient of a constant may be anything.
    if (c.has_gaps) dlse[0] = std::numeric_limits<Sum>::quiet_NaN();
    z.resize(dz.size());
    lse.resize(dlse.size());
    if (in.table != nullptr) lay_out_table(in);
    q.assign(dz.size(), T(99));
    for (int64_t p = 0; p < in.n_pieces; ++p) {
      const int64_t size = shape.lanes * in.pieces[p].rows * shape.key_heads * shape.width;
      k.emplace_back(static_cast<size_t>(size), T(0));
      v.emplace_back(static_cast<size_t>(size), T(0));
    }
    shares = GradientParts(shape).shares;
    const int64_t rows = shares * shape.heads;
    table.assign(static_cast<size_t>(rows * (in.table_rows + kTableSpare) * padded_width(shape)),
                 Sum{99});
    u.assign(static_cast<size_t>(rows * shape.width), Sum{99});
    w.assign(u.size(), Sum{99});
  }

  AttentionPass pass() const {
    AttentionPass out;
    out.z = z.data();
    out.lse = lse.data();
    out.grad_z = {dz.data(), shape.queries * shape.heads * shape.width, shape.width,
                  shape.heads * shape.width};
    out.grad_lse = dlse.data();
    out.table_by_row = rows_.empty() ? nullptr : rows_.data();
    return out;
  }
  AttentionGradients gradients() {
    of_pieces_.clear();
    for (size_t p = 0; p < k.size(); ++p) of_pieces_.push_back({k[p].data(), v[p].data()});
    AttentionGradients out;
    out.q = q.data();
    out.pieces = of_pieces_.data();
    const bool has_table = inputs.get().table != nullptr;
    out.table = has_table ? table.data() : nullptr;
    out.content_bias = inputs.get().content_bias == nullptr ? nullptr : u.data();
    out.position_bias = has_table && out.content_bias != nullptr ? w.data() : nullptr;
    return out;
  }
  // Sums of the shares of `size` numbers a head, `used` of every `padded`.
  std::vector<double> summed(const std::vector<Sum>& of, int64_t size, int64_t padded,
                             int64_t used) const {
    std::vector<double> out;
    for (int64_t i = 0; i < shape.heads * size; ++i) {
      if (i % size % padded >= used) continue;
      double sum = 0.0;
      for (int64_t s = 0; s < shares; ++s)
        sum += of[static_cast<size_t>(s * shape.heads * size + i)];
      out.push_back(sum);
    }
    return out;
  }
  std::vector<double> table_gradient() const {
    if (inputs.get().table == nullptr) return {};
    const int64_t padded = padded_width(shape), rows = inputs.get().table_rows;
    std::vector<double> all = summed(table, (rows + kTableSpare) * padded, padded, shape.width),
                        out;
    const auto head = static_cast<size_t>((rows + kTableSpare) * shape.width);
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % head < static_cast<size_t>(rows * shape.width)) out.push_back(all[i]);
    }
    return out;
  }
  std::vector<double> bias_gradient(const std::vector<Sum>& of) const {
    return summed(of, shape.width, shape.width, shape.width);
  }

  AttentionShape shape;
  Inputs<T> inputs;
  int64_t shares = 0;
  std::vector<T> z, dz, q;
  std::vector<Sum> lse, dlse, table, u, w;
  std::vector<std::vector<T>> k, v;

 private:
  void lay_out_table(const AttentionInputs& in) {
    const int64_t padded = padded_width(shape);
    rows_.assign(static_cast<size_t>(shape.heads * in.table_rows * padded), Sum{0});
    for (int64_t h = 0; h < shape.heads; ++h) {
      for (int64_t r = 0; r < in.table_rows; ++r) {
        for (int64_t c = 0; c < shape.width; ++c) {
          rows_[static_cast<size_t>((h * in.table_rows + r) * padded + c)] =
              static_cast<const Sum*>(in.table)[h * in.table_head + c * in.table_row + r];
        }
      }
    }
  }

  std::vector<Sum> rows_;
  std::vector<KeyGradient> of_pieces_;
};

inline void run_by_definition(Problem<double>& problem) {
  attend_by_definition(problem.shape, problem.inputs.get(), {problem.z.data(), problem.lse.data()});
  problem.shares = 1;
  attend_backward_by_definition(problem.shape, problem.inputs.get(), problem.pass(),
                                problem.gradients());
}

template <typename T>
void expect_near(const std::string& name, const std::vector<T>& ours,
                 const std::vector<double>& theirs, double tolerance) {
  ASSERT_EQ(ours.size(), theirs.size()) << name;
  double largest = 1.0;
  for (const double x : theirs) largest = std::max(largest, std::abs(x));
  EXPECT_LT(largest_error(ours, theirs), tolerance * largest) << name;
}

template <typename T>
void expect_equal(Problem<T>& ours, const Problem<double>& theirs, double tolerance) {
  expect_near("q", ours.q, theirs.q, tolerance);
  for (size_t p = 0; p < theirs.k.size(); ++p) {
    expect_near("k of piece " + std::to_string(p), ours.k[p], theirs.k[p], tolerance);
    expect_near("v of piece " + std::to_string(p), ours.v[p], theirs.v[p], tolerance);
  }
  expect_near("table", ours.table_gradient(), theirs.table_gradient(), tolerance);
  if (ours.inputs.get().content_bias == nullptr) return;
  expect_near("content bias", ours.bias_gradient(ours.u), theirs.bias_gradient(theirs.u),
              tolerance);
  expect_near("position bias", ours.bias_gradient(ours.w), theirs.bias_gradient(theirs.w),
              tolerance);
}

}  // namespace mneme::kernel
