// The backbone: a decoder around a stack of memories, Transformer-XL's, GPT-2's or one with rotary
// positions as the settings say; without tiers a plain decoder.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "host/backbone/attention/positions.hpp"
#include "host/backbone/attention/rotary.hpp"
#include "host/backbone/embedding/embedding.hpp"
#include "host/backbone/embedding/softmax.hpp"
#include "host/backbone/forward.hpp"
#include "host/backbone/layer.hpp"
#include "host/backbone/parameters.hpp"
#include "host/backbone/rows/dropout.hpp"
#include "host/backbone/rows/norm.hpp"
#include "host/backbone/segment_scope.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/interface/backbone_interface.hpp"
#include "host/memory/segment/segment_hooks.hpp"

namespace mneme::backbone {

class OpenLayer;  // open_layer.hpp

// What making a model needs besides the experiment.
struct ModelSetup {
  std::int64_t vocabulary = 0;
  std::int64_t train_segment = 0;
  std::int64_t eval_segment = 0;
  at::ScalarType dtype = at::kFloat;  // of the parameters: kDouble or kFloat
  bool bf16_autocast = false;         // precision = "bf16"
  at::Device device = at::kCPU;
  std::uint64_t seed = 0;
  std::int64_t bptt_segments = 1;
  bool recomputes = false;  // train.recompute
  // False: the values will be loaded from a checkpoint. Parameters are NaN until they are filled.
  bool draws_parameters = true;
  // Layers whose attention a tier of the memory replaces (Stack::replaced_layers).
  memory::ReplacedLayers replaced = {};
};

class Model {
 public:
  // Settings have been checked (make_model).
  Model(const config::ModelConfig& config, const ModelSetup& setup);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  [[nodiscard]] const std::vector<Parameter>& parameters() const { return store_.all(); }
  [[nodiscard]] memory::BackboneInfo info() const { return info_; }
  [[nodiscard]] std::int64_t vocabulary() const { return vocabulary_; }
  // Dropout on or off.
  void train(bool is_training) { is_training_ = is_training; }
  // One segment: runs stages 2 to 8 of the tiers around its layers (`hooks` ran stage 1, with the
  // same lengths; the caller commits). Gradients follow the caller's grad mode. Errors: Error(kRun
  // | kPlugin).
  Output forward(const Batch& batch, memory::SegmentHooks& hooks,
                 const ForwardOptions& options = {});
  // What forward() leaves out, of rows of `top` [n,D] with their targets i64 [n]: nll [n], and best
  // and correct [n] when asked for. Without dropout and gradient.
  [[nodiscard]] Output losses_of(const at::Tensor& top, const at::Tensor& target,
                                 bool wants_correct) const;
  // Of ids [n] on the CPU, where the model looks them up in clusters: as inputs and types, or as
  // targets (-1 = none). Empty where it does not.
  [[nodiscard]] ClusterPlaces places_of_inputs(const std::vector<std::int64_t>& ids) const;
  [[nodiscard]] ClusterPlaces places_of_targets(const std::vector<std::int64_t>& ids) const;
  // Log-probabilities of every id after rows of the last layer's output: [n,D] -> [n,V], f32 or
  // f64, without gradient.
  [[nodiscard]] at::Tensor log_probabilities(const at::Tensor& top) const;
  // The same up to a number of each row's own, in the compute dtype or as log_probabilities().
  [[nodiscard]] at::Tensor logits(const at::Tensor& top) const;
  // Tokens that a segment may have, with the rows of set_context_rows before it; 0 = any number.
  [[nodiscard]] std::int64_t longest_segment() const;
  // The stack's context capacity of the phase, before the first forward pass of a phase, which
  // refuses more than ModelConfig::longest_context. With model.same_length attention reaches
  // distances 0 .. window-1. Errors: Error(kUsage) when same_length is on and rows is 0.
  void set_context_rows(std::int64_t rows);
  // Drops tables cached for evaluation (projected position tables) and makes copies of weights anew;
  // called when weights change. by_optimizer: as ConvertedWeights::weights_changed.
  void weights_changed(bool by_optimizer = false);
  [[nodiscard]] ConvertedWeights& converted() { return store_.converted(); }
  // Position of the dropout masks: segments trained so far. A checkpoint that keeps it
  // continues bit for bit.
  [[nodiscard]] std::uint64_t noise_position() const { return noise_.position(); }
  void seek_noise(std::uint64_t position) { noise_.seek(position); }
  // For a batch of which other processes compute the other lanes: these lanes get the dropout masks
  // that they have in the whole batch.
  void set_lanes(LaneSlice lanes) { noise_.set_lanes(lanes); }

 private:
  friend class OpenSegment;
  // Input and types [B,n] of a batch, the first with place `offset` in its segment -> [B,n,D].
  // `pieces` as Embedding::forward fills it; null = not wanted.
  at::Tensor embed(const Batch& batch, std::int64_t offset, double dropout,
                   std::vector<WeightRows>* pieces = nullptr);
  // The same of one token of each lane, at place [1] i64.
  at::Tensor embed_at(const at::Tensor& ids, const at::Tensor& place);
  // Errors: Error(kUsage) when the model cannot take a segment of this number of tokens.
  void check_segment(std::int64_t tokens) const;
  SegmentScope scope_of(memory::SegmentHooks& hooks);
  // The tables by which a layer turns queries and keys, and in an even step its turn.
  void set_rotary(std::int64_t layer, SegmentScope& scope) const;
  // Tokens [B,T,D], with the riders before them, through all layers; `outputs` receives every
  // layer's [B,T,D], `of_riders` what the riders are at the end, [B,M,D]. `open`, by layer: of an
  // open segment, whose next step it is; null = a whole segment.
  at::Tensor pass(at::Tensor h, SegmentScope& scope, std::vector<at::Tensor>* outputs,
                  at::Tensor* of_riders, std::vector<OpenLayer>* open = nullptr);

  memory::BackboneInfo info_;
  std::int64_t vocabulary_;
  ClusterPlan plan_;
  LayerSettings settings_;
  ParameterStore store_;
  Noise noise_;
  PositionTables tables_;
  MaskCache masks_;
  std::unique_ptr<Embedding> embedding_;
  std::unique_ptr<RotaryTables> rotary_;        // scheme rotary only
  std::unique_ptr<RotaryTables> local_rotary_;  // of layers with a window; rotary.local_base only
  at::Tensor learned_positions_;                // [longest segment, D]; scheme learned only
  RowNorm final_norm_;                          // with model.final_norm
  std::vector<Layer> layers_;
  std::unique_ptr<Softmax> softmax_;
  bool is_training_ = true;
  std::int64_t context_rows_ = 0;  // of memories; 0 = none, or not set
};

// Builds and initialises the backbone that the experiment names. Initial weights depend on (seed,
// parameter name, shape) alone; which parameters there are depends on ModelSetup::replaced too.
// Errors: Error(kUsage) for settings that do not go together.
std::unique_ptr<Model> make_model(const config::ModelConfig& config, const ModelSetup& setup);

// Error (kUsage) for a segment longer than the model's positions or ModelConfig::longest_context
// allow. `key`: "train.segment".
void check_segment(const config::ModelConfig& config, const char* key, std::int64_t segment);

// `memory::BackboneInfo` for a stack before the model exists (tiers are created first: same_length
// needs their context rows).
memory::BackboneInfo backbone_info(const config::ModelConfig& config, const ModelSetup& setup);

}  // namespace mneme::backbone
