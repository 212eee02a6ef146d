// The expectation's two backward kernels. r is computed where it is used, in both.
//
//   Equation       dr_n = dctx . V_n;  dmu = -sum_n dr_n r_n dm / v_n;
//                  ds2 = sum_n dr_n r_n (dm^2 / v_n - 1) / (2 v_n);  dV_n = sum_q r_n dctx
//                  with dm = mu - mu_n, v_n = sigma_n^2 + s2
//   Shapes         mu, s2, dmu, ds2, order [B,H,T]; V, dV [B,N,H,d]; dctx [B,T,H,d]
//   Presumptions   T, N / W < 2^31; B * H * ceil(T / 64) and B * H * W * ceil(N / W / 64) *
//                  ceil(d / 64) < 2^31
//   Decomposition  densities: a block has 64 queries of one head, neighbours in `order`; width by
//                  width, 64 functions at a time, a 64 x 64 piece of dr is summed over columns, 4 x
//                  4 a thread, and used up at once. values: a block has 64 functions of one width
//                  and 64 columns of one head, and sums over the queries in their order. Functions
//                  out of reach are not visited; no atomics on numbers: the same bits always
//   Shared memory  21 KiB (f32), 39 KiB (f64)
//   Flops          4 B H T N d and B H T N (1 + ceil(d / 64)) exponentials at most
#pragma once

#include "cuda/densities.cuh"

namespace continuous_ltm::cuda {

struct GradientShape {
  int64_t heads;    // H
  int64_t queries;  // T
  int64_t width;    // d
  int64_t basis;    // N
  int64_t tiles;    // of queries for the densities, of one width's functions for the values
  int64_t panels;   // ceil(d / kPanel)
};

template <typename T, typename E>
struct GradientPointers {
  const int32_t* order;
  const T* mu;
  const T* variance;
  const E* values;
  const E* context_grad;
  T* mu_grad;        // null where not wanted
  T* variance_grad;  // likewise
  E* values_grad;
};

// Columns begin .. begin + kBlock - 1 of `count` rows, turned: to[column][row]; zeros elsewhere.
// Row i is row place(i) of `from`. The odd stride keeps the stores apart.
template <typename T, typename E, typename Place>
__device__ void load_turned(T (&to)[kBlock][kTile + 1], const E* from, int64_t stride, int count,
                            int64_t columns, const Place& place) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kBlock; i += kThreads) {
    const int r = i / kBlock;
    const int j = i % kBlock;
    to[j][r] = r < count && j < columns ? widen(from[place(r) * stride + j]) : T(0);
  }
}

// Sum over the 16 threads that share rows, in a fixed order.
template <typename T>
__device__ T sum_of_row(T value) {
  for (int step = 8; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  return value;
}

// A thread's part of sum dr r dm and sum dr r (dm^2 / v - 1) over functions of one width.
template <typename T>
__device__ void add_functions(const Queries<T>& queries, const Centres<T>& centres,
                              const T (&dr)[kPatch][kPatch], T (&slope)[kPatch],
                              T (&bend)[kPatch]) {
  for (int i = 0; i < kPatch; ++i) {
    const int q = patch_row(i);
    for (int j = 0; j < kPatch; ++j) {
      const T distance = distance_of(queries, q, centres, patch_column(j));
      const T change = dr[i][j] * weight_of(queries, q, distance);
      slope[i] += change * distance;
      bend[i] += change * (distance * distance * queries.inverse[q] - T(1));
    }
  }
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads, 2)
    density_gradients_kernel(DeviceGrid grid, GradientShape s, GradientPointers<T, E> p) {
  __shared__ Queries<T> queries;
  __shared__ Centres<T> centres;
  __shared__ T context[kBlock][kTile + 1];
  __shared__ T values[kBlock][kTile + 1];
  const int64_t tile = blockIdx.x % s.tiles;
  const int64_t head = blockIdx.x / s.tiles;
  const int64_t row = s.heads * s.width;
  const int64_t column = head % s.heads * s.width;
  const E* context_rows = p.context_grad + head / s.heads * s.queries * row + column;
  const E* value_rows = p.values + head / s.heads * s.basis * row + column;
  load_queries(queries, p.order + head * s.queries, p.mu + head * s.queries,
               p.variance + head * s.queries, tile * kTile, s.queries, kTile);
  T mu_grad[kPatch] = {};
  T variance_grad[kPatch] = {};
  for (int32_t w = 0; w < grid.widths; ++w) {
    set_width(queries, grid, w);
    T slope[kPatch] = {};
    T bend[kPatch] = {};
    for (int32_t c = queries.first; c < queries.last; c += kTile) {
      const int count = queries.last - c < kTile ? queries.last - c : kTile;
      load_centres(centres, grid, c, kTile);
      T dr[kPatch][kPatch] = {};
      for (int64_t j = 0; j < s.width; j += kBlock) {
        load_turned(context, context_rows + j, row, queries.count, s.width - j,
                    [&](int i) { return static_cast<int64_t>(queries.place[i]); });
        load_turned(values, value_rows + j, row, count, s.width - j,
                    [&](int i) { return static_cast<int64_t>(c + i) * grid.widths + w; });
        __syncthreads();
        multiply(context, values, dr);
        __syncthreads();
      }
      add_functions(queries, centres, dr, slope, bend);
      __syncthreads();
    }
    for (int i = 0; i < kPatch; ++i) {
      const T inverse = queries.inverse[patch_row(i)];
      mu_grad[i] -= slope[i] * inverse;
      variance_grad[i] += bend[i] * inverse * T(0.5);
    }
  }
  for (int i = 0; i < kPatch; ++i) {
    const T of_mu = sum_of_row(mu_grad[i]);
    const T of_variance = sum_of_row(variance_grad[i]);
    if (threadIdx.x % 16 != 0 || patch_row(i) >= queries.count) continue;
    const int64_t to = head * s.queries + queries.place[patch_row(i)];
    if (p.mu_grad != nullptr) p.mu_grad[to] = of_mu;
    if (p.variance_grad != nullptr) p.variance_grad[to] = of_variance;
  }
}

// Weights [query][function] of one block of queries, and their rows of the context's gradient.
template <typename T, typename E>
__device__ void load_queries_part(const Queries<T>& queries, const Centres<T>& centres, int count,
                                  const E* context_rows, int64_t row, int64_t columns,
                                  T (&weights)[kBlock][kTile], T (&context)[kBlock][kPanel]) {
  for (int i = static_cast<int>(threadIdx.x); i < kBlock * kTile; i += kThreads) {
    const int q = i / kTile;
    const int k = i % kTile;
    weights[q][k] = q < queries.count && k < count
                        ? weight_of(queries, q, distance_of(queries, q, centres, k))
                        : T(0);
    context[q][k] =
        q < queries.count && k < columns ? widen(context_rows[queries.place[q] * row + k]) : T(0);
  }
}
static_assert(kTile == kPanel);

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads)
    value_gradients_kernel(DeviceGrid grid, GradientShape s, GradientPointers<T, E> p) {
  __shared__ Queries<T> queries;
  __shared__ Centres<T> centres;
  __shared__ T weights[kBlock][kTile];
  __shared__ T context[kBlock][kPanel];
  const int64_t column = blockIdx.x % s.panels * kPanel;
  const int64_t piece = blockIdx.x / s.panels % (s.tiles * grid.widths);
  const int64_t head = blockIdx.x / s.panels / (s.tiles * grid.widths);
  const auto w = static_cast<int32_t>(piece % grid.widths);
  const auto first = static_cast<int32_t>(piece / grid.widths * kTile);
  const int count = grid.centres - first < kTile ? grid.centres - first : kTile;
  const int64_t row = s.heads * s.width;
  const int64_t first_column = head % s.heads * s.width + column;
  const E* context_rows = p.context_grad + head / s.heads * s.queries * row + first_column;
  load_centres(centres, grid, first, kTile);
  T sums[kPatch][kPatch] = {};
  for (int64_t begin = 0; begin < s.queries; begin += kBlock) {
    load_queries(queries, p.order + head * s.queries, p.mu + head * s.queries,
                 p.variance + head * s.queries, begin, s.queries, kBlock);
    set_width(queries, grid, w);
    if (queries.first >= first + count || queries.last <= first) continue;
    load_queries_part(queries, centres, count, context_rows, row, s.width - column, weights,
                      context);
    __syncthreads();
    multiply(weights, context, sums);
    __syncthreads();
  }
  for (int i = 0; i < kPatch; ++i) {
    if (patch_row(i) >= count) continue;
    const int64_t n = static_cast<int64_t>(first + patch_row(i)) * grid.widths + w;
    E* to = p.values_grad + (head / s.heads * s.basis + n) * row + first_column;
    for (int j = 0; j < kPatch; ++j) {
      if (column + patch_column(j) < s.width) narrow(sums[i][j], to[patch_column(j)]);
    }
  }
}

}  // namespace continuous_ltm::cuda
