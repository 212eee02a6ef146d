// The forward pass of one piece: queries of one lane and of the heads that share keys, tile by
// tile against blocks of keys, with an online softmax.
#include "host/kernel/attention.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// What it is made of:
#include "host/kernel/cpu/next_block.inl"
#include "host/kernel/cpu/online_softmax.inl"
#ifdef MNEME_USE_AVX512
#include "host/kernel/cpu/pairs.inl"
#endif
#include "host/kernel/cpu/scores.inl"

namespace mneme::kernel::cpu {
namespace {

template <typename T>
void attend_block(const Block<T>& block, const Tile& tile, const Queries<T>& queries, T* scores,
                  Softmax<T>& s, Prefetch& prefetch) {
  T largest[kTile];
  for (std::int64_t r = 0; r < tile.count; ++r) {
    largest[r] = largest_score(scores + r * kScoreRow<T>, block.padded, s.most[tile.row + r]);
  }
  for (std::int64_t r = 0; r < tile.count; ++r) {
    const std::int64_t row = tile.row + r;
    const T shrink = add_to_softmax(scores + r * kScoreRow<T>, block.padded, largest[r],
                                    s.most[row], s.total[row]);
    if (shrink == T{1}) continue;
    T* sums = s.sums + row * queries.padded;
    for (std::int64_t j = 0; j < queries.padded; j += kLanes<T>) {
      store(sums + j, load(sums + j) * splat(shrink));
    }
  }
  multiply(
      Product<T>{scores, kScoreRow<T>, 1, block.values, queries.padded,
                 s.sums + tile.row * queries.padded, queries.padded, tile.count,
                 queries.padded / kLanes<T>, block.count},
      [&]() __attribute__((always_inline)) { prefetch.some(); });
}

template <typename T>
struct AttendScratch {
  Queries<T> queries;
  Keys<T> keys;
  Scores<T> scores;
  Softmax<T> softmax;

  AttendScratch(Arena& arena, const AttentionShape& shape, const AttentionInputs& in)
      : queries(arena, shape, in, AttentionParts(shape).group),
        keys(arena, shape),
        scores(arena),
        softmax(arena, queries) {}
};

template <typename T, typename E>
void attend_piece(const AttentionShape& shape, const AttentionInputs& in,
                  const AttentionResults& out, void* scratch, std::int64_t index) {
  const Piece piece(shape, index);
  if (piece.begin >= piece.end) return;
  Arena arena(scratch);
  AttendScratch<T> s(arena, shape, in);
  s.queries.template fill<E>(shape, in, piece);
  begin_softmax(s.queries, s.softmax);
  const auto attend_one = [&](std::int64_t first, std::int64_t count, Prefetch& prefetch) {
    const Block<T> block = s.keys.template read<E>(shape, in, piece, first, count);
    s.queries.for_each_tile(piece, [&](const Tile& tile) {
      if (!is_seen(shape, block.first, block.count, tile)) return;
      const Block<T> seen = seen_by(shape, tile, block);
      s.scores.compute(
          shape, in, piece, s.queries, seen,
          tile, [&]() __attribute__((always_inline)) { prefetch.some(); });
      attend_block(seen, tile, s.queries, s.scores.scores, s.softmax, prefetch);
    });
  };
  for_each_block_and_next<T, E>(shape, in, out, index, s.queries.tiles, attend_one);
  end_softmax<T, E>(shape, out, piece, s.queries, s.softmax);
}

void attend(const AttentionShape& shape, const AttentionInputs& in, const AttentionResults& out,
            void* scratch, std::int64_t piece) {
  switch (shape.element) {
    case Element::kF64:
      return attend_piece<double, double>(shape, in, out, scratch, piece);
    case Element::kBF16:
#ifdef MNEME_USE_AVX512
      if (can_be_paired(in)) return attend_paired_piece(shape, in, out, scratch, piece);
#endif
      return attend_piece<float, BF16>(shape, in, out, scratch, piece);
    default:
      return attend_piece<float, float>(shape, in, out, scratch, piece);
  }
}

std::uint64_t attend_scratch(const AttentionShape& shape, const AttentionInputs& in) {
  if (shape.element == Element::kF64) return bytes_of<AttendScratch<double>>(shape, in);
#ifdef MNEME_USE_AVX512
  if (shape.element == Element::kBF16 && can_be_paired(in)) return bytes_of<PairScratch>(shape, in);
#endif
  return bytes_of<AttendScratch<float>>(shape, in);
}

}  // namespace
}  // namespace mneme::kernel::cpu

namespace mneme::kernel {

const AttentionKernels AttentionKernels::MNEME_INSTRUCTION_SET = {&cpu::attend_scratch,
                                                                  &cpu::attend};

}  // namespace mneme::kernel

#include "mneme_kernels/cpu/end.inl"
