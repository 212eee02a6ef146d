// What the next block of keys needs from memory, asked for while this one is worked on; with a
// piece's last block, what the next piece begins with and where this one's results will be written.
#pragma once

#include "host/kernel/cpu/prefetch.inl"
#include "host/kernel/cpu/scores.inl"

namespace mneme::kernel::cpu {
namespace {

// The rows of a block of columns, and what the table has for them beyond the block before.
template <typename T, typename E>
void add_block(const AttentionShape& s, const AttentionInputs& in, const Piece& piece,
               std::int64_t first, std::int64_t count, bool is_first, Prefetch& prefetch) {
  for_each_part(in, first, count,
                [&](const KeyPiece& part, std::int64_t row, std::int64_t n, std::int64_t) {
                  for (const Rows* rows : {&part.k, &part.v}) {
                    prefetch.add(head_rows<E>(*rows, piece, row),
                                 s.width * static_cast<std::int64_t>(sizeof(E)),
                                 rows->row * static_cast<std::int64_t>(sizeof(E)), n);
                  }
                });
  if (in.table == nullptr || first < s.free) return;
  const std::int64_t place = first - s.free;
  const std::int64_t begin = place + s.queries - (is_first ? piece.end : piece.begin);
  const std::int64_t end = smaller(place + count + s.queries - piece.begin, in.table_rows);
  if (begin >= end) return;
  const std::int64_t bytes = (end - begin) * static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t head = piece.first_head; head < piece.first_head + piece.heads; ++head) {
    prefetch.add(static_cast<const T*>(in.table) + head * in.table_head + begin, bytes,
                 in.table_row * static_cast<std::int64_t>(sizeof(T)), s.width);
  }
}

// Of every head of the piece the rows [queries, width] that begin at of_head(head).
template <typename E, typename OfHead>
void add_queries(const AttentionShape& s, const Piece& piece, std::int64_t stride,
                 Prefetch& prefetch, const OfHead& of_head) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(E));
  for (std::int64_t head = piece.first_head; head < piece.first_head + piece.heads; ++head) {
    prefetch.add(of_head(head), s.width * kBytes, stride * kBytes, piece.queries());
  }
}

// As for_each_block, of piece `index`: body(first, count, prefetch), where `prefetch` asks for the
// next block, which is the first one of the next piece in the end.
template <typename T, typename E, typename Body>
void for_each_block_and_next(const AttentionShape& s, const AttentionInputs& in,
                             const AttentionResults& out, std::int64_t index, std::int64_t tiles,
                             const Body& body) {
  constexpr std::int64_t kCallsOfTile = 120;  // of some(), about
  const Piece piece(s, index);
  std::int64_t first = 0, count = 0;
  const auto work = [&](Prefetch& prefetch) {
    prefetch.spread(tiles * kCallsOfTile);
    body(first, count, prefetch);
  };
  for_each_block(s, piece, kBlock<T>, [&](std::int64_t next, std::int64_t next_count) {
    if (count > 0) {
      Prefetch prefetch;
      add_block<T, E>(s, in, piece, next, next_count, next == s.free, prefetch);
      work(prefetch);
    }
    first = next;
    count = next_count;
  });
  if (count == 0) return;
  Prefetch prefetch;
  add_queries<E>(s, piece, s.heads * s.width, prefetch, [&](std::int64_t head) {
    return static_cast<const E*>(out.z) +
           ((piece.lane * s.queries + piece.begin) * s.heads + head) * s.width;
  });
  if (index + 1 < AttentionParts(s).pieces(s)) {
    const Piece behind(s, index + 1);
    add_queries<E>(s, behind, in.q.row, prefetch, [&](std::int64_t head) {
      return static_cast<const E*>(in.q.data) + behind.lane * in.q.lane + head * in.q.head +
             behind.begin * in.q.row;
    });
    std::int64_t next = 0, next_count = 0;
    for_each_block(s, behind, kBlock<T>, [&](std::int64_t c, std::int64_t n) {
      if (next_count > 0) return;
      next = c;
      next_count = n;
    });
    if (next_count > 0) add_block<T, E>(s, in, behind, next, next_count, true, prefetch);
  }
  work(prefetch);
}

}  // namespace
}  // namespace mneme::kernel::cpu
