// Keys of the attention's columns under rotary positions, turned to their places.
#pragma once

#include <ATen/core/Tensor.h>

#include "host/backbone/attention/columns.hpp"
#include "host/backbone/layer.hpp"

namespace mneme::backbone {

// Keys [G,B,free+placed,d] of the context. Rows by place are in order before the riders and the
// segment's first token, whose place is 0; with memory_position = "fixed" all of them are at place
// -1. Rows with explicit distances are at minus these distances. Keys of rows without positions,
// and of those with a distance to each token, are 0: unplaced_scores and scores_at are their whole
// scores. Undefined without context.
at::Tensor turned_context(const ContextColumns& columns, const LayerSettings& settings,
                          const SegmentScope& scope);

// Keys [G,B,n,d] of a step's k [B,n,G,d]: riders, when they pass with it, then tokens.
at::Tensor turned_rows(const ContextColumns& columns, const at::Tensor& k,
                       const SegmentScope& scope);

// Scaled scores [H,B,T,m] of queries [B,T,H,d] and keys [B,m,G,d], both without positions.
at::Tensor unplaced_scores(const at::Tensor& q, const at::Tensor& k, double scale);

// Scaled scores [H,B,T,m] of queries [B,T,H,d] and keys [B,m,G,d] that are at distance[b,t,m]
// ([B|1,T|1,m] i64) before each query.
at::Tensor scores_at(const at::Tensor& distance, const at::Tensor& q, const at::Tensor& k,
                     double scale, const RotaryTables& rotary);

}  // namespace mneme::backbone
