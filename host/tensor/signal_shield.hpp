// Keeps signal handlers away from code that moves the stack pointer.
#pragma once

#include <signal.h>

namespace mneme::tensor {

// While one lives, its thread takes no signal but those of its own faults; what arrives waits. The
// program's other threads take none at all (host/thread_birth.cpp).
//
// oneDNN's AVX-512 product of f32 matrices (implementation "x64:gemm:jit", which it takes for many
// shapes and layouts) keeps a matrix's address in the stack pointer while it runs: a handler
// without a stack of its own (SA_ONSTACK) would be entered there and write its frame into the heap.
// A pair of calls costs .4 microseconds, a product 25 and more.
class SignalShield {
 public:
  SignalShield();
  ~SignalShield();
  SignalShield(const SignalShield&) = delete;
  SignalShield& operator=(const SignalShield&) = delete;

 private:
  sigset_t before_;
};

}  // namespace mneme::tensor
