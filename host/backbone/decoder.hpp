// The backbone: a decoder around a stack of memories, Transformer-XL's, GPT-2's or one with rotary
// positions as the settings say; without tiers a plain decoder.
#pragma once

#include <memory>
#include <vector>

#include "host/backbone/attention/positions.hpp"
#include "host/backbone/attention/rotary.hpp"
#include "host/backbone/dropout.hpp"
#include "host/backbone/embedding/embedding.hpp"
#include "host/backbone/embedding/softmax.hpp"
#include "host/backbone/layer.hpp"
#include "host/backbone/model.hpp"
#include "host/backbone/norm.hpp"
#include "host/backbone/parameters.hpp"

namespace mneme::backbone {

// Error(kUsage) where attention would see more than ModelConfig::longest_context: `tokens` of a
// segment and `rows` of memories. `where` is for the message.
void check_context(const config::ModelConfig& config, int64_t tokens, int64_t rows,
                   const std::string& where);

class Decoder final : public Model {
 public:
  // Settings have been checked (see make_model).
  Decoder(const config::ModelConfig& config, const ModelSetup& setup);

  const std::vector<Parameter>& parameters() const override { return store_.all(); }
  memory::BackboneInfo info() const override { return info_; }
  int64_t vocabulary() const override { return vocabulary_; }
  void train(bool is_training) override { is_training_ = is_training; }
  Output forward(const Batch& batch, memory::SegmentHooks& hooks,
                 const ForwardOptions& options = {}) override;
  Output losses_of(const at::Tensor& top, const at::Tensor& target,
                   bool wants_correct) const override;
  std::unique_ptr<OpenSegment> open(memory::SegmentHooks& hooks) override;
  at::Tensor log_probabilities(const at::Tensor& top) const override;
  int64_t longest_segment() const override;
  void weights_changed() override;
  uint64_t noise_position() const override { return noise_.position(); }
  void seek_noise(uint64_t position) override { noise_.seek(position); }
  void set_lanes(LaneSlice lanes) override { noise_.set_lanes(lanes); }
  void set_context_rows(int64_t rows) override;

  const config::ModelConfig& config() const { return config_; }
  const Softmax& softmax() const { return *softmax_; }

 private:
  friend class DecoderSegment;
  // ids and types [B,n] (Batch), the first with place `offset` in its segment -> [B,n,D].
  // `pieces` as Embedding::forward fills it; null = not wanted.
  at::Tensor embed(const at::Tensor& ids, const at::Tensor& types, int64_t offset, double dropout,
                   std::vector<WeightRows>* pieces = nullptr);
  // Errors: Error(kUsage) when the model cannot take a segment of this number of tokens.
  void check_segment(int64_t tokens) const;
  SegmentScope scope_of(memory::SegmentHooks& hooks);
  // Tokens [B,T,D], with the riders before them, through all layers; `outputs` receives every
  // layer's [B,T,D], `of_riders` what the riders are at the end, [B,M,D].
  at::Tensor pass(at::Tensor h, SegmentScope& scope, std::vector<at::Tensor>* outputs,
                  at::Tensor* of_riders = nullptr);

  config::ModelConfig config_;
  memory::BackboneInfo info_;
  int64_t vocabulary_;
  LayerSettings settings_;
  ParameterStore store_;
  Noise noise_;
  PositionTables tables_;
  MaskCache masks_;
  std::unique_ptr<Embedding> embedding_;
  std::unique_ptr<RotaryTables> rotary_;  // scheme rotary only
  at::Tensor learned_positions_;          // [longest segment, D]; scheme learned only
  Norm final_norm_;                       // with model.final_norm
  std::vector<Layer> layers_;
  std::unique_ptr<Softmax> softmax_;
  bool is_training_ = true;
  int64_t context_rows_ = 0;  // of memories; 0 = none, or not set
};

}  // namespace mneme::backbone
