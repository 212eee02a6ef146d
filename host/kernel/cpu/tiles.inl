// Tiles of queries, blocks of keys, and the scores of one against the other: products with the
// keys and with the projected positions, of which each query's row begins one place before that of
// the query in front of it, terms of distance and bias, and the mask as a range of columns.
#pragma once

#include "host/kernel/attention.hpp"
#include "mneme_kernels/cpu/product.inl"
#include "mneme_kernels/cpu/rows.inl"
#include "mneme_kernels/cpu/softmax.inl"

namespace mneme::kernel::cpu {
namespace {

using namespace mneme::cpu;  // NOLINT: all of it has internal linkage

constexpr int64_t kTile = 24;  // whole register tiles of every instruction set
constexpr int kTogether = 6;   // queries of a product with positions
template <typename T>
constexpr int64_t kBlock = 768 / static_cast<int64_t>(sizeof(T));
template <typename T>
constexpr int64_t kScoreRow = kBlock<T> + kColumnUnit;

// What a piece of work is about.
struct Piece {
  int64_t lane;
  int64_t key_head;
  int64_t first_head;  // of those that share the keys
  int64_t heads;
  int64_t begin;  // queries
  int64_t end;

  Piece(const AttentionShape& s, int64_t index) {
    const AttentionParts parts(s);
    const int64_t group = index % parts.groups;
    key_head = index / parts.groups % s.key_heads;
    lane = index / parts.groups / s.key_heads;
    heads = s.shared();
    first_head = key_head * heads;
    begin = smaller(group * parts.group, s.queries);
    end = smaller(begin + parts.group, s.queries);
  }
  // All queries of a lane.
  Piece(const AttentionShape& s, int64_t of_lane, int64_t of_key_head)
      : lane(of_lane),
        key_head(of_key_head),
        first_head(of_key_head * s.shared()),
        heads(s.shared()),
        begin(0),
        end(s.queries) {}
  int64_t queries() const { return end - begin; }
};

// Rows of queries worked on together: in order of heads, then queries.
struct Tile {
  int64_t row;  // where they are kept; each tile has kTile rows
  int64_t count;
  int64_t head;   // of the first
  int64_t query;  // of the first
  int64_t least;  // query of all
  int64_t most;
  // The last of `queries` of a head is followed by the first of the next head.
  int64_t begin, queries;

  void place(int64_t r, int64_t& of_head, int64_t& of_query) const {
    const int64_t at = query - begin + r;
    of_head = head + at / queries;
    of_query = begin + at % queries;
  }
};

template <typename T>
struct Queries {
  int64_t padded;
  int64_t tiles_of_head;  // 0: tiles hold rows of several heads
  int64_t tiles;
  T factor;     // scale times log2(e): scores are exponents of 2
  T* content;   // [rows, padded] (q + u) times factor
  T* position;  // [rows, padded] (q + w) times factor, where there is a table
  T* far;       // [rows] the products of `position` with each of the table's clamped rows
  T* row;       // [padded]

  // Room for pieces of so many queries.
  Queries(Arena& arena, const AttentionShape& s, const AttentionInputs& in, int64_t queries)
      : padded(padded_columns(s.width)), factor(static_cast<T>(s.scale * 1.4426950408889634074)) {
    // The table is a head's own; without one, heads of few queries go together.
    tiles_of_head = in.table != nullptr || queries >= kTile ? divide_up(queries, kTile) : 0;
    tiles = tiles_of_head > 0 ? s.shared() * tiles_of_head : divide_up(s.shared() * queries, kTile);
    content = arena.take<T>(rows() * padded);
    position = arena.take<T>(in.table != nullptr ? rows() * padded : 0);
    far = arena.take<T>(in.table != nullptr ? rows() : 0);
    row = arena.take<T>(padded);
  }
  int64_t rows() const { return tiles * kTile; }

  template <typename Body>
  void for_each_tile(const Piece& piece, const Body& body) const {
    const int64_t n = piece.queries();
    for (int64_t t = 0; t < tiles; ++t) {
      Tile tile;
      tile.row = t * kTile;
      tile.begin = piece.begin;
      tile.queries = n;
      if (tiles_of_head > 0) {
        const int64_t from = t % tiles_of_head * kTile;
        tile.head = piece.first_head + t / tiles_of_head;
        tile.query = piece.begin + from;
        tile.count = smaller(kTile, n - from);
        tile.least = tile.query;
        tile.most = tile.query + tile.count - 1;
      } else {
        tile.head = piece.first_head + tile.row / n;
        tile.query = piece.begin + tile.row % n;
        tile.count = smaller(kTile, piece.heads * n - tile.row);
        tile.least = piece.begin;
        tile.most = piece.end - 1;
      }
      if (tile.count > 0) body(tile);
    }
  }
  // body(row, head, query)
  template <typename Body>
  void for_each_row(const Piece& piece, const Body& body) const {
    for_each_tile(piece, [&](const Tile& tile) {
      for (int64_t r = 0; r < tile.count; ++r) {
        int64_t head = 0, query = 0;
        tile.place(r, head, query);
        body(tile.row + r, head, query);
      }
    });
  }

  template <typename E>
  void fill(const AttentionShape& s, const AttentionInputs& in, const Piece& piece) {
    clear(content, rows() * padded);
    if (in.table != nullptr) clear(position, rows() * padded);
    for_each_row(piece, [&](int64_t r, int64_t head, int64_t query) {
      const E* q = static_cast<const E*>(in.q.data) + piece.lane * in.q.lane + head * in.q.head +
                   query * in.q.row;
      fetch_row(q, s.width, padded, row);
      put(in.content_bias, head * s.width, s.width, content + r * padded);
      if (in.table != nullptr)
        put(in.position_bias, head * s.width, s.width, position + r * padded);
    });
    if (in.table != nullptr && s.clamped_rows() > 0) put_far(s, in, piece);
  }

 private:
  void put_far(const AttentionShape& s, const AttentionInputs& in, const Piece& piece) {
    T products[kTogether * kLanes<T>];
    for_each_tile(piece, [&](const Tile& tile) {
      const T* table = static_cast<const T*>(in.table) + tile.head * in.table_head;
      for (int64_t r = tile.row; r < tile.row + tile.count; r += kTogether) {
        const T* a = position + r * padded;
        multiply_registers<kTogether, 1>(Product<T>{a, padded, 1, table, in.table_row, products,
                                                    kLanes<T>, kTogether, 1, s.width, true},
                                         a, table, products);
        for (int i = 0; i < kTogether; ++i) far[r + i] = products[i * kLanes<T>];
      }
    });
  }
  void put(const void* biases, int64_t at, int64_t width, T* to) const {
    for (int64_t j = 0; j < padded; j += kLanes<T>) store(to + j, load(row + j) * splat(factor));
    if (biases == nullptr) return;
    const T* bias = static_cast<const T*>(biases) + at;
    int64_t j = 0;
    for (; j + kLanes<T> <= width; j += kLanes<T>) {
      store(to + j, load(to + j) + load(bias + j) * splat(factor));
    }
    for (; j < width; ++j) to[j] += bias[j] * factor;
  }
};

// Columns first .. first + count - 1, all with places or all without.
template <typename T>
struct Block {
  int64_t first;
  int64_t count;
  int64_t padded;   // whole vectors
  const T* turned;  // [d, kKeyRow] keys, column by column
  const T* values;  // [count, padded_columns(d)]
  const T* hidden;  // [padded] 1 where no valid column is; null = all are
};

// Calls body(piece, first row, rows, column in the block) for the pieces that a block lies in.
template <typename Body>
void for_each_part(const AttentionInputs& in, int64_t first, int64_t count, const Body& body) {
  int64_t at = 0;
  for (int64_t p = 0; p < in.n_pieces && at < count; ++p) {
    const KeyPiece& piece = in.pieces[p];
    if (first >= piece.rows) {
      first -= piece.rows;
      continue;
    }
    const int64_t n = smaller(piece.rows - first, count - at);
    body(piece, first, n, at);
    at += n;
    first = 0;
  }
}
template <typename E>
const E* head_rows(const Rows& rows, const Piece& piece, int64_t first) {
  return static_cast<const E*>(rows.data) + piece.lane * rows.lane + piece.key_head * rows.head +
         first * rows.row;
}

template <typename T>
constexpr int64_t kKeyRow = (kBlock<T> / kColumnUnit | 1) * kColumnUnit;

template <typename T>
struct Keys {
  T* turned;
  T* values;
  T* hidden;
  T* rows;  // [4, padded]

  Keys(Arena& arena, const AttentionShape& s)
      : turned(arena.take<T>(s.width * kKeyRow<T>)),
        values(arena.take<T>(kBlock<T> * padded_columns(s.width))),
        hidden(arena.take<T>(kBlock<T> + kColumnUnit)),
        rows(arena.take<T>(4 * padded_columns(s.width))) {}

  // The block without its keys and values.
  Block<T> columns(const AttentionShape& s, const AttentionInputs& in, const Piece& piece,
                   int64_t first, int64_t count) {
    Block<T> block;
    block.first = first;
    block.count = count;
    block.padded = round_up(count, kLanes<T>);
    block.turned = turned;
    block.values = values;
    block.hidden = hidden_columns(s, in, piece.lane, block);
    return block;
  }
  template <typename E>
  Block<T> read(const AttentionShape& s, const AttentionInputs& in, const Piece& piece,
                int64_t first, int64_t count) {
    Block<T> block = columns(s, in, piece, first, count);
    turn<E>(s, in, piece, block, &KeyPiece::k, turned);
    copy<E>(s, in, piece, block, &KeyPiece::v, values);
    return block;
  }

  // The block's keys or values column by column: [d, kKeyRow].
  template <typename E>
  void turn(const AttentionShape& s, const AttentionInputs& in, const Piece& piece,
            const Block<T>& block, Rows KeyPiece::*which, T* to) {
    for_each_part(in, block.first, block.count,
                  [&](const KeyPiece& part, int64_t first, int64_t n, int64_t at) {
                    turn_part(head_rows<E>(part.*which, piece, first), (part.*which).row, n,
                              s.width, to + at);
                  });
  }

  // The block's keys or values row by row: [kBlock, padded_columns(d)]. Where they lie they are
  // often a power of 2 apart, so that all of a column are in one set of a cache.
  template <typename E>
  void copy(const AttentionShape& s, const AttentionInputs& in, const Piece& piece,
            const Block<T>& block, Rows KeyPiece::*which, T* to) {
    const int64_t padded = padded_columns(s.width);
    for_each_part(in, block.first, block.count,
                  [&](const KeyPiece& part, int64_t first, int64_t n, int64_t at) {
                    const E* from = head_rows<E>(part.*which, piece, first);
                    for (int64_t r = 0; r < n; ++r) {
                      fetch_row(from + r * (part.*which).row, s.width, padded,
                                to + (at + r) * padded);
                    }
                  });
  }

 private:
  const T* hidden_columns(const AttentionShape& s, const AttentionInputs& in, int64_t lane,
                          const Block<T>& block) {
    if (in.valid == nullptr) return nullptr;
    const uint8_t* valid = in.valid + lane * s.keys + block.first;
    bool any = false;
    for (int64_t c = 0; c < block.count; ++c) {
      hidden[c] = valid[c] != 0 ? T{0} : T{1};
      any = any || valid[c] == 0;
    }
    for (int64_t c = block.count; c < block.padded; ++c) hidden[c] = T{1};
    return any ? hidden : nullptr;
  }

  // Rows `stride` apart to columns.
  void turn_part(const T* from, int64_t stride, int64_t count, int64_t width, T* to) {
    turn_rows(from, stride, count, width, to, kKeyRow<T>);
  }
  template <typename E>
  void turn_part(const E* from, int64_t stride, int64_t count, int64_t width, T* to) {
    const int64_t padded = padded_columns(width);
    for (int64_t r = 0; r < count; r += 4) {
      const int64_t n = smaller(4, count - r);
      for (int64_t i = 0; i < n; ++i) {
        fetch_row(from + (r + i) * stride, width, padded, rows + i * padded);
      }
      turn_part(rows, padded, n, width, to + r);
    }
  }
};

// Calls body(first, count) for blocks of columns that some query of the piece may see.
template <typename Body>
void for_each_block(const AttentionShape& s, const Piece& piece, int64_t block, const Body& body) {
  for (int64_t c = 0; c < s.free; c += block) body(c, smaller(block, s.free - c));
  const int64_t last = s.before() + piece.end;  // one behind
  int64_t place = s.window > 0 ? larger(0, s.before() + piece.begin - s.window + 1) : 0;
  place -= place % block;
  for (; place < last; place += block) body(s.free + place, smaller(block, last - place));
}

bool is_seen(const AttentionShape& s, int64_t first, int64_t count, const Tile& tile) {
  const int64_t place = first - s.free;
  if (place < 0) return true;
  if (place > s.before() + tile.most) return false;
  return s.window == 0 || s.before() + tile.least - (place + count - 1) < s.window;
}

// The block without the columns behind a tile's last query.
template <typename T>
Block<T> seen_by(const AttentionShape& s, const Tile& tile, Block<T> block) {
  const int64_t place = block.first - s.free;
  if (place < 0) return block;
  block.count = smaller(block.count, s.before() + tile.most - place + 1);
  block.padded = round_up(block.count, kLanes<T>);
  return block;
}

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
    const int64_t place = block.first - s.free;
    const bool is_placed = place >= 0;
    for (int64_t r = 0; r < tile.count; ++r) {
      int64_t head = 0, query = 0;
      tile.place(r, head, query);
      T* row = scores + r * kScoreRow<T>;
      if (is_placed && in.slopes != nullptr) add_distances(s, in, block, head, query, row);
      if (in.bias != nullptr) add_bias(in, block, head, piece.lane, query, row);
      int64_t begin = 0, end = block.count;
      if (is_placed) {
        const int64_t own = s.before() + query - place;  // the query's own place in the block
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
    const int64_t most = divide_up(block.count + kTogether - 1, kLanes<T>);
    for (int64_t vector = 0; vector < most; vector += kMaxColumns) {
      for (int64_t r = 0; r < tile.count; r += kTogether) {
        const int64_t count = smaller(kTogether, tile.count - r);
        // Of the last of these queries.
        const int64_t low = s.queries - tile.query - r - count + block.first - s.free;
        const int64_t columns = smaller(block.count + count - 1, in.table_rows - low);
        const int64_t begin = vector * kLanes<T>;
        if (begin >= columns) continue;
        const int64_t vectors = smaller(kMaxColumns, divide_up(columns - begin, kLanes<T>));
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
  static MNEME_INLINE void put_far(const T* far, int64_t vectors, T* to) {
    for (int64_t i = 0; i < kTogether; ++i) {
      for (int64_t v = 0; v < vectors; ++v) {
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
                     int64_t head, int64_t query, T* row) {
    const T slope = static_cast<const T*>(in.slopes)[head] * kLog2E<T>;
    const auto own = s.before() + query - (block.first - s.free);
    for (int64_t c = 0; c < block.count; ++c) {
      const int64_t distance = s.clamp > 0 && own - c > s.clamp ? s.clamp : own - c;
      row[c] -= slope * static_cast<T>(distance);
    }
  }

  void add_bias(const AttentionInputs& in, const Block<T>& block, int64_t head, int64_t lane,
                int64_t query, T* row) {
    const int64_t* stride = in.bias_stride;
    const T* bias = static_cast<const T*>(in.bias) + head * stride[0] + lane * stride[1] +
                    query * stride[2] + block.first * stride[3];
    for (int64_t c = 0; c < block.count; ++c) row[c] += bias[c * stride[3]] * kLog2E<T>;
  }

  // Columns outside of [begin, end), and those that do not exist.
  void hide(const Block<T>& block, int64_t begin, int64_t end, T* row) {
    const T none = -__builtin_inff();
    if (block.hidden != nullptr) {
      for (int64_t c = 0; c < block.padded; c += kLanes<T>) {
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
