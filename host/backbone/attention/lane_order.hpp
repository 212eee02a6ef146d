// Which key column stands where in a lane: rows that a lane does not have take no place.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/attention/columns.hpp"

namespace mneme::backbone {

// [B, sum m] bool of blocks[from ..).
at::Tensor validity(const std::vector<ContextColumns::Block>& blocks, size_t from);
at::Tensor all_valid(int64_t lanes, int64_t columns, at::Device device);

// False when the counts of blocks[from ..), which lie on the CPU, tell that no lane has a row and
// lacks one right of it, in these blocks or in riders of this validity.
bool may_have_gaps(const std::vector<ContextColumns::Block>& blocks, size_t from,
                   const at::Tensor& rider_valid);

// ContextColumns::lane_order of these blocks, those by place last, and the scope's riders. On other
// devices than the CPU masks are not looked at, which would wait for the device: columns that may
// have gaps are put in order.
at::Tensor order_in_lanes(const std::vector<ContextColumns::Block>& blocks,
                          const SegmentScope& scope);

// t with columns [from, from + order.size(1)) along `dim` in the order of each lane, order [B,n]
// i64; lanes (or 1) along `lane_dim`.
at::Tensor in_order(const at::Tensor& t, int64_t from, const at::Tensor& order, int64_t lane_dim,
                    int64_t dim);

}  // namespace mneme::backbone
