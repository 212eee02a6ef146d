// A tile of queries against a block of keys, keys fastest: content scores [kTile, block] = (q + u)
// K^T, and position terms [kTile, offsets that tile and block touch] = (q + w) table^T, of which
// each query's row begins one place before that of the query in front of it.
#pragma once

#include "kernels/look_ahead.hpp"
#include "mneme_kernels/cpu/product.inl"
#include "mneme_kernels/cpu/rows.inl"
#include "mneme_kernels/cpu/softmax.inl"

namespace lamemo::cpu {
namespace {

using namespace mneme::cpu;  // NOLINT: all of it has internal linkage

constexpr int64_t kTile = kQueryTile;  // whole register tiles of every instruction set
// Keys worked on together: many, since a tile touches kTile - 1 offsets more than keys.
template <typename T>
constexpr int64_t kBlock = 768 / static_cast<int64_t>(sizeof(T));
template <typename T>
constexpr int64_t kScoreRow = kBlock<T> + kColumnUnit;  // more than kSpareRows behind a block
// In front of the position terms: where a query's row begins that does not attend the block's first
// kTile + kLanes - 2 keys.
constexpr int64_t kPositionPad = 48;
template <typename T>
constexpr int64_t kPositionRow = kPositionPad + kBlock<T> + 48;

// One head's keys or values of one lane as T, those that are not valid as zeros: [W + spare,
// padded].
template <typename T, typename E>
void read_keys(const LookAheadShape& shape, const E* from, const uint8_t* valid, T* to) {
  const int64_t padded = padded_columns(shape.head_width);
  const int64_t stride = shape.heads * shape.head_width;
  for (int64_t c = 0; c < shape.keys; ++c) {
    if (valid[c] != 0) {
      fetch_row(from + c * stride, shape.head_width, padded, to + c * padded);
    } else {
      clear_vectors(to + c * padded, padded);
    }
  }
  clear(to + shape.keys * padded, kSpareRows * padded);
}

// Their columns: [d, turned_columns(W)], zeros behind the last key.
template <typename T>
void turn_keys(const LookAheadShape& shape, const T* rows, T* to) {
  const int64_t row = turned_columns(shape.keys);
  turn_rows(rows, padded_columns(shape.head_width), shape.keys, shape.head_width, to, row);
  for (int64_t j = 0; j < shape.head_width; ++j) {
    clear(to + j * row + shape.keys, row - shape.keys);
  }
}

// Keys first .. first + count - 1 as a tile meets them.
struct Block {
  int64_t first;
  int64_t count;
  int64_t padded;   // whole vectors
  int64_t low;      // row of the table of the first position term
  int64_t columns;  // position terms
  int64_t shift;    // where in them the row of the tile's first query begins; may be negative
};

template <typename T>
struct Tile {
  int64_t width;
  T factor;            // scale times log2(e): scores are exponents of 2
  int64_t padded;      // row length of what is [kTile, d]
  int64_t key_row;     // of the turned keys
  int64_t turned_row;  // of the turned table
  int64_t first = 0;   // query
  int64_t count = 0;
  T* keys_turned;             // [d, key_row]
  T* hidden;                  // [key_row] 1 where no valid key is
  T* content;                 // [kTile, padded] (q + u) times factor
  T* position;                // [kTile, padded] q + w, likewise
  T* biases;                  // [2, padded] u and w times factor
  T* row;                     // [padded]
  T* scores;                  // [kTile, kScoreRow]
  T* terms;                   // [kTile, kPositionRow]
  const T* turned = nullptr;  // the head's table

  Tile(Arena& arena, const LookAheadShape& s)
      : width(s.head_width),
        factor(static_cast<T>(s.scale * 1.4426950408889634074)),
        padded(padded_columns(width)),
        key_row(turned_columns(s.keys)),
        turned_row(turned_columns(s.offsets + kSpareOffsets)),
        keys_turned(arena.take<T>(width * key_row)),
        hidden(arena.take<T>(key_row)),
        content(arena.take<T>(kTile * padded)),
        position(arena.take<T>(kTile * padded)),
        biases(arena.take<T>(2 * padded)),
        row(arena.take<T>(padded)),
        scores(arena.take<T>(kTile * kScoreRow<T>)),
        terms(arena.take<T>(kTile * kPositionRow<T>)) {}

  void begin_head(const LookAheadShape& s, const LookAheadBuffers& buffers,
                  const LookAheadParts& parts, int64_t head, const uint8_t* valid) {
    turned = static_cast<const T*>(parts.turned) + head * width * turned_row;
    for (int64_t c = 0; c < key_row; ++c) {
      hidden[c] = c < s.keys && valid[c] != 0 ? T{0} : T{1};
    }
    // In front of the position terms: those of offsets below `least`.
    for (int64_t i = 0; i < kTile * kPositionRow<T>; ++i) terms[i] = -__builtin_inff();
    const auto* u = static_cast<const T*>(buffers.content_bias) + head * width;
    const auto* w = static_cast<const T*>(buffers.position_bias) + head * width;
    clear(biases, 2 * padded);
    for (int64_t j = 0; j < width; ++j) {
      biases[j] = u[j] * factor;
      biases[padded + j] = w[j] * factor;
    }
  }

  // Rows of q lie `stride` apart.
  template <typename E>
  void fill(const E* q, int64_t stride, int64_t query, int64_t queries) {
    first = query;
    count = queries;
    for (int64_t i = 0; i < count; ++i) {
      fetch_row(q + i * stride, width, padded, row);
      for (int64_t j = 0; j < padded; j += kLanes<T>) {
        const Vec<T> scaled = load(row + j) * splat(factor);
        store(content + i * padded + j, scaled + load(biases + j));
        store(position + i * padded + j, scaled + load(biases + padded + j));
      }
    }
  }

  // Calls body(block) for the blocks of which the tile's queries attend any key, in their order.
  template <typename Body>
  void for_each_block(const LookAheadShape& s, const Body& body) const {
    int64_t begin = larger(0, first + s.least - s.first);
    if (begin >= s.keys) return;
    begin -= begin % kLanes<T>;
    const int64_t blocks = (s.keys - begin + kBlock<T> - 1) / kBlock<T>;
    const int64_t size = round_up((s.keys - begin + blocks - 1) / blocks, kLanes<T>);
    for (int64_t c = begin; c < s.keys; c += size) {
      Block block;
      block.first = c;
      block.count = smaller(size, s.keys - c);
      block.padded = round_up(block.count, kLanes<T>);
      const int64_t offset = s.first + c - first - s.least;  // of first key and first query
      block.low = larger(0, offset - (count - 1));
      block.columns = offset + block.count - block.low;
      block.shift = offset - block.low;
      body(block);
    }
  }

  // Both parts of the block's scores.
  void score(const Block& block) const {
    multiply(Product<T>{content, padded, 1, keys_turned + block.first, key_row, scores,
                        kScoreRow<T>, count, block.padded / kLanes<T>, width, true});
    multiply(Product<T>{position, padded, 1, turned + block.low, turned_row, terms + kPositionPad,
                        kPositionRow<T>, count, round_up(block.columns, kLanes<T>) / kLanes<T>,
                        width, true});
  }
  // Scores c .. c + kLanes - 1 of query i; -infinity where it attends no key.
  MNEME_INLINE Vec<T> whole_score(const Block& block, int64_t i, int64_t c) const {
    const T* term = terms + i * kPositionRow<T> + kPositionPad + block.shift - i + c;
    const Vec<T> score = load(scores + i * kScoreRow<T> + c) + load(term);
    const Vec<T> none = splat(static_cast<T>(-__builtin_inff()));
    return load(hidden + block.first + c) > Vec<T>{} ? none : score;
  }
};

// Which lane, head and queries a piece is about, and where their rows lie.
struct Place {
  int64_t lane;
  int64_t head;
  int64_t begin;  // queries
  int64_t end;

  Place(const LookAheadShape& s, const LookAheadParts& parts, int64_t lane_, int64_t head_,
        int64_t group)
      : lane(lane_), head(head_) {
    const int64_t tiles = (s.queries + kTile - 1) / kTile;
    begin = group * tiles / parts.groups * kTile;
    end = smaller((group + 1) * tiles / parts.groups * kTile, s.queries);
  }
  // In an array [B,rows,H]; times d in [B,rows,H,d].
  int64_t at(const LookAheadShape& s, int64_t rows, int64_t row) const {
    return (lane * rows + row) * s.heads + head;
  }
};

template <typename Scratch>
uint64_t scratch_bytes(const LookAheadShape& shape) {
  Arena arena(nullptr);
  const Scratch scratch(arena, shape);
  static_cast<void>(scratch);
  return arena.bytes();
}

}  // namespace
}  // namespace lamemo::cpu
