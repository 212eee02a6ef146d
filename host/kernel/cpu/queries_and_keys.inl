// Tiles of queries and blocks of keys, of one piece of the work.
#pragma once

#include "host/kernel/attention.hpp"
#include "mneme_kernels/cpu/product.inl"
#include "mneme_kernels/cpu/rows.inl"
#include "mneme_kernels/cpu/softmax.inl"

namespace mneme::kernel::cpu {
namespace {

using namespace mneme::cpu;  // NOLINT: all of it has internal linkage

constexpr std::int64_t kTile = 24;  // whole register tiles of every instruction set
constexpr int kTogether = 6;        // queries of a product with positions
template <typename T>
constexpr std::int64_t kBlock = 768 / static_cast<std::int64_t>(sizeof(T));
template <typename T>
constexpr std::int64_t kScoreRow = kBlock<T> + kColumnUnit;

// What a piece of work is about.
struct Piece {
  std::int64_t lane;
  std::int64_t key_head;
  std::int64_t first_head;  // of those that share the keys
  std::int64_t heads;
  std::int64_t begin;  // queries
  std::int64_t end;

  Piece(const AttentionShape& s, std::int64_t index) {
    const AttentionParts parts(s);
    const std::int64_t group = index % parts.groups;
    key_head = index / parts.groups % s.key_heads;
    lane = index / parts.groups / s.key_heads;
    heads = s.shared();
    first_head = key_head * heads;
    begin = smaller(group * parts.group, s.queries);
    end = smaller(begin + parts.group, s.queries);
  }
  // All queries of a lane.
  Piece(const AttentionShape& s, std::int64_t of_lane, std::int64_t of_key_head)
      : lane(of_lane),
        key_head(of_key_head),
        first_head(of_key_head * s.shared()),
        heads(s.shared()),
        begin(0),
        end(s.queries) {}
  std::int64_t queries() const { return end - begin; }
};

// Rows of queries worked on together: in order of heads, then queries.
struct Tile {
  std::int64_t row;  // where they are kept; each tile has kTile rows
  std::int64_t count;
  std::int64_t head;   // of the first
  std::int64_t query;  // of the first
  std::int64_t least;  // query of all
  std::int64_t most;
  // The last of `queries` of a head is followed by the first of the next head.
  std::int64_t begin, queries;

  void place(std::int64_t r, std::int64_t& of_head, std::int64_t& of_query) const {
    const std::int64_t at = query - begin + r;
    of_head = head + at / queries;
    of_query = begin + at % queries;
  }
};

template <typename T>
struct Queries {
  std::int64_t padded;
  std::int64_t tiles_of_head;  // 0: tiles hold rows of several heads
  std::int64_t tiles;
  T factor;     // scale times log2(e): scores are exponents of 2
  T* content;   // [rows, padded] (q + u) times factor
  T* position;  // [rows, padded] (q + w) times factor, where there is a table
  T* far;       // [rows] the products of `position` with each of the table's clamped rows
  T* row;       // [padded]

  // Room for pieces of so many queries.
  Queries(Arena& arena, const AttentionShape& s, const AttentionInputs& in, std::int64_t queries)
      : padded(padded_columns(s.width)), factor(static_cast<T>(s.scale * 1.4426950408889634074)) {
    // The table is a head's own; without one, heads of few queries go together.
    tiles_of_head = in.table != nullptr || queries >= kTile ? divide_up(queries, kTile) : 0;
    tiles = tiles_of_head > 0 ? s.shared() * tiles_of_head : divide_up(s.shared() * queries, kTile);
    content = arena.take<T>(rows() * padded);
    position = arena.take<T>(in.table != nullptr ? rows() * padded : 0);
    far = arena.take<T>(in.table != nullptr ? rows() : 0);
    row = arena.take<T>(padded);
  }
  std::int64_t rows() const { return tiles * kTile; }

  template <typename Body>
  void for_each_tile(const Piece& piece, const Body& body) const {
    const std::int64_t n = piece.queries();
    for (std::int64_t t = 0; t < tiles; ++t) {
      Tile tile;
      tile.row = t * kTile;
      tile.begin = piece.begin;
      tile.queries = n;
      if (tiles_of_head > 0) {
        const std::int64_t from = t % tiles_of_head * kTile;
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
      for (std::int64_t r = 0; r < tile.count; ++r) {
        std::int64_t head = 0, query = 0;
        tile.place(r, head, query);
        body(tile.row + r, head, query);
      }
    });
  }

  template <typename E>
  void fill(const AttentionShape& s, const AttentionInputs& in, const Piece& piece) {
    clear(content, rows() * padded);
    if (in.table != nullptr) clear(position, rows() * padded);
    for_each_row(piece, [&](std::int64_t r, std::int64_t head, std::int64_t query) {
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
      for (std::int64_t r = tile.row; r < tile.row + tile.count; r += kTogether) {
        const T* a = position + r * padded;
        multiply_registers<kTogether, 1>(Product<T>{a, padded, 1, table, in.table_row, products,
                                                    kLanes<T>, kTogether, 1, s.width, true},
                                         a, table, products);
        for (int i = 0; i < kTogether; ++i) far[r + i] = products[i * kLanes<T>];
      }
    });
  }
  void put(const void* biases, std::int64_t at, std::int64_t width, T* to) const {
    for (std::int64_t j = 0; j < padded; j += kLanes<T>)
      store(to + j, load(row + j) * splat(factor));
    if (biases == nullptr) return;
    const T* bias = static_cast<const T*>(biases) + at;
    std::int64_t j = 0;
    for (; j + kLanes<T> <= width; j += kLanes<T>) {
      store(to + j, load(to + j) + load(bias + j) * splat(factor));
    }
    for (; j < width; ++j) to[j] += bias[j] * factor;
  }
};

// Columns first .. first + count - 1, all with places or all without.
template <typename T>
struct Block {
  std::int64_t first;
  std::int64_t count;
  std::int64_t padded;  // whole vectors
  const T* turned;      // [d, kKeyRow] keys, column by column
  const T* values;      // [count, padded_columns(d)]
  const T* hidden;      // [padded] 1 where no valid column is; null = all are
};

// Calls body(piece, first row, rows, column in the block) for the pieces that a block lies in.
template <typename Body>
void for_each_part(const AttentionInputs& in, std::int64_t first, std::int64_t count,
                   const Body& body) {
  std::int64_t at = 0;
  for (std::int64_t p = 0; p < in.n_pieces && at < count; ++p) {
    const KeyPiece& piece = in.pieces[p];
    if (first >= piece.rows) {
      first -= piece.rows;
      continue;
    }
    const std::int64_t n = smaller(piece.rows - first, count - at);
    body(piece, first, n, at);
    at += n;
    first = 0;
  }
}
template <typename E>
const E* head_rows(const Rows& rows, const Piece& piece, std::int64_t first) {
  return static_cast<const E*>(rows.data) + piece.lane * rows.lane + piece.key_head * rows.head +
         first * rows.row;
}

template <typename T>
constexpr std::int64_t kKeyRow = (kBlock<T> / kColumnUnit | 1) * kColumnUnit;

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
                   std::int64_t first, std::int64_t count) {
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
                std::int64_t first, std::int64_t count) {
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
                  [&](const KeyPiece& part, std::int64_t first, std::int64_t n, std::int64_t at) {
                    turn_part(head_rows<E>(part.*which, piece, first), (part.*which).row, n,
                              s.width, to + at);
                  });
  }

  // The block's keys or values row by row: [kBlock, padded_columns(d)]. Where they lie they are
  // often a power of 2 apart, so that all of a column are in one set of a cache.
  template <typename E>
  void copy(const AttentionShape& s, const AttentionInputs& in, const Piece& piece,
            const Block<T>& block, Rows KeyPiece::*which, T* to) {
    const std::int64_t padded = padded_columns(s.width);
    for_each_part(in, block.first, block.count,
                  [&](const KeyPiece& part, std::int64_t first, std::int64_t n, std::int64_t at) {
                    const E* from = head_rows<E>(part.*which, piece, first);
                    for (std::int64_t r = 0; r < n; ++r) {
                      fetch_row(from + r * (part.*which).row, s.width, padded,
                                to + (at + r) * padded);
                    }
                  });
  }

 private:
  const T* hidden_columns(const AttentionShape& s, const AttentionInputs& in, std::int64_t lane,
                          const Block<T>& block) {
    if (in.valid == nullptr) return nullptr;
    const std::uint8_t* valid = in.valid + lane * s.keys + block.first;
    bool any = false;
    for (std::int64_t c = 0; c < block.count; ++c) {
      hidden[c] = valid[c] != 0 ? T{0} : T{1};
      any = any || valid[c] == 0;
    }
    for (std::int64_t c = block.count; c < block.padded; ++c) hidden[c] = T{1};
    return any ? hidden : nullptr;
  }

  // Rows `stride` apart to columns.
  void turn_part(const T* from, std::int64_t stride, std::int64_t count, std::int64_t width,
                 T* to) {
    turn_rows(from, stride, count, width, to, kKeyRow<T>);
  }
  template <typename E>
  void turn_part(const E* from, std::int64_t stride, std::int64_t count, std::int64_t width,
                 T* to) {
    const std::int64_t padded = padded_columns(width);
    for (std::int64_t r = 0; r < count; r += 4) {
      const std::int64_t n = smaller(4, count - r);
      for (std::int64_t i = 0; i < n; ++i) {
        fetch_row(from + (r + i) * stride, width, padded, rows + i * padded);
      }
      turn_part(rows, padded, n, width, to + r);
    }
  }
};

// Calls body(first, count) for blocks of columns that some query of the piece may see.
template <typename Body>
void for_each_block(const AttentionShape& s, const Piece& piece, std::int64_t block,
                    const Body& body) {
  for (std::int64_t c = 0; c < s.free; c += block) body(c, smaller(block, s.free - c));
  const std::int64_t last = s.before() + piece.end;  // one behind
  std::int64_t place = s.window > 0 ? larger(0, s.before() + piece.begin - s.window + 1) : 0;
  place -= place % block;
  for (; place < last; place += block) body(s.free + place, smaller(block, last - place));
}

bool is_seen(const AttentionShape& s, std::int64_t first, std::int64_t count, const Tile& tile) {
  const std::int64_t place = first - s.free;
  if (place < 0) return true;
  if (place > s.before() + tile.most) return false;
  return s.window == 0 || s.before() + tile.least - (place + count - 1) < s.window;
}

// The block without the columns behind a tile's last query.
template <typename T>
Block<T> seen_by(const AttentionShape& s, const Tile& tile, Block<T> block) {
  const std::int64_t place = block.first - s.free;
  if (place < 0) return block;
  block.count = smaller(block.count, s.before() + tile.most - place + 1);
  block.padded = round_up(block.count, kLanes<T>);
  return block;
}

template <typename Scratch>
std::uint64_t bytes_of(const AttentionShape& shape, const AttentionInputs& in) {
  Arena arena(nullptr);
  static_cast<void>(Scratch(arena, shape, in));
  return arena.bytes();
}

}  // namespace
}  // namespace mneme::kernel::cpu
