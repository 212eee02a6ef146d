// What both passes compute of a chunk: scores, and the rows U that are written into the state.
#pragma once

#include "kernels/cpu/decay.inl"

namespace recurrences::cpu {
namespace {

// One head of one lane.
struct Place {
  int64_t lane, head, group;

  Place(const RecurrenceShape& s, int64_t lane_, int64_t head_)
      : lane(lane_), head(head_), group(head_ / s.heads_of_group()) {}
  // Of the state in [B,H,K,V].
  int64_t state(const RecurrenceShape& s) const {
    return (lane * s.heads + head) * s.state_elements();
  }
  // Of the states kept before the chunks from 1 on.
  int64_t kept(const RecurrenceShape& s, int64_t chunk) const {
    return ((lane * s.heads + head) * s.kept() + chunk - 1) * s.state_elements();
  }
  template <typename T>
  TokenRows<T> keys(const RecurrenceShape& s, T* data, int64_t token) const {
    return {data, lane, s.length, s.groups, group, s.key_width, token};
  }
  template <typename T>
  TokenRows<T> values(const RecurrenceShape& s, T* data, int64_t token) const {
    return {data, lane, s.length, s.heads, head, s.value_width, token};
  }
  template <typename T>
  TokenRows<T> scalars(const RecurrenceShape& s, T* data, int64_t token) const {
    return {data, lane, s.length, s.heads, head, 1, token};
  }
  template <typename T>
  TokenRows<T> decays(const RecurrenceShape& s, T* data, int64_t token) const {
    return {data, lane, s.length, s.heads, head, s.decay_width(), token};
  }
};

template <typename T, typename Decay>
struct Chunk {
  Extents e;
  Decay decay;
  bool is_delta;
  int64_t first = 0, n = 0;  // tokens
  T *q, *k;                  // [C, key_row]
  T *q_start, *k_end;        // q exp(G), k exp(G_C - G)
  T* minus_k_start;          // -k exp(G), delta
  T* scores;                 // A [C, score_row]
  T* minus_scores;           // -L [C, score_row], delta
  T* errors;                 // [C, value_row] V - (k exp(G)) S - L U, delta
  T* u;                      // [C, value_row]
  T* beta;                   // [C], delta
  T* state;                  // [K, value_row] S

  Chunk(Arena& arena, const RecurrenceShape& s) : e(s), decay(arena, e), is_delta(s.is_delta) {
    for (T** to : {&q, &k, &q_start, &k_end}) *to = take_rows<T>(arena, e.chunk, e.key_row);
    scores = take_rows<T>(arena, e.chunk, e.score_row);
    u = take_rows<T>(arena, e.chunk, e.value_row);
    state = take_rows<T>(arena, e.keys, e.value_row);
    minus_k_start = is_delta ? take_rows<T>(arena, e.chunk, e.key_row) : nullptr;
    minus_scores = is_delta ? take_rows<T>(arena, e.chunk, e.score_row) : nullptr;
    errors = is_delta ? take_rows<T>(arena, e.chunk, e.value_row) : nullptr;
    beta = is_delta ? arena.take<T>(e.chunk) : nullptr;
  }
  Matrix<T> state_rows() const { return {state, e.value_row}; }
  Matrix<const T> values_of(const T* rows) const { return {rows, e.value_row}; }

  // Reads tokens first .. first + n - 1, makes their scores and U; `state` is that before them.
  void begin(const RecurrenceShape& s, const RecurrenceBuffers& buffers, const Place& place,
             int64_t first_token, int64_t tokens) {
    first = first_token;
    n = tokens;
    const auto input = [](const void* data) { return static_cast<const T*>(data); };
    fetch(place.keys(s, input(buffers.q), first), n, e.keys, e.key_row, q);
    fetch(place.keys(s, input(buffers.k), first), n, e.keys, e.key_row, k);
    decay.prepare(place.decays(s, input(buffers.decay), first), n);
    for (int64_t i = 0; i < n; ++i) {
      decay.from_start(i, q + i * e.key_row, q_start + i * e.key_row);
      decay.to_end(i, k + i * e.key_row, k_end + i * e.key_row);
    }
    decay.set_columns(k);
    decay.scores(q, T{1}, true, scores);
    T* values = is_delta ? errors : u;
    fetch(place.values(s, input(buffers.v), first), n, e.values, e.value_row, values);
    if (is_delta) correct(place.scalars(s, input(buffers.beta), first));
  }

 private:
  // errors, which hold V, and U = diag(beta) errors, row by row within a block.
  void correct(const TokenRows<const T>& betas) {
    decay.scores(k, T{-1}, false, minus_scores);
    for (int64_t i = 0; i < n; ++i) {
      T* row = minus_k_start + i * e.key_row;
      decay.from_start(i, k + i * e.key_row, row);
      times(row, T{-1}, e.key_row, row);
      beta[i] = *betas.row(i);
    }
    product<T>(minus_k_start, e.key_row, 1, values_of(state), {errors, e.value_row}, n, e.value_row,
               e.keys, false);
    for (int64_t block = 0; block < n; block += kBlock) {
      const int64_t last = smaller(n, block + kBlock);
      if (block > 0) {
        product<T>(minus_scores + block * e.score_row, e.score_row, 1, values_of(u),
                   {errors + block * e.value_row, e.value_row}, last - block, e.value_row, block,
                   false);
      }
      for (int64_t i = block; i < last; ++i) {
        T* row = errors + i * e.value_row;
        add_rows(minus_scores + i * e.score_row + block, 1, u + block * e.value_row, i - block,
                 e.value_row, row);
        times(row, beta[i], e.value_row, u + i * e.value_row);
      }
    }
  }

 public:
  // to += sum over rows of factors[row * step] * from[row].
  static void add_rows(const T* factors, int64_t step, const T* from, int64_t rows, int64_t row,
                       T* to) {
    constexpr int64_t kWide = 4;
    int64_t j = 0;
    for (; j + kWide * kLanes<T> <= row; j += kWide * kLanes<T>) {
      Vec<T> sum[kWide];
      MNEME_UNROLL for (int64_t w = 0; w < kWide; ++w) sum[w] = load(to + j + w * kLanes<T>);
      for (int64_t i = 0; i < rows; ++i) {
        const Vec<T> factor = splat(factors[i * step]);
        const T* at = from + i * row + j;
        MNEME_UNROLL for (int64_t w = 0; w < kWide; ++w) sum[w] +=
            factor * load(at + w * kLanes<T>);
      }
      MNEME_UNROLL for (int64_t w = 0; w < kWide; ++w) store(to + j + w * kLanes<T>, sum[w]);
    }
    for (; j < row; j += kLanes<T>) {
      Vec<T> sum = load(to + j);
      for (int64_t i = 0; i < rows; ++i) sum += splat(factors[i * step]) * load(from + i * row + j);
      store(to + j, sum);
    }
  }
};

// Calls body(TypeTag) with the chunk that the shape asks for.
template <typename Body>
void visit_chunk(const RecurrenceShape& s, const Body& body) {
  using mneme::TypeTag;
  if (s.is_f64) {
    s.is_by_channel ? body(TypeTag<Chunk<double, ChannelDecay<double>>>{})
                    : body(TypeTag<Chunk<double, HeadDecay<double>>>{});
  } else {
    s.is_by_channel ? body(TypeTag<Chunk<float, ChannelDecay<float>>>{})
                    : body(TypeTag<Chunk<float, HeadDecay<float>>>{});
  }
}

}  // namespace
}  // namespace recurrences::cpu
