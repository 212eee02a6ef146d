// The next tokens from rows of logits on CUDA (sampling.hpp says which). No allocation, no
// synchronisation, one launch, the same ids for the same inputs.
//
//   Equation       w_i = exp((x_i - max x) / temperature), in units of 2^-40: sums are of integers,
//                  so that they do not depend on their order, and cuts by them agree
//   Shapes         logits [rows,ids] with a row stride; drawn [rows]
//   Presumptions   ids <= SampledRows::kMostIds, rows < 2^31
//   Decomposition  a block has a row. The token at which a count or a sum of the tokens before it
//                  exceeds a target is found digit by digit of its place: the bits of its logit in
//                  descending order, then its id. A pass adds up the tokens of each value of the
//                  next digit, without atomic operations. Top-k, top-p and the draw are one such
//                  search each; nothing is sorted
//   Shared memory  41 KiB
//   Bytes          the logits once for each digit, of which all but the first come from caches
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "host/kernel/sampling.hpp"
#include "mneme_kernels/cuda/launch.hpp"
#include "mneme_kernels/cuda/tiles.cuh"

namespace mneme::kernel {
namespace {

using namespace mneme::cuda;  // NOLINT

constexpr double kLog2E = 1.4426950408889634074;
constexpr double kUnits = 1099511627776.0;  // 2^40, the weight of the likeliest token
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kDigitBits = 4;
constexpr int kDigits = 1 << kDigitBits;  // values of a digit
constexpr int kAtOnce = 4;                // logits that a thread reads before it uses them

using Mass = unsigned long long;  // a sum of weights

// Where a token is in the order: a larger logit comes first, of equal ones a lower id.
struct Place {
  std::uint64_t key;
  std::uint32_t id;
};

__device__ std::uint64_t key_of(float logit) {
  const float x = logit + 0.0F;  // -0 is 0
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return (bits >> 31) != 0U ? ~bits : bits | 0x80000000U;
}
__device__ std::uint64_t key_of(double logit) {
  const double x = logit + 0.0;
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return (bits >> 63) != 0U ? ~bits : bits | 0x8000000000000000U;
}

template <typename T>
constexpr T kLeast = -FLT_MAX;
template <>
constexpr double kLeast<double> = -DBL_MAX;

// A row, and which of its tokens are left.
template <typename T, typename E>
struct Row {
  static constexpr int kKeyBits = 8 * static_cast<int>(sizeof(E));
  static constexpr int kSpareBits = 8 * static_cast<int>(sizeof(T)) - kKeyBits;  // equal in all

  const E* logits;
  std::int64_t ids;
  T top;     // the largest logit
  T factor;  // of differences of logits
  double min_p;
  bool has_cut;
  Place cut;  // with has_cut: the last one that is left

  __device__ std::uint64_t key(T logit) const { return key_of(logit) >> kSpareBits; }
  __device__ T weight(T logit) const {
    const T difference = logit - top;
    if (difference == T(0)) return T(1);  // the factor may be infinite
    return power_of_two((difference < kLeast<T> ? kLeast<T> : difference) * factor);
  }
  __device__ Mass mass(T logit) const {
    return static_cast<Mass>(weight(logit) * static_cast<T>(kUnits));
  }
  __device__ bool has(std::uint32_t id, T logit) const {
    if (has_cut) {
      const std::uint64_t own = key(logit);
      if (own < cut.key || (own == cut.key && id > cut.id)) return false;
    }
    return min_p == 0.0 || static_cast<double>(weight(logit)) >= min_p;
  }
};

// Calls body(id, logit) with each of the thread's logits.
template <typename T, typename E, typename Body>
__device__ void for_own(const Row<T, E>& row, const Body& body) {
  for (std::int64_t first = threadIdx.x; first < row.ids; first += kAtOnce * kThreads) {
    T logits[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t id = first + i * kThreads;
      logits[i] = id < row.ids ? static_cast<T>(widen(row.logits[id])) : T(0);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t id = first + i * kThreads;
      if (id < row.ids) body(static_cast<std::uint32_t>(id), logits[i]);
    }
  }
}

template <typename T>
struct Best {
  T logit;
  std::uint32_t id;
  bool is_finite;  // all of them

  __device__ void join(const Best& other) {
    if (other.logit > logit || (other.logit == logit && other.id < id)) {
      logit = other.logit;
      id = other.id;
    }
    is_finite = is_finite && other.is_finite;
  }
};

template <typename T>
struct Room {
  Mass masses[kDigits][kThreads];
  std::uint16_t counts[kDigits][kThreads];
  Mass mass[kDigits];
  Mass count[kDigits];
  Best<T> best[kWarps];
  Place found;
};

__device__ Mass sum_of_warp(Mass value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(~0U, value, step);
  return value;
}

// The likeliest token.
template <typename T, typename E>
__device__ Best<T> likeliest(const Row<T, E>& row, Room<T>& room) {
  Best<T> best = {T(-INFINITY), UINT32_MAX, true};
  for_own(row, [&](std::uint32_t id, T logit) {
    best.join({logit, id, logit >= kLeast<T> && logit <= -kLeast<T>});
  });
  for (int step = kWarp / 2; step > 0; step /= 2) {
    Best<T> other;
    other.logit = __shfl_xor_sync(~0U, best.logit, step);
    other.id = __shfl_xor_sync(~0U, best.id, step);
    other.is_finite = __shfl_xor_sync(~0U, static_cast<int>(best.is_finite), step) != 0;
    best.join(other);
  }
  if (threadIdx.x % kWarp == 0) room.best[threadIdx.x / kWarp] = best;
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp) best.join(room.best[warp]);
  return best;
}

// The weight of all that are left.
template <typename T, typename E>
__device__ Mass total_of(const Row<T, E>& row, Room<T>& room) {
  Mass sum = 0;
  for_own(row, [&](std::uint32_t id, T logit) {
    if (row.has(id, logit)) sum += row.mass(logit);
  });
  sum = sum_of_warp(sum);
  __syncthreads();  // all have read the last search's bins
  if (threadIdx.x % kWarp == 0) room.mass[threadIdx.x / kWarp] = sum;
  __syncthreads();
  sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) sum += room.mass[warp];
  return sum;
}

// The first digits of a place: of the key, then of the id turned round, so that all descend.
struct Prefix {
  Place place;
  int key_digits, id_digits;  // of a whole place
  int known;

  // Whether a token has these digits; then its next one.
  __device__ bool leads_to(std::uint64_t key, std::uint32_t id, int* next) const {
    if (known < key_digits) {
      const std::uint64_t rest = key >> (kDigitBits * (key_digits - 1 - known));
      *next = static_cast<int>(rest % kDigits);
      return rest / kDigits == place.key;
    }
    if (key_digits > 0 && key != place.key) return false;
    const std::uint32_t rest = id >> (kDigitBits * (key_digits + id_digits - 1 - known));
    *next = kDigits - 1 - static_cast<int>(rest % kDigits);
    return rest / kDigits == place.id;
  }
  __device__ void add(int digit) {
    if (known++ < key_digits) {
      place.key = place.key * kDigits + static_cast<std::uint64_t>(digit);
    } else {
      place.id = place.id * kDigits + static_cast<std::uint32_t>(kDigits - 1 - digit);
    }
  }
  __device__ bool is_whole() const { return known == key_digits + id_digits; }
};

// Sums and numbers of the tokens for each value of the digit behind `prefix`, into room.mass and
// room.count.
template <typename T, typename E>
__device__ void fill_bins(const Row<T, E>& row, const Prefix& prefix, Room<T>& room) {
  for (int digit = 0; digit < kDigits; ++digit) {
    room.masses[digit][threadIdx.x] = 0;
    room.counts[digit][threadIdx.x] = 0;
  }
  for_own(row, [&](std::uint32_t id, T logit) {
    int digit = 0;
    if (!prefix.leads_to(row.key(logit), id, &digit) || !row.has(id, logit)) return;
    room.masses[digit][threadIdx.x] += row.mass(logit);
    ++room.counts[digit][threadIdx.x];
  });
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int digit = static_cast<int>(threadIdx.x) / kWarp; digit < kDigits; digit += kWarps) {
    Mass mass = 0;
    Mass count = 0;
    for (int i = lane; i < kThreads; i += kWarp) {
      mass += room.masses[digit][i];
      count += room.counts[digit][i];
    }
    mass = sum_of_warp(mass);
    count = sum_of_warp(count);
    if (lane == 0) {
      room.mass[digit] = mass;
      room.count[digit] = count;
    }
  }
  __syncthreads();
}

struct Found {
  Place place;
  Mass mass;  // of it and all before it
};

// The first token, in the order of places or, without key digits, of ids, at which the count or the
// weight of those so far is above `target`, which is less than that of all.
template <typename T, typename E>
__device__ Found search(const Row<T, E>& row, Prefix prefix, bool counts, Mass target,
                        Room<T>& room) {
  Mass mass = 0;
  Mass count = 0;
  while (true) {
    fill_bins(row, prefix, room);
    int digit = kDigits - 1;
    for (; digit > 0; --digit) {
      if ((counts ? count + room.count[digit] : mass + room.mass[digit]) > target) break;
      mass += room.mass[digit];
      count += room.count[digit];
    }
    prefix.add(digit);
    if (prefix.is_whole()) return {prefix.place, mass + room.mass[digit]};
    if (room.count[digit] == 1) {
      mass += room.mass[digit];
      break;
    }
  }
  for_own(row, [&](std::uint32_t id, T logit) {
    int digit = 0;
    const std::uint64_t key = row.key(logit);
    if (prefix.leads_to(key, id, &digit) && row.has(id, logit)) room.found = {key, id};
  });
  __syncthreads();
  const Found found = {room.found, mass};
  __syncthreads();  // all have read it
  return found;
}

struct Rule {
  Sampling sampling;
  int id_digits;
};

__device__ Mass part_of(double share, Mass total) {
  const auto part = static_cast<Mass>(share * static_cast<double>(total));
  return part < total ? part : total - 1;
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads)
    draw_kernel(SampledRows rows, Rule rule, std::int64_t* drawn) {
  __shared__ Room<T> room;
  const std::int64_t index = blockIdx.x;
  const Sampling& s = rule.sampling;
  Row<T, E> row = {};
  row.logits = static_cast<const E*>(rows.logits) + index * rows.stride;
  row.ids = rows.ids;
  row.factor = static_cast<T>(kLog2E / s.temperature);
  const Best<T> best = likeliest(row, room);
  if (s.is_greedy || !best.is_finite) {
    if (threadIdx.x == 0) drawn[index] = best.is_finite ? static_cast<std::int64_t>(best.id) : -1;
    return;
  }
  row.top = best.logit;
  const Prefix by_place = {{0, 0}, Row<T, E>::kKeyBits / kDigitBits, rule.id_digits, 0};
  const auto cut_at = [&](const Found& found) {
    row.has_cut = true;
    row.cut = found.place;
    return found.mass;
  };
  const bool has_k = s.top_k > 0 && s.top_k < rows.ids;
  Mass total = has_k ? cut_at(search(row, by_place, true, static_cast<Mass>(s.top_k) - 1, room))
                     : total_of(row, room);
  if (s.top_p < 1.0) {
    total = cut_at(search(row, by_place, false, part_of(s.top_p, total), room));
  }
  if (s.min_p > 0.0) {
    row.min_p = s.min_p;
    total = total_of(row, room);
  }
  Prefix order = by_place;
  if (!row.has_cut) order.key_digits = 0;
  const Found found = search(row, order, false, part_of(rows.uniform[index], total), room);
  if (threadIdx.x == 0) drawn[index] = static_cast<std::int64_t>(found.place.id);
}

const char* draw_on_cuda(const SampledRows& rows, const Sampling& sampling, std::int64_t* drawn,
                         void* to) {
  const auto stream = static_cast<cudaStream_t>(to);
  if (rows.ids < 1 || rows.ids > SampledRows::kMostIds) {
    return cudaGetErrorString(cudaErrorInvalidValue);
  }
  Rule rule = {sampling, 1};
  while (rows.ids > std::int64_t{1} << (kDigitBits * rule.id_digits)) ++rule.id_digits;
  const auto run = [&](auto kernel) {
    return launch(rows.rows, kThreads, stream, kernel, rows, rule, drawn);
  };
  const cudaError_t status = rows.element == Element::kF64 ? run(draw_kernel<double, double>)
                             : rows.element == Element::kF32
                                 ? run(draw_kernel<float, float>)
                                 : run(draw_kernel<float, __nv_bfloat16>);
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

}  // namespace

const SamplingKernels* SamplingKernels::for_cuda() {
  static constexpr SamplingKernels all = {draw_on_cuda};
  return &all;
}

}  // namespace mneme::kernel
