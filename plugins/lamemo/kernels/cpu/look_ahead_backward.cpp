// The backward pass of one slice of a head: its groups of queries one after the other, each by the
// tiles of the forward pass with the scores recomputed. Keys' and values' gradients are summed over
// a group, the table's and the biases' over the slice. Then the sums over slices and groups.
#include "kernels/look_ahead.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// What both passes share:
#include "kernels/cpu/tiles.inl"

namespace lamemo::cpu {
namespace {

template <typename T>
struct DifferentiateScratch {
  Tile<T> tile;
  T* keys;                  // [W + spare, padded]
  T* values_turned;         // [d, key_row]
  T* slopes;                // [kTile, kScoreRow] derivatives by probabilities, then by scores
  T* term_slopes;           // [kTile, kPositionRow] the latter where the position terms lie
  T* change;                // [kTile, padded] dC'
  T* by_content;            // [kTile, padded] sums of slopes times keys
  T* by_position;           // [kTile, padded] sums of slopes times rows of the table
  T* key_sums;              // [W + spare, padded]
  T* value_sums;            // [W + spare, padded]
  const T* rows = nullptr;  // the head's table
  T* table_sums = nullptr;  // the slice's
  T* bias_sums = nullptr;
  T shift[kTile];  // s' as an exponent of 2
  T inner[kTile];  // dC' . C' - ds'

  DifferentiateScratch(Arena& arena, const LookAheadShape& s)
      : tile(arena, s),
        keys(arena.take<T>((s.keys + kSpareRows) * tile.padded)),
        values_turned(arena.take<T>(s.head_width * tile.key_row)),
        slopes(arena.take<T>(kTile * kScoreRow<T>)),
        term_slopes(arena.take<T>(kTile * kPositionRow<T>)),
        change(arena.take<T>(kTile * tile.padded)),
        by_content(arena.take<T>(kTile * tile.padded)),
        by_position(arena.take<T>(kTile * tile.padded)),
        key_sums(arena.take<T>((s.keys + kSpareRows) * tile.padded)),
        value_sums(arena.take<T>((s.keys + kSpareRows) * tile.padded)) {}

  int64_t vectors() const { return tile.padded / kLanes<T>; }
};

// What arrives for the tile's queries.
template <typename T>
void read_change(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                 const LookAheadGradients& gradients, const Place& place,
                 DifferentiateScratch<T>& s) {
  const int64_t width = shape.head_width;
  for (int64_t i = 0; i < s.tile.count; ++i) {
    const int64_t at = place.at(shape, shape.queries, s.tile.first + i);
    const T lse = static_cast<const T*>(buffers.lse)[at];
    T* change = s.change + i * s.tile.padded;
    if (gradients.context != nullptr) {
      const auto* from = static_cast<const T*>(gradients.context) + at * width;
      fetch_row(from, width, s.tile.padded, change);
    } else {
      clear_vectors(change, s.tile.padded);
    }
    const auto* context = static_cast<const T*>(buffers.context) + at * width;
    fetch_row(context, width, s.tile.padded, s.tile.row);
    Vec<T> product{};
    for (int64_t j = 0; j < s.tile.padded; j += kLanes<T>) {
      product += load(change + j) * load(s.tile.row + j);
    }
    // Without a key and without a carried logit every score is -infinity, and stays it.
    s.shift[i] = lse == -__builtin_inff() ? T{0} : lse * kLog2E<T>;
    const T arriving = gradients.lse != nullptr ? static_cast<const T*>(gradients.lse)[at] : T{0};
    s.inner[i] = sum_of<T>(product) - arriving;
  }
}

// Query i's scores to probabilities, and its derivatives by them to those by scores.
template <typename T>
MNEME_INLINE void differentiate_softmax(DifferentiateScratch<T>& s, const Block& block, int64_t i) {
  const Tile<T>& tile = s.tile;
  T* scores = tile.scores + i * kScoreRow<T>;
  T* slopes = s.slopes + i * kScoreRow<T>;
  T* terms = s.term_slopes + i * kPositionRow<T>;
  clear_vectors(terms + kPositionPad, block.columns + kSpareRows);
  terms += kPositionPad + block.shift - i;
  const Vec<T> shift = splat(s.shift[i]);
  const Vec<T> inner = splat(s.inner[i]);
  for (int64_t c = 0; c < block.padded; c += kLanes<T>) {
    const Vec<T> p = power<T>(tile.whole_score(block, i, c) - shift);
    const Vec<T> slope = p * (load(slopes + c) - inner);
    store(scores + c, p);
    store(slopes + c, slope);
    store(terms + c, slope);
  }
  // Read by products whose rows are keys, for rows that belong to the next block.
  clear_vectors(scores + block.padded, kSpareRows);
  clear_vectors(slopes + block.padded, kSpareRows);
}

// is_first: the tile's first block, at which the sums over keys begin.
template <typename T>
void differentiate_block(DifferentiateScratch<T>& s, const LookAheadGradients& gradients,
                         const Block& block, bool is_first) {
  const Tile<T>& tile = s.tile;
  const int64_t padded = tile.padded;
  const int64_t at = block.first * padded;
  tile.score(block);
  multiply(Product<T>{s.change, padded, 1, s.values_turned + block.first, tile.key_row, s.slopes,
                      kScoreRow<T>, tile.count, block.padded / kLanes<T>, tile.width, true});
  for (int64_t i = 0; i < tile.count; ++i) differentiate_softmax(s, block, i);
  if (gradients.v != nullptr) {
    multiply(Product<T>{tile.scores, 1, kScoreRow<T>, s.change, padded, s.value_sums + at, padded,
                        block.count, s.vectors(), tile.count});
  }
  if (gradients.k != nullptr) {
    multiply(Product<T>{s.slopes, 1, kScoreRow<T>, tile.content, padded, s.key_sums + at, padded,
                        block.count, s.vectors(), tile.count});
  }
  const T* terms = s.term_slopes + kPositionPad;
  const int64_t low = block.low * padded;
  if (gradients.table != nullptr) {
    multiply(Product<T>{terms, 1, kPositionRow<T>, tile.position, padded, s.table_sums + low,
                        padded, block.columns, s.vectors(), tile.count});
  }
  if (gradients.q != nullptr || gradients.content_bias != nullptr) {
    multiply(Product<T>{s.slopes, kScoreRow<T>, 1, s.keys + at, padded, s.by_content, padded,
                        tile.count, s.vectors(), block.count, is_first});
  }
  if (gradients.q != nullptr || gradients.position_bias != nullptr) {
    multiply(Product<T>{terms, kPositionRow<T>, 1, s.rows + low, padded, s.by_position, padded,
                        tile.count, s.vectors(), block.columns, is_first});
  }
}

// The tile's sums over keys: its queries' gradients, and its part of the biases'.
template <typename T, typename E>
void end_tile(const LookAheadShape& shape, const LookAheadGradients& gradients, const Place& place,
              DifferentiateScratch<T>& s) {
  const int64_t padded = s.tile.padded;
  const Vec<T> scale = splat(static_cast<T>(shape.scale));
  for (int64_t i = 0; i < s.tile.count; ++i) {
    for (int64_t j = 0; j < padded; j += kLanes<T>) {
      const Vec<T> of_content = load(s.by_content + i * padded + j);
      const Vec<T> of_position = load(s.by_position + i * padded + j);
      store(s.bias_sums + j, load(s.bias_sums + j) + of_content);
      store(s.bias_sums + padded + j, load(s.bias_sums + padded + j) + of_position);
      store(s.tile.row + j, (of_content + of_position) * scale);
    }
    if (gradients.q == nullptr) continue;
    put_row(s.tile.row, shape.head_width,
            static_cast<E*>(gradients.q) +
                place.at(shape, shape.queries, s.tile.first + i) * shape.head_width);
  }
}

// A group's sums times `factor`, which go to the head's rows of the gradient, or to the group's
// own.
template <typename T, typename E>
void write_sums(const LookAheadShape& shape, const LookAheadParts& parts, const Place& place,
                int64_t group, bool is_value, T* sums, T factor, void* gradient) {
  const int64_t width = shape.head_width;
  const int64_t padded = padded_columns(width);
  if (gradient == nullptr) return;
  for (int64_t j = 0; j < shape.keys * padded; j += kLanes<T>) {
    store(sums + j, load(sums + j) * splat(factor));
  }
  const int64_t piece = (place.lane * shape.heads + place.head) * parts.groups + group;
  const int64_t own = (2 * piece + (is_value ? 1 : 0)) * shape.keys * width;
  for (int64_t c = 0; c < shape.keys; ++c) {
    if (parts.groups > 1) {
      put_row(sums + c * padded, width, static_cast<T*>(parts.key_sums) + own + c * width);
    } else {
      put_row(sums + c * padded, width,
              static_cast<E*>(gradient) + place.at(shape, shape.keys, c) * width);
    }
  }
}

template <typename T, typename E>
void differentiate_group(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                         const LookAheadGradients& gradients, const LookAheadParts& parts,
                         const Place& place, int64_t group, DifferentiateScratch<T>& s) {
  const int64_t width = shape.head_width;
  const uint8_t* valid = buffers.valid + place.lane * shape.keys;
  const int64_t stride = shape.heads * width;
  const int64_t keys = place.at(shape, shape.keys, 0) * width;
  s.tile.begin_head(shape, buffers, parts, place.head, valid);
  read_keys(shape, static_cast<const E*>(buffers.v) + keys, valid, s.keys);
  turn_keys(shape, s.keys, s.values_turned);
  read_keys(shape, static_cast<const E*>(buffers.k) + keys, valid, s.keys);
  turn_keys(shape, s.keys, s.tile.keys_turned);
  clear(s.key_sums, (shape.keys + kSpareRows) * s.tile.padded);
  clear(s.value_sums, (shape.keys + kSpareRows) * s.tile.padded);
  for (int64_t i = place.begin; i < place.end; i += kTile) {
    const E* q = static_cast<const E*>(buffers.q) + place.at(shape, shape.queries, i) * width;
    s.tile.fill(q, stride, i, smaller(kTile, place.end - i));
    read_change(shape, buffers, gradients, place, s);
    const int64_t next = smaller(kTile, place.end - i - s.tile.count);
    const int64_t next_row = place.at(shape, shape.queries, i + s.tile.count) * width;
    prefetch_rows(static_cast<const E*>(buffers.q) + next_row, stride, next, width);
    prefetch_rows(static_cast<const T*>(buffers.context) + next_row, stride, next, width);
    if (gradients.context != nullptr) {
      prefetch_rows(static_cast<const T*>(gradients.context) + next_row, stride, next, width);
    }
    bool is_first = true;
    s.tile.for_each_block(shape, [&](const Block& block) {
      differentiate_block(s, gradients, block, is_first);
      is_first = false;
    });
    if (is_first) {
      clear(s.by_content, kTile * s.tile.padded);
      clear(s.by_position, kTile * s.tile.padded);
    }
    end_tile<T, E>(shape, gradients, place, s);
  }
  // The tile's queries hold scale and log2(e) already.
  write_sums<T, E>(shape, parts, place, group, false, s.key_sums, kLn2<T>, gradients.k);
  write_sums<T, E>(shape, parts, place, group, true, s.value_sums, T{1}, gradients.v);
}

template <typename T, typename E>
void differentiate_slice(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                         const LookAheadGradients& gradients, const LookAheadParts& parts,
                         void* scratch, int64_t piece) {
  Arena arena(scratch);
  DifferentiateScratch<T> s(arena, shape);
  const int64_t head = piece / parts.slices;
  const int64_t slice = piece % parts.slices;
  const int64_t table_size = (shape.offsets + kSpareOffsets) * s.tile.padded;
  s.rows = static_cast<const T*>(parts.rows) + head * shape.offsets * s.tile.padded;
  s.table_sums = static_cast<T*>(parts.table_sums) + piece * table_size;
  s.bias_sums = static_cast<T*>(parts.bias_sums) + piece * 2 * s.tile.padded;
  clear(s.table_sums, table_size);
  clear(s.bias_sums, 2 * s.tile.padded);
  const int64_t items = shape.lanes * parts.groups;
  const int64_t last = (slice + 1) * items / parts.slices;
  for (int64_t item = slice * items / parts.slices; item < last; ++item) {
    const int64_t group = item % parts.groups;
    const Place place(shape, parts, item / parts.groups, head, group);
    differentiate_group<T, E>(shape, buffers, gradients, parts, place, group, s);
  }
}

void differentiate(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                   const LookAheadGradients& gradients, const LookAheadParts& parts, void* scratch,
                   int64_t piece) {
  switch (shape.element) {
    case mneme::ElementType::kF64:
      return differentiate_slice<double, double>(shape, buffers, gradients, parts, scratch, piece);
    case mneme::ElementType::kBF16:
      return differentiate_slice<float, BF16>(shape, buffers, gradients, parts, scratch, piece);
    default:
      return differentiate_slice<float, float>(shape, buffers, gradients, parts, scratch, piece);
  }
}

uint64_t differentiate_scratch(const LookAheadShape& shape) {
  return shape.is_f64() ? scratch_bytes<DifferentiateScratch<double>>(shape)
                        : scratch_bytes<DifferentiateScratch<float>>(shape);
}

// to[j] = factor * sum over `parts` of from[part * stride + j], in their order.
template <typename T, typename E>
void sum_row(const T* from, int64_t parts, int64_t stride, int64_t width, T factor, E* to) {
  for (int64_t j = 0; j < width; ++j) {
    T sum = from[j];
    for (int64_t part = 1; part < parts; ++part) sum += from[part * stride + j];
    narrow(sum * factor, to[j]);
  }
}

template <typename T, typename E>
void sum_table_row(const LookAheadShape& shape, const LookAheadGradients& gradients,
                   const LookAheadParts& parts, int64_t row) {
  const int64_t padded = padded_columns(shape.head_width);
  const int64_t stride = (shape.offsets + kSpareOffsets) * padded;
  const T* from = static_cast<const T*>(parts.table_sums) +
                  row / shape.offsets * parts.slices * stride + row % shape.offsets * padded;
  sum_row(from, parts.slices, stride, shape.head_width, kLn2<T>,
          static_cast<E*>(gradients.table) + row * shape.head_width);
}

void sum_table(const LookAheadShape& shape, const LookAheadGradients& gradients,
               const LookAheadParts& parts, int64_t row) {
  switch (shape.element) {
    case mneme::ElementType::kF64:
      return sum_table_row<double, double>(shape, gradients, parts, row);
    case mneme::ElementType::kBF16:
      return sum_table_row<float, BF16>(shape, gradients, parts, row);
    default:
      return sum_table_row<float, float>(shape, gradients, parts, row);
  }
}

template <typename T>
void sum_biases_of(const LookAheadShape& shape, const LookAheadGradients& gradients,
                   const LookAheadParts& parts, int64_t head) {
  const int64_t padded = padded_columns(shape.head_width);
  const T* from = static_cast<const T*>(parts.bias_sums) + head * parts.slices * 2 * padded;
  const auto sum_bias = [&](const T* bias, void* to) {
    if (to == nullptr) return;
    sum_row(bias, parts.slices, 2 * padded, shape.head_width, static_cast<T>(shape.scale),
            static_cast<T*>(to) + head * shape.head_width);
  };
  sum_bias(from, gradients.content_bias);
  sum_bias(from + padded, gradients.position_bias);
}

void sum_biases(const LookAheadShape& shape, const LookAheadGradients& gradients,
                const LookAheadParts& parts, int64_t head) {
  if (shape.is_f64()) {
    sum_biases_of<double>(shape, gradients, parts, head);
  } else {
    sum_biases_of<float>(shape, gradients, parts, head);
  }
}

template <typename T, typename E>
void sum_keys_of(const LookAheadShape& shape, const LookAheadGradients& gradients,
                 const LookAheadParts& parts, int64_t piece) {
  const int64_t width = shape.head_width;
  const int64_t size = shape.keys * width;
  const int64_t lane = piece / shape.heads;
  const int64_t head = piece % shape.heads;
  const T* from = static_cast<const T*>(parts.key_sums) + piece * parts.groups * 2 * size;
  const auto sum_rows = [&](const T* sums, void* gradient) {
    if (gradient == nullptr) return;
    for (int64_t c = 0; c < shape.keys; ++c) {
      sum_row(sums + c * width, parts.groups, 2 * size, width, T{1},
              static_cast<E*>(gradient) + ((lane * shape.keys + c) * shape.heads + head) * width);
    }
  };
  sum_rows(from, gradients.k);
  sum_rows(from + size, gradients.v);
}

void sum_keys(const LookAheadShape& shape, const LookAheadGradients& gradients,
              const LookAheadParts& parts, int64_t piece) {
  switch (shape.element) {
    case mneme::ElementType::kF64:
      return sum_keys_of<double, double>(shape, gradients, parts, piece);
    case mneme::ElementType::kBF16:
      return sum_keys_of<float, BF16>(shape, gradients, parts, piece);
    default:
      return sum_keys_of<float, float>(shape, gradients, parts, piece);
  }
}

}  // namespace
}  // namespace lamemo::cpu

namespace lamemo {

const LookAheadBackwardKernels LookAheadBackwardKernels::MNEME_INSTRUCTION_SET = {
    &cpu::differentiate_scratch, &cpu::differentiate, &cpu::sum_table, &cpu::sum_biases,
    &cpu::sum_keys};

}  // namespace lamemo

#include "mneme_kernels/cpu/end.inl"
