// Tiles of attention in bf16 on tensor cores: what forward.cu and backward.cu compute with. A warp
// has 16 of a block's 64 queries; layouts of registers are those of tensor_core.cuh.
#pragma once

#include <cstdint>
#include <type_traits>

#include "host/kernel/cuda/attention_tiles.cuh"
#include "host/kernel/cuda/kept_words.cuh"
#include "mneme_kernels/cuda/tensor_core.cuh"

namespace mneme::kernel {
namespace device {

using Bf16 = __nv_bfloat16;
using Problem = Arguments<float, Bf16>;

constexpr int kRowsOfWarp = 16;
constexpr int kWarpThreads = 32;
constexpr int kThreadsOfTile = kTile / kRowsOfWarp * kWarpThreads;

// A row in shared memory of heads of up to `width` numbers. Its 16 spare bytes keep the 8 addresses
// of a matrix in different banks.
template <int width>
using Row = Bf16[width + 8];

// What tiles of columns need, `stages` of which are there at a time.
template <int width, int stages>
struct alignas(16) TileMemory {
  static constexpr int kChunks = stages + 1;
  Row<width> keys[stages][kTile];
  Row<width> values[stages][kTile];
  // The table in chunks of kTile rows: a tile of columns needs two of them, and the next tile the
  // second of these and one more.
  Row<width> places[kChunks][kTile];
  float positions[kTile][kTile + 4];  // terms of queries and columns
};

// Whether rows can be copied 16 bytes at a time, where they have a multiple of 8 numbers.
inline bool is_aligned(const Rows& rows) {
  return reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 && rows.lane % 8 == 0 &&
         rows.head % 8 == 0 && rows.row % 8 == 0;
}

inline bool are_aligned(const Problem& a) {
  bool out = a.s.width % 8 == 0 && is_aligned(a.in.table_by_row);
  for (std::int64_t p = 0; p < a.in.n_pieces; ++p) {
    out = out && is_aligned(a.pieces[p].k) && is_aligned(a.pieces[p].v);
  }
  return out;
}

// A lane's place in the registers of a matrix.
__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % kWarpThreads; }
__device__ inline int row_of_warp() {  // its first of the block's queries
  return static_cast<int>(threadIdx.x) / kWarpThreads * kRowsOfWarp;
}
__device__ inline int group() { return lane_of_warp() / 4; }
__device__ inline int pair() { return lane_of_warp() % 4 * 2; }

// --- From global memory ---

// 16 queries with their biases as left operands.
template <int width>
struct Queries {
  unsigned content[width / 16][4];   // with u
  unsigned position[width / 16][4];  // with w
};

template <int width>
__device__ void load_queries(const Problem& a, const Place& p, Queries<width>& to) {
  const auto* u = static_cast<const float*>(a.in.content_bias);
  const auto* w = static_cast<const float*>(a.in.position_bias);
#pragma unroll
  for (int i = 0; i < width / 16 * 4; ++i) {
    const std::int64_t query = p.query + row_of_warp() + group() + i % 2 * 8;
    const int first = i / 4 * 16 + i % 4 / 2 * 8 + pair();
    float content[2] = {0.0F, 0.0F};
    float position[2] = {0.0F, 0.0F};
    const Bf16* q = query < a.s.queries ? row_of<Bf16>(a.in.q, p.lane, p.head, query) : nullptr;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (q == nullptr || first + e >= a.s.width) continue;
      const std::int64_t of_bias = p.head * a.s.width + first + e;
      const float own = widen(q[first + e]);
      content[e] = own + (u != nullptr ? u[of_bias] : 0.0F);
      position[e] = own + (w != nullptr ? w[of_bias] : 0.0F);
    }
    to.content[i / 4][i % 4] = pack_bf16(content[0], content[1]);
    to.position[i / 4][i % 4] = pack_bf16(position[0], position[1]);
  }
}

// One of the two parts of a row, in pieces of 16 bytes; zeros without a row and behind its numbers.
template <int width>
__device__ void load_part(const Problem& a, const Bf16* row, Bf16* to) {
#pragma unroll
  for (int i = 0; i < width / 16; ++i) {
    const int c = static_cast<int>(threadIdx.x) % 2 * 8 + i * 16;
    if (a.are_rows_aligned) {
      const bool is_there = row != nullptr && c < a.s.width;
      copy_async<16>(to + c, is_there ? row + c : nullptr, is_there ? 16 : 0);
      continue;
    }
    for (int e = c; e < c + 8; ++e) {
      narrow(row != nullptr && e < a.s.width ? widen(row[e]) : 0.0F, to[e]);
    }
  }
}

// Chunk c of the block's table: a tile of columns from place n kTile on needs chunks n and n + 1.
__device__ inline const Bf16* row_of_chunk(const Problem& a, const Place& p, std::int64_t c,
                                           int x) {
  const std::int64_t row = a.s.queries - kTile - p.query + c * kTile + x;
  const bool is_there = row >= 0 && row < a.in.table_rows;
  return is_there ? row_of<Bf16>(a.in.table_by_row, 0, p.head, row) : nullptr;
}
__device__ inline std::int64_t chunk_of(const Problem& a, const Columns& c) {
  return (c.first - a.s.free) / kTile;
}
__device__ inline bool have_positions(const Problem& a, const Columns& c) {
  return c.have_places && a.in.table_by_row.data != nullptr;
}

// Begins to fill chunks of the table that these columns need; has_chunk: the first of them is there.
template <int width, int stages>
__device__ void begin_chunks(TileMemory<width, stages>& m, const Problem& a, const Place& p,
                             const Columns& c, bool has_chunk) {
  if (!have_positions(a, c)) return;
  const int x = static_cast<int>(threadIdx.x) / 2;
  const std::int64_t first = chunk_of(a, c);
  for (std::int64_t chunk = has_chunk ? first + 1 : first; chunk < first + 2; ++chunk) {
    load_part<width>(a, row_of_chunk(a, p, chunk, x), m.places[chunk % m.kChunks][x]);
  }
}

// Begins to fill a stage with keys and values of these columns.
template <int width, int stages>
__device__ void begin_columns(TileMemory<width, stages>& m, const Problem& a, const Place& p,
                              const Columns& c, int stage) {
  const int x = static_cast<int>(threadIdx.x) / 2;
  const KeyAndValue<Bf16> column = column_of(a, p, c, x);
  load_part<width>(a, column.k, m.keys[stage][x]);
  load_part<width>(a, column.v, m.values[stage][x]);
}

// --- To global memory ---

// Numbers c and c + 1 of a row, c even; those behind its end are left out.
__device__ inline void store_pair(const AttentionShape& s, Bf16* row, int c, float first,
                                  float second) {
  if (s.width % 2 == 0) {  // then every row begins at a multiple of 4 bytes
    if (c < s.width) *reinterpret_cast<unsigned*>(row + c) = pack_bf16(first, second);
    return;
  }
  if (c < s.width) narrow(first, row[c]);
  if (c + 1 < s.width) narrow(second, row[c + 1]);
}

// --- Products ---

// sums[j] += the 16 left rows times 16 rows that lie in shared memory one by one.
template <int width>
__device__ void multiply_rows(const unsigned (&left)[width / 16][4], const Row<width>* rows,
                              float (&low)[4], float (&high)[4]) {
  const int lane = lane_of_warp();
  const Bf16* at = rows[lane / 16 * 8 + lane % 8] + lane / 8 % 2 * 8;
#pragma unroll
  for (int step = 0; step < width / 16; ++step) {
    unsigned right[4];
    load_matrices(right, at + step * 16);
    multiply_add(low, left[step], {right[0], right[1]});
    multiply_add(high, left[step], {right[2], right[3]});
  }
}

// Terms of the warp's queries to m.positions. With x = kTile - 1 - query + column the row of the
// two chunks that belongs to both: 79 rows for 16 queries and 64 columns, of which query r's are 64
// from 15 - r on.
template <int width, int stages>
__device__ void place_positions(TileMemory<width, stages>& m,
                                const unsigned (&queries)[width / 16][4], std::int64_t chunk) {
  const int first = kTile - kRowsOfWarp - row_of_warp();
#pragma unroll 1
  for (int y = 0; y < kTile + kRowsOfWarp; y += 16) {
    const int x = first + y;
    float sums[2][4] = {};
    multiply_rows<width>(queries, &m.places[(chunk + x / kTile) % m.kChunks][x % kTile], sums[0],
                         sums[1]);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = group() + i % 4 / 2 * 8;
      const int column = y + i / 4 * 8 + pair() + i % 2 - (kRowsOfWarp - 1) + row;
      if (column >= 0 && column < kTile) {
        m.positions[row_of_warp() + row][column] = sums[i / 4][i % 4];
      }
    }
  }
}

// Products of the warp's queries and a tile's columns.
using Scores = float[kTile / 8][4];

// The query and the column of the block that a score belongs to; is_turned: rows are columns.
struct Cell {
  int query, column;
};
template <bool is_turned>
__device__ Cell cell_of(int n, int i) {
  const int row = row_of_warp() + group() + i / 2 * 8;
  const int other = n * 8 + pair() + i % 2;
  return is_turned ? Cell{other, row} : Cell{row, other};
}

// The terms of positions, or 0.
template <bool is_turned, int width, int stages>
__device__ void start_scores(const TileMemory<width, stages>& m, bool has_positions,
                             Scores& scores) {
#pragma unroll
  for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Cell cell = cell_of<is_turned>(n, i);
      scores[n][i] = has_positions ? m.positions[cell.query][cell.column] : 0.0F;
    }
  }
}

// Products to scores, base 2.
template <bool is_turned>
__device__ void finish_scores(const Problem& a, const Place& p, const Columns& columns,
                              Scores& scores) {
  const bool is_product = are_products(a, p, columns);
  const auto factor = static_cast<float>(kLog2E * a.s.scale);
#pragma unroll
  for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Cell cell = cell_of<is_turned>(n, i);
      scores[n][i] = is_product ? factor * scores[n][i]
                                : finished(a, p, columns, cell.query, cell.column, scores[n][i]);
    }
  }
}

// --- Dropout ---

// The entries of the warp's scores that dropout keeps: the lanes draw bits together, each those of
// whole runs of columns, and exchange them. Query q's entries of columns are side by side, so a lane
// draws 32 columns of one query or, where rows are columns, the warp's 16 columns of two queries.
template <bool is_turned>
class KeptScores {
 public:
  __device__ KeptScores(const Problem& a, const Place& p, const Columns& columns) {
    const Dropout& mask = a.in.dropout.mask;
    if (!mask.is_on) return;
    const auto draw = [&](auto count, int query, int column) {
      const std::int64_t entry = p.head * a.in.dropout.head +
                                 (p.lane * a.s.queries + p.query + query) * a.s.keys +
                                 columns.first + column;
      return kept_words<decltype(count)::value>(mask,
                                                mask.first + static_cast<std::uint64_t>(entry));
    };
    const int lane = lane_of_warp();
    if constexpr (is_turned) {
      const std::integral_constant<int, kRowsOfWarp> count;
      const unsigned own = (draw(count, lane, row_of_warp()) & 0xFFFFU) |
                           draw(count, kTile / 2 + lane, row_of_warp()) << 16;
#pragma unroll
      for (int i = 0; i < kTile / 8; ++i) {
        bits_[i] = __shfl_sync(0xFFFFFFFFU, own, i / 2 * 8 + pair() + i % 2);
      }
    } else {
      const unsigned own =
          draw(std::integral_constant<int, 32>{}, row_of_warp() + lane / 2, lane % 2 * 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        bits_[i] = __shfl_sync(0xFFFFFFFFU, own, (group() + i / 2 * 8) * 2 + i % 2);
      }
    }
  }

  __device__ bool keeps(int n, int i) const {
    if constexpr (is_turned) {
      return (bits_[n % 4 * 2 + i % 2] >> (n / 4 * 16 + group() + i / 2 * 8) & 1U) != 0;
    } else {
      return (bits_[i / 2 * 2 + n / 4] >> (n % 4 * 8 + pair() + i % 2) & 1U) != 0;
    }
  }
  // Dropout of numbers that belong to the scores.
  __device__ void drop(const Problem& a, Scores& numbers) const {
    if (!a.in.dropout.mask.is_on) return;
    const auto factor = static_cast<float>(a.in.dropout.mask.factor);
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) numbers[n][i] = keeps(n, i) ? factor * numbers[n][i] : 0.0F;
    }
  }

 private:
  unsigned bits_[is_turned ? kTile / 8 : 4] = {};
};

// A warp's part of the softmax: a lane has two queries' numbers.
template <int width>
struct RunningRows {
  float sums[width / 8][4] = {};
  float most[2] = {-INFINITY, -INFINITY};
  float total[2] = {};  // of the lane's columns
};

// Over the 4 lanes that share rows, in a fixed order.
__device__ inline float max_of_group(float value) {
  for (int step = 2; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xFFFFFFFFU, value, step);
    value = other > value ? other : value;
  }
  return value;
}
__device__ inline float sum_of_group(float value) {
  for (int step = 2; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  return value;
}

// Scores to probabilities over the largest score so far, and what was summed before to the same.
template <int width>
__device__ void add_scores(Scores& scores, RunningRows<width>& r) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float most = r.most[half];
#pragma unroll
    for (int i = 0; i < kTile / 4; ++i) {
      const float score = scores[i / 2][half * 2 + i % 2];
      most = score > most ? score : most;
    }
    most = max_of_group(most);
    const float base = most == -INFINITY ? 0.0F : most;
    const float shrink = power_of_two(r.most[half] - base);
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kTile / 4; ++i) {
      float& score = scores[i / 2][half * 2 + i % 2];
      score = power_of_two(score - base);
      sum += score;
    }
    r.total[half] = r.total[half] * shrink + sum;
    r.most[half] = most;
#pragma unroll
    for (int i = 0; i < width / 4; ++i) r.sums[i / 2][half * 2 + i % 2] *= shrink;
  }
}

// sums += the warp's 16 rows of factors, rounded to bf16, times kTile rows in shared memory.
template <int width>
__device__ void multiply_columns(const Scores& factors, const Row<width>* rows,
                                 float (&sums)[width / 8][4]) {
  const int lane = lane_of_warp();
#pragma unroll
  for (int k = 0; k < kTile / 16; ++k) {
    const float(&low)[4] = factors[2 * k];
    const float(&high)[4] = factors[2 * k + 1];
    const unsigned left[4] = {pack_bf16(low[0], low[1]), pack_bf16(low[2], low[3]),
                              pack_bf16(high[0], high[1]), pack_bf16(high[2], high[3])};
#pragma unroll
    for (int n = 0; n < width / 8; n += 2) {
      unsigned right[4];
      load_turned(right, &rows[k * 16 + lane % 16][n * 8 + lane / 16 * 8]);
      multiply_add(sums[n], left, {right[0], right[1]});
      multiply_add(sums[n + 1], left, {right[2], right[3]});
    }
  }
}

}  // namespace device
}  // namespace mneme::kernel
