// The key columns of a layer's attention: gathered, projected, masked.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/attention/positions.hpp"
#include "host/backbone/layer.hpp"
#include "host/backbone/segment_scope.hpp"

namespace mneme::backbone {

// The places of a context's rows, block by block.
struct ContextPlaces {
  std::vector<memory::PositionKind> kinds = {};
  std::vector<at::Tensor> distances = {};  // ContextBlock::distance
  at::Tensor lane_order = {};              // ContextColumns::lane_order

  // False where that cannot be told without waiting for a device.
  bool operator==(const ContextPlaces& other) const;
};

// Keys and values of the context in the order that attention uses: blocks without places first,
// then blocks by place. Block::index is the index among the blocks of LayerContext that have rows;
// "the order of LayerContext::blocks" below is that of these indices.
struct ContextColumns {
  struct Block {
    const memory::ContextBlock* source = nullptr;
    std::int64_t index = 0;  // among the blocks of LayerContext::blocks that have rows
    at::Tensor k, v;         // [B,m,G|H,d], without positions
    at::Tensor first_v{};    // of the same rows in the first layer; undefined = v is not mixed
    [[nodiscard]] std::int64_t rows() const { return source->rows.count; }
    [[nodiscard]] bool is_placed() const {
      return source->position == memory::PositionKind::kPlace;
    }
  };
  std::vector<Block> blocks;
  const Layer* layer = nullptr;  // of blocks with first_v
  std::int64_t free = 0;         // rows without places
  std::int64_t placed = 0;       // rows by place, without riders and tokens
  // Heads of all keys and values: the layer's G, or H when a hook has given keys of every head.
  std::int64_t key_heads = 0;
  // A permutation of the columns for each lane, [B,placed+M] i64, with the invalid ones first; it
  // is made when some lane has a placed column or rider that is invalid to the right of a valid
  // one. With it the lane's rows have the distances of that lane run alone. Undefined = the same
  // order in every lane.
  at::Tensor lane_order;

  [[nodiscard]] bool is_reordered() const;
  [[nodiscard]] ContextPlaces places() const;
  // Keys or values [B,n,G|H,d] with key_heads heads; `rows` itself where it has this number
  // already.
  [[nodiscard]] at::Tensor of_all_heads(const at::Tensor& rows) const;
  // The block's values as attention reads them, [B,m,G|H,d].
  [[nodiscard]] at::Tensor values(const Block& block) const;
  // Applies that order to t, whose columns [free; placed; riders; rest] lie along `dim` and lanes
  // (or 1) along `lane_dim`.
  [[nodiscard]] at::Tensor in_lane_order(const at::Tensor& t, std::int64_t lane_dim,
                                         std::int64_t dim) const;
  // Columns [B, free + placed + riders + rest] back in the order of LayerContext::blocks.
  [[nodiscard]] at::Tensor original_order(const at::Tensor& columns) const;
  // Keys and values of the blocks in the order of LayerContext::blocks, of key_heads heads: what the
  // layer projects, or was given.
  void projections(std::vector<at::Tensor>& k, std::vector<at::Tensor>& v) const;
};

// Projects what has no kept projection (all neighbours of one kind in one product) and keeps it
// where the run allows. Errors: Error(kPlugin) for keys and values of another dtype than the layer
// computes in; Error(kUsage) for rows whose values in the first layer, which are to be added to theirs,
// are not there.
ContextColumns gather_context(const memory::LayerContext& context, const Layer& layer,
                              const SegmentScope& scope);

// Which columns exist, in the lanes' order: [B,K] bool; undefined = all.
at::Tensor valid_columns(const ContextColumns& context, std::int64_t lanes, std::int64_t tokens,
                         const SegmentScope& scope);

// The additive mask [1|H,1|B,T,K] of lengths, window (0 = none) and those columns; undefined = all
// are seen.
at::Tensor mask_columns(const ColumnLayout& layout, const at::Tensor& valid, std::int64_t window,
                        const LayerSettings& settings, SegmentScope& scope);

// Differentiable score terms [1|H,1|B,1|T,K] of blocks, tokens, explicit distances and, under
// rotary positions, the whole scores of rows without positions; undefined = none. -inf where an
// explicit distance is outside of the layer's window, and where a column is of another document
// than the token.
//   q [B,T,H,d]: the tokens' queries
at::Tensor bias_columns(const ContextColumns& context, const memory::LayerContext& source,
                        const at::Tensor& q, const Layer& layer, SegmentScope& scope);

// Whether some lane may have an invalid row to the right of a valid one, in blocks[from ..)
// followed by riders of this validity. Told from the blocks' row counts, which lie on the CPU:
// false is certain, true is not.
bool may_have_gaps(const std::vector<ContextColumns::Block>& blocks, std::size_t from,
                   const at::Tensor& rider_valid);

}  // namespace mneme::backbone
