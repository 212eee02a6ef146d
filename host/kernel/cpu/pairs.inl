// Attention to bf16 rows by AVX512-BF16, whose products are of two numbers at once: pairs of a
// query's elements with pairs of a key's, then pairs of probabilities with pairs of values. Sums
// and the softmax are f32, as elsewhere; probabilities are rounded to bf16 for the second product.
// For inputs without position terms and content bias, which would have to be rounded too.
//
// An array of pairs is one of floats in name: 32 bits each, never calculated with as they are.
#pragma once

#include "host/kernel/cpu/online_softmax.inl"
#include "host/kernel/cpu/scores.inl"

#ifdef __clang__  // in place of begin.inl's: of two such attributes clang takes the outer one
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512bf16,avx2,fma"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512bf16,avx2,fma")
#endif

namespace mneme::kernel::cpu {
namespace {

static_assert(kLanes<float> == kColumnUnit);

bool can_be_paired(const AttentionInputs& in) {
  return in.table == nullptr && in.content_bias == nullptr &&
         __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512bw") != 0;
}

MNEME_INLINE Vec<float> add_products(Vec<float> sum, const float* pair, Vec<float> pairs) {
  std::int32_t bits = 0;
  __builtin_memcpy(&bits, pair, sizeof(bits));
  return (Vec<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(bits),
                                      (__m512bh)pairs);
}

// As multiply_registers, of pairs; fresh results are multiplied by `factor`.
template <int rows, int columns>
MNEME_INLINE void multiply_pairs_in_registers(const Product<float>& p, const float* a,
                                              const float* b, float* c, Vec<float> factor) {
  Vec<float> sum[rows][columns];
  MNEME_UNROLL for (int i = 0; i < rows; ++i) {
    MNEME_UNROLL for (int j = 0; j < columns; ++j) sum[i][j] =
        p.is_fresh ? Vec<float>{} : load(c + i * p.c_row + j * kLanes<float>);
  }
  for (std::int64_t k = 0; k < p.k; ++k) {
    Vec<float> row[columns];
    MNEME_UNROLL for (int j = 0; j < columns; ++j) row[j] = load(b + j * kLanes<float>);
    MNEME_UNROLL for (int i = 0; i < rows; ++i) {
      MNEME_UNROLL for (int j = 0; j < columns; ++j) sum[i][j] =
          add_products(sum[i][j], a + i * p.a_row + k, row[j]);
    }
    b += p.b_row;
  }
  MNEME_UNROLL for (int i = 0; i < rows; ++i) {
    MNEME_UNROLL for (int j = 0; j < columns; ++j)
        store(c + i * p.c_row + j * kLanes<float>, p.is_fresh ? sum[i][j] * factor : sum[i][j]);
  }
}

template <int columns>
MNEME_INLINE void multiply_pairs_in_columns(const Product<float>& p, std::int64_t first,
                                            Vec<float> factor) {
  constexpr int kRows = kRowsOf<columns>;
  for (std::int64_t i = 0; i < p.rows; i += kRows) {
    multiply_pairs_in_registers<kRows, columns>(p, p.a + i * p.a_row, p.b + first * kLanes<float>,
                                                p.c + i * p.c_row + first * kLanes<float>, factor);
  }
}

// Both k and the rows of B count pairs; a_k is 1.
void multiply_pairs(const Product<float>& p, float factor) {
  const std::int64_t panels = divide_up(p.vectors, kMaxColumns);
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t first = panel * p.vectors / panels;
    switch ((panel + 1) * p.vectors / panels - first) {
      case 4:
        multiply_pairs_in_columns<4>(p, first, splat(factor));
        break;
      case 3:
        multiply_pairs_in_columns<3>(p, first, splat(factor));
        break;
      case 2:
        multiply_pairs_in_columns<2>(p, first, splat(factor));
        break;
      default:
        multiply_pairs_in_columns<1>(p, first, splat(factor));
    }
  }
}

typedef std::uint16_t Halves __attribute__((vector_size(2 * kColumnUnit)));
typedef std::uint32_t Words __attribute__((vector_size(4 * kColumnUnit)));

MNEME_INLINE Words words_of(const BF16* from, std::int64_t count) {
  Halves halves{};
  if (count >= kColumnUnit) {
    __builtin_memcpy(&halves, from, sizeof(halves));
  } else {
    __builtin_memcpy(&halves, from, static_cast<std::uint64_t>(count) * sizeof(BF16));
  }
  return __builtin_convertvector(halves, Words);
}

struct PairedKeys {
  const BF16** keys;    // [kBlock] where the block's rows lie
  const BF16** values;  // [kBlock]
  float* rows;          // [4, padded pairs]
  float* turned;        // [padded pairs, kKeyRow] pairs of a key's elements
  float* pairs;         // [kBlock / 2, padded] an element of two values
  std::int64_t width;
  std::int64_t row_pairs;  // those with an element

  PairedKeys(Arena& arena, const AttentionShape& s)
      : keys(arena.take<const BF16*>(kBlock<float>)),
        values(arena.take<const BF16*>(kBlock<float>)),
        rows(arena.take<float>(4 * divide_up(s.width, 2))),
        turned(arena.take<float>(divide_up(s.width, 2) * kKeyRow<float>)),
        pairs(arena.take<float>(kBlock<float> / 2 * padded_columns(s.width))),
        width(s.width),
        row_pairs(divide_up(s.width, 2)) {}

  void read(const AttentionInputs& in, const Piece& piece, std::int64_t first, std::int64_t count) {
    std::int64_t at = 0;
    for (std::int64_t p = 0; p < in.n_pieces && at < count; ++p) {
      const KeyPiece& from = in.pieces[p];
      for (; first < from.rows && at < count; ++first, ++at) {
        keys[at] = row_of(from.k, piece, first);
        values[at] = row_of(from.v, piece, first);
      }
      first = larger(0, first - from.rows);
    }
    turn_keys(count);
    pair_values(count);
  }

 private:
  static const BF16* row_of(const Rows& rows, const Piece& piece, std::int64_t row) {
    return static_cast<const BF16*>(rows.data) + piece.lane * rows.lane +
           piece.key_head * rows.head + row * rows.row;
  }
  void turn_keys(std::int64_t count) {
    rows[row_pairs - 1] = rows[2 * row_pairs - 1] = rows[3 * row_pairs - 1] =
        rows[4 * row_pairs - 1] = 0.0F;
    for (std::int64_t r = 0; r < count; r += 4) {
      const std::int64_t n = smaller(4, count - r);
      for (std::int64_t i = 0; i < n; ++i) {
        __builtin_memcpy(rows + i * row_pairs, keys[r + i],
                         static_cast<std::uint64_t>(width) * sizeof(BF16));
      }
      turn_rows(rows, row_pairs, n, row_pairs, turned + r, kKeyRow<float>);
    }
  }
  void pair_values(std::int64_t count) {
    const std::int64_t padded = padded_columns(width);
    for (std::int64_t r = 0; r < count; r += 2) {
      for (std::int64_t j = 0; j < width; j += kColumnUnit) {
        const Words low = words_of(values[r] + j, width - j);
        const Words high = r + 1 < count ? words_of(values[r + 1] + j, width - j) : Words{};
        const Words both = low | high << 16;
        __builtin_memcpy(pairs + r / 2 * padded + j, &both, sizeof(both));
      }
    }
  }
};

struct PairScratch {
  Queries<float> queries;  // `content` holds a query's pairs, of no factor, `padded` apart
  Keys<float> keys;        // for the columns that are hidden
  PairedKeys pairs;
  Scores<float> scores;
  Softmax<float> softmax;
  BF16* probabilities;  // [kTile, kBlock]

  PairScratch(Arena& arena, const AttentionShape& shape, const AttentionInputs& in)
      : queries(arena, shape, in, AttentionParts(shape).group),
        keys(arena, shape),
        pairs(arena, shape),
        scores(arena),
        softmax(arena, queries),
        probabilities(arena.take<BF16>(kTile * kBlock<float>)) {}
};

void fill_with_pairs(const AttentionShape& s, const AttentionInputs& in, const Piece& piece,
                     const Queries<float>& queries) {
  clear(queries.content, queries.rows() * queries.padded);
  queries.for_each_row(piece, [&](std::int64_t r, std::int64_t head, std::int64_t query) {
    const BF16* q = static_cast<const BF16*>(in.q.data) + piece.lane * in.q.lane +
                    head * in.q.head + query * in.q.row;
    __builtin_memcpy(queries.content + r * queries.padded, q,
                     static_cast<std::uint64_t>(s.width) * sizeof(BF16));
  });
}

void attend_paired_block(const Block<float>& block, const Tile& tile, PairScratch& s) {
  const std::int64_t padded = s.queries.padded;
  float largest[kTile];
  for (std::int64_t r = 0; r < tile.count; ++r) {
    largest[r] = largest_score(s.scores.scores + r * kScoreRow<float>, block.padded,
                               s.softmax.most[tile.row + r]);
  }
  for (std::int64_t r = 0; r < tile.count; ++r) {
    const std::int64_t row = tile.row + r;
    float* scores = s.scores.scores + r * kScoreRow<float>;
    const float shrink =
        add_to_softmax(scores, block.padded, largest[r], s.softmax.most[row], s.softmax.total[row]);
    for (std::int64_t c = 0; c < block.padded; c += kColumnUnit) {
      const __m256bh rounded = _mm512_cvtneps_pbh((__m512)load(scores + c));
      __builtin_memcpy(s.probabilities + r * kBlock<float> + c, &rounded, sizeof(rounded));
    }
    if (shrink == 1.0F) continue;
    float* sums = s.softmax.sums + row * padded;
    for (std::int64_t j = 0; j < padded; j += kColumnUnit) {
      store(sums + j, load(sums + j) * splat(shrink));
    }
  }
  multiply_pairs(
      Product<float>{reinterpret_cast<const float*>(s.probabilities), kBlock<float> / 2, 1,
                     s.pairs.pairs, padded, s.softmax.sums + tile.row * padded, padded, tile.count,
                     padded / kColumnUnit, divide_up(block.count, 2)},
      1.0F);
}

void attend_paired_piece(const AttentionShape& shape, const AttentionInputs& in,
                         const AttentionResults& out, void* scratch, std::int64_t index) {
  const Piece piece(shape, index);
  if (piece.begin >= piece.end) return;
  Arena arena(scratch);
  PairScratch s(arena, shape, in);
  fill_with_pairs(shape, in, piece, s.queries);
  begin_softmax(s.queries, s.softmax);
  for_each_block(shape, piece, kBlock<float>, [&](std::int64_t first, std::int64_t count) {
    const Block<float> block = s.keys.columns(shape, in, piece, first, count);
    s.pairs.read(in, piece, first, count);
    s.queries.for_each_tile(piece, [&](const Tile& tile) {
      if (!is_seen(shape, first, count, tile)) return;
      const Block<float> seen = seen_by(shape, tile, block);
      multiply_pairs(
          Product<float>{s.queries.content + tile.row * s.queries.padded, s.queries.padded, 1,
                         s.pairs.turned, kKeyRow<float>, s.scores.scores, kScoreRow<float>,
                         tile.count, seen.padded / kColumnUnit, s.pairs.row_pairs, true},
          s.queries.factor);
      s.scores.add_terms(shape, in, piece, seen, tile);
      attend_paired_block(seen, tile, s);
    });
  });
  end_softmax<float, BF16>(shape, out, piece, s.queries, s.softmax);
}

}  // namespace
}  // namespace mneme::kernel::cpu

#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx2,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#endif
