// The kernel behind sticky memories: how much attention each stretch of the memory received.
#pragma once

#include "histogram_args.hpp"
#include "mneme/cpp/kernel.hpp"

namespace continuous_ltm {

namespace cpu {
struct KernelTable;
}  // namespace cpu

// Inputs   0 mu [B,H,T]   1 variance s2 [B,H,T], above 0, f32 or f64   2 valid [B,T] bool
// Output   0 mass [B,bins] f64
//
//   mass_k = sum over heads and valid queries of F(e_{k+1}) - F(e_k),   F the cdf of N(mu, s2)
//
// [infinity-former, eq. 16-17], e_k = k / bins with the outer edges moved outwards by 1e-6 as in
// the official code. What lies outside [0,1] is dropped; the sums are not normalised. One cdf an
// edge, in double: the cdfs are summed, then their differences taken, which are never below 0. A
// NaN in a valid query makes its lane's masses NaN; queries that are not valid may hold anything.
// No gradient. The same bits for any number of threads.
class Histogram {
 public:
  static constexpr const char* kName = "continuous_ltm_histogram";
  static constexpr uint32_t kInputs = 3;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `table`: the CPU's instruction set, the best one when null. Errors:
  // Failure(MNEME_E_INVALID_ARGUMENT) for less than one bin.
  explicit Histogram(int64_t bins, const cpu::KernelTable* table = nullptr);

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE) naming the input.
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
#endif

 private:
  HistogramShape shape_of(const mneme::KernelCall& call) const;

  int64_t bins_;
  const cpu::KernelTable* table_;
};

}  // namespace continuous_ltm
