// All kernels for the instruction set of the including file.
#pragma once

#include "cpu/pool.inl"
#include "cpu/reconstruction.inl"
#include "cpu/reconstruction_sums.inl"

namespace compressive::cpu {
namespace {

constexpr KernelTable make_table(const char* name) {
  return {name,       &reconstruct_scratch, &reconstruct, &sum_groups, &scale_gradients,
          &pool_rows, &pool_backward};
}

}  // namespace
}  // namespace compressive::cpu
