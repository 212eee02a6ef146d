// The expectation of one head (its sum is in weighted_sum.inl), and its derivatives with r computed
// again: per tile of queries and block of functions dr = V dctx^T, then dmu, ds2 and dV += r dctx.
//   dmu = sum_n dr r (-t / v)    ds2 = sum_n dr r (t^2 / v - 1) / (2 v)    t = mu - mu_n
#include "kernels/expectation.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// Shared by the expectation and the signal:
#include "kernels/cpu/weighted_sum.inl"

namespace continuous_ltm::cpu {
namespace {

template <typename T, typename E>
void expect_head(const ExpectationShape& shape, const ExpectationBuffers& buffers, void* scratch,
                 int64_t head) {
  const int64_t lane = head / shape.heads;
  const int64_t h = head % shape.heads;
  const int64_t stride = shape.heads * shape.head_width;
  Arena arena(scratch);
  ForwardScratch<T> s(arena, shape.grid, shape.queries, shape.head_width);
  s.queries.fill(static_cast<const T*>(buffers.mu) + head * shape.queries,
                 static_cast<const T*>(buffers.variance) + head * shape.queries);
  const E* values = static_cast<const E*>(buffers.values) + lane * shape.grid.basis() * stride +
                    h * shape.head_width;
  const ValueRows<T> rows = rows_of(values, stride, shape.grid, shape.head_width, s);
  E* context =
      static_cast<E*>(buffers.context) + lane * shape.queries * stride + h * shape.head_width;
  sum_tiles<false>(s, shape.grid, rows, shape.head_width, context, stride);
}

void expect(const ExpectationShape& shape, const ExpectationBuffers& buffers, void* scratch,
            int64_t head) {
  switch (shape.element) {
    case mneme::ElementType::kF32:
      return expect_head<float, float>(shape, buffers, scratch, head);
    case mneme::ElementType::kF64:
      return expect_head<double, double>(shape, buffers, scratch, head);
    case mneme::ElementType::kBF16:
      return expect_head<float, BF16>(shape, buffers, scratch, head);
    case mneme::ElementType::kF16:
      return expect_head<float, F16>(shape, buffers, scratch, head);
  }
}

uint64_t expect_scratch(const ExpectationShape& s) {
  return s.element == mneme::ElementType::kF64
             ? forward_bytes<double>(s.grid, s.queries, s.head_width)
             : forward_bytes<float>(s.grid, s.queries, s.head_width);
}

constexpr int64_t kBackwardBlock = 48;

template <typename T>
struct BackwardScratch {
  int64_t padded;
  Centres<T> centres;
  Queries<T> queries;
  T* values;        // [W, N / W + spare, padded]
  T* values_grad;   // as values
  T* context;       // [kTile + spare, padded], the tile's rows of the context's gradient
  T* context_turn;  // [d, kTile], the same transposed
  T* weights;       // [block + spare, kTile]
  T* weights_grad;  // [block + spare, kTile]

  BackwardScratch(Arena& arena, const BasisGrid& grid, int64_t count, int64_t width)
      : padded(round_up(width, kLanes<T>)),
        centres(arena, grid),
        queries(arena, count),
        values(arena.take<T>(value_count(grid))),
        values_grad(arena.take<T>(value_count(grid))),
        context(arena.take<T>((kTile + kSpareRows) * padded)),
        context_turn(arena.take<T>(width * kTile)),
        weights(arena.take<T>((kBackwardBlock + kSpareRows) * kTile)),
        weights_grad(arena.take<T>((kBackwardBlock + kSpareRows) * kTile)) {}
  int64_t value_count(const BasisGrid& grid) const {
    return grid.widths * (grid.centres + kSpareRows) * padded;
  }
};

// A tile's results, and the sums over functions of one width that they are made of.
template <typename T>
struct DensityGradients {
  T mu[kTile] = {};
  T variance[kTile] = {};
  T mu_sum[kTile];        // sum dr r t
  T variance_sum[kTile];  // sum dr r (t^2 / v - 1)

  void begin_width() {
    for (int64_t i = 0; i < kTile; ++i) mu_sum[i] = variance_sum[i] = T{0};
  }
  void end_width(const WidthTerms<T>& terms) {
    for (int64_t i = 0; i < kTile; ++i) {
      mu[i] -= mu_sum[i] * terms.inverse[i];
      variance[i] += variance_sum[i] * terms.inverse[i] * static_cast<T>(0.5);
    }
  }
};

// Weights of a block as in fill_weights, and the block's part of the sums.
template <typename T>
MNEME_INLINE void differentiate_weights(const Tile<T>& tile, const WidthTerms<T>& terms,
                                        const Centres<T>& centres, int64_t first, int64_t count,
                                        const BackwardScratch<T>& s, DensityGradients<T>& out) {
  for (int64_t i = 0; i < tile.count; i += kLanes<T>) {
    const Vec<T> mu = load(tile.mu + i);
    const Vec<T> rate = load(terms.rate + i);
    const Vec<T> height = load(terms.height + i);
    const Vec<T> inverse = load(terms.inverse + i);
    Vec<T> mu_sum = load(out.mu_sum + i);
    Vec<T> variance_sum = load(out.variance_sum + i);
    for (int64_t c = 0; c < count; ++c) {
      const Vec<T> distance = (mu - centres.high[first + c]) - centres.low[first + c];
      const Vec<T> square = distance * distance;
      const Vec<T> weight = exp2(square * rate) * height;
      const Vec<T> change = load(s.weights_grad + c * kTile + i) * weight;
      mu_sum += change * distance;
      variance_sum += change * (square * inverse - T{1});
      store(s.weights + c * kTile + i, weight);
    }
    store(out.mu_sum + i, mu_sum);
    store(out.variance_sum + i, variance_sum);
  }
}

template <typename T>
void backward_block(const Tile<T>& tile, const WidthTerms<T>& terms, int64_t row, int64_t first,
                    int64_t count, int64_t width, const BackwardScratch<T>& s,
                    DensityGradients<T>& out) {
  const int64_t rows = round_up(count, kSpareRows);
  const int64_t vectors = round_up(tile.count, kLanes<T>) / kLanes<T>;
  clear(s.weights_grad, rows * kTile);
  multiply(Product<T>{s.values + row * s.padded, s.padded, 1, s.context_turn, kTile, s.weights_grad,
                      kTile, count, vectors, width});
  differentiate_weights(tile, terms, s.centres, first, count, s, out);
  clear(s.weights + count * kTile, (rows - count) * kTile);
  multiply(Product<T>{s.weights, kTile, 1, s.context, s.padded, s.values_grad + row * s.padded,
                      s.padded, count, s.padded / kLanes<T>, tile.count});
}

template <typename T>
void backward_tile(const Tile<T>& tile, const BasisGrid& grid, int64_t width,
                   const BackwardScratch<T>& s, DensityGradients<T>& out) {
  const T cutoff = static_cast<T>(grid.cutoff(sizeof(T) == sizeof(double)));
  for (int32_t w = 0; w < grid.widths; ++w) {
    const WidthTerms<T> terms(tile, grid.width[w], cutoff, grid.centres);
    const int64_t rows = w * (grid.centres + kSpareRows);
    out.begin_width();
    for (int64_t c = terms.first; c < terms.last; c += kBackwardBlock) {
      const int64_t count = smaller(kBackwardBlock, terms.last - c);
      backward_block(tile, terms, rows + c, c, count, width, s, out);
    }
    out.end_width(terms);
  }
}

// The tile's rows of the context's gradient, as they are and turned; zeros where there is no query.
template <typename T, typename E>
void read_context(const Tile<T>& tile, const E* context, int64_t stride, int64_t width,
                  const BackwardScratch<T>& s) {
  for (int64_t i = 0; i < kTile; ++i) {
    T* row = s.context + i * s.padded;
    if (i < tile.count) {
      read_row(context + tile.order[i] * stride, width, s.padded, row);
    } else {
      clear(row, s.padded);
    }
    for (int64_t j = 0; j < width; ++j) s.context_turn[j * kTile + i] = row[j];
  }
}

template <typename T>
void write_densities(const Tile<T>& tile, const DensityGradients<T>& from, T* mu, T* variance) {
  for (int64_t i = 0; i < tile.count; ++i) {
    if (mu != nullptr) mu[tile.order[i]] = from.mu[i];
    if (variance != nullptr) variance[tile.order[i]] = from.variance[i];
  }
}

template <typename T, typename E>
void write_values(const BackwardScratch<T>& s, const BasisGrid& grid, int64_t width, int64_t stride,
                  E* to) {
  for (int64_t c = 0; c < grid.centres; ++c) {
    for (int64_t w = 0; w < grid.widths; ++w, to += stride) {
      write_row(s.values_grad + (w * (grid.centres + kSpareRows) + c) * s.padded, width, to);
    }
  }
}

template <typename T, typename E>
void backward_head(const ExpectationShape& shape, const ExpectationBuffers& buffers,
                   const ExpectationGradients& grads, void* scratch, int64_t head) {
  const int64_t stride = shape.heads * shape.head_width;
  const int64_t column = head % shape.heads * shape.head_width;
  const int64_t of_lane = head / shape.heads * stride;
  const int64_t densities = head * shape.queries;
  const int64_t values = of_lane * shape.grid.basis() + column;
  Arena arena(scratch);
  BackwardScratch<T> s(arena, shape.grid, shape.queries, shape.head_width);
  s.centres.fill(shape.grid);
  s.queries.fill(static_cast<const T*>(buffers.mu) + densities,
                 static_cast<const T*>(buffers.variance) + densities);
  order_queries(s.queries, shape.grid, static_cast<T>(shape.grid.cutoff(sizeof(T) == 8)));
  pack_values(static_cast<const E*>(buffers.values) + values, stride, shape.grid, shape.head_width,
              s.padded, kSpareRows, s.values);
  clear(s.values_grad, s.value_count(shape.grid));
  const auto at = [&](void* grad) {
    return grad == nullptr ? nullptr : static_cast<T*>(grad) + densities;
  };
  for (int64_t first = 0; first < shape.queries; first += kTile) {
    const Tile<T> tile(s.queries, first);
    DensityGradients<T> out;
    read_context(tile, static_cast<const E*>(grads.context) + of_lane * shape.queries + column,
                 stride, shape.head_width, s);
    backward_tile(tile, shape.grid, shape.head_width, s, out);
    write_densities(tile, out, at(grads.mu), at(grads.variance));
  }
  if (grads.values != nullptr) {
    write_values(s, shape.grid, shape.head_width, stride, static_cast<E*>(grads.values) + values);
  }
}

void expect_backward(const ExpectationShape& shape, const ExpectationBuffers& buffers,
                     const ExpectationGradients& grads, void* scratch, int64_t head) {
  switch (shape.element) {
    case mneme::ElementType::kF32:
      return backward_head<float, float>(shape, buffers, grads, scratch, head);
    case mneme::ElementType::kF64:
      return backward_head<double, double>(shape, buffers, grads, scratch, head);
    case mneme::ElementType::kBF16:
      return backward_head<float, BF16>(shape, buffers, grads, scratch, head);
    case mneme::ElementType::kF16:
      return backward_head<float, F16>(shape, buffers, grads, scratch, head);
  }
}

template <typename T>
uint64_t backward_bytes(const ExpectationShape& s) {
  Arena arena(nullptr);
  const BackwardScratch<T> scratch(arena, s.grid, s.queries, s.head_width);
  static_cast<void>(scratch);
  return arena.bytes();
}

uint64_t expect_backward_scratch(const ExpectationShape& s) {
  return s.element == mneme::ElementType::kF64 ? backward_bytes<double>(s)
                                               : backward_bytes<float>(s);
}

}  // namespace
}  // namespace continuous_ltm::cpu

namespace continuous_ltm {

const ExpectationKernels ExpectationKernels::MNEME_INSTRUCTION_SET = {
    &cpu::expect_scratch, &cpu::expect, &cpu::expect_backward_scratch, &cpu::expect_backward};

}  // namespace continuous_ltm

#include "mneme_kernels/cpu/end.inl"
