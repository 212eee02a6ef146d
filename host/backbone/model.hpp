// The backbone as trainer and evaluator see it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/backbone/attention/positions.hpp"
#include "host/backbone/dropout.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/interface/backbone_interface.hpp"
#include "host/memory/segment/segment_hooks.hpp"

namespace mneme::backbone {

// A leaf tensor that the optimiser updates. Names are stable: checkpoints use them.
struct Parameter {
  std::string name;
  at::Tensor tensor;
  bool decays = true;  // false for biases and norms
};

// True for the names of low-rank updates [Hu et al. 2021], with or without "model.": an update of a
// projection has A [r, inputs] and B [outputs, r], of which B begins as 0.
bool is_low_rank_update(std::string_view parameter);

// A segment's input. Ids are int64 [B,T]; target -1 = no loss at that place (padding, or not asked
// for).
struct Batch {
  at::Tensor input;                  // [B,T]
  at::Tensor target;                 // [B,T]; undefined = no loss
  std::vector<int64_t> valid_count;  // [B]; empty = T each
  at::Tensor types{};                // [B,T] ids whose embeddings are added; undefined = none
};

// The results of a segment.
struct Output {
  at::Tensor nll;   // [B,T] negative log-likelihood in nats, token order, 0 where target is -1;
                    // undefined without targets
  at::Tensor top;   // [B,T,D] the last layer's output, before the final dropout
  at::Tensor best;  // [B,T] i64: the arg max, also where the target is -1; undefined unless asked
                    // for, and without targets
  at::Tensor correct;  // [B,T] bool: the arg max is the target; undefined as `best`
};

// Optional results of a forward pass besides the loss; a Tap records intermediate results (tests,
// analysis).
struct ForwardOptions {
  bool wants_correct = false;  // Output::best and Output::correct
  // Unless a tier wants log-probabilities, Output has `top` alone: the caller asks losses_of() for
  // the rest, of several segments at once, for which the output layer is read once.
  bool may_leave_losses = false;
  struct Tap {
    std::vector<at::Tensor> attention_out;  // per layer [B,T,D]: output of the attention block
                                            // (after projection, residual and, in post-norm, norm)
    std::vector<at::Tensor> layer_out;      // per layer [B,T,D]
    // Of riders [B,M,D], as the two above, for every layer but the last; empty without riders.
    std::vector<at::Tensor> rider_attention_out, rider_layer_out;
    at::Tensor embedded;  // [B,T,D] input of layer 0
  };
  Tap* tap = nullptr;
  AttentionByDistance* distances = nullptr;  // takes in every layer's attention of the tokens
};

// A segment that grows step by step (generation); gives the numbers of one whole segment when no
// tier lets a token see a later one (docs/design.md, "Cuts"). Evaluation only, without gradient.
// After an error the segment cannot be used.
class OpenSegment {
 public:
  virtual ~OpenSegment() = default;
  // New tokens, i64 [B,n], and their types (Batch): runs stages 3, 4 and 6, in the first step 2 and
  // 5 too. Returns the last layer's output for them, [B,n,D]. The first step has the length that
  // the hooks were begun with. Errors: Error(kRun | kPlugin); Error(kUsage) when the segment grows
  // beyond the learned positions or beyond what a tier serves.
  virtual at::Tensor step(const at::Tensor& ids, const at::Tensor& types = {}) = 0;
  // Stages 7 and 8; the caller commits the hooks.
  virtual void close() = 0;
  // Between steps: keeps `lanes`, in that order (repeats allowed), of segment, hooks and state.
  virtual void select(const std::vector<int64_t>& lanes) = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const std::vector<Parameter>& parameters() const = 0;
  virtual memory::BackboneInfo info() const = 0;
  virtual int64_t vocabulary() const = 0;
  // Dropout on or off.
  virtual void train(bool is_training) = 0;
  // One segment: runs stages 2 to 8 of the tiers around its layers (`hooks` ran stage 1, with the
  // same lengths; the caller commits). Gradients follow the caller's grad mode. Errors: Error(kRun
  // | kPlugin).
  virtual Output forward(const Batch& batch, memory::SegmentHooks& hooks,
                         const ForwardOptions& options = {}) = 0;
  // What forward() leaves out, of rows of `top` [n,D] with their targets i64 [n]: nll [n], and best
  // and correct [n] when asked for. Without dropout and gradient.
  virtual Output losses_of(const at::Tensor& top, const at::Tensor& target,
                           bool wants_correct) const = 0;
  // Opens a segment; `hooks` was begun with SegmentInput::is_open and outlives it.
  virtual std::unique_ptr<OpenSegment> open(memory::SegmentHooks& hooks) = 0;
  // Log-probabilities of every id after rows of the last layer's output: [n,D] -> [n,V], f32 or
  // f64, without gradient.
  virtual at::Tensor log_probabilities(const at::Tensor& top) const = 0;
  // Tokens that a segment may have, with the rows of set_context_rows before it; 0 = any number.
  virtual int64_t longest_segment() const { return 0; }
  // The stack's context capacity of the phase, before the first forward pass of a phase, which
  // refuses more than ModelConfig::longest_context. With model.same_length attention reaches
  // distances 0 .. window-1. Errors: Error(kUsage) when same_length is on and rows is 0.
  virtual void set_context_rows(int64_t rows) = 0;
  // Drops tables cached for evaluation (projected position tables); called when weights change.
  virtual void weights_changed() = 0;
  // Position of the dropout generator: segments trained so far. A checkpoint that keeps it
  // continues bit for bit.
  virtual uint64_t noise_position() const { return 0; }
  virtual void seek_noise(uint64_t position) { (void)position; }
  // For a batch of which other processes compute the other lanes: these lanes get the dropout masks
  // that they have in the whole batch.
  virtual void set_lanes(LaneSlice lanes) { (void)lanes; }
};

// What making a model needs besides the experiment.
struct ModelSetup {
  int64_t vocabulary = 0;
  int64_t train_segment = 0;
  int64_t eval_segment = 0;
  at::ScalarType dtype = at::kFloat;  // of the parameters: kDouble or kFloat
  bool bf16_autocast = false;         // precision = "bf16"
  at::Device device = at::kCPU;
  uint64_t seed = 0;
  int64_t bptt_segments = 1;
  bool recomputes = false;  // train.recompute
  // False: the values will be loaded from a checkpoint. Parameters are NaN until they are filled.
  bool draws_parameters = true;
};

// Builds and initialises the backbone that the experiment names. Initial weights depend on (seed,
// parameter name) alone, never on the memory. Errors: Error(kUsage) for settings that do not go
// together.
std::unique_ptr<Model> make_model(const config::ModelConfig& config, const ModelSetup& setup);

// `memory::BackboneInfo` for a stack before the model exists (tiers are created first: same_length
// needs their context rows).
memory::BackboneInfo backbone_info(const config::ModelConfig& config, const ModelSetup& setup);

}  // namespace mneme::backbone
