// Segments of token ids as tensors on a device.
#pragma once

#include <ATen/core/Tensor.h>

#include "host/backbone/model.hpp"
#include "host/data/stream.hpp"

namespace mneme::eval {

// Copies a segment to the device: input and target i64 [B,T], target -1 where there is none;
// valid_count is left empty when no lane is padded. Error (kRun) naming lane, position and id for
// ids outside 0 .. vocabulary-1.
[[nodiscard]] backbone::Batch make_batch(const data::Segment& segment, std::int64_t vocabulary,
                                         at::Device device);

}  // namespace mneme::eval
