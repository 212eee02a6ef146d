// The backward pass of one piece: for every lane of a share, blocks of keys against tiles of all
// queries of the heads that share them. Probabilities are computed again from the scores and the
// pass's log-sum-exp, tile by tile [Dao et al. 2022, algorithm 4].
//
//   g_ij = p_ij (dz_i . v_j + dlse_i - dz_i . z_i)            gradient of the score s_ij
//   dv_j = sum_i p_ij dz_i      dk_j = scale sum_i g_ij (q_i + u)      du = sum_i scale g_ij k_j
//   dq_i = scale sum_j g_ij (k_j + r_x)      dr_x = scale sum g_ij (q_i + w), x = T-1-i+j'
#include "host/kernel/attention.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// What it is made of:
#include "host/kernel/cpu/scores.inl"

namespace mneme::kernel::cpu {
namespace {

// A row of gradients of scores: behind its columns are as many zeros as rows may be read beyond
// them. Of rows that are kGradeRow + 1 apart each begins one column later than the one before.
template <typename T>
constexpr std::int64_t kGradeRow = kBlock<T> + 3 * kColumnUnit;
constexpr std::int64_t kGradeFront = 2 * kColumnUnit;  // zeros before the first row
static_assert(kTile - 1 + kSpareRows <= 3 * kColumnUnit && kTile - 1 <= kGradeFront);

template <typename T>
struct GradientScratch {
  Queries<T> queries;
  Keys<T> keys;
  Scores<T> scores;  // then probabilities
  T* turned_values;  // [d, kKeyRow]
  T* front;          // [kGradeFront] zeros, directly before:
  T* products;       // [kTile, kGradeRow] of dz and values, then gradients of scores
  T* grad_z;         // [rows, padded]
  T* lse;            // [rows] exponents of 2; 0 for queries without keys
  T* shift;          // [rows] dlse - dz . z
  T* grad_content;   // [rows, padded] gradients of q + u over scale
  T* grad_position;  // [rows, padded] of q + w over scale
  T* grad_keys;      // [kBlock + kTile, padded] gradients of the block's keys, times log2(e)
  T* grad_values;    // [kBlock + kTile, padded]
  T* key_rows;       // [kBlock, padded]
  T* row;            // [padded]

  GradientScratch(Arena& arena, const AttentionShape& s, const AttentionInputs& in)
      : queries(arena, s, in, s.queries), keys(arena, s), scores(arena) {
    const std::int64_t padded = queries.padded, rows = queries.rows();
    const bool has_table = in.table != nullptr;
    turned_values = arena.take<T>(s.width * kKeyRow<T>);
    front = arena.take<T>(kGradeFront + kTile * kGradeRow<T>);
    products = front == nullptr ? nullptr : front + kGradeFront;  // null while sizes are counted
    grad_z = arena.take<T>(rows * padded);
    lse = arena.take<T>(rows);
    shift = arena.take<T>(rows);
    grad_content = arena.take<T>(rows * padded);
    grad_position = arena.take<T>(has_table ? rows * padded : 0);
    grad_keys = arena.take<T>((kBlock<T> + kTile) * padded);
    grad_values = arena.take<T>((kBlock<T> + kTile) * padded);
    key_rows = arena.take<T>(kBlock<T> * padded);
    row = arena.take<T>(padded);
  }
};

template <typename T, typename E>
struct Backward {
  const AttentionShape& shape;
  const AttentionInputs& in;
  const AttentionPass& pass;
  const AttentionGradients& out;
  GradientScratch<T>& s;
  std::int64_t share;

  std::int64_t table_rows() const { return in.table_rows + kTableSpare; }
  T* of_head(void* grads, std::int64_t head, std::int64_t size) const {
    return static_cast<T*>(grads) + (share * shape.heads + head) * size;
  }

  void clear_parameters(std::int64_t first_head, std::int64_t heads) const {
    for (std::int64_t h = first_head; h < first_head + heads; ++h) {
      if (out.table != nullptr) {
        const std::int64_t size = table_rows() * s.queries.padded;
        clear(of_head(out.table, h, size), size);
      }
      for (void* bias : {out.content_bias, out.position_bias}) {
        if (bias != nullptr) clear(of_head(bias, h, shape.width), shape.width);
      }
    }
  }

  // Queries were multiplied by log2(e).
  void end_parameters(std::int64_t first_head, std::int64_t heads) const {
    if (out.table == nullptr) return;
    for (std::int64_t h = first_head; h < first_head + heads; ++h) {
      const std::int64_t size = table_rows() * s.queries.padded;
      scale(of_head(out.table, h, size), size, kLn2<T>);
    }
  }

  void begin_lane(const Piece& piece) const {
    s.queries.template fill<E>(shape, in, piece);
    const std::int64_t padded = s.queries.padded, size = s.queries.rows() * padded;
    clear(s.front, kGradeFront);
    clear(s.grad_z, size);
    clear(s.grad_content, size);
    if (in.table != nullptr) clear(s.grad_position, size);
    s.queries.for_each_row(piece, [&](std::int64_t r, std::int64_t head, std::int64_t query) {
      T* dz = s.grad_z + r * padded;
      fetch_row(static_cast<const E*>(pass.grad_z.data) + piece.lane * pass.grad_z.lane +
                    head * pass.grad_z.head + query * pass.grad_z.row,
                shape.width, padded, dz);
      fetch_row(static_cast<const E*>(pass.z) +
                    ((piece.lane * shape.queries + query) * shape.heads + head) * shape.width,
                shape.width, padded, s.row);
      Vec<T> sum{};
      for (std::int64_t j = 0; j < padded; j += kLanes<T>) sum += load(dz + j) * load(s.row + j);
      const std::int64_t at = (piece.lane * shape.heads + head) * shape.queries + query;
      const T lse = static_cast<const T*>(pass.lse)[at];
      const bool is_empty = lse == -__builtin_inff();
      s.lse[r] = is_empty ? T{0} : lse * kLog2E<T>;
      const T grad_lse = pass.grad_lse == nullptr ? T{0} : static_cast<const T*>(pass.grad_lse)[at];
      s.shift[r] = is_empty ? T{0} : grad_lse - sum_of<T>(sum);
    });
  }

  // Scores to probabilities, and the products to gradients of scores. Whole register tiles of
  // columns are multiplied, and the block may have more than this tile sees: 0 behind the last.
  void grade(const Block<T>& block, const Tile& tile) const {
    for (std::int64_t r = 0; r < tile.count; ++r) {
      T* p = s.scores.scores + r * kScoreRow<T>;
      T* g = s.products + r * kGradeRow<T>;
      const Vec<T> lse = splat(s.lse[tile.row + r]), shift = splat(s.shift[tile.row + r]);
      for (std::int64_t c = 0; c < block.padded; c += kLanes<T>) {
        const Vec<T> probability = power<T>(load(p + c) - lse);
        store(p + c, probability);
        store(g + c, probability * (load(g + c) + shift));
      }
      fill_columns(p, block.count, block.count + kSpareRows, T{0});
      fill_columns(g, block.count, kGradeRow<T>, T{0});
    }
  }

  // is_first: of the tiles that see something of the block; keys' gradients hold nothing yet.
  void add_tile(const Block<T>& block, const Tile& tile, bool is_first) const {
    const std::int64_t padded = s.queries.padded, vectors = padded / kLanes<T>;
    T* dz = s.grad_z + tile.row * padded;
    multiply(Product<T>{dz, padded, 1, s.turned_values, kKeyRow<T>, s.products, kGradeRow<T>,
                        tile.count, block.padded / kLanes<T>, shape.width, true});
    grade(block, tile);
    multiply(Product<T>{s.scores.scores, 1, kScoreRow<T>, dz, padded, s.grad_values, padded,
                        block.count, vectors, tile.count, is_first});
    multiply(Product<T>{s.products, 1, kGradeRow<T>, s.queries.content + tile.row * padded, padded,
                        s.grad_keys, padded, block.count, vectors, tile.count, is_first});
    multiply(Product<T>{s.products, kGradeRow<T>, 1, s.key_rows, padded,
                        s.grad_content + tile.row * padded, padded, tile.count, vectors,
                        block.count});
    if (in.table != nullptr && block.first >= shape.free) add_positions(block, tile);
  }

  // As Scores::put_positions: a query's columns begin one row after those of the next query.
  void add_positions(const Block<T>& block, const Tile& tile) const {
    const std::int64_t padded = s.queries.padded, vectors = padded / kLanes<T>;
    const std::int64_t low = shape.queries - 1 - tile.most + block.first - shape.free;
    const std::int64_t columns = smaller(tile.count - 1 + block.count, in.table_rows - low);
    const T* grades = s.products - (tile.count - 1);  // at the table's rows
    const T* rows =
        static_cast<const T*>(pass.table_by_row) + (tile.head * in.table_rows + low) * padded;
    multiply(Product<T>{grades, kGradeRow<T> + 1, 1, rows, padded,
                        s.grad_position + tile.row * padded, padded, tile.count, vectors, columns});
    if (out.table == nullptr) return;
    T* grads = of_head(out.table, tile.head, table_rows() * padded) + low * padded;
    multiply(Product<T>{grades, 1, kGradeRow<T> + 1, s.queries.position + tile.row * padded, padded,
                        grads, padded, columns, vectors, tile.count});
  }

  static void scale(T* numbers, std::int64_t count, T factor) {
    for (std::int64_t j = 0; j < count; j += kLanes<T>) {
      store(numbers + j, load(numbers + j) * splat(factor));
    }
  }

  void clear_keys(std::int64_t from, std::int64_t to) const {
    for (T* grads : {s.grad_keys, s.grad_values}) {
      clear(grads + from * s.queries.padded, (to - from) * s.queries.padded);
    }
  }

  void put_keys(const Piece& piece, const Block<T>& block) const {
    std::int64_t first = block.first, at = 0;
    for (std::int64_t p = 0; p < in.n_pieces && at < block.count; ++p) {
      const std::int64_t rows = in.pieces[p].rows;
      for (; first < rows && at < block.count; ++first, ++at) {
        const std::int64_t to =
            ((piece.lane * rows + first) * shape.key_heads + piece.key_head) * shape.width;
        put(out.pieces[p].k, to, s.grad_keys + at * s.queries.padded, kLn2<T>);
        put(out.pieces[p].v, to, s.grad_values + at * s.queries.padded, T{1});
      }
      first = larger(0, first - rows);
    }
  }
  void put(void* grads, std::int64_t at, T* row, T factor) const {
    if (grads == nullptr) return;
    scale(row, s.queries.padded, factor);
    put_row(row, shape.width, static_cast<E*>(grads) + at);
  }

  void end_lane(const Piece& piece) const {
    const std::int64_t padded = s.queries.padded;
    s.queries.for_each_row(piece, [&](std::int64_t r, std::int64_t head, std::int64_t query) {
      T* content = s.grad_content + r * padded;
      const T* position = in.table == nullptr ? nullptr : s.grad_position + r * padded;
      add_to_bias(out.content_bias, head, content);
      if (position != nullptr) {
        add_to_bias(out.position_bias, head, position);
        for (std::int64_t j = 0; j < padded; j += kLanes<T>) {
          store(content + j, load(content + j) + load(position + j));
        }
      }
      put(out.q, ((piece.lane * shape.queries + query) * shape.heads + head) * shape.width, content,
          static_cast<T>(shape.scale));
    });
  }
  void add_to_bias(void* grads, std::int64_t head, const T* row) const {
    if (grads == nullptr) return;
    T* bias = of_head(grads, head, shape.width);
    const T factor = static_cast<T>(shape.scale);
    std::int64_t j = 0;
    for (; j + kLanes<T> <= shape.width; j += kLanes<T>) {
      store(bias + j, load(bias + j) + load(row + j) * splat(factor));
    }
    for (; j < shape.width; ++j) bias[j] += factor * row[j];
  }

  void run(const Piece& piece) const {
    begin_lane(piece);
    for_each_block(shape, piece, kBlock<T>, [&](std::int64_t first, std::int64_t count) {
      Block<T> block = s.keys.columns(shape, in, piece, first, count);
      s.keys.template turn<E>(shape, in, piece, block, &KeyPiece::k, s.keys.turned);
      s.keys.template turn<E>(shape, in, piece, block, &KeyPiece::v, s.turned_values);
      s.keys.template copy<E>(shape, in, piece, block, &KeyPiece::k, s.key_rows);
      std::int64_t done = 0;  // rows of the block's gradients that hold something
      s.queries.for_each_tile(piece, [&](const Tile& tile) {
        if (!is_seen(shape, block.first, block.count, tile)) return;
        const Block<T> seen = seen_by(shape, tile, block);
        s.scores.compute(shape, in, piece, s.queries, seen, tile);
        add_tile(seen, tile, done == 0);
        if (done == 0) clear_keys(seen.count, count);
        done = count;
      });
      if (done == 0) clear_keys(0, count);
      put_keys(piece, block);
    });
    end_lane(piece);
  }
};

template <typename T, typename E>
void backward_piece(const AttentionShape& shape, const AttentionInputs& in,
                    const AttentionPass& pass, const AttentionGradients& out, void* scratch,
                    std::int64_t index) {
  Arena arena(scratch);
  GradientScratch<T> s(arena, shape, in);
  const std::int64_t shares = GradientParts(shape).shares;
  const std::int64_t share = index / shape.key_heads, key_head = index % shape.key_heads;
  const Backward<T, E> backward{shape, in, pass, out, s, share};
  backward.clear_parameters(key_head * shape.shared(), shape.shared());
  const std::int64_t end = (share + 1) * shape.lanes / shares;
  for (std::int64_t lane = share * shape.lanes / shares; lane < end; ++lane) {
    backward.run(Piece(shape, lane, key_head));
  }
  backward.end_parameters(key_head * shape.shared(), shape.shared());
}

void backward(const AttentionShape& shape, const AttentionInputs& in, const AttentionPass& pass,
              const AttentionGradients& out, void* scratch, std::int64_t piece) {
  switch (shape.element) {
    case Element::kF64:
      return backward_piece<double, double>(shape, in, pass, out, scratch, piece);
    case Element::kBF16:
      return backward_piece<float, BF16>(shape, in, pass, out, scratch, piece);
    default:
      return backward_piece<float, float>(shape, in, pass, out, scratch, piece);
  }
}

std::uint64_t backward_scratch(const AttentionShape& shape, const AttentionInputs& in) {
  return shape.element == Element::kF64 ? bytes_of<GradientScratch<double>>(shape, in)
                                        : bytes_of<GradientScratch<float>>(shape, in);
}

}  // namespace
}  // namespace mneme::kernel::cpu

namespace mneme::kernel {

const AttentionGradientKernels AttentionGradientKernels::MNEME_INSTRUCTION_SET = {
    &cpu::backward_scratch, &cpu::backward};

}  // namespace mneme::kernel

#include "mneme_kernels/cpu/end.inl"
