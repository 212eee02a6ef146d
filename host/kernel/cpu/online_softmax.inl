// The online softmax of rows of queries: scores come block by block, sums are kept for the largest
// score so far.
#pragma once

#include "host/kernel/cpu/scores.inl"

namespace mneme::kernel::cpu {
namespace {

template <typename T>
struct Softmax {
  T* most;   // [rows] exponents of 2
  T* total;  // [rows] of 2^(score - most)
  T* sums;   // [rows, padded] weighted sums of values

  Softmax(Arena& arena, const Queries<T>& queries)
      : most(arena.take<T>(queries.rows())),
        total(arena.take<T>(queries.rows())),
        sums(arena.take<T>(queries.rows() * queries.padded)) {}
};

// The largest of a row's scores and of what came before. Rows' largest are found before their
// probabilities: what one row waits for is done for others meanwhile.
template <typename T>
MNEME_INLINE T largest_score(const T* scores, std::int64_t columns, T before) {
  Vec<T> top = splat(before);
  for (std::int64_t c = 0; c < columns; c += kLanes<T>) {
    top = larger_of<T>(load(scores + c), top);
  }
  return largest_of<T>(top);
}

// Scores of one row, of which `now` is the largest so far, to probabilities times 2^now; returns
// what the row's sums have to be multiplied by for that.
template <typename T>
MNEME_INLINE T add_to_softmax(T* scores, std::int64_t columns, T now, T& most, T& total) {
  const T before = most;
  most = now;
  // Without a key there is no maximum to subtract.
  const T shift = most == -__builtin_inff() ? T{0} : most;
  Vec<T> sum{};
  for (std::int64_t c = 0; c < columns; c += kLanes<T>) {
    const Vec<T> p = power<T>(load(scores + c) - splat(shift));
    store(scores + c, p);
    sum += p;
  }
  const T shrink = before == most ? T{1} : power<T>(splat(before - shift))[0];
  total = total * shrink + sum_of<T>(sum);
  return shrink;
}

template <typename T>
void begin_softmax(const Queries<T>& queries, Softmax<T>& s) {
  clear(s.sums, queries.rows() * queries.padded);
  for (std::int64_t r = 0; r < queries.rows(); ++r) {
    s.most[r] = -__builtin_inff();
    s.total[r] = T{0};
  }
}

template <typename T, typename E>
void end_softmax(const AttentionShape& shape, const AttentionResults& out, const Piece& piece,
                 const Queries<T>& queries, Softmax<T>& s) {
  queries.for_each_row(piece, [&](std::int64_t r, std::int64_t head, std::int64_t query) {
    if (out.lse != nullptr) {
      static_cast<T*>(out.lse)[(piece.lane * shape.heads + head) * shape.queries + query] =
          s.most[r] * kLn2<T> + logarithm(s.total[r]);
    }
    T* row = s.sums + r * queries.padded;
    const T factor = s.total[r] == T{0} ? T{0} : T{1} / s.total[r];
    for (std::int64_t j = 0; j < queries.padded; j += kLanes<T>) {
      store(row + j, load(row + j) * splat(factor));
    }
    const std::int64_t at = (piece.lane * shape.queries + query) * shape.heads + head;
    put_row(row, shape.width, static_cast<E*>(out.z) + at * shape.width);
  });
}

}  // namespace
}  // namespace mneme::kernel::cpu
