// The pass of a segment through a layer: stages 2 to 7. Stage 4 (attention) is the backbone's own,
// in the others the memory's hooks are called (docs/design.md, "Layer contract").
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/attention/columns.hpp"
#include "host/backbone/attention/kernels/fused.hpp"
#include "host/backbone/decoder_services.hpp"
#include "host/backbone/layer.hpp"
#include "host/backbone/rows/rows.hpp"
#include "host/backbone/segment_scope.hpp"
#include "host/memory/interface/backbone_interface.hpp"

namespace mneme::backbone {

// A pass of a whole segment. OpenLayerPass is that of a step of an open segment.
class LayerPass {
 public:
  // Both outlive the pass.
  LayerPass(Layer& layer, SegmentScope& scope)
      : layer_(layer), scope_(scope), services_(layer, scope) {}
  virtual ~LayerPass() = default;

  // h [B,M+T,D] -> [B,M+T,D] with M of SegmentScope::passing_riders(); the last layer drops the riders,
  // [B,T,D], unless the scope keeps them. `normed` is the layer's first norm of h where it is
  // defined, and in the result the norm that follows the layer.
  AddedRows run(const AddedRows& given, const FollowingNorm& following);
  // Stage 4 (attention) of the tokens. q [B,T,H,d]; k, v [B,M+T,G,d]: riders, then tokens. Keys are
  // the context's, in an open segment those of the steps before, and these. Fills z, and lse, mass
  // and the context's projections where wanted.
  struct Wants {
    bool lse = false;
    bool mass = false;
    bool context_projections = false;
  };
  memory::LocalAttention attend_tokens(const memory::LayerContext& context, const at::Tensor& q,
                                       const at::Tensor& k, const at::Tensor& v, Wants wants);

 protected:
  // Keys and values of all columns, in the order of the blocks; k, v as attend_tokens has them.
  virtual std::vector<KeyPiece> all_columns(const ContextColumns& columns, const at::Tensor& k,
                                            const at::Tensor& v);
  // After attention, `local` has q, k and v of the tokens: keeps them for the hooks.
  // own_values [B,T,G,d]: those that the layer projects, before mixed_values().
  virtual void keep_keys(memory::LocalAttention& local, const at::Tensor& own_values);
  // Whether the keys and values of an open segment, which are those that attention read, may be kept for
  // its rows: where they are what the layer projects of these.
  [[nodiscard]] bool keeps_projections() const {
    return layer_.attends() && !layer_.mixes_values() && scope_.hooks.caches_projections();
  }
  // Stage 7 (absorb). x [B,T,D]: the layer's input.
  virtual void absorb(const at::Tensor& x, const memory::LocalAttention& local);

  Layer& layer_;
  SegmentScope& scope_;
  DecoderServices services_;

 private:
  // By what choose_attention takes for these args, without k, v and mask; window 0 = none.
  AttentionOutput attend_columns(AttentionArgs args, const std::vector<KeyPiece>& pieces,
                                 const ColumnLayout& layout, std::int64_t window,
                                 const at::Tensor& valid);
  // The position term of an even step's scores, [H,B,1,room].
  at::Tensor even_position_scores(const at::Tensor& q);
  at::Tensor attention_block(const AddedRows& given, const at::Tensor& x,
                             memory::LocalAttention& local);
  // The values [B,M+T,G,d] of what passes a layer with attention, as attention reads them.
  at::Tensor with_first_values(const at::Tensor& values);
  // In its place where a tier replaces the attention.
  at::Tensor replaced_block(const Projections& all, memory::LocalAttention& local);
};

}  // namespace mneme::backbone
