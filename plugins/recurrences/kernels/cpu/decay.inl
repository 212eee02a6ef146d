// The decays within one chunk, and the scores that they weigh (recurrence.hpp). Of one decay a head
// a matrix holds all factors; of one for each channel there are too many, and scores go by blocks.
#pragma once

#include "kernels/cpu/rows.inl"

namespace recurrences::cpu {
namespace {

// Zeros above the diagonal, and, unless it is kept, on it.
template <typename T>
void keep_lower(Matrix<T> scores, int64_t n, bool keeps_diagonal) {
  for (int64_t i = 0; i < n; ++i) {
    fill_columns(scores.at + i * scores.row, i + (keeps_diagonal ? 1 : 0), scores.row, T{0});
  }
}

template <typename T>
struct HeadDecay {
  static constexpr bool kIsByChannel = false;
  const Extents& e;
  int64_t n = 0;
  double* sums;    // [C] G
  T* factors;      // [C, score_row] exp(G_i - G_j), zeros above the diagonal
  T* start;        // [C] exp(G_i)
  T* end;          // [C] exp(G_C - G_i)
  T* turned;       // [K, score_row]
  T* weighed;      // [C, score_row], backward
  T whole = T{1};  // exp(G_C)

  HeadDecay(Arena& arena, const Extents& extents)
      : e(extents),
        sums(arena.take<double>(e.chunk)),
        factors(take_rows<T>(arena, e.chunk, e.score_row)),
        start(arena.take<T>(e.score_row)),
        end(arena.take<T>(e.score_row)),
        turned(take_rows<T>(arena, e.keys, e.score_row)),
        weighed(take_rows<T>(arena, e.chunk, e.score_row)) {}

  // Decays of `count` tokens.
  void prepare(const TokenRows<const T>& decays, int64_t count) {
    n = count;
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sums[i] = sum += static_cast<double>(*decays.row(i));
    for (int64_t i = 0; i < n; ++i) {
      T* row = factors + i * e.score_row;
      for (int64_t j = 0; j <= i; ++j) row[j] = static_cast<T>(sums[i] - sums[j]);
      fill_columns(row, i + 1, e.score_row, static_cast<T>(-__builtin_inff()));
      exponentials(row, e.score_row, row);
      start[i] = static_cast<T>(sums[i]);
      end[i] = static_cast<T>(sum - sums[i]);
    }
    fill_columns(start, n, e.score_row, T{0});
    fill_columns(end, n, e.score_row, T{0});
    exponentials(start, e.score_row, start);
    exponentials(end, e.score_row, end);
    whole = start[n - 1];
  }
  // to_i = x_i exp(G_i) and x_i exp(G_C - G_i), rows of keys.
  void from_start(int64_t i, const T* x, T* to) const { times(x, start[i], e.key_row, to); }
  void add_from_start(int64_t i, const T* x, T* to) const { add_times(x, start[i], e.key_row, to); }
  void to_end(int64_t i, const T* x, T* to) const { times(x, end[i], e.key_row, to); }
  void add_to_end(int64_t i, const T* x, T* to) const { add_times(x, end[i], e.key_row, to); }
  // Row c of a state, decayed by the whole chunk.
  T whole_of(int64_t) const { return whole; }

  // Before scores: y [C, key_row] are the columns' rows.
  void set_columns(const T* y) { turn_rows(y, e.key_row, n, e.keys, turned, e.score_row); }
  // scores(x, y), times `sign`.
  void scores(const T* x, T sign, bool keeps_diagonal, T* to) {
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t rows = smaller(kBlock, n - i);
      product<T>(x + i * e.key_row, e.key_row, 1, {turned, e.score_row},
                 {to + i * e.score_row, e.score_row}, rows, i + rows, e.keys, true);
      for (int64_t r = i; r < i + rows; ++r) {
        T* row = to + r * e.score_row;
        const T* factor = factors + r * e.score_row;
        for_vectors<T>(round_up(i + rows, kLanes<T>), [&](int64_t j) {
          store(row + j, load(row + j) * load(factor + j) * splat(sign));
        });
      }
    }
    keep_lower<T>({to, e.score_row}, n, keeps_diagonal);
  }
  // Adds the gradients of x and y, `grad` [C, score_row] arriving with zeros above the diagonal.
  void scores_backward(const T* grad, const T* x, const T* y, T* dx, T* dy) {
    for (int64_t i = 0; i < n; ++i) {
      times(grad + i * e.score_row, factors + i * e.score_row, e.score_row,
            weighed + i * e.score_row);
    }
    lower_product<T>(weighed, e.score_row, {y, e.key_row}, {dx, e.key_row}, n, e.key_row, false);
    lower_turned_product<T>(weighed, e.score_row, {x, e.key_row}, {dy, e.key_row}, n, e.key_row,
                            false);
  }
};

// Sums of logarithms over a block beyond which its scores are not divided into two factors.
template <typename T>
constexpr T kSteep = T{-30};
template <>
constexpr double kSteep<double> = -300.0;

template <typename T>
struct ChannelDecay {
  static constexpr bool kIsByChannel = true;
  static constexpr int64_t kMaxBlocks = (kMaxChunk + kBlock - 1) / kBlock;
  const Extents& e;
  int64_t n = 0;
  T* sums;     // [C, key_row] within the token's block
  T* ahead;    // exp(sums): of a row, from its block's first token on
  T* back;     // of a column, exp(-sums), or in a steep block exp(total - sums)
  T* total;    // [blocks, key_row] exp of the block's sum
  T* start;    // [C, key_row] exp(G_i)
  T* end;      // [C, key_row] exp(G_C - G_i)
  T* whole;    // [key_row] exp(G_C)
  T* turned;   // [K, score_row] columns times back, as a block meets them
  T* columns;  // [C, key_row] y times back
  T* rows;     // [C, key_row] x times ahead
  T* part;     // [kBlock, key_row]
  bool is_steep[kMaxBlocks] = {};

  ChannelDecay(Arena& arena, const Extents& extents) : e(extents) {
    for (T** to : {&sums, &ahead, &back, &start, &end, &columns, &rows}) {
      *to = take_rows<T>(arena, e.chunk, e.key_row);
    }
    total = take_rows<T>(arena, kMaxBlocks, e.key_row);
    whole = take_rows<T>(arena, 1, e.key_row);
    turned = take_rows<T>(arena, e.keys, e.score_row);
    part = take_rows<T>(arena, kBlock, e.key_row);
  }
  int64_t blocks() const { return divide_up(n, kBlock); }
  int64_t last_of(int64_t block) const { return smaller(n, (block + 1) * kBlock); }
  // Columns whose factors a block's rows meet in products: without the block's own where it is
  // steep.
  int64_t met_by(int64_t block) const { return is_steep[block] ? block * kBlock : last_of(block); }
  T* total_of(int64_t block) const { return total + block * e.key_row; }

  void prepare(const TokenRows<const T>& decays, int64_t count) {
    n = count;
    fill_columns(whole, 0, e.key_row, T{1});
    for (int64_t block = 0; block < blocks(); ++block) {
      const int64_t last = last_of(block);
      T lowest = T{0};
      for (int64_t i = block * kBlock; i < last; ++i) {
        T* sum = sums + i * e.key_row;
        fetch_row(decays.row(i), e.keys, e.key_row, sum);
        if (i % kBlock != 0) add_times(sum - e.key_row, T{1}, e.key_row, sum);
        for (int64_t c = 0; c < e.keys; ++c) lowest = sum[c] < lowest ? sum[c] : lowest;
      }
      is_steep[block] = !(lowest >= kSteep<T>);  // a NaN too
      const T* sum_of_block = sums + (last - 1) * e.key_row;
      exponentials(sum_of_block, e.key_row, total_of(block));
      for (int64_t i = block * kBlock; i < last; ++i) {
        const int64_t at = i * e.key_row;
        exponentials(sums + at, e.key_row, ahead + at);
        times(ahead + at, whole, e.key_row, start + at);
        times(sums + at, T{-1}, e.key_row, back + at);
        if (is_steep[block]) add_times(sum_of_block, T{1}, e.key_row, back + at);
        exponentials(back + at, e.key_row, back + at);
      }
      times(whole, total_of(block), e.key_row, whole);
    }
    // From the last block to the first: the decay behind it.
    fill_columns(part, 0, e.key_row, T{1});
    for (int64_t block = blocks() - 1; block >= 0; --block) {
      for (int64_t i = block * kBlock; i < last_of(block); ++i) {
        const int64_t at = i * e.key_row;
        times(back + at, part, e.key_row, end + at);
        if (!is_steep[block]) times(end + at, total_of(block), e.key_row, end + at);
      }
      times(part, total_of(block), e.key_row, part);
    }
  }
  void from_start(int64_t i, const T* x, T* to) const {
    times(x, start + i * e.key_row, e.key_row, to);
  }
  void add_from_start(int64_t i, const T* x, T* to) const {
    add_times(x, start + i * e.key_row, e.key_row, to);
  }
  void to_end(int64_t i, const T* x, T* to) const { times(x, end + i * e.key_row, e.key_row, to); }
  void add_to_end(int64_t i, const T* x, T* to) const {
    add_times(x, end + i * e.key_row, e.key_row, to);
  }
  T whole_of(int64_t c) const { return whole[c]; }

  void set_columns(const T* y) {
    given_ = y;
    for (int64_t i = 0; i < n; ++i) {
      times(y + i * e.key_row, back + i * e.key_row, e.key_row, columns + i * e.key_row);
    }
  }
  void scores(const T* x, T sign, bool keeps_diagonal, T* to) {
    turn_rows(columns, e.key_row, n, e.keys, turned, e.score_row);
    for (int64_t block = 0; block < blocks(); ++block) {
      const int64_t first = block * kBlock, met = met_by(block);
      for (int64_t i = first; i < last_of(block); ++i) {
        T* row = part + (i - first) * e.key_row;
        times(x + i * e.key_row, ahead + i * e.key_row, e.key_row, row);
        times(row, sign, e.key_row, row);
      }
      if (met > 0) {
        product<T>(part, e.key_row, 1, {turned, e.score_row},
                   {to + first * e.score_row, e.score_row}, last_of(block) - first, met, e.keys,
                   true);
      }
      if (is_steep[block]) score_apart(block, x, sign, to);
      move_columns(block);
    }
    keep_lower<T>({to, e.score_row}, n, keeps_diagonal);
  }
  void scores_backward(const T* grad, const T* x, const T* y, T* dx, T* dy) {
    rows_backward(grad, y, dx);
    columns_backward(grad, x, dy);
    for (int64_t block = 0; block < blocks(); ++block) {
      if (is_steep[block]) apart_backward(block, grad, x, y, dx, dy);
    }
  }

 private:
  // From the block's first token on to the next block's.
  void move_columns(int64_t block) {
    const int64_t met = met_by(block);
    for (int64_t c = 0; c < e.keys; ++c) {
      T* row = turned + c * e.score_row;
      const T factor = total_of(block)[c];
      int64_t j = 0;
      for (; j + kLanes<T> <= met; j += kLanes<T>) store(row + j, load(row + j) * splat(factor));
      for (; j < met; ++j) row[j] *= factor;
    }
  }
  // Calls body(i, j, weights) for the pairs of a block, j <= i; weights [key_row] are
  // exp(G_i - G_j).
  template <typename Body>
  void for_pairs(int64_t block, const Body& body) {
    for (int64_t i = block * kBlock; i < last_of(block); ++i) {
      for (int64_t j = block * kBlock; j <= i; ++j) {
        times(sums + j * e.key_row, T{-1}, e.key_row, part);
        add_times(sums + i * e.key_row, T{1}, e.key_row, part);
        exponentials(part, e.key_row, part);
        body(i, j, part);
      }
    }
  }
  void score_apart(int64_t block, const T* x, T sign, T* to) {
    for_pairs(block, [&](int64_t i, int64_t j, T* weights) {
      times(weights, x + i * e.key_row, e.key_row, weights);
      to[i * e.score_row + j] = sign * dot(weights, given_ + j * e.key_row, e.key_row);
    });
  }
  void apart_backward(int64_t block, const T* grad, const T* x, const T* y, T* dx, T* dy) {
    for_pairs(block, [&](int64_t i, int64_t j, T* weights) {
      times(weights, grad[i * e.score_row + j], e.key_row, weights);
      add_times(weights, y + j * e.key_row, e.key_row, dx + i * e.key_row);
      add_times(weights, x + i * e.key_row, e.key_row, dy + j * e.key_row);
    });
  }
  void rows_backward(const T* grad, const T* y, T* dx) {
    set_columns(y);
    for (int64_t block = 0; block < blocks(); ++block) {
      const int64_t first = block * kBlock, met = met_by(block);
      if (met > 0) {
        product<T>(grad + first * e.score_row, e.score_row, 1, {columns, e.key_row},
                   {part, e.key_row}, last_of(block) - first, e.key_row, met, true);
        for (int64_t i = first; i < last_of(block); ++i) {
          add_times(part + (i - first) * e.key_row, ahead + i * e.key_row, e.key_row,
                    dx + i * e.key_row);
        }
      }
      for (int64_t j = 0; j < met; ++j) {
        times(columns + j * e.key_row, total_of(block), e.key_row, columns + j * e.key_row);
      }
    }
  }
  void columns_backward(const T* grad, const T* x, T* dy) {
    for (int64_t i = 0; i < n; ++i) {
      times(x + i * e.key_row, ahead + i * e.key_row, e.key_row, rows + i * e.key_row);
    }
    for (int64_t block = blocks() - 1; block >= 0; --block) {
      const int64_t first = block * kBlock, last = last_of(block);
      const auto move_rows = [&] {
        for (int64_t i = last; i < n; ++i) {
          times(rows + i * e.key_row, total_of(block), e.key_row, rows + i * e.key_row);
        }
      };
      if (!is_steep[block]) move_rows();
      const int64_t from = is_steep[block] ? last : first;  // rows that meet the block's columns
      if (from < n) {
        product<T>(grad + from * e.score_row + first, 1, e.score_row,
                   {rows + from * e.key_row, e.key_row}, {part, e.key_row}, last - first, e.key_row,
                   n - from, true);
        for (int64_t j = first; j < last; ++j) {
          add_times(part + (j - first) * e.key_row, back + j * e.key_row, e.key_row,
                    dy + j * e.key_row);
        }
      }
      if (is_steep[block]) move_rows();
    }
  }

  const T* given_ = nullptr;  // y of set_columns
};

}  // namespace
}  // namespace recurrences::cpu
