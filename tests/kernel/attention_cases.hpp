// Attention problems with random numbers, for the tests of the attention kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "host/kernel/attention.hpp"
#include "mneme/cpp/half.hpp"

namespace mneme::kernel {

struct Case {
  AttentionShape shape;
  std::vector<int64_t> pieces;  // rows; their sum is K
  bool has_table = false, has_biases = false, has_slopes = false, has_score_bias = false;
  bool has_gaps = false;
  double dropout = 0.0;
  bool is_stored = false;   // the masks' stream lies in the device's memory
  int64_t more_rows = 0;    // of the table, which no score reads
  bool is_aligned = false;  // rows of keys and values begin at multiples of 16 bytes, in bf16

  // Of 64 queries and 64 columns, over all lanes and heads: what it costs on the CPU's device.
  int64_t tiles() const {
    const auto count = [](int64_t rows) { return (rows + 63) / 64; };
    return shape.lanes * shape.heads * count(shape.queries) * count(shape.keys);
  }
};

// A case of more tiles computes on the CPU's device only what smaller ones do not.
inline constexpr int64_t kManyTiles = 36;

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  const AttentionShape& s = c.shape;
  out << "B" << s.lanes << " H" << s.heads << "/" << s.key_heads << " T" << s.queries << " K"
      << s.keys << " d" << s.width << " free" << s.free << " window" << s.window;
  const auto word = [&](bool is_there, const char* name) { out << (is_there ? name : ""); };
  word(c.has_table, " table");
  word(c.has_biases, " biases");
  word(c.has_slopes, " slopes");
  word(c.has_score_bias, " bias");
  word(c.has_gaps, " gaps");
  word(c.is_aligned, " aligned");
  if (c.dropout > 0.0) out << " dropout " << c.dropout;
  return out;
}

template <typename T>
Element element_of();
template <>
inline Element element_of<float>() {
  return Element::kF32;
}
template <>
inline Element element_of<double>() {
  return Element::kF64;
}
template <>
inline Element element_of<BFloat16>() {
  return Element::kBF16;
}

// Of the numbers that are no elements of rows.
template <typename T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

// How inputs are rounded: not; elements of rows to bf16; all numbers to multiples of 1/64, so that
// bf16 holds the sums of two.
enum class Rounding { kNone, kElements, kSums };

// The inputs of a case as T, with strides of their own: a piece's keys and values lie in one array
// [B,m,2,G,d + 1], where rows are aligned [B,m,2,G,d + 8].
template <typename T>
class Inputs {
 public:
  Inputs(const Case& c, Rounding rounding) : rounding_(rounding), random_(7) {
    const AttentionShape& s = c.shape;
    q_ = elements(s.lanes * s.queries * s.heads * s.width);
    in_.q = {q_.data(), s.queries * s.heads * s.width, s.width, s.heads * s.width};
    for (const int64_t rows : c.pieces) {
      const int64_t head = s.width + (c.is_aligned ? 8 : 1), row = 2 * s.key_heads * head;
      keys_.push_back(elements(s.lanes * rows * row));
      pieces_.push_back({rows,
                         {keys_.back().data(), rows * row, head, row},
                         {keys_.back().data() + s.key_heads * head, rows * row, head, row}});
    }
    in_.pieces = pieces_.data();
    in_.n_pieces = static_cast<int64_t>(pieces_.size());
    if (c.has_table) {
      in_.table_rows = s.keys - s.free + c.more_rows;
      in_.table_row = in_.table_rows + kTableSpare;
      in_.table_head = s.width * in_.table_row;
      table_ = numbers(s.heads * in_.table_head);
      for (int64_t at = 0; at < s.heads * in_.table_head; at += in_.table_row) {
        std::fill_n(table_.begin() + at, s.clamped_rows(), table_[static_cast<size_t>(at)]);
      }
      in_.table = table_.data();
      const int64_t rows = in_.table_rows;
      table_by_row_.resize(static_cast<size_t>(s.heads * rows * s.width));
      for (int64_t i = 0; i < s.heads * rows * s.width; ++i) {
        const int64_t head = i / s.width / rows, row = i / s.width % rows, j = i % s.width;
        table_by_row_[static_cast<size_t>(i)] = static_cast<T>(
            table_[static_cast<size_t>(head * in_.table_head + j * in_.table_row + row)]);
      }
      in_.table_by_row = {table_by_row_.data(), 0, rows * s.width, s.width};
    }
    if (c.has_biases) {
      u_ = numbers(s.heads * s.width);
      w_ = numbers(s.heads * s.width);
      in_.content_bias = u_.data();
      in_.position_bias = w_.data();
    }
    if (c.has_slopes) {
      slopes_ = numbers(s.heads);
      in_.slopes = slopes_.data();
    }
    if (c.has_score_bias) {  // of lane and column, the same for all heads and queries
      bias_ = numbers(s.lanes * s.keys);
      for (size_t i = 0; i < bias_.size(); i += 5) bias_[i] = -std::numeric_limits<Sum>::infinity();
      in_.bias = bias_.data();
      in_.bias_stride[1] = s.keys;
      in_.bias_stride[3] = 1;
    }
    if (c.dropout > 0.0) set_dropout(s, c.dropout);
    is_stored_ = c.is_stored;
    if (c.has_gaps) {
      valid_.resize(static_cast<size_t>(s.lanes * s.keys));
      for (size_t i = 0; i < valid_.size(); ++i) valid_[i] = random_() % 3 != 0 ? 1 : 0;
      std::fill(valid_.begin(), valid_.begin() + s.keys, uint8_t{0});  // lane 0 sees nothing
      in_.valid = valid_.data();
    }
  }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  const AttentionInputs& get() const { return in_; }

  // The same with every array where `move(data, bytes)` says, in place of its address here. Pieces
  // are written to `pieces`.
  template <typename Move>
  AttentionInputs moved(std::vector<KeyPiece>& pieces, const Move& move) const {
    const auto place = [&](const auto& of) -> const void* {
      return of.empty() ? nullptr : move(of.data(), of.size() * sizeof(of[0]));
    };
    AttentionInputs out = in_;
    out.q.data = place(q_);
    out.table = place(table_);
    out.table_by_row.data = place(table_by_row_);
    out.content_bias = place(u_);
    out.position_bias = place(w_);
    out.slopes = place(slopes_);
    out.bias = place(bias_);
    out.valid = static_cast<const uint8_t*>(place(valid_));
    if (is_stored_) {
      Dropout& mask = out.dropout.mask;
      mask.stored =
          static_cast<const MaskStream*>(move(&in_.dropout.mask.stream, sizeof(MaskStream)));
      mask.stream = {};
    }
    pieces = pieces_;
    for (size_t p = 0; p < pieces.size(); ++p) {
      const auto values = static_cast<const T*>(pieces[p].v.data) - keys_[p].data();
      pieces[p].k.data = place(keys_[p]);
      pieces[p].v.data = static_cast<const T*>(pieces[p].k.data) + values;
    }
    out.pieces = pieces.data();
    return out;
  }

 private:
  using Sum = SumOf<T>;

  // Masks that are those of some lanes, and begin within a block of random words.
  void set_dropout(const AttentionShape& s, double p) {
    in_.dropout.mask = {.is_on = true,
                        .stream = {0x0123456789ABCDEF, 42},
                        .first = static_cast<uint64_t>(s.queries * s.keys),
                        .last_kept = static_cast<uint32_t>((1.0 - p) * 0x1p32),
                        .factor = 1.0 / (1.0 - p)};
    in_.dropout.head = (s.lanes + 2) * s.queries * s.keys;
  }

  float number() {
    const float drawn = std::uniform_real_distribution<float>(-1.0F, 1.0F)(random_);
    return rounding_ == Rounding::kSums ? std::round(drawn * 64.0F) / 64.0F : drawn;
  }
  std::vector<T> elements(int64_t count) {
    std::vector<T> out(static_cast<size_t>(count));
    for (T& x : out) {
      const float drawn = number();
      const bool is_rounded = rounding_ == Rounding::kElements;
      x = static_cast<T>(is_rounded ? static_cast<float>(BFloat16(drawn)) : drawn);
    }
    return out;
  }
  std::vector<Sum> numbers(int64_t count) {
    std::vector<Sum> out(static_cast<size_t>(count));
    for (Sum& x : out) x = static_cast<Sum>(number());
    return out;
  }

  Rounding rounding_;
  std::mt19937 random_;
  std::vector<T> q_, table_by_row_;
  std::vector<Sum> table_, u_, w_, slopes_, bias_;
  std::vector<std::vector<T>> keys_;
  std::vector<KeyPiece> pieces_;
  std::vector<uint8_t> valid_;
  AttentionInputs in_;
  bool is_stored_ = false;
};

template <typename T>
double largest_error(const std::vector<T>& ours, const std::vector<double>& theirs) {
  double worst = 0.0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const auto x = static_cast<double>(ours[i]);
    if (x == theirs[i]) continue;  // -inf too
    worst = std::max(worst, std::isnan(x - theirs[i]) ? INFINITY : std::abs(x - theirs[i]));
  }
  return worst;
}

inline AttentionShape shape_of(int64_t lanes, int64_t heads, int64_t key_heads, int64_t queries,
                               int64_t keys, int64_t width, int64_t free = 0, int64_t window = 0) {
  AttentionShape s;
  s.lanes = lanes;
  s.heads = heads;
  s.key_heads = key_heads;
  s.queries = queries;
  s.keys = keys;
  s.width = width;
  s.free = free;
  s.window = window;
  s.scale = 0.4;
  return s;
}

inline std::vector<Case> cases() {
  std::vector<Case> out;
  const auto add = [&](const AttentionShape& shape, std::vector<int64_t> pieces) -> Case& {
    out.push_back({.shape = shape, .pieces = std::move(pieces)});
    return out.back();
  };
  add(shape_of(1, 1, 1, 1, 1, 1), {1});
  add(shape_of(2, 3, 3, 4, 4, 5), {4});
  add(shape_of(1, 9, 3, 1, 301, 64), {300, 1});
  add(shape_of(2, 4, 2, 7, 40, 16), {3, 30, 7});
  add(shape_of(1, 6, 2, 70, 333, 32), {263, 70});
  add(shape_of(1, 2, 1, 300, 300, 8), {300});
  add(shape_of(2, 3, 3, 64, 704, 41), {640, 64}).has_table = true;
  for (Case* c : {&add(shape_of(2, 2, 2, 25, 230, 41, 13), {13, 100, 92, 25})}) {
    c->has_table = c->has_biases = c->has_score_bias = true;
  }
  for (Case* c : {&add(shape_of(1, 4, 2, 50, 150, 10, 3, 40), {3, 97, 50})}) {
    c->has_table = c->has_biases = true;
  }
  for (Case* c : {&add(shape_of(3, 2, 2, 5, 37, 12), {32, 5})}) c->has_slopes = c->has_gaps = true;
  for (Case* c : {&add(shape_of(2, 8, 2, 3, 400, 24, 200, 100), {200, 197, 3})}) {
    c->has_slopes = true;
    c->shape.clamp = 20;
  }
  for (Case* c : {&add(shape_of(2, 4, 1, 2, 200, 7, 10), {10, 188, 2})}) {
    c->has_gaps = c->has_score_bias = true;
  }
  for (Case* c : {&add(shape_of(2, 2, 2, 100, 500, 20, 0, 30), {400, 100})}) {
    c->has_table = c->has_gaps = true;
  }
  for (Case* c : {&add(shape_of(2, 3, 3, 64, 704, 41, 0, 641), {640, 64})}) {
    c->has_table = true;
    c->shape.clamp = 400;
  }
  for (Case* c : {&add(shape_of(1, 4, 2, 50, 350, 10, 13), {13, 287, 50})}) {
    c->has_table = c->has_biases = c->has_gaps = true;
    c->shape.clamp = 9;
  }
  for (Case* c : {&add(shape_of(2, 2, 2, 1, 300, 64, 0, 150), {299, 1})}) {
    c->has_table = c->has_biases = true;
    c->shape.clamp = 1;
  }
  // No distance reaches it.
  for (Case* c : {&add(shape_of(1, 2, 2, 5, 40, 12), {35, 5})}) {
    c->has_table = true;
    c->shape.clamp = 40;
  }
  return out;
}

// For the CPU's device: those of many tiles have one lane, or two where the first sees nothing, and the
// queries of one head of keys. Smaller ones have several.
inline std::vector<Case> cases_on_shim() {
  std::vector<Case> out = cases();
  for (Case& c : out) {
    if (c.tiles() <= kManyTiles) continue;
    c.shape.lanes = c.has_gaps ? 2 : 1;
    c.shape.heads /= c.shape.key_heads;
    c.shape.key_heads = 1;
  }
  return out;
}

// With dropout of probabilities: rows of entries at every place within a block of random words,
// parts of tiles, and, the last, several blocks for the columns of a query.
inline std::vector<Case> dropout_cases() {
  std::vector<Case> out;
  const auto add = [&](const AttentionShape& shape, std::vector<int64_t> pieces) -> Case& {
    out.push_back({.shape = shape, .pieces = std::move(pieces), .dropout = 0.3});
    return out.back();
  };
  add(shape_of(1, 1, 1, 3, 3, 8), {3});
  for (Case* c : {&add(shape_of(2, 4, 2, 70, 141, 41), {71, 70})}) {
    c->has_table = c->has_biases = c->is_stored = true;
  }
  for (Case* c : {&add(shape_of(2, 2, 2, 65, 203, 72, 70), {70, 68, 65})}) {
    c->has_table = c->has_biases = c->has_gaps = c->is_aligned = true;
  }
  for (Case* c : {&add(shape_of(1, 2, 1, 30, 130, 24, 0, 50), {100, 30})}) c->has_slopes = true;
  for (Case* c : {&add(shape_of(1, 1, 1, 20, 1502, 16), {1482, 20})}) {
    c->has_table = true;
    c->more_rows = 2;
  }
  return out;
}

template <typename T>
struct Results {
  std::vector<T> z;
  std::vector<SumOf<T>> lse;
  AttentionResults out;
  explicit Results(const AttentionShape& s)
      : z(static_cast<size_t>(s.lanes * s.queries * s.heads * s.width), T(99)),
        lse(static_cast<size_t>(s.lanes * s.queries * s.heads), SumOf<T>{99}),
        out{z.data(), lse.data()} {}
};

// What every kernel's results are held against: `rounding` is that of bf16.
class Expected {
 public:
  explicit Expected(const Case& c, Rounding rounding = Rounding::kElements)
      : exact_(of(c, Rounding::kNone)), rounded_(of(c, rounding)) {}

  // attend(T{}) gives the Results<T> of the case.
  template <typename Attend>
  void compare(const Attend& attend) const {
    // z, and with AVX512-BF16 probabilities, are rounded to 8 bits.
    const auto bf16 = attend(BFloat16{});
    EXPECT_LT(largest_error(bf16.z, rounded_.z), 5e-3);
    EXPECT_LT(largest_error(bf16.lse, rounded_.lse), 2e-5);
    const auto f64 = attend(double{});
    EXPECT_LT(largest_error(f64.z, exact_.z), 1e-13);
    EXPECT_LT(largest_error(f64.lse, exact_.lse), 1e-12);
    const auto f32 = attend(float{});
    EXPECT_LT(largest_error(f32.z, exact_.z), 2e-5);
    EXPECT_LT(largest_error(f32.lse, exact_.lse), 2e-5);
  }

 private:
  // By the definition.
  static Results<double> of(const Case& c, Rounding rounding) {
    const Inputs<double> inputs(c, rounding);
    Results<double> results(c.shape);
    attend_by_definition(c.shape, inputs.get(), results.out);
    return results;
  }

  Results<double> exact_, rounded_;
};

}  // namespace mneme::kernel
