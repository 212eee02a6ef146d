// The kernel for sticky memories: the attention mass in each bin of the memory.
#pragma once

#include <cstdint>

#include "mneme/cpp/kernel.hpp"
#include "mneme_kernels/cpu/instruction_sets.hpp"

namespace continuous_ltm {

struct HistogramShape {
  int64_t lanes = 0;    // B
  int64_t heads = 0;    // H
  int64_t queries = 0;  // T
  int64_t bins = 0;
  bool is_f64 = false;  // the densities; the sums are f64 always

  int64_t padded_edges() const { return (bins + 8) / 8 * 8; }  // bins + 1 in whole vectors
  // Edge k of bins + 1: k / bins, the outer ones moved outwards by 1e-6 as in the official code.
  double edge(int64_t k) const {
    if (k == 0) return -1e-6;
    if (k == bins) return 1.0 + 1e-6;
    return static_cast<double>(k) / static_cast<double>(bins);
  }
};

// Contiguous, row-major; null where an extent is 0.
struct HistogramBuffers {
  const void* mu = nullptr;        // [B,H,T]
  const void* variance = nullptr;  // [B,H,T]
  const uint8_t* valid = nullptr;  // [B,T], 0 or 1
  double* mass = nullptr;          // [B,bins]
};

// The CPU's functions, of one instruction set (kernels/cpu/histogram.cpp). Any thread may work on a
// piece, alone.
struct HistogramKernels {
  // A piece is one head of one lane; `below` [2, padded_edges] receives the mass below each edge,
  // its second half is scratch.
  void (*mass_below)(const HistogramShape&, const HistogramBuffers&, double* below, int64_t head);
  MNEME_DECLARE_KERNELS(HistogramKernels);
};

// Inputs   0 mu [B,H,T]   1 variance s2 [B,H,T], above 0, f32 or f64   2 valid [B,T] bool
// Output   0 mass [B,bins] f64
//
//   mass_k = sum over heads and valid queries of F(e_{k+1}) - F(e_k),   F the cdf of N(mu, s2)
//
// [infinity-former, eq. 16-17], e_k = k / bins with the outer edges moved outwards by 1e-6 as in
// the official code. What lies outside [0,1] is dropped; the sums are not normalised. One cdf per
// edge, in double: the cdfs are summed, then their differences taken, which are never below 0. A
// NaN in a valid query makes its lane's masses NaN; values of invalid queries are ignored. No
// gradient. The same bits for any number of threads.
class Histogram {
 public:
  static constexpr const char* kName = "continuous_ltm_histogram";
  static constexpr uint32_t kInputs = 3;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `set`: the CPU's instruction set. Errors: Failure(MNEME_E_INVALID_ARGUMENT) for less than one
  // bin.
  explicit Histogram(int64_t bins,
                     mneme::cpu::InstructionSet set = mneme::cpu::fastest_instruction_set());

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE) naming the input.
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
#endif

 private:
  HistogramShape shape_of(const mneme::KernelCall& call) const;
  static HistogramBuffers buffers_of(const mneme::KernelCall& call);

  int64_t bins_;
  const HistogramKernels* kernels_;
};

}  // namespace continuous_ltm
