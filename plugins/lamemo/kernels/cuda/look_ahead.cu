// The look-ahead's forward pass on CUDA. One kernel, which fills the results whole: no allocation,
// no synchronisation, the same launch for the same shapes, the same bits for the same inputs.
//
//   Equation       online softmax over the keys' tiles that starts at the virtual key: maximum s,
//                  sum 1, weighted sum C
//   Shapes         q, C, C' [B,M,H,d]; k, v [B,W,H,d]; table [H,R,d]; s, s' [B,M,H]
//   Presumptions   B * H * ceil(M / 64 or 32) * ceil(d / 64) < 2^31
//   Decomposition  a block has 64 queries (32 in f64) and 64 columns of one head, and goes through
//                  the tiles of keys that they attend; a thread has 4 x 4 (2 x 2) scores. Position
//                  terms are summed where they are needed, the table's rows read skewed: nothing
//                  but the band is computed
//   Shared memory  41 KiB
//   Bytes          of the inputs, keys and the band of the table once for each tile of queries
//   Flops          6 B H M W d with d <= 64, where every key is attended
#include "kernels/cuda/look_ahead_tiles.cuh"

namespace lamemo {
namespace device {
namespace {

template <typename T>
union AttendMemory {
  ScoreChunk<T> scores;
  struct {
    T probabilities[kTile<T>][kTile<T> + 1];  // [key][query]
    T values[kChunk][kPanel];
  } sum;
};

// What a thread knows of its queries; `most` is an exponent of 2.
template <typename T>
struct Softmax {
  T most[kEach<T>];
  T total[kEach<T>];
  T sums[kEach<T>][4];
};

template <typename T, typename E>
__device__ void begin_softmax(const Head<T, E>& head, int64_t query, int64_t panel,
                              Softmax<T>& out) {
  for (int i = 0; i < kEach<T>; ++i) {
    const int64_t row = query + patch_row<kEach<T>>(i);
    const int64_t at = head.at(head.s.queries, row);
    const T lse = row < head.s.queries ? head.p.carried_lse[at] : T(-INFINITY);
    const bool is_carried = !(lse == T(-INFINITY));
    out.most[i] = lse * static_cast<T>(1.4426950408889634074);
    out.total[i] = is_carried ? T(1) : T(0);
    for (int j = 0; j < 4; ++j) {
      const int64_t column = panel + patch_column(j);
      const bool is_there = is_carried && column < head.s.width;
      out.sums[i][j] = is_there ? head.p.carried[at * head.s.width + column] : T(0);
    }
  }
}

// Scores of keys from c on to probabilities in shared memory.
template <typename T, typename E>
__device__ void add_to_softmax(AttendMemory<T>& m, const Head<T, E>& head, int64_t query, int64_t c,
                               T (&scores)[kEach<T>][kEach<T>], Softmax<T>& out) {
  for (int i = 0; i < kEach<T>; ++i) {
    const int row = patch_row<kEach<T>>(i);
    T most = out.most[i];
    for (int j = 0; j < kEach<T>; ++j) {
      if (!head.attends(query + row, c + patch_column(j))) scores[i][j] = T(-INFINITY);
      most = scores[i][j] > most ? scores[i][j] : most;
    }
    most = max_of_row(most);
    // Without a key and without a carried logit there is no maximum to subtract.
    const T shift = most == T(-INFINITY) ? T(0) : most;
    const T shrink = power_of_two(out.most[i] - shift);
    T total = T(0);
    for (int j = 0; j < kEach<T>; ++j) {
      const T p = power_of_two(scores[i][j] - shift);
      m.sum.probabilities[patch_column(j)][row] = p;
      total += p;
    }
    out.total[i] = out.total[i] * shrink + sum_of_row(total);
    for (int j = 0; j < 4; ++j) out.sums[i][j] *= shrink;
    out.most[i] = most;
  }
}

template <typename T, typename E>
__device__ void end_softmax(const Head<T, E>& head, int64_t query, int64_t panel,
                            const Softmax<T>& out) {
  for (int i = 0; i < kEach<T>; ++i) {
    const int64_t row = query + patch_row<kEach<T>>(i);
    if (row >= head.s.queries) continue;
    const int64_t at = head.at(head.s.queries, row);
    const T lse = head.p.carried_lse[at];
    const bool is_empty = out.total[i] == T(0);
    // A row to which no key adds keeps s to the bit, through any number of segments.
    const bool is_as_carried =
        out.total[i] == T(1) && out.most[i] == lse * static_cast<T>(1.4426950408889634074);
    if (panel == 0 && threadIdx.x % 16 == 0) {
      head.p.lse[at] = is_as_carried ? lse
                                     : out.most[i] * static_cast<T>(0.69314718055994530942) +
                                           logarithm(out.total[i]);
    }
    for (int j = 0; j < 4; ++j) {
      const int64_t column = panel + patch_column(j);
      if (column >= head.s.width) continue;
      const int64_t to = at * head.s.width + column;
      head.p.context[to] = is_empty ? head.p.carried[to] : out.sums[i][j] / out.total[i];
    }
  }
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2 : 1)
    attend_kernel(DeviceShape s, DevicePointers<T, E> p) {
  __shared__ AttendMemory<T> memory;
  const int64_t panel = blockIdx.x % s.panels * kPanel;
  const int64_t query = blockIdx.x / s.panels % s.query_tiles * kTile<T>;
  const int64_t place = blockIdx.x / s.panels / s.query_tiles;
  const Head<T, E> head = {s, p, place / s.heads, place % s.heads};
  Softmax<T> softmax;
  begin_softmax(head, query, panel, softmax);
  // The first query attends the earliest key.
  int64_t c = query + s.least - s.first;
  c = c > 0 ? c / kTile<T> * kTile<T> : 0;
  for (; c < s.keys; c += kTile<T>) {
    T scores[kEach<T>][kEach<T>] = {};
    score<false>(memory.scores, head, query, c, scores);
    add_to_softmax(memory, head, query, c, scores, softmax);
    for (int k = 0; k < kTile<T>; k += kChunk) {
      fill_rows(memory.sum.values, kChunk, s.width - panel,
                [&](int r, int j) { return head.key(p.v, c + k + r, panel + j); });
      __syncthreads();
      multiply(memory.sum.probabilities + k, memory.sum.values, softmax.sums);
      __syncthreads();
    }
  }
  end_softmax(head, query, panel, softmax);
}

}  // namespace
}  // namespace device

void LookAhead::check_cuda_buffers(const mneme::KernelCall& call) {
  for (uint32_t i = 0; i < 7; ++i) mneme::cuda::check_buffers(call, {call.input(i)});
  mneme::cuda::check_buffers(call, {call.output(0), call.output(1)});
}

void LookAhead::forward_cuda(const mneme::KernelCall& call) const {
  const LookAheadShape shape = shape_of(call);
  const LookAheadBuffers buffers = buffers_of(call);
  check_cuda_buffers(call);
  mneme::cuda::check_buffers(call, {call.input(7), call.input(8)});
  mneme::cuda::check_launch(mneme::cuda::with_elements_but_f16(shape.element, [&](auto sum,
                                                                                  auto element) {
    using T = decltype(sum);
    using E = decltype(element);
    const device::DeviceShape s = device::device_shape<T>(shape);
    return mneme::cuda::launch(s.lanes * s.heads * s.query_tiles * s.panels, mneme::cuda::kThreads,
                               mneme::cuda::stream_of(call), device::attend_kernel<T, E>, s,
                               device::device_pointers<T, E>(buffers));
  }));
}

}  // namespace lamemo
