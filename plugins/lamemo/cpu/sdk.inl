// What the kernels take from the SDK.
#pragma once

#include "mneme/cpu/elements.inl"
#include "mneme/cpu/product.inl"
#include "mneme/cpu/scratch.inl"

namespace lamemo::cpu {
using namespace mneme::cpu;  // NOLINT: all of it has internal linkage
}  // namespace lamemo::cpu
