// The recurrence on the CPU, forward: one head of one lane a piece, chunk by chunk.
#include "kernels/recurrence.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// What both passes share:
#include "kernels/cpu/chunk.inl"

namespace recurrences::cpu {
namespace {

constexpr int64_t kSteps = 4;  // so few tokens are worked on one by one

// S' = diag(exp(G_C)) S + (k exp(G_C - G))^T U.
template <typename T, typename Decay>
void advance(const Chunk<T, Decay>& c) {
  for (int64_t i = 0; i < c.e.keys; ++i) {
    T* row = c.state + i * c.e.value_row;
    times(row, c.decay.whole_of(i), c.e.value_row, row);
  }
  product<T>(c.k_end, 1, c.e.key_row, c.values_of(c.u), c.state_rows(), c.e.keys, c.e.value_row,
             c.n, false);
}

template <typename T, typename Decay>
void forward_chunks(const RecurrenceShape& s, const RecurrenceBuffers& buffers, const Place& place,
                    T* out, Chunk<T, Decay>& c) {
  T* kept = static_cast<T*>(buffers.kept);
  for (int64_t chunk = 0; chunk < s.chunks(); ++chunk) {
    const int64_t first = chunk * s.chunk;
    if (chunk > 0 && kept != nullptr) put_state(c.e, c.state, kept + place.kept(s, chunk));
    c.begin(s, buffers, place, first, smaller(s.chunk, s.length - first));
    product<T>(c.q_start, c.e.key_row, 1, c.values_of(c.state), {out, c.e.value_row}, c.n,
               c.e.value_row, c.e.keys, true);
    lower_product<T>(c.scores, c.e.score_row, c.values_of(c.u), {out, c.e.value_row}, c.n,
                     c.e.value_row, false);
    put(out, c.e.value_row, c.n, c.e.values, false,
        place.values(s, static_cast<T*>(buffers.out), first));
    advance(c);
  }
}

// One token: the definition itself. `u` [value_row].
template <typename T>
void step(const RecurrenceShape& s, const Extents& e, const RecurrenceBuffers& buffers,
          const Place& place, int64_t token, T* state, T* u, T* out) {
  const auto input = [](const void* data) { return static_cast<const T*>(data); };
  const T* q = place.keys(s, input(buffers.q), token).row(0);
  const T* k = place.keys(s, input(buffers.k), token).row(0);
  const T* decay = place.decays(s, input(buffers.decay), token).row(0);
  fetch_row(place.values(s, input(buffers.v), token).row(0), e.values, e.value_row, u);
  T factors[16];
  for (int64_t i = 0; i < e.keys; ++i) {
    T* row = state + i * e.value_row;
    if (i == 0 || (s.is_by_channel && i % 16 == 0)) {
      for (int64_t c = 0; c < 16; ++c) {
        factors[c] = s.is_by_channel ? (i + c < e.keys ? decay[i + c] : T{0}) : decay[0];
      }
      exponentials(factors, 16, factors);
    }
    times(row, factors[i % 16], e.value_row, row);
    if (s.is_delta) add_times(row, -k[i], e.value_row, u);
  }
  if (s.is_delta) {
    times(u, *place.scalars(s, input(buffers.beta), token).row(0), e.value_row, u);
  }
  fill_columns(out, 0, e.value_row, T{0});
  for (int64_t i = 0; i < e.keys; ++i) {
    T* row = state + i * e.value_row;
    add_times(u, k[i], e.value_row, row);
    add_times(row, q[i], e.value_row, out);
  }
  copy_row(out, e.values, place.values(s, static_cast<T*>(buffers.out), token).row(0));
}

template <typename T, typename Decay>
struct ForwardScratch {
  Chunk<T, Decay> chunk;
  T* out;  // [C, value_row]

  ForwardScratch(Arena& arena, const RecurrenceShape& s)
      : chunk(arena, s), out(take_rows<T>(arena, chunk.e.chunk, chunk.e.value_row)) {}
};

template <typename T, typename Decay>
void forward_piece(const RecurrenceShape& s, const RecurrenceBuffers& buffers, void* memory,
                   int64_t piece) {
  Arena arena(memory);
  ForwardScratch<T, Decay> scratch(arena, s);
  Chunk<T, Decay>& c = scratch.chunk;
  const Place place(s, piece / s.heads, piece % s.heads);
  fetch_state(c.e, static_cast<const T*>(buffers.state) + place.state(s), c.state);
  if (s.length <= kSteps && s.length <= s.chunk) {
    for (int64_t t = 0; t < s.length; ++t) {
      step(s, c.e, buffers, place, t, c.state, c.u, scratch.out);
    }
  } else {
    forward_chunks(s, buffers, place, scratch.out, c);
  }
  put_state(c.e, c.state, static_cast<T*>(buffers.last_state) + place.state(s));
}

// Chunk<T, Decay> -> its parts.
template <typename T, typename Decay>
void run(mneme::TypeTag<Chunk<T, Decay>> /*tag*/, const RecurrenceShape& s,
         const RecurrenceBuffers& buffers, void* memory, int64_t piece) {
  forward_piece<T, Decay>(s, buffers, memory, piece);
}
template <typename T, typename Decay>
uint64_t bytes(mneme::TypeTag<Chunk<T, Decay>> /*tag*/, const RecurrenceShape& s) {
  Arena arena(nullptr);
  const ForwardScratch<T, Decay> scratch(arena, s);
  static_cast<void>(scratch);
  return arena.bytes();
}

void forward(const RecurrenceShape& s, const RecurrenceBuffers& buffers, void* memory,
             int64_t piece) {
  visit_chunk(s, [&](auto tag) { run(tag, s, buffers, memory, piece); });
}
uint64_t forward_scratch(const RecurrenceShape& s) {
  uint64_t count = 0;
  visit_chunk(s, [&](auto tag) { count = bytes(tag, s); });
  return count;
}

}  // namespace
}  // namespace recurrences::cpu

namespace recurrences {

const RecurrenceKernels RecurrenceKernels::MNEME_INSTRUCTION_SET = {&cpu::forward_scratch,
                                                                    &cpu::forward};

}  // namespace recurrences

#include "mneme_kernels/cpu/end.inl"
