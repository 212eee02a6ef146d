// The scores of a tile of queries against a block of keys: products with the keys and with the
// projected positions, of which each query's row begins one place before that of the query in front
// of it, terms of distance and bias, and the mask as a range of columns.
#pragma once

#include "host/kernel/cpu/queries_and_keys.inl"

namespace mneme::kernel::cpu {
namespace {

template <typename T>
struct Scores {
  T* front;   // [kColumnUnit] directly before the scores; see put_positions
  T* scores;  // [kTile, kScoreRow]

  // Products with positions are written a few columns beyond the last row's.
  explicit Scores(Arena& arena)
      : front(arena.take<T>(kColumnUnit)),
        scores(arena.take<T>(kTile * kScoreRow<T> + kColumnUnit)) {}

  // Calls between() often meanwhile.
  template <typename Between = Nothing>
  void compute(const AttentionShape& s, const AttentionInputs& in, const Piece& piece,
               const Queries<T>& queries, const Block<T>& block, const Tile& tile,
               const Between& between = {}) {
    const bool has_positions = block.first >= s.free && in.table != nullptr;
    if (has_positions) put_positions(s, in, queries, block, tile, between);
    multiply(Product<T>{queries.content + tile.row * queries.padded, queries.padded, 1,
                        block.turned, kKeyRow<T>, scores, kScoreRow<T>, tile.count,
                        block.padded / kLanes<T>, s.width, !has_positions},
             between);
    add_terms(s, in, piece, block, tile);
  }

  // Distances and bias to the products, and the mask.
  void add_terms(const AttentionShape& s, const AttentionInputs& in, const Piece& piece,
                 const Block<T>& block, const Tile& tile) {
    const std::int64_t place = block.first - s.free;
    const bool is_placed = place >= 0;
    for (std::int64_t r = 0; r < tile.count; ++r) {
      std::int64_t head = 0, query = 0;
      tile.place(r, head, query);
      T* row = scores + r * kScoreRow<T>;
      if (is_placed && in.slopes != nullptr) add_distances(s, in, block, head, query, row);
      if (in.bias != nullptr) add_bias(in, block, head, piece.lane, query, row);
      std::int64_t begin = 0, end = block.count;
      if (is_placed) {
        const std::int64_t own = s.before() + query - place;  // the query's own place in the block
        end = smaller(end, own + 1);
        if (s.window > 0) begin = larger(begin, own + 1 - s.window);
      }
      hide(block, begin, end, row);
    }
  }

 private:
  // The table's rows begin one place later for a query than for the one behind it. So the products
  // of a few queries with the same rows of the table, of which row i is kScoreRow + 1 behind row i
  // - 1, are where the scores will be. What lies left of the first column and right of the last is
  // not read. A few columns at a time for all queries, so that the table's stay in a cache.
  template <typename Between>
  void put_positions(const AttentionShape& s, const AttentionInputs& in, const Queries<T>& queries,
                     const Block<T>& block, const Tile& tile, const Between& between) {
    const T* table = static_cast<const T*>(in.table) + tile.head * in.table_head;
    const std::int64_t most = divide_up(block.count + kTogether - 1, kLanes<T>);
    for (std::int64_t vector = 0; vector < most; vector += kMaxColumns) {
      for (std::int64_t r = 0; r < tile.count; r += kTogether) {
        const std::int64_t count = smaller(kTogether, tile.count - r);
        // Of the last of these queries.
        const std::int64_t low = s.queries - tile.query - r - count + block.first - s.free;
        const std::int64_t columns = smaller(block.count + count - 1, in.table_rows - low);
        const std::int64_t begin = vector * kLanes<T>;
        if (begin >= columns) continue;
        const std::int64_t vectors = smaller(kMaxColumns, divide_up(columns - begin, kLanes<T>));
        T* to = scores + r * kScoreRow<T> - (count - 1) + begin;
        if (low + begin + vectors * kLanes<T> <= s.clamped_rows()) {
          put_far(queries.far + tile.row + r, vectors, to);
          continue;
        }
        put_products(Product<T>{queries.position + (tile.row + r) * queries.padded, queries.padded,
                                1, table + low + begin, in.table_row, to, kScoreRow<T> + 1,
                                kTogether, vectors, s.width, true},
                     between);
      }
    }
  }
  static MNEME_INLINE void put_far(const T* far, std::int64_t vectors, T* to) {
    for (std::int64_t i = 0; i < kTogether; ++i) {
      for (std::int64_t v = 0; v < vectors; ++v) {
        store(to + i * (kScoreRow<T> + 1) + v * kLanes<T>, splat(far[i]));
      }
    }
  }
  template <typename Between>
  static MNEME_INLINE void put_products(const Product<T>& p, const Between& between) {
    switch (p.vectors) {
#ifdef MNEME_USE_AVX512
      case 4:
        return multiply_registers<kTogether, 4>(p, p.a, p.b, p.c, between);
      case 3:
        return multiply_registers<kTogether, 3>(p, p.a, p.b, p.c, between);
#endif
      case 2:
        return multiply_registers<kTogether, 2>(p, p.a, p.b, p.c, between);
      default:
        return multiply_registers<kTogether, 1>(p, p.a, p.b, p.c, between);
    }
  }

  void add_distances(const AttentionShape& s, const AttentionInputs& in, const Block<T>& block,
                     std::int64_t head, std::int64_t query, T* row) {
    const T slope = static_cast<const T*>(in.slopes)[head] * kLog2E<T>;
    const auto own = s.before() + query - (block.first - s.free);
    for (std::int64_t c = 0; c < block.count; ++c) {
      const std::int64_t distance = s.clamp > 0 && own - c > s.clamp ? s.clamp : own - c;
      row[c] -= slope * static_cast<T>(distance);
    }
  }

  void add_bias(const AttentionInputs& in, const Block<T>& block, std::int64_t head,
                std::int64_t lane, std::int64_t query, T* row) {
    const std::int64_t* stride = in.bias_stride;
    const T* bias = static_cast<const T*>(in.bias) + head * stride[0] + lane * stride[1] +
                    query * stride[2] + block.first * stride[3];
    for (std::int64_t c = 0; c < block.count; ++c) row[c] += bias[c * stride[3]] * kLog2E<T>;
  }

  // Columns outside of [begin, end), and those that do not exist.
  void hide(const Block<T>& block, std::int64_t begin, std::int64_t end, T* row) {
    const T none = -__builtin_inff();
    if (block.hidden != nullptr) {
      for (std::int64_t c = 0; c < block.padded; c += kLanes<T>) {
        const Vec<T> score = load(row + c);
        store(row + c, load(block.hidden + c) > Vec<T>{} ? splat(none) : score);
      }
    }
    fill_columns(row, 0, smaller(begin, block.padded), none);
    fill_columns(row, larger(end, 0), block.padded, none);
  }
};

}  // namespace
}  // namespace mneme::kernel::cpu
