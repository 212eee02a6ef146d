#include "host/backbone/decoder.hpp"

#include <algorithm>

#include "host/backbone/open_layer.hpp"
#include "host/base/error.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

LayerSettings layer_settings(const config::ModelConfig& config, const ModelSetup& setup,
                             at::ScalarType compute) {
  LayerSettings s;
  s.layers = config.layers;
  s.width = config.width;
  s.heads = config.heads;
  s.kv_heads = config.key_heads();
  s.head_width = config.head_width;
  s.ff = config.ff;
  s.is_pre_norm = config.norm == config::Norm::kPre;
  s.norm_kind = config.norm_kind;
  s.norm_epsilon = config.norm_epsilon;
  s.feed_forward = config.feed_forward;
  s.qk_norm = config.qk_norm;
  s.scale_by_layer = config.scale_by_layer;
  s.lora_rank = config.lora_rank;
  if (config.lora_rank > 0)
    s.lora_factor = config.lora_alpha / static_cast<double>(config.lora_rank);
  s.qkv_bias = config.qkv_bias;
  s.output_bias = config.output_bias;
  s.ff_bias = config.ff_bias;
  s.has_fixed_memory = config.memory_position == config::MemoryPosition::kFixed;
  s.position = config.position;
  s.clamp_distance = config.clamp_distance;
  s.dropout = config.dropout;
  s.attention_dropout = config.attention_dropout;
  s.compute = compute;
  s.recomputes = setup.recomputes;
  if (config.position == config::PositionScheme::kAlibi) s.slopes = alibi_slopes(config.heads);
  return s;
}

int64_t learned_positions(const config::ModelConfig& config, const ModelSetup& setup) {
  return config.positions > 0 ? config.positions
                              : std::max(setup.train_segment, setup.eval_segment);
}

at::Tensor valid_mask(const Batch& batch) {
  const int64_t tokens = batch.input.size(1);
  const auto is_full = [&](int64_t n) { return n == tokens; };
  if (std::all_of(batch.valid_count.begin(), batch.valid_count.end(), is_full)) return {};
  const at::Tensor counts = at::tensor(batch.valid_count, at::kLong).unsqueeze(1);
  return tensor::to_device(at::arange(tokens, at::kLong).unsqueeze(0).lt(counts),
                           batch.input.device());
}

}  // namespace

void check_context(const config::ModelConfig& config, int64_t tokens, int64_t rows,
                   const std::string& where) {
  const int64_t longest = config.longest_context();
  if (longest == 0 || tokens + rows <= longest) return;
  const bool is_window = longest == config.window;
  throw_usage(ErrorText{
      .where = where,
      .failed = is_window
                    ? str("the context is longer than the model's sliding window, model.window "
                          "= ",
                          longest, ", which is not computed")
                    : str("the context is longer than model.rotary.original_positions = ", longest,
                          ", up to which scaling = \"dynamic\" has no effect"),
      .expected = str("at most ", longest, " tokens of a segment and rows of memories"),
      .got = rows == 0 ? str(tokens, " tokens") : str(tokens, " tokens and ", rows, " rows"),
      .hint =
          str("shorten the segment or the memory; to pass it over, import the model's folder with "
              "--ignore ",
              is_window ? "sliding_window" : "rope_scaling")});
}

Decoder::Decoder(const config::ModelConfig& config, const ModelSetup& setup)
    : config_(config),
      info_(backbone_info(config, setup)),
      vocabulary_(setup.vocabulary),
      settings_(layer_settings(config, setup, info_.compute_dtype)),
      store_(setup.seed, setup.dtype, setup.device, setup.draws_parameters),
      noise_(setup.seed, setup.device),
      tables_(config.width, config.clamp_distance,
              at::TensorOptions().dtype(setup.dtype).device(setup.device), &noise_) {
  const InitScheme init{config.init, config.layers};
  if (settings_.is_rotary()) {
    rotary_ = std::make_unique<RotaryTables>(config.rotary, config.head_width, setup.device);
  }
  const ClusterPlan plan = plan_clusters(config, vocabulary_);
  embedding_ = std::make_unique<Embedding>(config, plan, init, store_);
  if (config.position == config::PositionScheme::kLearned) {
    learned_positions_ = store_.make(
        "position.embedding", {learned_positions(config, setup), config.width}, init.table());
  }
  at::Tensor content, position;
  if (settings_.is_relative() && !config.untie_position_bias) {
    const std::vector<int64_t> shape = {config.heads, config.head_width};
    content = store_.make("attention.content_bias", shape, init.position_bias(), false);
    position = store_.make("attention.position_bias", shape, init.position_bias(), false);
  }
  for (int64_t l = 0; l < config.layers; ++l) {
    layers_.emplace_back(l, settings_, init, content, position, store_);
  }
  if (config.final_norm) {
    final_norm_ =
        make_norm("final_norm", config.width, config.norm_kind, config.norm_epsilon, init, store_);
  }
  softmax_ = std::make_unique<Softmax>(config, plan, *embedding_, init, store_);
}

void Decoder::weights_changed() {
  for (Layer& layer : layers_) layer.weights_changed();
  softmax_->weights_changed();
}

void Decoder::set_context_rows(int64_t rows) {
  if (config_.same_length && rows < 1) {
    throw_usage(ErrorText{.where = "model.same_length",
                          .failed = "there is no window to keep",
                          .expected = "memory tiers whose contexts hold at least one row",
                          .got = str(rows, " rows"),
                          .hint = "add a tier with rows, or set same_length = false"});
  }
  context_rows_ = rows;
}

void Decoder::check_segment(int64_t tokens) const {
  if (config_.same_length && context_rows_ == 0) {
    throw_usage(ErrorText{.where = "model.same_length",
                          .failed = "the window is not known",
                          .hint = "call set_context_rows before the first forward pass"});
  }
  check_context(config_, tokens, context_rows_, "model");
  if (learned_positions_.defined() && tokens > learned_positions_.size(0)) {
    throw_usage(ErrorText{.where = "model.position = \"learned\"",
                          .failed = "the segment is longer than the learned positions",
                          .expected = str("at most ", learned_positions_.size(0), " tokens"),
                          .got = str(tokens),
                          .hint = "train with longer segments, or use position = \"relative\""});
  }
}

int64_t Decoder::longest_segment() const {
  if (learned_positions_.defined()) return learned_positions_.size(0);
  const int64_t context = config_.longest_context();
  return context == 0 ? 0 : std::max<int64_t>(context - context_rows_, 1);
}

at::Tensor Decoder::embed(const at::Tensor& ids, const at::Tensor& types, int64_t offset,
                          double dropout, std::vector<WeightRows>* pieces) {
  at::Tensor x = pieces == nullptr ? embedding_->forward(ids, settings_.compute)
                                   : embedding_->forward(ids, settings_.compute, *pieces);
  if (types.defined()) x = x + embedding_->forward(types, settings_.compute);
  if (learned_positions_.defined()) x = x + learned_positions_.narrow(0, offset, ids.size(1));
  return noise_.apply(x, dropout);
}

SegmentScope Decoder::scope_of(memory::SegmentHooks& hooks) {
  SegmentScope scope{
      .hooks = hooks, .tables = tables_, .rotary = rotary_.get(), .masks = masks_, .noise = noise_};
  scope.is_training = is_training_;
  scope.window = config_.same_length ? context_rows_ : 0;
  const memory::Riders& riders = hooks.riders();
  if (riders.rows.defined() && riders.count > 0) {
    scope.riders = riders.count - riders.unseen;
    scope.unseen = riders.unseen;
    if (riders.valid.defined())
      scope.rider_valid = riders.valid.narrow(1, riders.unseen, scope.riders);
  }
  return scope;
}

at::Tensor Decoder::pass(at::Tensor h, SegmentScope& scope, std::vector<at::Tensor>* outputs,
                         at::Tensor* of_riders) {
  const int64_t tokens = h.size(1);
  scope.keeps_riders = of_riders != nullptr;
  if (scope.passing() > 0) h = at::cat({scope.hooks.riders().rows.to(h.scalar_type()), h}, 1);
  for (Layer& layer : layers_) {
    h = layer.forward(h, scope);
    if (outputs != nullptr) outputs->push_back(h.narrow(1, h.size(1) - tokens, tokens));
  }
  if (config_.final_norm) h = final_norm_(h);
  const int64_t riders = h.size(1) - tokens;
  if (riders == 0) return h;
  *of_riders = h.narrow(1, 0, riders);
  return h.narrow(1, riders, tokens);
}

std::unique_ptr<OpenSegment> Decoder::open(memory::SegmentHooks& hooks) {
  return std::make_unique<DecoderSegment>(*this, hooks);
}

Output Decoder::losses_of(const at::Tensor& top, const at::Tensor& target,
                          bool wants_correct) const {
  const at::NoGradGuard no_grad;
  const Softmax::Result result = softmax_->forward(top, target, wants_correct, settings_.compute);
  return {.nll = result.nll, .top = top, .best = result.best, .correct = result.correct};
}

at::Tensor Decoder::log_probabilities(const at::Tensor& top) const {
  const at::NoGradGuard no_grad;
  return softmax_->log_probabilities(top, settings_.compute);
}

Output Decoder::forward(const Batch& batch, memory::SegmentHooks& hooks,
                        const ForwardOptions& options) {
  const int64_t lanes = batch.input.size(0), tokens = batch.input.size(1);
  check_segment(tokens);
  const double dropout = is_training_ ? config_.dropout : 0.0;
  if (is_training_) noise_.next_segment();
  tables_.begin_segment(dropout);
  std::vector<WeightRows> pieces;
  at::Tensor h =
      embed(batch.input, batch.types, 0, dropout, batch.target.defined() ? &pieces : nullptr);
  if (options.tap != nullptr) options.tap->embedded = h.detach();
  SegmentScope scope = scope_of(hooks);
  scope.token_valid = valid_mask(batch);
  scope.tap = options.tap;
  scope.distances = options.distances;
  std::vector<at::Tensor> layers;
  at::Tensor of_riders;
  h = pass(h, scope, hooks.wants_layer_outputs() ? &layers : nullptr,
           hooks.wants_rider_outputs() ? &of_riders : nullptr);
  Output out;
  out.top = h;
  at::Tensor logp;
  if (batch.target.defined() && !(options.may_leave_losses && !hooks.wants_logp())) {
    const Softmax::Result result = softmax_->forward(
        noise_.apply(h, dropout).reshape({lanes * tokens, config_.width}), batch.target.reshape(-1),
        options.wants_correct, settings_.compute, pieces);
    out.nll = result.nll.view({lanes, tokens});
    if (result.best.defined()) {
      out.best = result.best.view({lanes, tokens});
      out.correct = result.correct.view({lanes, tokens});
    }
    logp = -out.nll;
  }
  hooks.finish(out.top, layers, batch.target, logp, of_riders);
  return out;
}

}  // namespace mneme::backbone
