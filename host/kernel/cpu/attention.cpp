// The forward pass of one piece: queries of one lane and of the heads that share keys, tile by
// tile against blocks of keys, with an online softmax.
#include "host/kernel/attention.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// What both passes share:
#include "host/kernel/cpu/tiles.inl"

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

// Scores of one row to probabilities times 2^most; returns what the row's sums have to be
// multiplied by for that.
template <typename T>
MNEME_INLINE T add_to_softmax(T* scores, int64_t columns, T& most, T& total) {
  const T before = most;
  Vec<T> top = splat(before);
  for (int64_t c = 0; c < columns; c += kLanes<T>) {
    const Vec<T> score = load(scores + c);
    top = top < score ? score : top;
  }
  most = largest_of<T>(top);
  // Without a key there is no maximum to subtract.
  const T shift = most == -__builtin_inff() ? T{0} : most;
  Vec<T> sum{};
  for (int64_t c = 0; c < columns; c += kLanes<T>) {
    const Vec<T> p = power<T>(load(scores + c) - splat(shift));
    store(scores + c, p);
    sum += p;
  }
  const T shrink = before == most ? T{1} : power<T>(splat(before - shift))[0];
  total = total * shrink + sum_of<T>(sum);
  return shrink;
}

template <typename T>
void begin_softmax(const AttentionShape& shape, const AttentionInputs& in, const Piece& piece,
                   const Queries<T>& queries, Softmax<T>& s) {
  clear(s.sums, queries.rows() * queries.padded);
  for (int64_t r = 0; r < queries.rows(); ++r) {
    s.most[r] = -__builtin_inff();
    s.total[r] = T{0};
  }
  if (in.virtual_logit == nullptr) return;
  queries.for_each_row(piece, [&](int64_t r, int64_t head, int64_t query) {
    const int64_t at = (head * shape.lanes + piece.lane) * shape.queries + query;
    const T logit = static_cast<const T*>(in.virtual_logit)[at];
    if (logit == -__builtin_inff()) return;
    s.most[r] = logit * kLog2E<T>;
    s.total[r] = T{1};
    fetch_row(static_cast<const T*>(in.virtual_value) + at * shape.width, shape.width,
              queries.padded, s.sums + r * queries.padded);
  });
}

template <typename T, typename E>
void end_softmax(const AttentionShape& shape, const AttentionResults& out, const Piece& piece,
                 const Queries<T>& queries, Softmax<T>& s) {
  queries.for_each_row(piece, [&](int64_t r, int64_t head, int64_t query) {
    if (out.lse != nullptr) {
      static_cast<T*>(out.lse)[(piece.lane * shape.heads + head) * shape.queries + query] =
          s.most[r] * kLn2<T> + logarithm(s.total[r]);
    }
    T* row = s.sums + r * queries.padded;
    const T factor = s.total[r] == T{0} ? T{0} : T{1} / s.total[r];
    for (int64_t j = 0; j < queries.padded; j += kLanes<T>) {
      store(row + j, load(row + j) * splat(factor));
    }
    const int64_t at = (piece.lane * shape.queries + query) * shape.heads + head;
    put_row(row, shape.width, static_cast<E*>(out.z) + at * shape.width);
  });
}

template <typename T>
void attend_block(const Block<T>& block, const Tile& tile, const Queries<T>& queries, T* scores,
                  Softmax<T>& s) {
  for (int64_t r = 0; r < tile.count; ++r) {
    const int64_t row = tile.row + r;
    const T shrink =
        add_to_softmax(scores + r * kScoreRow<T>, block.padded, s.most[row], s.total[row]);
    if (shrink == T{1}) continue;
    T* sums = s.sums + row * queries.padded;
    for (int64_t j = 0; j < queries.padded; j += kLanes<T>) {
      store(sums + j, load(sums + j) * splat(shrink));
    }
  }
  multiply(Product<T>{scores, kScoreRow<T>, 1, block.values, block.value_row,
                      s.sums + tile.row * queries.padded, queries.padded, tile.count,
                      queries.padded / kLanes<T>, block.count});
}

template <typename T>
struct AttendScratch {
  Queries<T> queries;
  Keys<T> keys;
  Scores<T> scores;
  Softmax<T> softmax;

  AttendScratch(Arena& arena, const AttentionShape& shape, const AttentionInputs& in)
      : queries(arena, shape, in), keys(arena, shape), scores(arena, in), softmax(arena, queries) {}
};

template <typename T, typename E>
void attend_piece(const AttentionShape& shape, const AttentionInputs& in,
                  const AttentionResults& out, void* scratch, int64_t index) {
  const Piece piece(shape, index);
  if (piece.begin >= piece.end) return;
  Arena arena(scratch);
  AttendScratch<T> s(arena, shape, in);
  s.queries.template fill<E>(shape, in, piece);
  begin_softmax(shape, in, piece, s.queries, s.softmax);
  for_each_block(shape, piece, kBlock<T>, [&](int64_t first, int64_t count) {
    const Block<T> block = s.keys.template read<E>(shape, in, piece, first, count);
    s.queries.for_each_tile(piece, [&](const Tile& tile) {
      if (!is_seen(shape, block.first, block.count, tile)) return;
      s.scores.compute(shape, in, piece, s.queries, block, tile);
      attend_block(block, tile, s.queries, s.scores.scores, s.softmax);
    });
  });
  end_softmax<T, E>(shape, out, piece, s.queries, s.softmax);
}

void attend(const AttentionShape& shape, const AttentionInputs& in, const AttentionResults& out,
            void* scratch, int64_t piece) {
  switch (shape.element) {
    case Element::kF64:
      return attend_piece<double, double>(shape, in, out, scratch, piece);
    case Element::kBF16:
      return attend_piece<float, BF16>(shape, in, out, scratch, piece);
    default:
      return attend_piece<float, float>(shape, in, out, scratch, piece);
  }
}

template <typename T>
uint64_t bytes_of_scratch(const AttentionShape& shape, const AttentionInputs& in) {
  Arena arena(nullptr);
  const AttendScratch<T> scratch(arena, shape, in);
  static_cast<void>(scratch);
  return arena.bytes();
}

uint64_t attend_scratch(const AttentionShape& shape, const AttentionInputs& in) {
  return shape.element == Element::kF64 ? bytes_of_scratch<double>(shape, in)
                                        : bytes_of_scratch<float>(shape, in);
}

}  // namespace
}  // namespace mneme::kernel::cpu

namespace mneme::kernel {

const AttentionKernels AttentionKernels::MNEME_INSTRUCTION_SET = {&cpu::attend_scratch,
                                                                  &cpu::attend};

}  // namespace mneme::kernel

#include "mneme_kernels/cpu/end.inl"
