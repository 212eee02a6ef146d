// The recurrence on the CPU, backward: the heads of one group of one lane a piece, from the last
// chunk to the first.
#include "kernels/recurrence.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// What both passes share:
#include "kernels/cpu/chunk.inl"

namespace recurrences::cpu {
namespace {

template <typename T, typename Decay>
struct BackwardScratch {
  Chunk<T, Decay> c;
  T* grad_state;   // [K, value_row] dS' on entry of a chunk, then dS
  T* grad_out;     // [C, value_row]
  T* grad_u;       // [C, value_row]; under the delta rule diag(beta) dU, the gradient of V
  T* grad_scores;  // [C, score_row]
  T* u_turned;     // [V, score_row]
  T* turned;       // [V, key_row] S^T or dS'^T
  T* part;         // [C, key_row]
  T* dq;           // [C, key_row]
  T* dk_row;       // [C, key_row] of k as rows of scores and as k exp(G)
  T* dk_column;    // [C, key_row] of k as columns of scores and as k exp(G_C - G)
  T* to_whole;     // [key_row] gradient of G_C that does not come through rows

  BackwardScratch(Arena& arena, const RecurrenceShape& s) : c(arena, s) {
    const Extents& e = c.e;
    grad_state = take_rows<T>(arena, e.keys, e.value_row);
    grad_out = take_rows<T>(arena, e.chunk, e.value_row);
    grad_u = take_rows<T>(arena, e.chunk, e.value_row);
    grad_scores = take_rows<T>(arena, e.chunk, e.score_row);
    u_turned = take_rows<T>(arena, e.values, e.score_row);
    turned = take_rows<T>(arena, e.values, e.key_row);
    for (T** to : {&part, &dq, &dk_row, &dk_column}) {
      *to = take_rows<T>(arena, e.chunk, e.key_row);
    }
    to_whole = arena.take<T>(e.key_row);
  }
};

// [rows, columns] -> [columns, rows] with zeros behind.
template <typename T>
void turn(const T* from, int64_t from_row, int64_t rows, int64_t columns, T* to, int64_t to_row) {
  turn_rows(from, from_row, rows, columns, to, to_row);
  for (int64_t j = 0; j < columns; ++j) fill_columns(to + j * to_row, rows, to_row, T{0});
}

// dU = A^T dout + (k exp(G_C - G)) dS', and back through the substitution: grad_u is then
// diag(beta) (I + diag(beta) L)^-T dU. Writes the gradients of beta.
template <typename T, typename Decay>
void differentiate_values(BackwardScratch<T, Decay>& b, const TokenRows<T>& to_beta) {
  const Chunk<T, Decay>& c = b.c;
  const Extents& e = c.e;
  product<T>(c.k_end, e.key_row, 1, c.values_of(b.grad_state), {b.grad_u, e.value_row}, c.n,
             e.value_row, e.keys, true);
  lower_turned_product<T>(c.scores, e.score_row, c.values_of(b.grad_out), {b.grad_u, e.value_row},
                          c.n, e.value_row, false);
  if (!c.is_delta) return;
  for (int64_t block = (c.n - 1) / kBlock * kBlock; block >= 0; block -= kBlock) {
    const int64_t last = smaller(c.n, block + kBlock);
    for (int64_t i = last - 1; i >= block; --i) {
      T* row = b.grad_u + i * e.value_row;
      Chunk<T, Decay>::add_rows(c.minus_scores + (i + 1) * e.score_row + i, e.score_row,
                                row + e.value_row, last - 1 - i, e.value_row, row);
      if (to_beta.first != nullptr) {
        *to_beta.row(i) = dot(row, c.errors + i * e.value_row, e.value_row);
      }
      times(row, c.beta[i], e.value_row, row);
    }
    // What these rows ask of the rows before them.
    for (int64_t i = 0; i < block; i += kBlock) {
      product<T>(c.minus_scores + block * e.score_row + i, 1, e.score_row,
                 c.values_of(b.grad_u + block * e.value_row),
                 {b.grad_u + i * e.value_row, e.value_row}, kBlock, e.value_row, last - block,
                 false);
    }
  }
}

// From gradients of rows a [C, value_row] through scores x k^T: grad_scores = sign a U^T.
template <typename T, typename Decay>
void differentiate_scores(BackwardScratch<T, Decay>& b, const T* a, T sign, bool keeps_diagonal,
                          const T* x, T* dx) {
  Chunk<T, Decay>& c = b.c;
  const Extents& e = c.e;
  for (int64_t i = 0; i < c.n; i += kBlock) {
    const int64_t rows = smaller(kBlock, c.n - i);
    product<T>(a + i * e.value_row, e.value_row, 1, {b.u_turned, e.score_row},
               {b.grad_scores + i * e.score_row, e.score_row}, rows, i + rows, e.values, true);
  }
  keep_lower<T>({b.grad_scores, e.score_row}, c.n, keeps_diagonal);
  if (sign != T{1}) times(b.grad_scores, sign, c.n * e.score_row, b.grad_scores);
  c.decay.scores_backward(b.grad_scores, x, c.k, dx, b.dk_column);
}

template <typename T, typename Decay>
void differentiate_keys(BackwardScratch<T, Decay>& b) {
  Chunk<T, Decay>& c = b.c;
  const Extents& e = c.e;
  // Through k exp(G_C - G), and exp(G_C) S.
  turn(b.grad_state, e.value_row, e.keys, e.values, b.turned, e.key_row);
  product<T>(c.u, e.value_row, 1, {b.turned, e.key_row}, {b.part, e.key_row}, c.n, e.key_row,
             e.values, true);
  fill_columns(b.to_whole, 0, e.key_row, T{0});
  for (int64_t i = 0; i < e.keys; ++i) {
    b.to_whole[i] = c.decay.whole_of(i) *
                    dot(c.state + i * e.value_row, b.grad_state + i * e.value_row, e.value_row);
  }
  for (int64_t i = 0; i < c.n; ++i) {
    const int64_t at = i * e.key_row;
    add_times(b.part + at, c.k_end + at, e.key_row, b.to_whole);
    c.decay.to_end(i, b.part + at, b.dk_column + at);
  }
  // Through q exp(G).
  turn(c.state, e.value_row, e.keys, e.values, b.turned, e.key_row);
  product<T>(b.grad_out, e.value_row, 1, {b.turned, e.key_row}, {b.part, e.key_row}, c.n, e.key_row,
             e.values, true);
  for (int64_t i = 0; i < c.n; ++i) {
    c.decay.from_start(i, b.part + i * e.key_row, b.dq + i * e.key_row);
  }
  // Through -k exp(G), whose gradient is grad_u S^T.
  clear(b.dk_row, c.n * e.key_row);
  if (c.is_delta) {
    product<T>(b.grad_u, e.value_row, 1, {b.turned, e.key_row}, {b.part, e.key_row}, c.n, e.key_row,
               e.values, true);
    for (int64_t i = 0; i < c.n; ++i) {
      times(b.part + i * e.key_row, T{-1}, e.key_row, b.part + i * e.key_row);
      c.decay.add_from_start(i, b.part + i * e.key_row, b.dk_row + i * e.key_row);
    }
  }
  turn(c.u, e.value_row, c.n, e.values, b.u_turned, e.score_row);
  differentiate_scores(b, b.grad_out, T{1}, true, c.q, b.dq);
  if (c.is_delta) differentiate_scores(b, b.grad_u, T{-1}, false, c.k, b.dk_row);
}

// dS = diag(exp(G_C)) dS' + (q exp(G))^T dout - (k exp(G))^T grad_u.
template <typename T, typename Decay>
void retreat(BackwardScratch<T, Decay>& b) {
  const Chunk<T, Decay>& c = b.c;
  const Extents& e = c.e;
  const Matrix<T> state = {b.grad_state, e.value_row};
  for (int64_t i = 0; i < e.keys; ++i) {
    T* row = b.grad_state + i * e.value_row;
    times(row, c.decay.whole_of(i), e.value_row, row);
  }
  product<T>(c.q_start, 1, e.key_row, c.values_of(b.grad_out), state, e.keys, e.value_row, c.n,
             false);
  if (c.is_delta) {
    product<T>(c.minus_k_start, 1, e.key_row, c.values_of(b.grad_u), state, e.keys, e.value_row,
               c.n, false);
  }
}

// Decays of the tokens from the last to the first: the sum of the gradients of G behind them.
template <typename T, typename Decay>
void put_decays(BackwardScratch<T, Decay>& b, const TokenRows<T>& to) {
  const Chunk<T, Decay>& c = b.c;
  const Extents& e = c.e;
  T* sum = b.to_whole;
  for (int64_t i = c.n - 1; i >= 0; --i) {
    const int64_t at = i * e.key_row;
    for_vectors<T>(e.key_row, [&](int64_t j) {
      const Vec<T> by_k = load(b.dk_row + at + j) - load(b.dk_column + at + j);
      store(sum + j,
            load(sum + j) + load(c.q + at + j) * load(b.dq + at + j) + load(c.k + at + j) * by_k);
    });
    if constexpr (Decay::kIsByChannel) {
      copy_row(sum, e.keys, to.row(i));
    } else {
      Vec<T> all = {};
      for_vectors<T>(e.key_row, [&](int64_t j) { all += load(sum + j); });
      *to.row(i) = sum_of<T>(all);
    }
  }
}

template <typename T, typename Decay>
void backward_head(const RecurrenceShape& s, const RecurrenceBuffers& buffers,
                   const RecurrenceGradients& grads, const Place& place,
                   BackwardScratch<T, Decay>& b) {
  Chunk<T, Decay>& c = b.c;
  const Extents& e = c.e;
  const auto arriving = [](const void* data) { return static_cast<const T*>(data); };
  const auto leaving = [](void* data) { return static_cast<T*>(data); };
  const bool adds = place.head % s.heads_of_group() != 0;
  if (grads.last_state != nullptr) {
    fetch_state(e, arriving(grads.last_state) + place.state(s), b.grad_state);
  } else {
    clear(b.grad_state, e.keys * e.value_row);
  }
  for (int64_t chunk = s.chunks() - 1; chunk >= 0; --chunk) {
    const int64_t first = chunk * s.chunk;
    fetch_state(e,
                chunk == 0 ? arriving(buffers.state) + place.state(s)
                           : arriving(buffers.kept) + place.kept(s, chunk),
                c.state);
    c.begin(s, buffers, place, first, smaller(s.chunk, s.length - first));
    if (grads.out != nullptr) {
      fetch(place.values(s, arriving(grads.out), first), c.n, e.values, e.value_row, b.grad_out);
    } else {
      clear(b.grad_out, c.n * e.value_row);
    }
    differentiate_values(b, place.scalars(s, leaving(grads.beta), first));
    differentiate_keys(b);
    retreat(b);
    if (grads.v != nullptr) {
      put(b.grad_u, e.value_row, c.n, e.values, false, place.values(s, leaving(grads.v), first));
    }
    if (grads.q != nullptr) {
      put(b.dq, e.key_row, c.n, e.keys, adds, place.keys(s, leaving(grads.q), first));
    }
    if (grads.decay != nullptr) put_decays(b, place.decays(s, leaving(grads.decay), first));
    if (grads.k != nullptr) {
      add_times(b.dk_row, T{1}, c.n * e.key_row, b.dk_column);
      put(b.dk_column, e.key_row, c.n, e.keys, adds, place.keys(s, leaving(grads.k), first));
    }
  }
  if (grads.state != nullptr) {
    put_state(e, b.grad_state, leaving(grads.state) + place.state(s));
  }
}

template <typename T, typename Decay>
void run(mneme::TypeTag<Chunk<T, Decay>> /*tag*/, const RecurrenceShape& s,
         const RecurrenceBuffers& buffers, const RecurrenceGradients& grads, void* memory,
         int64_t piece) {
  Arena arena(memory);
  BackwardScratch<T, Decay> scratch(arena, s);
  const int64_t first = piece % s.groups * s.heads_of_group();
  for (int64_t head = first; head < first + s.heads_of_group(); ++head) {
    backward_head(s, buffers, grads, Place(s, piece / s.groups, head), scratch);
  }
}
template <typename T, typename Decay>
uint64_t bytes(mneme::TypeTag<Chunk<T, Decay>> /*tag*/, const RecurrenceShape& s) {
  Arena arena(nullptr);
  const BackwardScratch<T, Decay> scratch(arena, s);
  static_cast<void>(scratch);
  return arena.bytes();
}

void backward(const RecurrenceShape& s, const RecurrenceBuffers& buffers,
              const RecurrenceGradients& grads, void* memory, int64_t piece) {
  visit_chunk(s, [&](auto tag) { run(tag, s, buffers, grads, memory, piece); });
}
uint64_t backward_scratch(const RecurrenceShape& s) {
  uint64_t count = 0;
  visit_chunk(s, [&](auto tag) { count = bytes(tag, s); });
  return count;
}

}  // namespace
}  // namespace recurrences::cpu

namespace recurrences {

const RecurrenceBackwardKernels RecurrenceBackwardKernels::MNEME_INSTRUCTION_SET = {
    &cpu::backward_scratch, &cpu::backward};

}  // namespace recurrences

#include "mneme_kernels/cpu/end.inl"
