// Shared by the kernel tests of the Compressive Transformer.
#pragma once

#include <string>
#include <vector>

#include "plugins/compressive/kernels/reference/kernels.hpp"
#include "tests/plugins/kernel_compare.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::test {

namespace reference = compressive::reference;

}  // namespace mneme::test
