// Mass of one head's densities below each edge of the histogram, in double.
#include "kernels/histogram.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"

namespace continuous_ltm::cpu {
namespace {

using namespace mneme::cpu;  // NOLINT: all of it has internal linkage

// Beyond so many standard deviations the mass below is 0 or 1 to 1e-17.
constexpr double kHistogramCutoff = 8.5;

// P(Z < z) of a standard normal: exp(-x^2) times a polynomial of (x - 4) / (x + 4) for
// exp(x^2) erfc(x) / 2 with x = |z| / sqrt(2) in [0, 6.3] (Chebyshev interpolation, absolute error
// 1e-17); the error of the whole is a few 1e-16.
MNEME_INLINE Vec<double> normal_below(Vec<double> z) {
  constexpr double kCoefficients[] = {
      -6.20005902269488214159e-8, -3.99387056102355987153e-7, -5.34686814811804011594e-7,
      1.21333749207501206797e-6,  -1.07118069458785929398e-6, -1.13008886423427045619e-5,
      3.94979326388548074263e-5,  -1.0876177080586831769e-5,  -3.99562659949051638872e-4,
      2.03013166847202766679e-3,  -6.42197307579962897132e-3, 1.56495282571486636932e-2,
      -3.15539078184537222441e-2, 5.44815886995895298919e-2,  -8.21289083486660127571e-2,
      1.09359839459131059404e-1,  -1.29534024380085797303e-1, 6.84997288125306969459e-2};
  const Vec<double> x = (z < 0.0 ? -z : z) * 0.70710678118654752440;
  const Vec<double> t = (x - 4.0) / (x + 4.0);
  Vec<double> p = splat(kCoefficients[0]);
  MNEME_UNROLL for (int i = 1; i < 18; ++i) p = p * t + kCoefficients[i];
  const Vec<double> tail = p * exp2(x * x * -1.4426950408889634074);
  return z < 0.0 ? tail : 1.0 - tail;
}

// Adds one density to below [padded], whose edges are at edges [padded].
MNEME_INLINE void add_density(double mean, double variance, double bins, const double* edges,
                              double* below, int64_t padded) {
  const double sigma = __builtin_sqrt(variance);
  const double inverse = 1.0 / sigma;
  const double first = (mean - kHistogramCutoff * sigma) * bins;
  const double last = (mean + kHistogramCutoff * sigma) * bins + 2.0;
  const auto limit = static_cast<double>(padded);
  int64_t k = 0;
  int64_t end = padded;  // a NaN goes to every edge
  if (first > 0.0) k = static_cast<int64_t>(first < limit ? first : limit);
  if (last < limit) end = last > 0.0 ? static_cast<int64_t>(last) : 0;
  for (k = k / kLanes<double> * kLanes<double>; k < end; k += kLanes<double>) {
    const Vec<double> z = (load(edges + k) - mean) * inverse;
    store(below + k, load(below + k) + normal_below(z));
  }
  for (; k < padded; k += kLanes<double>) store(below + k, load(below + k) + 1.0);
}

template <typename T>
void add_head(const HistogramShape& shape, const HistogramBuffers& buffers, double* below,
              int64_t head) {
  const int64_t padded = shape.padded_edges();
  double* edges = below + padded;
  for (int64_t k = 0; k < padded; ++k) {
    below[k] = 0.0;
    edges[k] = shape.edge(smaller(k, shape.bins));
  }
  const T* mu = static_cast<const T*>(buffers.mu) + head * shape.queries;
  const T* variance = static_cast<const T*>(buffers.variance) + head * shape.queries;
  const uint8_t* valid = buffers.valid + head / shape.heads * shape.queries;
  for (int64_t i = 0; i < shape.queries; ++i) {
    if (valid[i] == 0) continue;
    add_density(static_cast<double>(mu[i]), static_cast<double>(variance[i]),
                static_cast<double>(shape.bins), edges, below, padded);
  }
}

void mass_below(const HistogramShape& shape, const HistogramBuffers& buffers, double* below,
                int64_t head) {
  if (shape.is_f64) {
    add_head<double>(shape, buffers, below, head);
  } else {
    add_head<float>(shape, buffers, below, head);
  }
}

}  // namespace
}  // namespace continuous_ltm::cpu

namespace continuous_ltm {

const HistogramKernels HistogramKernels::MNEME_INSTRUCTION_SET = {&cpu::mass_below};

}  // namespace continuous_ltm

#include "mneme_kernels/cpu/end.inl"
