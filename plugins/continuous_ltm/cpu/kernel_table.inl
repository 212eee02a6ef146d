// All kernels for the instruction set of the including file.
#pragma once

#include "cpu/expectation_backward.inl"
#include "cpu/histogram.inl"
#include "cpu/signal.inl"

namespace continuous_ltm::cpu {
namespace {

constexpr KernelTable make_table(const char* name) {
  return {name,        &expect_scratch, &expect, &expect_backward_scratch, &expect_backward,
          &mass_below, &signal_scratch, &signal};
}

}  // namespace
}  // namespace continuous_ltm::cpu
