// The forward pass of one group of queries of one head: an online softmax over the keys' blocks
// that starts at the virtual key (maximum s, sum 1, weighted sum C).
#include "kernels/look_ahead.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// What both passes share:
#include "kernels/cpu/tiles.inl"

namespace lamemo::cpu {
namespace {

// The table of projected positions as the kernels read it, made once for all lanes.
template <typename T, typename E>
void turn_table(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                const LookAheadParts& parts, int64_t piece) {
  const int64_t chunks = (shape.offsets + kTurnedRows - 1) / kTurnedRows;
  const int64_t head = piece / chunks;
  const int64_t first = piece % chunks * kTurnedRows;
  const int64_t last = smaller(first + kTurnedRows, shape.offsets);
  const int64_t width = shape.head_width;
  const int64_t turned_row = turned_columns(shape.offsets + kSpareOffsets);
  const E* from = static_cast<const E*>(buffers.table) + head * shape.offsets * width;
  T* turned = static_cast<T*>(parts.turned) + head * width * turned_row;
  for (int64_t r = first; r < last; ++r) {
    for (int64_t j = 0; j < width; ++j) turned[j * turned_row + r] = widen(from[r * width + j]);
  }
  if (last == shape.offsets) {
    for (int64_t j = 0; j < width; ++j) {
      clear(turned + j * turned_row + last, turned_row - last);
    }
  }
  if (parts.rows == nullptr) return;
  const int64_t padded = padded_columns(width);
  T* rows = static_cast<T*>(parts.rows) + head * shape.offsets * padded;
  for (int64_t r = first; r < last; ++r) {
    read_row(from + r * width, width, padded, rows + r * padded);
  }
}

void turn_table(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                const LookAheadParts& parts, int64_t piece) {
  switch (shape.element) {
    case mneme::ElementType::kF64:
      return turn_table<double, double>(shape, buffers, parts, piece);
    case mneme::ElementType::kBF16:
      return turn_table<float, BF16>(shape, buffers, parts, piece);
    default:
      return turn_table<float, float>(shape, buffers, parts, piece);
  }
}

template <typename T>
struct AttendScratch {
  Tile<T> tile;
  T* values;       // [W + spare, padded]
  T* sums;         // [kTile, padded] weighted sums
  T most[kTile];   // exponents of 2
  T total[kTile];  // of 2^(score - most)

  AttendScratch(Arena& arena, const LookAheadShape& s)
      : tile(arena, s),
        values(arena.take<T>((s.keys + kSpareRows) * tile.padded)),
        sums(arena.take<T>(kTile * tile.padded)) {}
};

// Query i's scores of a block to probabilities times 2^most; returns what its sums have to be
// multiplied by for that.
template <typename T>
MNEME_INLINE T add_to_softmax(AttendScratch<T>& s, const Block& block, int64_t i) {
  T* scores = s.tile.scores + i * kScoreRow<T>;
  const T before = s.most[i];
  Vec<T> most = splat(before);
  for (int64_t c = 0; c < block.padded; c += kLanes<T>) {
    const Vec<T> score = s.tile.whole_score(block, i, c);
    store(scores + c, score);
    most = most < score ? score : most;
  }
  s.most[i] = largest_of<T>(most);
  // Without a key and without a carried logit there is no maximum to subtract.
  const T shift = s.most[i] == -__builtin_inff() ? T{0} : s.most[i];
  Vec<T> sum{};
  for (int64_t c = 0; c < block.padded; c += kLanes<T>) {
    const Vec<T> p = power<T>(load(scores + c) - splat(shift));
    store(scores + c, p);
    sum += p;
  }
  const T shrink = before == s.most[i] ? T{1} : power<T>(splat(before - shift))[0];
  s.total[i] = s.total[i] * shrink + sum_of<T>(sum);
  return shrink;
}

template <typename T>
void attend_block(AttendScratch<T>& s, const Block& block) {
  const Tile<T>& tile = s.tile;
  tile.score(block);
  for (int64_t i = 0; i < tile.count; ++i) {
    const T shrink = add_to_softmax(s, block, i);
    if (shrink == T{1}) continue;
    T* row = s.sums + i * tile.padded;
    for (int64_t j = 0; j < tile.padded; j += kLanes<T>) {
      store(row + j, load(row + j) * splat(shrink));
    }
  }
  multiply(Product<T>{tile.scores, kScoreRow<T>, 1, s.values + block.first * tile.padded,
                      tile.padded, s.sums, tile.padded, tile.count, tile.padded / kLanes<T>,
                      block.count});
}

// The virtual key, where there is one.
template <typename T>
void begin_softmax(const LookAheadShape& shape, const LookAheadBuffers& buffers, const Place& place,
                   AttendScratch<T>& s) {
  for (int64_t i = 0; i < s.tile.count; ++i) {
    const int64_t at = place.at(shape, shape.queries, s.tile.first + i);
    const T lse = static_cast<const T*>(buffers.carried_lse)[at];
    const bool is_carried = !(lse == -__builtin_inff());
    s.most[i] = lse * kLog2E<T>;
    s.total[i] = is_carried ? T{1} : T{0};
    T* row = s.sums + i * s.tile.padded;
    if (is_carried) {
      fetch_row(static_cast<const T*>(buffers.carried) + at * shape.head_width, shape.head_width,
                s.tile.padded, row);
    } else {
      clear_vectors(row, s.tile.padded);
    }
  }
}

template <typename T>
void end_softmax(const LookAheadShape& shape, const LookAheadBuffers& buffers, const Place& place,
                 AttendScratch<T>& s) {
  const int64_t width = shape.head_width;
  for (int64_t i = 0; i < s.tile.count; ++i) {
    const int64_t at = place.at(shape, shape.queries, s.tile.first + i);
    const T carried = static_cast<const T*>(buffers.carried_lse)[at];
    T* context = static_cast<T*>(buffers.context) + at * width;
    T* lse = static_cast<T*>(buffers.lse) + at;
    // A row to which no key adds keeps s to the bit, through any number of segments.
    const bool is_as_carried = s.total[i] == T{1} && s.most[i] == carried * kLog2E<T>;
    *lse = is_as_carried ? carried : s.most[i] * kLn2<T> + logarithm(s.total[i]);
    if (s.total[i] == T{0}) {
      put_row(static_cast<const T*>(buffers.carried) + at * width, width, context);
      continue;
    }
    T* row = s.sums + i * s.tile.padded;
    for (int64_t j = 0; j < s.tile.padded; j += kLanes<T>) {
      store(row + j, load(row + j) * splat(T{1} / s.total[i]));
    }
    put_row(row, width, context);
  }
}

template <typename T, typename E>
void attend_group(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                  const LookAheadParts& parts, void* scratch, int64_t piece) {
  const int64_t head = piece / parts.groups;
  const Place place(shape, parts, head / shape.heads, head % shape.heads, piece % parts.groups);
  if (place.begin >= place.end) return;
  const int64_t width = shape.head_width;
  const uint8_t* valid = buffers.valid + place.lane * shape.keys;
  Arena arena(scratch);
  AttendScratch<T> s(arena, shape);
  s.tile.begin_head(shape, buffers, parts, place.head, valid);
  const int64_t stride = shape.heads * width;
  const int64_t keys = place.at(shape, shape.keys, 0) * width;
  read_keys(shape, static_cast<const E*>(buffers.k) + keys, valid, s.values);
  turn_keys(shape, s.values, s.tile.keys_turned);
  read_keys(shape, static_cast<const E*>(buffers.v) + keys, valid, s.values);
  for (int64_t i = place.begin; i < place.end; i += kTile) {
    const E* q = static_cast<const E*>(buffers.q) + place.at(shape, shape.queries, i) * width;
    s.tile.fill(q, stride, i, smaller(kTile, place.end - i));
    begin_softmax(shape, buffers, place, s);
    const int64_t next = smaller(kTile, place.end - i - s.tile.count);
    const int64_t next_row = place.at(shape, shape.queries, i + s.tile.count) * width;
    prefetch_rows(static_cast<const E*>(buffers.q) + next_row, stride, next, width);
    prefetch_rows(static_cast<const T*>(buffers.carried) + next_row, stride, next, width);
    s.tile.for_each_block(shape, [&](const Block& block) { attend_block(s, block); });
    end_softmax(shape, buffers, place, s);
  }
}

void attend(const LookAheadShape& shape, const LookAheadBuffers& buffers,
            const LookAheadParts& parts, void* scratch, int64_t piece) {
  switch (shape.element) {
    case mneme::ElementType::kF64:
      return attend_group<double, double>(shape, buffers, parts, scratch, piece);
    case mneme::ElementType::kBF16:
      return attend_group<float, BF16>(shape, buffers, parts, scratch, piece);
    default:
      return attend_group<float, float>(shape, buffers, parts, scratch, piece);
  }
}

uint64_t attend_scratch(const LookAheadShape& shape) {
  return shape.is_f64() ? scratch_bytes<AttendScratch<double>>(shape)
                        : scratch_bytes<AttendScratch<float>>(shape);
}

}  // namespace
}  // namespace lamemo::cpu

namespace lamemo {

const LookAheadKernels LookAheadKernels::MNEME_INSTRUCTION_SET = {
    &cpu::turn_table, &cpu::attend_scratch, &cpu::attend};

}  // namespace lamemo

#include "mneme_kernels/cpu/end.inl"
