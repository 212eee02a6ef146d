// A row is read twice, the second time from a cache: for its largest number, and for the sum.
#include "host/kernel/logits.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// What it is made of:
#include "mneme_kernels/cpu/rows.inl"
#include "mneme_kernels/cpu/softmax.inl"

namespace mneme::kernel::cpu {
namespace {

using namespace mneme::cpu;  // NOLINT: all of it has internal linkage

constexpr std::int64_t kAtOnce = 4;    // vectors, each with a sum or maximum of its own
constexpr std::int64_t kOfSum = 4096;  // numbers that one sum in T adds up

// Calls each(i, vector i of kAtOnce), the last ones filled up with -infinity.
template <typename T, typename Each>
MNEME_INLINE void for_each_vector(const T* x, std::int64_t count, const Each& each) {
  std::int64_t c = 0;
  for (; c + kAtOnce * kLanes<T> <= count; c += kAtOnce * kLanes<T>) {
    MNEME_UNROLL for (int i = 0; i < kAtOnce; ++i) each(i, load(x + c + i * kLanes<T>));
  }
  for (; c < count; c += kLanes<T>) {
    Vec<T> rest = splat(static_cast<T>(-__builtin_inff()));
    const std::int64_t n = smaller(kLanes<T>, count - c);
    __builtin_memcpy(&rest, x + c, static_cast<std::uint64_t>(n) * sizeof(T));
    each(0, rest);
  }
}

template <typename T>
struct Largest {
  T value;
  bool has_nan;
};
template <typename T>
Largest<T> largest(const T* x, std::int64_t count) {
  Vec<T> top[kAtOnce], unordered[kAtOnce];
  MNEME_UNROLL for (int i = 0; i < kAtOnce; ++i) {
    top[i] = splat(static_cast<T>(-__builtin_inff()));
    unordered[i] = Vec<T>{};
  }
  for_each_vector(
      x, count, [&](int i, Vec<T> v) __attribute__((always_inline)) {
        top[i] = top[i] < v ? v : top[i];
        unordered[i] = v == v ? unordered[i] : splat(T{1});
      });
  for (int i = 1; i < kAtOnce; ++i) {
    top[0] = top[0] < top[i] ? top[i] : top[0];
    unordered[0] += unordered[i];
  }
  return {largest_of<T>(top[0]), sum_of<T>(unordered[0]) != T{0}};
}

template <typename T>
double sum_of_powers(const T* x, std::int64_t count, T top) {
  const Vec<T> factor = splat(kLog2E<T>), shift = splat(top);
  double total = 0.0;
  for (std::int64_t c = 0; c < count; c += kOfSum) {
    Vec<T> sum[kAtOnce] = {};
    for_each_vector(
        x + c, smaller(kOfSum, count - c), [&](int i, Vec<T> v) __attribute__((always_inline)) {
          sum[i] += power<T>((v - shift) * factor);
        });
    for (int i = 1; i < kAtOnce; ++i) sum[0] += sum[i];
    total += static_cast<double>(sum_of<T>(sum[0]));
  }
  return total;
}

template <typename T>
std::int64_t first_place(const T* x, const Largest<T>& top) {
  std::int64_t place = 0;
  while (top.has_nan ? x[place] == x[place] : x[place] != top.value) ++place;
  return place;
}

template <typename T>
T log_sum_of(const T* x, std::int64_t count, const Largest<T>& top) {
  const T infinity = __builtin_inff();
  if (top.has_nan) return __builtin_nanf("");
  if (top.value == infinity || top.value == -infinity) return top.value;
  return static_cast<T>(static_cast<double>(top.value) +
                        logarithm(sum_of_powers(x, count, top.value)));
}

template <typename T>
void summarize(const LogitRows<T>& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = a.logits + r * a.row;
    const Largest<T> top = largest(x, a.ids);
    if (a.log_sum != nullptr) a.log_sum[r] = log_sum_of(x, a.ids, top);
    if (a.best == nullptr) continue;
    a.best[r] = first_place(x, top);
    a.highest[r] = x[a.best[r]];
  }
}

}  // namespace
}  // namespace mneme::kernel::cpu

namespace mneme::kernel {

const LogitKernels LogitKernels::MNEME_INSTRUCTION_SET = {&cpu::summarize<float>,
                                                          &cpu::summarize<double>};

}  // namespace mneme::kernel

#include "mneme_kernels/cpu/end.inl"
