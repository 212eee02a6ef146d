// The key columns of a layer's attention: gathered, projected, masked.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/attention/positions.hpp"
#include "host/backbone/layer.hpp"

namespace mneme::backbone {

// Keys and values of the context in the order that attention uses: blocks without places first,
// then blocks by place; `order` says which block stands where.
struct ContextColumns {
  struct Block {
    const memory::ContextBlock* source = nullptr;
    int64_t index = 0;  // in LayerContext::blocks
    at::Tensor k, v;    // [B,m,H,d]
    int64_t rows() const { return source->rows.count; }
    bool is_placed() const { return source->position == memory::PositionKind::kPlace; }
  };
  std::vector<Block> blocks;
  int64_t free = 0;    // rows without places
  int64_t placed = 0;  // rows by place
  // Where some lane lacks a placed column or a rider right of one that it has: which of them stands
  // at each place of a lane, [B,placed+M] i64, those that it lacks first, so that its rows have the
  // distances of that lane alone. Undefined = the order of the columns in every lane.
  at::Tensor lane_order;

  bool is_reordered() const;
  // t with columns [free; placed; riders; rest] along `dim` and lanes (or 1) along `lane_dim`, the
  // placed columns and riders in the lanes' own order.
  at::Tensor in_lane_order(const at::Tensor& t, int64_t lane_dim, int64_t dim) const;
  // Columns [B, free + placed + riders + rest] back in the order of LayerContext::blocks.
  at::Tensor original_order(const at::Tensor& columns) const;
  // Keys and values of the blocks in the order of LayerContext::blocks.
  void projections(std::vector<at::Tensor>& k, std::vector<at::Tensor>& v) const;
};

// Projects what has no kept projection (all neighbours of one kind in one product) and keeps it
// where the run allows. Errors: Error(kPlugin) for keys and values of another dtype than the layer
// computes in.
ContextColumns gather_context(const memory::LayerContext& context, const Layer& layer,
                              int64_t index, const SegmentScope& scope);

// The additive mask [1|H,1|B,T,K] of lengths, window and validity. may_be_empty tells whether a
// query may be left without keys.
struct ColumnMask {
  at::Tensor mask;
  bool may_be_empty = false;
};
ColumnMask mask_columns(const ContextColumns& context, int64_t lanes, int64_t tokens,
                        const LayerSettings& settings, SegmentScope& scope);

// Differentiable score terms [1|H,1|B,1|T,K] of blocks, tokens and explicit distances; undefined =
// none.
//   q [B,T,H,d]: the tokens' queries
at::Tensor bias_columns(const ContextColumns& context, const memory::LayerContext& source,
                        const at::Tensor& q, const Layer& layer, SegmentScope& scope);

// Which key column stands where in a lane: rows that a lane does not have take no place.

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
