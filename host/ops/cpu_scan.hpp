// Looking for special values in a result that lies in the CPU's memory: a few nanoseconds in place
// of the kernels that treat them, when there are none. On other devices the values are not read.
#pragma once

#include <ATen/core/Tensor.h>

namespace mneme::ops {

// False when `y`, a contiguous float CPU tensor, has no NaN at place 0 of dimension `dim`; true
// when it has one or cannot be looked at.
bool may_have_nan_rows(const at::Tensor& y, int64_t dim);
// The same for infinite elements anywhere.
bool may_have_infinities(const at::Tensor& y);

}  // namespace mneme::ops
