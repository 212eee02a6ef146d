// What the next block of keys needs from memory, asked for while this one is worked on. Rows of one
// head lie too far apart for the processor to guess them, and each is used once.
#pragma once

#include "host/kernel/cpu/tiles.inl"

namespace mneme::kernel::cpu {
namespace {

class Prefetch {
 public:
  // `bytes` at `from` and at each of the places, `count` in all, that follow `stride` bytes apart.
  void add(const void* from, int64_t bytes, int64_t stride, int64_t count) {
    if (n_runs_ == kMaxRuns || count <= 0) return;
    runs_[n_runs_++] = {static_cast<const char*>(from), stride, count, divide_up(bytes, kLine) + 1};
    lines_ += count * runs_[n_runs_ - 1].lines;
  }

  // To ask for all of it in about so many calls of some().
  void spread(int64_t calls) { lines_a_call_ = divide_up(lines_, larger(calls, 1)); }

  MNEME_INLINE void some() {
    for (int64_t i = 0; i < lines_a_call_ && run_ < n_runs_; ++i) {
      Run& run = runs_[run_];
      __builtin_prefetch(run.at + line_ * kLine, 0, kIntoSecondCache);
      if (++line_ < run.lines) continue;
      line_ = 0;
      run.at += run.stride;
      if (--run.count == 0) ++run_;
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  static constexpr int kIntoSecondCache = 2;
  static constexpr int kMaxRuns = 16;  // what is beyond is left to the processor
  struct Run {
    const char* at;
    int64_t stride;
    int64_t count;
    int64_t lines;
  };
  Run runs_[kMaxRuns];
  int n_runs_ = 0;
  int run_ = 0;
  int64_t line_ = 0;
  int64_t lines_ = 0;
  int64_t lines_a_call_ = 0;
};

// The rows of a block of columns, and what the table has for them beyond the block before.
template <typename T, typename E>
void add_block(const AttentionShape& s, const AttentionInputs& in, const Piece& piece,
               int64_t first, int64_t count, bool is_first, Prefetch& prefetch) {
  for_each_part(in, first, count, [&](const KeyPiece& part, int64_t row, int64_t n, int64_t) {
    for (const Rows* rows : {&part.k, &part.v}) {
      prefetch.add(head_rows<E>(*rows, piece, row), s.width * static_cast<int64_t>(sizeof(E)),
                   rows->row * static_cast<int64_t>(sizeof(E)), n);
    }
  });
  if (in.table == nullptr || first < s.free) return;
  const int64_t place = first - s.free;
  const int64_t begin = place + s.queries - (is_first ? piece.end : piece.begin);
  const int64_t end = smaller(place + count + s.queries - piece.begin, in.table_rows);
  if (begin >= end) return;
  const int64_t bytes = (end - begin) * static_cast<int64_t>(sizeof(T));
  for (int64_t head = piece.first_head; head < piece.first_head + piece.heads; ++head) {
    prefetch.add(static_cast<const T*>(in.table) + head * in.table_head + begin, bytes,
                 in.table_row * static_cast<int64_t>(sizeof(T)), s.width);
  }
}

// As for_each_block, of piece `index`: body(first, count, prefetch), where `prefetch` asks for the
// next block, which is the first one of the next piece in the end.
template <typename T, typename E, typename Body>
void for_each_block_and_next(const AttentionShape& s, const AttentionInputs& in, int64_t index,
                             int64_t tiles, const Body& body) {
  constexpr int64_t kCallsOfTile = 120;  // of some(), about
  const Piece piece(s, index);
  int64_t first = 0, count = 0;
  const auto work = [&](const Piece& next, int64_t next_first, int64_t next_count, bool is_first) {
    Prefetch prefetch;
    if (next_count > 0) {
      add_block<T, E>(s, in, next, next_first, next_count, is_first, prefetch);
      prefetch.spread(tiles * kCallsOfTile);
    }
    body(first, count, prefetch);
  };
  for_each_block(s, piece, kBlock<T>, [&](int64_t next, int64_t next_count) {
    if (count > 0) work(piece, next, next_count, next == s.free);
    first = next;
    count = next_count;
  });
  if (count == 0) return;
  int64_t next_first = 0, next_count = 0;
  if (index + 1 < AttentionParts(s).pieces(s)) {
    for_each_block(s, Piece(s, index + 1), kBlock<T>, [&](int64_t next, int64_t n) {
      if (next_count > 0) return;
      next_first = next;
      next_count = n;
    });
  }
  work(Piece(s, index + 1), next_first, next_count, true);
}

}  // namespace
}  // namespace mneme::kernel::cpu
