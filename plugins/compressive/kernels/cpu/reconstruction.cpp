// One group of queries of one head: both attentions, the sum of their squared differences, and the
// derivatives by the new keys and values while everything of a tile is at hand. Then the sums over
// groups, and the backward pass.
#include "kernels/reconstruction.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// Shared with no other kernel, but long enough for a file:
#include "kernels/cpu/attention.inl"

namespace compressive::cpu {
namespace {

template <typename T>
struct ReconstructionScratch {
  int64_t width;
  int64_t padded;  // row length of the gradients and of `change`
  HeadRows<T> old_rows;
  HeadRows<T> new_rows;
  QueryTile<T> q;
  T* old_out;     // [d + spare, kTile]; later the derivatives by the new attention, turned
  T* new_out;     // [d + spare, kTile]
  T* scores;      // [block + spare, kTile]
  T* new_scores;  // [N + spare, kTile]
  T* most;        // [blocks of N, kTile]
  T* slope;       // [block + spare, kTile] derivatives by probabilities, then by scores
  T* change;      // [kTile, padded] derivatives by the new attention
  T* k_grad;      // [N + spare, padded]
  T* v_grad;      // [N + spare, padded]

  ReconstructionScratch(Arena& arena, const ReconstructionShape& s)
      : width(s.head_width),
        padded(round_up(width, kLanes<T>)),
        old_rows(arena, s.old_rows, width),
        new_rows(arena, s.new_rows, width),
        q(arena, width),
        old_out(arena.take<T>((width + kSpareRows) * kTile)),
        new_out(arena.take<T>((width + kSpareRows) * kTile)),
        scores(arena.take<T>((kBlock<T> + kSpareRows) * kTile)),
        new_scores(arena.take<T>(s.wants_gradient ? (s.new_rows + kSpareRows) * kTile : 0)),
        most(arena.take<T>(s.wants_gradient ? (s.new_rows / kBlock<T> + 1) * kTile : 0)),
        slope(arena.take<T>(s.wants_gradient ? (kBlock<T> + kSpareRows) * kTile : 0)),
        change(arena.take<T>(s.wants_gradient ? kTile * padded : 0)),
        k_grad(arena.take<T>(gradient_count(s))),
        v_grad(arena.take<T>(gradient_count(s))) {}

  int64_t gradient_count(const ReconstructionShape& s) const {
    return s.wants_gradient ? (s.new_rows + kSpareRows) * padded : 0;
  }
};

// Per query 1 / sum, 0 where there is none.
template <typename T>
MNEME_INLINE void invert(const Softmax<T>& softmax, int64_t count, T* inverse) {
  for (int64_t i = 0; i < kTile; ++i) inverse[i] = i < count ? T{1} / softmax.sum[i] : T{0};
}

// Squares of a_new - a_old, summed; with gradients, da = 2 (a_new - a_old) to old_out and sum_d da
// a_new to `inner`. inverse_*: what the attentions are still to be multiplied by.
template <bool wants_gradient, typename T>
MNEME_INLINE double compare(const ReconstructionScratch<T>& s, const T* inverse_old,
                            const T* inverse_new, T* inner) {
  double error = 0.0;
  for (int64_t i = 0; i < s.q.vectors() * kLanes<T>; i += kLanes<T>) {
    const Vec<T> of_old = load(inverse_old + i);
    const Vec<T> of_new = load(inverse_new + i);
    Vec<T> square{};
    Vec<T> product{};
    for (int64_t j = 0; j < s.width; ++j) {
      const Vec<T> a = load(s.new_out + j * kTile + i) * of_new;
      const Vec<T> difference = a - load(s.old_out + j * kTile + i) * of_old;
      square += difference * difference;
      if constexpr (wants_gradient) {
        const Vec<T> da = difference + difference;
        product += da * a;
        store(s.old_out + j * kTile + i, da);
      }
    }
    if constexpr (wants_gradient) store(inner + i, product);
    // What stands where there is no query may be NaN.
    const int64_t count = smaller(kLanes<T>, s.q.count - i);
    for (int64_t lane = 0; lane < count; ++lane) error += static_cast<double>(square[lane]);
  }
  return error;
}

// A block's probabilities, and its slopes by probabilities to slopes by scores.
template <typename T>
MNEME_INLINE void differentiate_softmax(const ReconstructionScratch<T>& s, T* probabilities,
                                        const T* most, const Softmax<T>& softmax, const T* inverse,
                                        const T* inner, int64_t count) {
  for (int64_t i = 0; i < s.q.vectors() * kLanes<T>; i += kLanes<T>) {
    const Vec<T> factor = power<T>(load(most + i) - load(softmax.most + i)) * load(inverse + i);
    const Vec<T> mean = load(inner + i);
    for (int64_t r = 0; r < count; ++r) {
      const Vec<T> p = load(probabilities + r * kTile + i) * factor;
      store(probabilities + r * kTile + i, p);
      store(s.slope + r * kTile + i, p * (load(s.slope + r * kTile + i) - mean));
    }
  }
}

// Adds one tile's part of the derivatives.
template <typename T>
void add_gradients(const ReconstructionScratch<T>& s, const Softmax<T>& softmax, const T* inverse,
                   const T* inner) {
  for (int64_t i = 0; i < s.q.count; ++i) {
    for (int64_t j = 0; j < s.width; ++j) s.change[i * s.padded + j] = s.old_out[j * kTile + i];
    for (int64_t j = s.width; j < s.padded; ++j) s.change[i * s.padded + j] = T{0};
  }
  const HeadRows<T>& rows = s.new_rows;
  const T* most = s.most;
  for (int64_t first = 0; first < rows.count; first += kBlock<T>, most += kTile) {
    const int64_t count = rows.block_count(first);
    T* probabilities = s.new_scores + first * kTile;
    multiply(Product<T>{rows.values + first * s.width, s.width, 1, s.old_out, kTile, s.slope, kTile,
                        count, s.q.vectors(), s.width, true});
    differentiate_softmax(s, probabilities, most, softmax, inverse, inner, count);
    multiply(Product<T>{probabilities, kTile, 1, s.change, s.padded, s.v_grad + first * s.padded,
                        s.padded, count, s.padded / kLanes<T>, s.q.count});
    multiply(Product<T>{s.slope, kTile, 1, s.q.rows, s.padded, s.k_grad + first * s.padded,
                        s.padded, count, s.padded / kLanes<T>, s.q.count});
  }
}

// The tile in s.q; returns its error.
template <typename T>
double reconstruct_tile(const ReconstructionScratch<T>& s, bool wants_gradient) {
  Softmax<T> of_old;
  Softmax<T> of_new;
  T inverse_old[kTile];
  T inverse_new[kTile];
  T inner[kTile];
  attend<T>(s.old_rows, s.q, s.scores, nullptr, s.old_out, of_old);
  if (wants_gradient) {
    attend<T>(s.new_rows, s.q, s.new_scores, s.most, s.new_out, of_new);
  } else {
    attend<T>(s.new_rows, s.q, s.scores, nullptr, s.new_out, of_new);
  }
  invert(of_old, s.q.count, inverse_old);
  invert(of_new, s.q.count, inverse_new);
  if (!wants_gradient) return compare<false>(s, inverse_old, inverse_new, inner);
  const double error = compare<true>(s, inverse_old, inverse_new, inner);
  add_gradients(s, of_new, inverse_new, inner);
  return error;
}

// Rows r < count of `from`, zeros behind them, to rows that lie `stride` apart.
template <typename T>
void write_gradient(const ReconstructionShape& shape, const T* from, int64_t padded, int64_t count,
                    int64_t stride, T* to) {
  for (int64_t r = 0; r < shape.new_rows; ++r) {
    if (r < count) {
      write_row(from + r * padded, shape.head_width, to + r * stride);
    } else {
      clear(to + r * stride, shape.head_width);
    }
  }
}

// Where a piece's gradients go: the head's rows of the results, or the group's own.
template <typename T>
void write_gradients(const ReconstructionShape& shape, const ReconstructionBuffers& buffers,
                     const ReconstructionParts& parts, int64_t piece,
                     const ReconstructionScratch<T>& s, int64_t count) {
  const int64_t width = shape.head_width;
  int64_t stride = shape.heads * width;
  const int64_t at = piece / shape.heads * shape.new_rows * stride + piece % shape.heads * width;
  T* k = static_cast<T*>(buffers.k_grad) + at;
  T* v = static_cast<T*>(buffers.v_grad) + at;
  if (parts.groups > 1) {
    stride = width;
    k = static_cast<T*>(parts.gradients) + 2 * piece * shape.new_rows * width;
    v = k + shape.new_rows * width;
  }
  write_gradient(shape, s.k_grad, s.padded, count, stride, k);
  write_gradient(shape, s.v_grad, s.padded, count, stride, v);
}

template <typename T, typename E>
void reconstruct_group(const ReconstructionShape& shape, const ReconstructionBuffers& buffers,
                       const ReconstructionParts& parts, void* scratch, int64_t piece) {
  const int64_t lane = piece / parts.groups / shape.heads;
  const int64_t head = piece / parts.groups % shape.heads;
  const int64_t group = piece % parts.groups;
  const int64_t stride = shape.heads * shape.head_width;
  const auto rows_of = [&](const void* tensor, int64_t rows) {
    return static_cast<const E*>(tensor) + lane * rows * stride + head * shape.head_width;
  };
  Arena arena(scratch);
  ReconstructionScratch<T> s(arena, shape);
  const int64_t old_count = larger(0, smaller(buffers.counts[2 * lane], shape.old_rows));
  const int64_t new_count = larger(0, smaller(buffers.counts[2 * lane + 1], shape.new_rows));
  const bool has_rows = old_count > 0 && new_count > 0;
  double error = 0.0;
  if (shape.wants_gradient) {
    clear(s.k_grad, s.gradient_count(shape));
    clear(s.v_grad, s.gradient_count(shape));
  }
  if (has_rows) {
    s.old_rows.fill(rows_of(buffers.k_old, shape.old_rows), rows_of(buffers.v_old, shape.old_rows),
                    stride, old_count);
    s.new_rows.fill(rows_of(buffers.k_new, shape.new_rows), rows_of(buffers.v_new, shape.new_rows),
                    stride, new_count);
    const E* q = rows_of(buffers.q, shape.queries);
    const int64_t tiles = (shape.queries + kTile - 1) / kTile;
    const int64_t last = smaller((group + 1) * tiles / parts.groups * kTile, shape.queries);
    for (int64_t i = group * tiles / parts.groups * kTile; i < last; i += kTile) {
      s.q.fill(q + i * stride, stride, smaller(kTile, last - i), shape.head_width, shape.scale);
      error += reconstruct_tile(s, shape.wants_gradient);
    }
  }
  parts.errors[piece] = error;
  if (shape.wants_gradient) {
    write_gradients(shape, buffers, parts, piece, s, has_rows ? new_count : 0);
  }
}

void reconstruct(const ReconstructionShape& shape, const ReconstructionBuffers& buffers,
                 const ReconstructionParts& parts, void* scratch, int64_t piece) {
  switch (shape.element) {
    case mneme::ElementType::kF64:
      return reconstruct_group<double, double>(shape, buffers, parts, scratch, piece);
    case mneme::ElementType::kBF16:
      return reconstruct_group<float, BF16>(shape, buffers, parts, scratch, piece);
    default:
      return reconstruct_group<float, float>(shape, buffers, parts, scratch, piece);
  }
}

template <typename T>
uint64_t scratch_bytes(const ReconstructionShape& shape) {
  Arena arena(nullptr);
  const ReconstructionScratch<T> scratch(arena, shape);
  static_cast<void>(scratch);
  return arena.bytes();
}

uint64_t reconstruct_scratch(const ReconstructionShape& shape) {
  return shape.is_f64() ? scratch_bytes<double>(shape) : scratch_bytes<float>(shape);
}

template <typename T>
void sum_groups_of(const ReconstructionShape& shape, const ReconstructionBuffers& buffers,
                   const ReconstructionParts& parts, int64_t head) {
  const int64_t width = shape.head_width;
  const int64_t stride = shape.heads * width;
  const int64_t at = head / shape.heads * shape.new_rows * stride + head % shape.heads * width;
  const int64_t part = shape.new_rows * width;
  for (const bool is_key : {true, false}) {
    const T* from = static_cast<const T*>(parts.gradients) + 2 * head * parts.groups * part +
                    (is_key ? 0 : part);
    T* to = static_cast<T*>(is_key ? buffers.k_grad : buffers.v_grad) + at;
    for (int64_t r = 0; r < shape.new_rows; ++r) {
      for (int64_t j = 0; j < width; ++j) {
        T sum = from[r * width + j];
        for (int64_t g = 1; g < parts.groups; ++g) sum += from[2 * g * part + r * width + j];
        to[r * stride + j] = sum;
      }
    }
  }
}

void sum_groups(const ReconstructionShape& shape, const ReconstructionBuffers& buffers,
                const ReconstructionParts& parts, int64_t head) {
  if (shape.is_f64()) {
    sum_groups_of<double>(shape, buffers, parts, head);
  } else {
    sum_groups_of<float>(shape, buffers, parts, head);
  }
}

// saved times the lane's arriving gradient, in the inputs' type.
template <typename T, typename E>
void scale_row(const ReconstructionShape& shape, const ReconstructionGradients& gradients,
               int64_t row) {
  const int64_t width = shape.heads * shape.head_width;
  const T factor = static_cast<const T*>(gradients.arriving)[row / shape.new_rows];
  const auto scale = [&](const void* saved, void* grad) {
    if (grad == nullptr) return;
    const T* from = static_cast<const T*>(saved) + row * width;
    E* to = static_cast<E*>(grad) + row * width;
    for (int64_t j = 0; j < width; ++j) narrow(from[j] * factor, to[j]);
  };
  scale(gradients.k_saved, gradients.k_new);
  scale(gradients.v_saved, gradients.v_new);
}

void scale_gradients(const ReconstructionShape& shape, const ReconstructionGradients& gradients,
                     int64_t row) {
  switch (shape.element) {
    case mneme::ElementType::kF64:
      return scale_row<double, double>(shape, gradients, row);
    case mneme::ElementType::kBF16:
      return scale_row<float, BF16>(shape, gradients, row);
    default:
      return scale_row<float, float>(shape, gradients, row);
  }
}

}  // namespace
}  // namespace compressive::cpu

namespace compressive {

const ReconstructionKernels ReconstructionKernels::MNEME_INSTRUCTION_SET = {
    &cpu::reconstruct_scratch, &cpu::reconstruct, &cpu::sum_groups, &cpu::scale_gradients};

}  // namespace compressive

#include "mneme_kernels/cpu/end.inl"
