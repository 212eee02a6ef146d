// Bias, activation and dropout, and masks of dropout, on CUDA (rows.hpp has the equations). One
// pass over the rows, in the backward pass a second kernel for the gradient of the bias. No
// allocation, no synchronisation, the same launches for the same shapes, the same bits for the same
// inputs.
//
//   Shapes         x [rows,inputs], out [rows,width]; inputs = width, of two halves 2 width
//   Presumptions   blocks < 2^31
//   Decomposition  a thread has 8 columns of every row of a strip, and their sums; a block up to
//                  1,024 columns. The second kernel adds the strips' sums, 32 columns a block
//   Shared memory  none; of the second kernel 2 KiB (f64: 4 KiB)
//   Bytes          each input is read once and each result written once; of sums, 8 (f64: 16) a
//                  strip and column
#include <cstdint>
#include <type_traits>

#include "host/kernel/cuda/rows.cuh"

namespace mneme::kernel::rows {

constexpr int kTileThreads = 128;
constexpr int kTileColumns = kTileThreads * kGroup;
constexpr int kMaskThreads = 256;

// f(x) and f'(x).
template <typename S>
struct Activated {
  S value;
  S slope;
};

template <typename S>
__device__ Activated<S> activated(Activation function, S x) {
  switch (function) {
    case Activation::kRelu:
      return x > S(0) ? Activated<S>{x, S(1)} : Activated<S>{S(0), S(0)};
    case Activation::kRelu2:
      return x > S(0) ? Activated<S>{x * x, S(2) * x} : Activated<S>{S(0), S(0)};
    case Activation::kGelu: {
      const S below = S(0.5) * (S(1) + error_function(x * S(0.70710678118654752440)));
      const S density = S(0.39894228040143267794) * exponential(S(-0.5) * x * x);
      return {x * below, below + x * density};
    }
    case Activation::kGeluTanh:
    case Activation::kGeglu: {
      const S k = S(0.79788456080286535588);
      const S t = hyperbolic_tangent(k * (x + S(0.044715) * x * x * x));
      const S slope = (S(1) - t * t) * k * (S(1) + S(3 * 0.044715) * x * x);
      return {S(0.5) * x * (S(1) + t), S(0.5) * (S(1) + t) + S(0.5) * x * slope};
    }
    case Activation::kSwiglu:
      break;
  }
  const S gate = S(1) / (S(1) + exponential(-x));
  return {x * gate, gate + x * gate * (S(1) - gate)};
}

struct TilePlace {
  std::int64_t first_row;
  std::int64_t end_row;
  std::int64_t column;
  std::int64_t strip;
  int count;
};

struct ActivationTask {
  ActivationRows a;
  std::int64_t inputs;
  std::int64_t tiles;
  Strips strips;
};

__device__ inline TilePlace tile_place(const ActivationTask& t) {
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.x) % t.tiles;
  TilePlace p;
  p.strip = static_cast<std::int64_t>(blockIdx.x) / t.tiles;
  p.first_row = p.strip * t.strips.rows;
  p.end_row = end_of_strip(t.strips, p.strip, t.a.rows);
  p.column = tile * kTileColumns + static_cast<std::int64_t>(threadIdx.x) * kGroup;
  p.count = entries_of_group(t.a.width, p.column);
  return p;
}

// A group of x + bias.
template <typename S>
__device__ void load_inputs(const ActivationTask& t, std::int64_t row, std::int64_t column,
                            int count, const S (&bias)[kGroup], S (&to)[kGroup]) {
  load(t.a.x, t.a.element, row * t.inputs + column, count, to);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) to[i] += bias[i];
}

template <typename S, bool is_gated>
__global__ void __launch_bounds__(kTileThreads) activate_kernel(ActivationTask t, void* out) {
  const ActivationRows& a = t.a;
  const TilePlace p = tile_place(t);
  if (p.count == 0) return;
  S bias[kGroup];
  S up_bias[kGroup];
  load_sums(a.bias, p.column, p.count, bias);
  if constexpr (is_gated) load_sums(a.bias, a.width + p.column, p.count, up_bias);
  for (std::int64_t row = p.first_row; row < p.end_row; ++row) {
    S values[kGroup];
    load_inputs(t, row, p.column, p.count, bias, values);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) values[i] = activated(a.function, values[i]).value;
    if constexpr (is_gated) {
      S up[kGroup];
      load_inputs(t, row, a.width + p.column, p.count, up_bias, up);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) values[i] *= up[i];
    }
    drop(a.dropout, row * a.width + p.column, values);
    store(out, a.element, row * a.width + p.column, p.count, values);
  }
}

template <typename S, bool is_gated>
__global__ void __launch_bounds__(kTileThreads)
    activate_backward_kernel(ActivationTask t, ActivationGradients g, S* sums) {
  const ActivationRows& a = t.a;
  const TilePlace p = tile_place(t);
  if (p.count == 0) return;
  S bias[kGroup];
  S up_bias[kGroup];
  S sum[kGroup] = {};
  S up_sum[kGroup] = {};
  load_sums(a.bias, p.column, p.count, bias);
  if constexpr (is_gated) load_sums(a.bias, a.width + p.column, p.count, up_bias);
  for (std::int64_t row = p.first_row; row < p.end_row; ++row) {
    const std::int64_t from = row * t.inputs + p.column;
    S grad[kGroup];
    S x[kGroup];
    load(g.out, a.element, row * a.width + p.column, p.count, grad);
    drop(a.dropout, row * a.width + p.column, grad);
    load_inputs(t, row, p.column, p.count, bias, x);
    if constexpr (is_gated) {
      S up[kGroup];
      load_inputs(t, row, a.width + p.column, p.count, up_bias, up);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const Activated<S> f = activated(a.function, x[i]);
        x[i] = grad[i] * f.slope * up[i];
        up[i] = grad[i] * f.value;
        sum[i] += x[i];
        up_sum[i] += up[i];
      }
      store(g.x, a.element, from + a.width, p.count, up);
    } else {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        x[i] = grad[i] * activated(a.function, x[i]).slope;
        sum[i] += x[i];
      }
    }
    store(g.x, a.element, from, p.count, x);
  }
  if (g.bias == nullptr) return;
  S* const to = sums + p.strip * t.inputs + p.column;
  store_to(to, p.count, sum);
  if constexpr (is_gated) store_to(to + a.width, p.count, up_sum);
}

// A thread has kGroup entries that follow one another.
template <typename Bits>
__global__ void __launch_bounds__(kMaskThreads) mask_kernel(MaskRows m) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * kMaskThreads + threadIdx.x) * kGroup;
  const int count = entries_of_group(m.entries, first);
  if (count == 0) return;
  const std::int64_t place = first % m.length;
  const std::int64_t word = first / m.length * m.stride + place;
  unsigned kept = 0;
  if (place + count <= m.length) {
    kept = kept_words<kGroup>(m.dropout, m.dropout.first + static_cast<std::uint64_t>(word));
  } else {
    for (int i = 0; i < count; ++i) {
      const std::int64_t entry = first + i;
      const std::int64_t of_entry = entry / m.length * m.stride + entry % m.length;
      const unsigned bits =
          kept_words<kGroup>(m.dropout, m.dropout.first + static_cast<std::uint64_t>(of_entry));
      kept |= (bits & 1U) << i;
    }
  }
  const Bits bits = static_cast<Bits>(m.kept);
  Bits* const to = static_cast<Bits*>(m.out) + first;
  constexpr int kPack = 16 / sizeof(Bits);
  if (count == kGroup && is_aligned(to)) {
#pragma unroll
    for (int i = 0; i < kGroup; i += kPack) {
      Packed<Bits> pack;
#pragma unroll
      for (int j = 0; j < kPack; ++j) pack.at[j] = (kept >> (i + j) & 1U) != 0 ? bits : Bits(0);
      write_pack(pack, to + i);
    }
    return;
  }
  for (int i = 0; i < count; ++i) to[i] = (kept >> i & 1U) != 0 ? bits : Bits(0);
}

ActivationTask task_of(const ActivationRows& a) {
  ActivationTask t = {a, a.inputs(), tiles_of(a.width, kTileColumns), {}};
  t.strips = strips_of(a.rows, t.tiles);
  return t;
}

// launch(S{}, is_gated) for the types of the rows.
template <typename Launch>
cudaError_t with_types(const ActivationRows& a, const Launch& launch) {
  const bool has_gate = is_gated(a.function);
  if (a.element == Element::kF64) {
    return has_gate ? launch(double{}, std::true_type{}) : launch(double{}, std::false_type{});
  }
  return has_gate ? launch(float{}, std::true_type{}) : launch(float{}, std::false_type{});
}

const char* activate(const ActivationRows& a, void* out, void* stream) {
  if (a.width == 0) return nullptr;
  const ActivationTask t = task_of(a);
  return message_of(with_types(a, [&](auto sum, auto is_gated) {
    return launch(t.tiles * t.strips.count, threads_of(a.width, kTileThreads),
                  static_cast<cudaStream_t>(stream), activate_kernel<decltype(sum), is_gated()>, t,
                  out);
  }));
}

const char* activate_backward(const ActivationRows& a, const ActivationGradients& g,
                              void* workspace, void* stream) {
  if (a.width == 0) return nullptr;
  const ActivationTask t = task_of(a);
  return message_of(with_types(a, [&](auto sum, auto is_gated) {
    using S = decltype(sum);
    const auto own = static_cast<cudaStream_t>(stream);
    S* const sums = static_cast<S*>(workspace);
    const cudaError_t status = launch(t.tiles * t.strips.count, threads_of(a.width, kTileThreads),
                                      own, activate_backward_kernel<S, is_gated()>, t, g, sums);
    if (status != cudaSuccess || g.bias == nullptr) return status;
    return launch_sum_strips<S>(
        {sums, t.strips.count, t.inputs, t.inputs, {g.bias, nullptr, nullptr}}, own);
  }));
}

const char* mask(const MaskRows& m, void* stream) {
  const auto kernel = m.bytes == 2   ? mask_kernel<std::uint16_t>
                      : m.bytes == 4 ? mask_kernel<std::uint32_t>
                                     : mask_kernel<std::uint64_t>;
  return message_of(launch(tiles_of(m.entries, kMaskThreads * kGroup), kMaskThreads,
                           static_cast<cudaStream_t>(stream), kernel, m));
}

}  // namespace mneme::kernel::rows
