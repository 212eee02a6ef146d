// Attention on CUDA without gradient (attention.hpp has the equation): one kernel, and a second
// one where the columns of a tile of queries were divided over several blocks. In bf16 the first one
// is that of relative/forward.cu. No allocation, no synchronisation, the same launches for the
// same shapes, the same bits for the same inputs.
//
//   Equation       s_ij = scale ((q_i + u) . k_j + (q_i + w) . r_{T-1-i+j'}) + ...; an online
//                  softmax by running maxima and sums of powers of two
//   Shapes         q, z [B,T,H,d]; keys and values [B,m,G,d] a piece; lse [B,H,T]
//   Presumptions   d <= 128; at most kMostPieces pieces; blocks < 2^31
//   Decomposition  a block has 64 queries of one head and takes 64 columns at a time: 4 x 4 scores
//                  a thread, of neighbouring queries and columns, so that their 16 position terms
//                  need 7 rows of the table and no shift. Their exponentials go to shared memory
//                  and through the product with the values into 4 x 4 results a thread and panel of
//                  64. With few queries and many columns several blocks share a tile's columns
//   Shared memory  43 KiB
//   Flops          2 B H T K d of each of keys, positions and values, and B H T K exponentials
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "host/kernel/cuda/attention_tiles.cuh"
#include "mneme_kernels/cuda/launch.hpp"

namespace mneme::kernel {
namespace device {

constexpr std::int64_t kBlocks = 264;    // as many as keep a large device busy
constexpr std::int64_t kMostParts = 16;  // of a tile's columns

// A thread's part of the softmax of its 4 queries.
template <typename T, int panels>
struct Running {
  T sums[panels][4][4] = {};
  T most[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
  T total[4] = {};
};

// Scores to probabilities over the largest score so far, and what was summed before to the same.
template <typename T, typename E, int panels>
__device__ void add_to_softmax(Memory<T, E>& m, T (&scores)[4][4], Running<T, panels>& r) {
  for (int i = 0; i < 4; ++i) {
    T most = r.most[i];
    for (int j = 0; j < 4; ++j) most = scores[i][j] > most ? scores[i][j] : most;
    most = max_of_row(most);
    const T base = most == -INFINITY ? T(0) : most;
    const T shrink = power_of_two(r.most[i] - base);
    Quad<T> p;
    T sum = T(0);
    for (int j = 0; j < 4; ++j) {
      p.at[j] = power_of_two(scores[i][j] - base);
      sum += p.at[j];
    }
    quad(&m.values.probabilities[first_row() + i][first_column()]) = p;
    r.total[i] = r.total[i] * shrink + sum_of_row(sum);
    r.most[i] = most;
    for (int panel = 0; panel < panels; ++panel) {
      for (int j = 0; j < 4; ++j) r.sums[panel][i][j] *= shrink;
    }
  }
}

template <typename T, typename E, int panels>
__device__ void add_values(Memory<T, E>& m, std::int64_t width, std::int64_t count,
                           Running<T, panels>& r) {
  constexpr int kColumns = panels * kTile;
  const int row = first_row();
  for (int first = 0; first < count; first += kDepth<T>) {
    for (int i = static_cast<int>(threadIdx.x); i < kDepth<T> * kColumns; i += kThreads) {
      const int x = i / kColumns;
      const int c = i % kColumns;
      const E* v = m.v[first + x];
      m.values.rows[x][c] = v != nullptr && c < width ? static_cast<T>(widen(v[c])) : T(0);
    }
    __syncthreads();
#pragma unroll 2
    for (int x = 0; x < kDepth<T>; x += 4) {
      Quad<T> p[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) p[i] = quad(&m.values.probabilities[row + i][first + x]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int panel = 0; panel < panels; ++panel) {
          const Quad<T> v = quad(&m.values.rows[x + e][panel * kTile + first_column()]);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) r.sums[panel][i][j] += p[i].at[e] * v.at[j];
          }
        }
      }
    }
    __syncthreads();
  }
}

template <typename T, typename E, int panels>
__device__ void write(const Arguments<T, E>& a, const Place& p, const Running<T, panels>& r) {
  const std::int64_t part = p.part * a.s.lanes * a.s.heads * a.s.queries;
  for (int i = 0; i < 4; ++i) {
    const std::int64_t query = p.query + first_row() + i;
    if (query >= a.s.queries) continue;
    const std::int64_t row = (p.lane * a.s.heads + p.head) * a.s.queries + query;
    const std::int64_t z = ((p.lane * a.s.queries + query) * a.s.heads + p.head) * a.s.width;
    const bool is_first = first_column() == 0;
    if (a.parts == 1 && is_first) write_lse(a, row, r.most[i], r.total[i]);
    if (a.parts > 1 && is_first) {
      a.most[part + row] = r.most[i];
      a.totals[part + row] = r.total[i];
    }
    for (int panel = 0; panel < panels; ++panel) {
      for (int j = 0; j < 4; ++j) {
        const std::int64_t c = panel * kTile + first_column() + j;
        if (c >= a.s.width) continue;
        const T sum = r.sums[panel][i][j];
        if (a.parts > 1) {
          a.sums[part * a.s.width + z + c] = sum;
        } else {
          narrow(r.total[i] > T(0) ? sum / r.total[i] : T(0), a.z[z + c]);
        }
      }
    }
  }
}

template <typename T, int panels>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2 : 1)
    attend_kernel(Arguments<T, T> a) {
  __shared__ Memory<T, T> memory;
  const Place place = place_of(a);
  const std::int64_t tiles = column_tiles(a.s);
  Running<T, panels> running;
  const std::int64_t end = tiles * (place.part + 1) / a.parts;
  for (std::int64_t tile = tiles * place.part / a.parts; tile < end; ++tile) {
    const Columns columns = columns_of(a.s, tile);
    if (!are_seen(a.s, place.query, columns)) continue;
    T scores[4][4] = {};
    find_rows(memory, a, place, columns);
    score(memory, a, place, columns, scores);
    const bool is_product = are_products(a, place, columns);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        scores[i][j] = is_product ? static_cast<T>(kLog2E * a.s.scale) * scores[i][j]
                                  : finished(a, place, columns, first_row() + i, first_column() + j,
                                             scores[i][j]);
      }
    }
    add_to_softmax(memory, scores, running);
    add_values(memory, a.s.width, columns.count, running);
  }
  write(a, place, running);
}

// The parts of every number of z; a thread a number.
template <typename T, typename E>
__global__ void __launch_bounds__(kThreads) join_kernel(Arguments<T, E> a) {
  const std::int64_t count = a.s.lanes * a.s.queries * a.s.heads * a.s.width;
  const std::int64_t z = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (z >= count) return;
  const std::int64_t head = z / a.s.width % a.s.heads;
  const std::int64_t query = z / a.s.width / a.s.heads % a.s.queries;
  const std::int64_t lane = z / a.s.width / a.s.heads / a.s.queries;
  const std::int64_t row = (lane * a.s.heads + head) * a.s.queries + query;
  const std::int64_t rows = count / a.s.width;
  T most = -INFINITY;
  for (std::int64_t part = 0; part < a.parts; ++part) {
    const T other = a.most[part * rows + row];
    most = other > most ? other : most;
  }
  const T base = most == -INFINITY ? T(0) : most;
  T sum = T(0);
  T total = T(0);
  for (std::int64_t part = 0; part < a.parts; ++part) {
    const T factor = power_of_two(a.most[part * rows + row] - base);
    sum += factor * a.sums[part * count + z];
    total += factor * a.totals[part * rows + row];
  }
  narrow(total > T(0) ? sum / total : T(0), a.z[z]);
  if (z % a.s.width == 0) write_lse(a, row, most, total);
}

std::int64_t parts_of(const AttentionShape& s) {
  const std::int64_t blocks =
      std::max<std::int64_t>(s.lanes * s.heads * tiles_of(s.queries, kTile), 1);
  const std::int64_t tiles = column_tiles(s);
  return std::clamp<std::int64_t>(kBlocks / blocks, 1,
                                  std::clamp<std::int64_t>(tiles, 1, kMostParts));
}

template <typename T>
cudaError_t launch_tiles(const Arguments<T, T>& a, cudaStream_t stream) {
  const std::int64_t blocks = a.s.lanes * a.s.heads * a.tiles * a.parts;
  const auto kernel = a.s.width <= kTile ? attend_kernel<T, 1> : attend_kernel<T, kMostPanels>;
  return launch(blocks, kThreads, stream, kernel, a);
}
cudaError_t launch_tiles(const Arguments<float, __nv_bfloat16>& a, cudaStream_t stream) {
  if (a.in.table != nullptr && a.in.table_by_row.data == nullptr) return cudaErrorInvalidValue;
  return launch_on_tensor_cores(a, stream);
}

template <typename T, typename E>
cudaError_t launch_attend(const AttentionShape& s, const AttentionInputs& in,
                          const AttentionResults& out, void* workspace, cudaStream_t stream) {
  if (s.width > CudaAttention::kMostWidth || in.n_pieces > CudaAttention::kMostPieces ||
      (in.dropout.mask.is_on && s.element != Element::kBF16)) {
    return cudaErrorInvalidValue;
  }
  Arguments<T, E> a = {};
  a.s = s;
  a.in = in;
  for (std::int64_t p = 0; p < in.n_pieces; ++p) a.pieces[p] = in.pieces[p];
  a.z = static_cast<E*>(out.z);
  a.lse = static_cast<T*>(out.lse);
  a.tiles = tiles_of(s.queries, kTile);
  a.parts = parts_of(s);
  const std::int64_t rows = s.lanes * s.heads * s.queries;
  if (a.parts > 1) {
    a.sums = static_cast<T*>(workspace);
    a.most = a.sums + a.parts * rows * s.width;
    a.totals = a.most + a.parts * rows;
  }
  const cudaError_t status = launch_tiles(a, stream);
  if (status != cudaSuccess || a.parts == 1) return status;
  return launch(tiles_of(rows * s.width, kThreads), kThreads, stream, join_kernel<T, E>, a);
}

}  // namespace device

bool CudaAttention::is_built() { return true; }

std::uint64_t CudaAttention::workspace(const AttentionShape& s) {
  const std::int64_t parts = device::parts_of(s);
  if (parts == 1) return 0;
  const std::int64_t numbers = parts * s.lanes * s.heads * s.queries * (s.width + 2);
  return static_cast<std::uint64_t>(numbers) * (s.element == Element::kF64 ? 8 : 4);
}

const char* CudaAttention::attend(const AttentionShape& s, const AttentionInputs& in,
                                  const AttentionResults& out, void* workspace, void* stream) {
  const auto run = [&](auto sum, auto element) {
    return device::launch_attend<decltype(sum), decltype(element)>(
        s, in, out, workspace, static_cast<cudaStream_t>(stream));
  };
  const cudaError_t status = s.element == Element::kF64   ? run(double{}, double{})
                             : s.element == Element::kF32 ? run(float{}, float{})
                                                          : run(float{}, __nv_bfloat16{});
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

}  // namespace mneme::kernel
