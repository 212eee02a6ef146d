// All kernels for the instruction set of the including file.
#pragma once

#include "cpu/attend.inl"
#include "cpu/differentiate.inl"
#include "cpu/sums.inl"
#include "cpu/turn_table.inl"

namespace lamemo::cpu {
namespace {

constexpr KernelTable make_table(const char* name) {
  return {name,           &turn_table, &attend_scratch, &attend,  &differentiate_scratch,
          &differentiate, &sum_table,  &sum_biases,     &sum_keys};
}

}  // namespace
}  // namespace lamemo::cpu
