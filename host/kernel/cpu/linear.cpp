// Few rows (up to kLinearDotRows): a dot product of each row with each of the weight's rows,
// several at once, so that memory is what limits. More rows: tiles of the weight's rows against
// columns of x, whose numbers are broadcast, so that neither factor is packed.
#include "host/kernel/linear.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// What it is made of:
#include "host/kernel/cpu/prefetch.inl"
#include "mneme_kernels/cpu/elements.inl"
#include "mneme_kernels/cpu/product.inl"
#include "mneme_kernels/cpu/rows.inl"
#include "mneme_kernels/cpu/softmax.inl"

namespace mneme::kernel::cpu {
namespace {

using namespace mneme::cpu;  // NOLINT: all of it has internal linkage

using V = Vec<float>;
constexpr std::int64_t kWide = kLanes<float>;
constexpr auto kNumber = static_cast<std::int64_t>(sizeof(float));
constexpr std::int64_t kDepth = 96;  // of a block of columns of x, which stays in the first cache

static_assert(kWide <= kLinearDotInputs);

bool is_few(const LinearArgs& a) { return a.rows <= kLinearDotRows && a.inputs >= kWide; }

MNEME_INLINE V load_weights(const float* from) { return load(from); }
MNEME_INLINE V load_weights(const BF16* from) {
  typedef std::uint16_t Halves __attribute__((vector_size(2 * kWide)));
  typedef std::uint32_t Words __attribute__((vector_size(4 * kWide)));
  Halves halves;
  __builtin_memcpy(&halves, from, sizeof(halves));
  const Words words = __builtin_convertvector(halves, Words) << 16;
  V out;
  __builtin_memcpy(&out, &words, sizeof(out));
  return out;
}

// Columns of x: an odd number of units apart.
std::int64_t column_row(const LinearArgs& a) { return turned_columns(a.rows); }

std::uint64_t prepared_bytes(const LinearArgs& a) {
  Arena arena(nullptr);
  arena.take<float>(is_few(a) ? a.rows * round_up(a.inputs, kWide) : a.inputs * column_row(a));
  return arena.bytes();
}

// Few: rows of whole vectors, the last of which begins `kWide` before the end of the weight's rows
// and has zeros where the vector before it has been. More: columns.
void prepare(const LinearArgs& a, void* prepared, std::int64_t begin, std::int64_t end) {
  float* to = Arena(prepared).take<float>(0);
  if (!is_few(a)) {
    const std::int64_t row = column_row(a);
    turn_rows(a.x + begin, a.x_row, a.rows, end - begin, to + begin * row, row);
    for (std::int64_t j = begin; j < end; ++j) fill_columns(to + j * row, a.rows, row, 0.0F);
    return;
  }
  if (begin > 0) return;
  const std::int64_t padded = round_up(a.inputs, kWide), rest = a.inputs % kWide;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* from = a.x + r * a.x_row;
    float* row = to + r * padded;
    copy_row(from, a.inputs - rest, row);
    if (rest == 0) continue;
    clear(row + padded - kWide, kWide - rest);
    __builtin_memcpy(row + padded - rest, from + a.inputs - rest,
                     static_cast<std::uint64_t>(rest) * sizeof(float));
  }
}

// Outputs first .. first + count - 1 of all rows.
template <int count, int rows, typename W>
MNEME_INLINE void dots(const LinearArgs& a, const W* weight_rows, const float* x,
                       std::int64_t first) {
  const std::int64_t padded = round_up(a.inputs, kWide);
  const W* w = weight_rows + first * a.w_row;
  V sums[count][rows] = {};
  const auto add = [&](std::int64_t of_w, std::int64_t of_x) __attribute__((always_inline)) {
    V factor[rows];
    MNEME_UNROLL for (int r = 0; r < rows; ++r) factor[r] = load(x + r * padded + of_x);
    MNEME_UNROLL for (int o = 0; o < count; ++o) {
      const V weight = load_weights(w + o * a.w_row + of_w);
      MNEME_UNROLL for (int r = 0; r < rows; ++r) sums[o][r] += weight * factor[r];
    }
  };
  const std::int64_t whole = a.inputs / kWide * kWide;
  for (std::int64_t k = 0; k < whole; k += kWide) add(k, k);
  if (whole < a.inputs) add(a.inputs - kWide, whole);
  for (int o = 0; o < count; ++o) {
    const float shift = a.bias == nullptr ? 0.0F : a.bias[first + o];
    for (int r = 0; r < rows; ++r) {
      a.y[r * a.y_row + first + o] = sum_of<float>(sums[o][r]) + shift;
    }
  }
}

// As many of the weight's rows at once as sums fit into registers.
#ifdef MNEME_USE_AVX512
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif

template <int rows, typename W>
void multiply_few(const LinearArgs& a, const W* w, const float* x, std::int64_t begin,
                  std::int64_t end) {
  constexpr int kSums = (kRegisters - rows - 1) / rows;  // beside the factors and a weight
  constexpr int kAtOnce = kSums > 8 ? 8 : kSums < 1 ? 1 : kSums;
  std::int64_t o = begin;
  for (; o + kAtOnce <= end; o += kAtOnce) dots<kAtOnce, rows>(a, w, x, o);
  for (; o < end; ++o) dots<1, rows>(a, w, x, o);
}

constexpr std::int64_t kPanel = kMaxColumns * kWide;  // rows of x at once
constexpr std::int64_t kOutputs = 48;                 // outputs for which a block of x is read once

// A tile [rows of the weight, columns * kWide rows of x] of sums, `depth` inputs deep. Meanwhile
// two kinds of memory are prefetched, because the product would wait for them: the rows of the
// weight from `next` on, each of which is used once, and the memory that will be `written`.
template <int rows, int columns>
MNEME_INLINE void add_tile(const LinearArgs& a, const float* w, const float* x, std::int64_t depth,
                           float* sums, bool is_first, const float* next, Prefetch& written) {
  static_assert(kBetween * kNumber == 64, "a line of the cache at a time");
  const auto ask = [&]() __attribute__((always_inline)) {
    MNEME_UNROLL for (int i = 0; i < rows; ++i) __builtin_prefetch(next + i * a.w_row);
    next += kBetween;
    written.some();
  };
  multiply_registers<rows, columns>(
      Product<float>{w, a.w_row, 1, x, column_row(a), sums, kPanel, rows, columns, depth, is_first},
      w, x, sums, ask);
}

// As many whole tiles of `rows` as there are; returns the first row behind them.
template <int rows, int columns>
MNEME_INLINE std::int64_t add_tiles(const LinearArgs& a, const float* w, std::int64_t from,
                                    std::int64_t count, const float* x, std::int64_t depth,
                                    float* sums, bool is_first, const float* after,
                                    Prefetch& written) {
  std::int64_t o = from;
  for (; o + rows <= count; o += rows) {
    const float* next = o + rows < count ? w + (o + rows) * a.w_row : after;
    add_tile<rows, columns>(a, w + o * a.w_row, x, depth, sums + o * kPanel, is_first, next,
                            written);
  }
  return o;
}

template <int columns>
void add_rows(const LinearArgs& a, const float* w, std::int64_t count, const float* x,
              std::int64_t depth, float* sums, bool is_first, const float* after,
              Prefetch& written) {
  std::int64_t o = add_tiles<kRowsOf<columns>, columns>(a, w, 0, count, x, depth, sums, is_first,
                                                        after, written);
  o = add_tiles<2, columns>(a, w, o, count, x, depth, sums, is_first, after, written);
  add_tiles<1, columns>(a, w, o, count, x, depth, sums, is_first, after, written);
}

// Sums [count, kPanel] of the weight's rows from `first` on with `vectors` vectors of x's rows.
void sum_panel(const LinearArgs& a, const float* x, std::int64_t first, std::int64_t count,
               std::int64_t vectors, float* sums, Prefetch& written) {
  for (std::int64_t k = 0; k < a.inputs; k += kDepth) {
    const float* w = a.w + first * a.w_row + k;
    const float* columns = x + k * column_row(a);
    const std::int64_t depth = smaller(kDepth, a.inputs - k);
    const float* after = k + depth < a.inputs ? w + depth : w + count * a.w_row - k;
    switch (vectors) {
#ifdef MNEME_USE_AVX512
      case 4:
        add_rows<4>(a, w, count, columns, depth, sums, k == 0, after, written);
        break;
      case 3:
        add_rows<3>(a, w, count, columns, depth, sums, k == 0, after, written);
        break;
#endif
      case 2:
        add_rows<2>(a, w, count, columns, depth, sums, k == 0, after, written);
        break;
      default:
        add_rows<1>(a, w, count, columns, depth, sums, k == 0, after, written);
    }
  }
}

void multiply_many(const LinearArgs& a, const float* x, std::int64_t begin, std::int64_t end) {
  alignas(64) float sums[kOutputs * kPanel] = {};  // 0 without inputs
  const std::int64_t count = end - begin;
  const std::int64_t vectors = divide_up(a.rows, kWide), panels = divide_up(vectors, kMaxColumns);
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t first = panel * vectors / panels, last = (panel + 1) * vectors / panels;
    const std::int64_t row = first * kWide, rows = smaller(last * kWide, a.rows) - row;
    float* y = a.y + row * a.y_row + begin;
    Prefetch written;
    written.add(y, count * kNumber, a.y_row * kNumber, rows);
    written.spread(count / kRowsOf<kMaxColumns> * (a.inputs / kBetween));
    sum_panel(a, x + row, begin, count, last - first, sums, written);
    if (a.bias != nullptr) {
      for (std::int64_t o = 0; o < count; ++o) {
        const V shift = splat(a.bias[begin + o]);
        for (std::int64_t r = 0; r < rows; r += kWide) {
          store(sums + o * kPanel + r, load(sums + o * kPanel + r) + shift);
        }
      }
    }
    turn_rows(sums, kPanel, count, rows, y, a.y_row);
  }
}

template <typename W>
void multiply_few(const LinearArgs& a, const W* w, const float* x, std::int64_t begin,
                  std::int64_t end) {
  switch (a.rows) {
    case 1:
      return multiply_few<1>(a, w, x, begin, end);
    case 2:
      return multiply_few<2>(a, w, x, begin, end);
    case 3:
      return multiply_few<3>(a, w, x, begin, end);
    default:
      return multiply_few<kLinearDotRows>(a, w, x, begin, end);
  }
}

void multiply(const LinearArgs& a, const void* prepared, std::int64_t begin, std::int64_t end) {
  const float* x = Arena(const_cast<void*>(prepared)).take<float>(0);
  if (!is_few(a)) {
    for (; begin < end; begin += kOutputs) {
      multiply_many(a, x, begin, smaller(begin + kOutputs, end));
    }
    return;
  }
  if (a.w != nullptr) return multiply_few(a, a.w, x, begin, end);
  multiply_few(a, reinterpret_cast<const BF16*>(a.w_bf16), x, begin, end);
}

}  // namespace
}  // namespace mneme::kernel::cpu

namespace mneme::kernel {

const LinearKernels LinearKernels::MNEME_INSTRUCTION_SET = {&cpu::prepared_bytes, &cpu::prepare,
                                                            &cpu::multiply};

}  // namespace mneme::kernel

#include "mneme_kernels/cpu/end.inl"
