// The kernels of one instruction set. Each set is one source file that includes the same .inl
// files.
#pragma once

#include <cstdint>
#include <vector>

#include "expectation_args.hpp"
#include "histogram_args.hpp"
#include "signal_args.hpp"

namespace continuous_ltm::cpu {

// A function works on one piece, alone: results do not depend on which thread runs a piece, or
// when. `scratch` has at least so many bytes as *_scratch says, at any address; it belongs to one
// piece at a time and needs no initial value.
struct KernelTable {
  const char* name;

  // A piece is one head of one lane, 0 .. B * H - 1.
  uint64_t (*expect_scratch)(const ExpectationShape&);
  void (*expect)(const ExpectationShape&, const ExpectationBuffers&, void* scratch, int64_t head);
  uint64_t (*expect_backward_scratch)(const ExpectationShape&);
  void (*expect_backward)(const ExpectationShape&, const ExpectationBuffers&,
                          const ExpectationGradients&, void* scratch, int64_t head);

  // A piece is one head of one lane; `below` [2, padded_edges] receives the mass below each edge,
  // its second half is scratch.
  void (*mass_below)(const HistogramShape&, const HistogramBuffers&, double* below, int64_t head);

  // A piece is one panel of kSignalPanel columns of one lane, 0 .. B * ceil(D / kSignalPanel) - 1.
  uint64_t (*signal_scratch)(const SignalShape&);
  void (*signal)(const SignalShape&, const SignalBuffers&, void* scratch, int64_t panel);
};

inline constexpr int64_t kSignalPanel = 64;

// Those that this processor can run, the fastest first; the portable one is always there. Any
// thread.
const std::vector<const KernelTable*>& kernel_tables();

extern const KernelTable kPortableKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;    // AVX2 and FMA
extern const KernelTable kAvx512Kernels;  // AVX-512 F
#endif

}  // namespace continuous_ltm::cpu
