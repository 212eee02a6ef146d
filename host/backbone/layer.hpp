// One decoder layer: its parameters and what they compute. layer_pass.hpp runs a segment through it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/attention/kernels/choice.hpp"
#include "host/backbone/attention/positions.hpp"
#include "host/backbone/linear.hpp"
#include "host/backbone/parameters.hpp"
#include "host/backbone/rows/dropout.hpp"
#include "host/backbone/rows/norm.hpp"
#include "host/backbone/rows/rows.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/interface/backbone_interface.hpp"

namespace mneme::backbone {

// Rows that the feed-forward part takes at once without gradient: their inner activations, several
// times as wide, stay small beside the rows of a long memory that rides.
inline constexpr std::int64_t kFeedForwardRows = 512;

// What the experiment says of the model, and what layers need besides.
struct LayerSettings : config::ModelConfig {
  at::ScalarType compute = at::kFloat;  // of matrix products
  std::vector<double> slopes = {};      // alibi; else empty
  bool recomputes = false;              // the feed-forward part, in the backward pass
  AttentionDevice device = {};          // that chooses the kernel of attention

  // A norm stands before each part.
  [[nodiscard]] bool is_pre_norm() const { return norm != config::Norm::kPost; }
  // And one behind it, before the residual sum.
  [[nodiscard]] bool has_result_norms() const { return norm == config::Norm::kSandwich; }
  [[nodiscard]] bool is_relative() const { return config::is_relative(position); }
  [[nodiscard]] bool is_rotary() const { return position == config::PositionScheme::kRotary; }
  [[nodiscard]] bool is_gated() const {
    return feed_forward == config::FeedForward::kSwiglu ||
           feed_forward == config::FeedForward::kGeglu;
  }
  // tensor::WithoutRowKernels is on while the model computes.
  [[nodiscard]] bool is_without_row_kernels() const {
    return row_kernels == config::RowKernels::kOperations;
  }
  // Context blocks by place are at the place before the segment's first token.
  [[nodiscard]] bool has_fixed_memory() const {
    return memory_position == config::MemoryPosition::kFixed;
  }
  [[nodiscard]] std::int64_t query_width() const { return heads * head_width; }
  [[nodiscard]] std::int64_t key_width() const { return key_heads() * head_width; }
  [[nodiscard]] double lora_factor() const { return lora_alpha / static_cast<double>(lora_rank); }
};

// A low-rank update of a projection [Hu et al. 2021]: W + factor B A.
struct LowRank {
  at::Tensor a, b;  // [r, inputs], [outputs, r]; undefined = none
};

// Numbers of a token's queries, keys and values, and of the result that the output projection reads:
// H*d, G*d, G*d and H*d. 0 = the layer has no such projection, because a tier that replaces its
// attention does not want it.
struct ProjectionWidths {
  std::int64_t queries = 0, keys = 0, values = 0, result = 0;
  std::int64_t key_width = 0, value_width = 0;  // d of queries and keys, and of values

  [[nodiscard]] std::int64_t all() const { return queries + keys + values; }
  [[nodiscard]] std::int64_t all_with_result() const { return all() + result; }
};

// Of a layer of the model; `replaced` null = it has attention.
ProjectionWidths projection_widths(const config::ModelConfig& model,
                                   const memory::ReplacedAttention* replaced);

// The layer's parameters; position biases may be shared with other layers. Where a tier replaces the
// attention those that it does not want are undefined.
struct LayerWeights {
  at::Tensor qkv, qkv_bias;                // [(H+2G)*d, D], [(H+2G)*d]: queries, keys, values
  LowRank qkv_update, output_update;       // with lora_rank only
  RowNorm query_norm, key_norm;            // [d]; with qk_norm only
  at::Tensor position;                     // [H*d, D]; relative only
  at::Tensor output, output_bias;          // [D, H*d], [D]
  at::Tensor value_factors;                // [2], as Layer::mixed_values has them
  at::Tensor content_bias, position_bias;  // [H,d]; relative only
  RowNorm norm;                            // [D]
  at::Tensor ff_in, ff_in_bias;            // [ff, D], [ff]; gated [2*ff, D]: gate, then up
  at::Tensor ff_out, ff_out_bias;          // [D, ff], [D]
  RowNorm ff_norm;                         // [D]
  RowNorm result_norm, ff_result_norm;     // [D], of the parts' results; has_result_norms only
};

// Queries [B,n,H,d], keys and values [B,n,G,d], as hooks and caches have them: biases and norms of
// heads are in them, positions are not.
struct Projections {
  at::Tensor q, k, v;
};

class Layer {
 public:
  // shared_*: the model's position biases; undefined = the layer makes its own. `replaced`: in place
  // of attention; null = the layer has attention. `is_later`: it has, and so has an earlier layer.
  Layer(std::int64_t index, const LayerSettings& settings, const InitScheme& init,
        const at::Tensor& shared_content, const at::Tensor& shared_position, ParameterStore& store,
        const memory::ReplacedAttention* replaced = nullptr, bool is_later = false);

  [[nodiscard]] std::int64_t index() const { return index_; }
  // False: a tier replaces the attention.
  [[nodiscard]] bool attends() const { return attends_; }
  [[nodiscard]] const ProjectionWidths& widths() const { return widths_; }
  [[nodiscard]] bool is_last() const { return index_ + 1 == settings_->layers; }
  [[nodiscard]] const LayerWeights& weights() const { return weights_; }
  // weights().qkv and output with their updates. The sums are kept during a forward pass; without
  // gradient, until weights_changed().
  [[nodiscard]] const at::Tensor& qkv() const {
    return updated(weights_.qkv, weights_.qkv_update, kept_qkv_);
  }
  [[nodiscard]] const at::Tensor& output() const {
    return updated(weights_.output, weights_.output_update, kept_output_);
  }
  // A weight of the layer for linear().
  [[nodiscard]] at::Tensor in_compute(const at::Tensor& weight) const {
    return converted_->get(weight, settings_->compute);
  }
  [[nodiscard]] const LayerSettings& settings() const { return *settings_; }
  // Factor of scores, before caps.
  [[nodiscard]] double scale() const;
  // Tokens see distances 0 .. window-1; 0 = all.
  [[nodiscard]] std::int64_t window() const { return settings_->window_of(index_); }
  // Attention reads mixed_values(): with model.value_residual, in all layers that have attention but
  // the first of them.
  [[nodiscard]] bool mixes_values() const { return weights_.value_factors.defined(); }
  // a own + b first, with the layer's two learned factors, which begin at 0.5. own, first [B,n,G,d]: the
  // values that this layer projects of rows, and those of the same rows in the first layer with
  // attention [Zhou et al. 2024, Value Residual Learning, arXiv 2410.17897].
  [[nodiscard]] at::Tensor mixed_values(const at::Tensor& own, const at::Tensor& first) const;
  // The norm before attention where there is one, as project() reads it.
  [[nodiscard]] FollowingNorm first_norm() const {
    return {settings_->is_pre_norm() ? &weights_.norm : nullptr, settings_->compute};
  }
  // The norm before attention, of the rows' dtype or of `result`; in a post-norm layer the rows as
  // they are.
  [[nodiscard]] at::Tensor norm_before(const at::Tensor& rows, bool weight_gradient = true) const;
  [[nodiscard]] at::Tensor norm_before(const at::Tensor& rows, bool weight_gradient,
                                       at::ScalarType result) const;
  // Of normed rows [B,n,D]: those that the layer has.
  [[nodiscard]] Projections project(const at::Tensor& rows) const;
  [[nodiscard]] Projections project_keys(const at::Tensor& rows) const;  // without queries
  // One of them alone, [B,n,H|G,d]; undefined when the layer does not have it.
  [[nodiscard]] at::Tensor project(memory::Projector which, const at::Tensor& rows,
                                   bool weight_gradient) const;
  // Projected positions [H,distances+1,d] in descending distance (see positions.hpp). The longest
  // table is kept during a forward pass; without gradient and dropout, until weights_changed().
  at::Tensor projected_positions(std::int64_t distances, PositionTables& tables, bool has_dropout);
  // h + drop(attended), normed in a post-norm layer, as `sum`; h, attended [B,n,D], of which a sandwich
  // norms the second. `normed` is
  // defined where the norm of the feed-forward part was computed with it.
  [[nodiscard]] AddedRows add_attended(const at::Tensor& h, const at::Tensor& attended,
                                       double dropout, Noise& noise) const;
  // The feed-forward part with norm and residual sum, of what add_attended gave: [.., D]. `normed`
  // is defined where the following norm was computed with it.
  [[nodiscard]] AddedRows feed_forward(const AddedRows& rows, double dropout, Noise& noise,
                                       const FollowingNorm& following) const;
  // Forgets sums that belong to the graph of one pass.
  void end_pass();
  void weights_changed() {
    kept_positions_ = KeptPositions();
    pass_positions_ = at::Tensor();
    kept_qkv_ = kept_output_ = Updated();
  }

 private:
  void keep_positions(std::int64_t distances, PositionTables& tables);
  [[nodiscard]] at::Tensor feed_forward(const LayerWeights& weights, const at::Tensor& h,
                                        double dropout, Noise& noise) const;
  // The same in few passes over the rows.
  [[nodiscard]] AddedRows feed_forward_by(const kernel::RowKernels& kernels,
                                          const LayerWeights& weights, const AddedRows& rows,
                                          double dropout, Noise& noise,
                                          const FollowingNorm& following) const;
  // The same, computed a second time in the backward pass; the graph keeps h.
  [[nodiscard]] at::Tensor recomputed_feed_forward(const at::Tensor& h, double dropout,
                                                   Noise& noise) const;

  // A projection with its update; with its graph, or without one.
  struct Updated {
    at::Tensor sum;
    bool has_graph = false;
  };
  [[nodiscard]] const at::Tensor& updated(const at::Tensor& weight, const LowRank& update,
                                          Updated& kept) const;

  std::int64_t index_;
  const LayerSettings* settings_;  // outlives the layer
  bool attends_;
  ProjectionWidths widths_;
  LayerWeights weights_;
  // Projected positions without gradient, the last `filled` rows of room [H,n,d].
  struct KeptPositions {
    at::Tensor room;
    std::int64_t filled = 0;
    [[nodiscard]] at::Tensor last(std::int64_t rows) const {
      return room.narrow(1, room.size(1) - rows, rows);
    }
  };
  KeptPositions kept_positions_;
  at::Tensor pass_positions_;  // of one forward pass, with its graph
  mutable Updated kept_qkv_, kept_output_;
  ConvertedWeights* converted_;
};

}  // namespace mneme::backbone
