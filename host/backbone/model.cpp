#include "host/backbone/model.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "host/backbone/layer_pass.hpp"
#include "host/backbone/open/open_layer.hpp"
#include "host/base/error.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"
#include "mneme/plugin.h"

namespace mneme::backbone {
namespace {

using config::PositionScheme;

// Refuses a context longer than ModelConfig::longest_context: `tokens` of a segment and `rows` of
// memories. `where` is for the message.
void check_context(const config::ModelConfig& config, std::int64_t tokens, std::int64_t rows,
                   const std::string& where) {
  const std::int64_t longest = config.longest_context();
  if (longest == 0 || tokens + rows <= longest) return;
  throw_usage(ErrorText{
      .where = where,
      .failed = str("the context is longer than model.rotary.original_positions = ", longest,
                    ", up to which scaling = \"dynamic\" has no effect"),
      .expected = str("at most ", longest, " tokens of a segment and rows of memories"),
      .got = rows == 0 ? str(tokens, " tokens") : str(tokens, " tokens and ", rows, " rows"),
      .hint = "shorten the segment or the memory; to pass it over, import the model's folder with "
              "--ignore rope_scaling"});
}

void refuse(const std::string& key, const std::string& failed, const std::string& expected,
            const std::string& hint) {
  throw_usage(ErrorText{.where = key, .failed = failed, .expected = expected, .hint = hint});
}

void check(const config::ModelConfig& c, const ModelSetup& setup) {
  if (auto problem = config::find_position_problem(c)) {
    problem->where.insert(0, "model.");
    throw_usage(*problem);
  }
  if (setup.vocabulary < 1) {
    refuse("data", str("the vocabulary has ", setup.vocabulary, " ids"), "at least one id",
           "check the training data");
  }
  if (setup.bf16_autocast && setup.dtype != at::kFloat) {
    refuse("train.precision", "bf16 needs parameters in f32", "parameters in f32",
           "choose one of f64, f32 and bf16");
  }
  if (setup.dtype != at::kFloat && setup.dtype != at::kDouble) {
    refuse("train.precision", str("parameters in ", tensor::dtype_text(setup.dtype)),
           "parameters in f32 or f64", "choose one of f64, f32 and bf16");
  }
  if (c.position == PositionScheme::kLearned && c.positions < 1 && setup.train_segment < 1 &&
      setup.eval_segment < 1) {
    refuse("model.position = \"learned\"", "the longest segment is not known",
           "train.segment or eval.segment of at least 1", "set train.segment");
  }
  check_segment(c, "train.segment", setup.train_segment);
  check_segment(c, "eval.segment", setup.eval_segment);
}

std::int64_t learned_positions(const config::ModelConfig& config, const ModelSetup& setup) {
  return config.positions > 0 ? config.positions
                              : std::max(setup.train_segment, setup.eval_segment);
}

std::vector<double> slopes_of(const config::ModelConfig& config) {
  return config.position == PositionScheme::kAlibi ? alibi_slopes(config.heads)
                                                   : std::vector<double>();
}

at::Tensor valid_mask(const Batch& batch) {
  const std::int64_t tokens = batch.input.size(1);
  const auto is_full = [&](std::int64_t n) { return n == tokens; };
  if (std::all_of(batch.valid_count.begin(), batch.valid_count.end(), is_full)) return {};
  const at::Tensor counts = at::tensor(batch.valid_count, at::kLong).unsqueeze(1);
  return tensor::to_device(at::arange(tokens, at::kLong).unsqueeze(0).lt(counts),
                           batch.input.device());
}

}  // namespace

memory::BackboneInfo backbone_info(const config::ModelConfig& config, const ModelSetup& setup) {
  memory::BackboneInfo info;
  info.layers = config.layers;
  info.width = config.width;
  info.heads = config.heads;
  info.kv_heads = config.key_heads();
  info.head_width = config.head_width;
  info.is_pre_norm = config.norm != config::Norm::kPost;
  info.position = std::string(config::to_word(config.position));
  info.attention_dropout = config.attention_dropout;
  info.compute_dtype = setup.bf16_autocast ? at::kBFloat16 : setup.dtype;
  info.device = setup.device;
  info.train_segment = setup.train_segment;
  info.eval_segment = setup.eval_segment;
  info.bptt_segments = setup.bptt_segments;
  info.seed = setup.seed;
  info.draws_parameters = setup.draws_parameters;
  return info;
}

void check_segment(const config::ModelConfig& config, const char* key, std::int64_t segment) {
  const std::string where = str(key, " = ", segment);
  check_context(config, segment, 0, where);  // the rows of memories are known with the first one
  if (config.position != PositionScheme::kLearned || config.positions < 1) return;
  if (segment <= config.positions) return;
  refuse(where, "the segment is longer than the table of learned positions",
         str("at most model.positions, ", config.positions), "shorten the segments");
}

std::unique_ptr<Model> make_model(const config::ModelConfig& config, const ModelSetup& setup) {
  check(config, setup);
  return std::make_unique<Model>(config, setup);
}

Model::Model(const config::ModelConfig& config, const ModelSetup& setup)
    : info_(backbone_info(config, setup)),
      vocabulary_(setup.vocabulary),
      plan_(plan_clusters(config, setup.vocabulary)),
      settings_{config, info_.compute_dtype, slopes_of(config), setup.recomputes,
                attention_device(setup.device)},
      store_(setup.seed, setup.dtype, setup.device, setup.draws_parameters),
      noise_(setup.seed),
      tables_(config.width, config.clamp_distance,
              at::TensorOptions().dtype(setup.dtype).device(setup.device), &noise_) {
  const InitScheme init{config.init, config.layers};
  if (settings_.is_rotary()) {
    rotary_ = std::make_unique<RotaryTables>(config.rotary, config.head_width, setup.device);
    if (config.rotary.local_base > 0.0) {
      local_rotary_ = std::make_unique<RotaryTables>(
          config::RotaryConfig{.base = config.rotary.local_base}, config.head_width, setup.device);
    }
  }
  embedding_ = std::make_unique<Embedding>(config, plan_, init, store_);
  if (config.position == config::PositionScheme::kLearned) {
    learned_positions_ = store_.make(
        "position.embedding", {learned_positions(config, setup), config.width}, init.table());
  }
  at::Tensor content, position;
  const bool attends = std::ssize(setup.replaced) < config.layers;
  if (attends && settings_.is_relative() && !config.untie_position_bias) {
    const std::vector<std::int64_t> shape = {config.heads, config.head_width};
    content = store_.make("attention.content_bias", shape, init.table(), false);
    position = store_.make("attention.position_bias", shape, init.table(), false);
  }
  for (std::int64_t l = 0; l < config.layers; ++l) {
    const auto replaced = setup.replaced.find(l);
    const bool is_replaced = replaced != setup.replaced.end();
    const bool is_later = !is_replaced && std::ranges::any_of(layers_, &Layer::attends);
    layers_.emplace_back(l, settings_, init, content, position, store_,
                         is_replaced ? &replaced->second : nullptr, is_later);
  }
  if (config.final_norm) {
    final_norm_ = make_norm("final_norm", config.width, config.norm_kind, config, init, store_);
  }
  softmax_ = std::make_unique<Softmax>(config, plan_, *embedding_, init, store_);
}

void Model::weights_changed(bool by_optimizer) {
  for (Layer& layer : layers_) layer.weights_changed();
  store_.converted().weights_changed(by_optimizer);
}

void Model::set_context_rows(std::int64_t rows) {
  if (settings_.same_length && rows < 1) {
    throw_usage(ErrorText{.where = "model.same_length",
                          .failed = "there is no window to keep",
                          .expected = "memory tiers whose contexts hold at least one row",
                          .got = str(rows, " rows"),
                          .hint = "add a tier with rows, or set same_length = false"});
  }
  context_rows_ = rows;
}

void Model::check_segment(std::int64_t tokens) const {
  if (settings_.same_length && context_rows_ == 0) {
    throw_usage(ErrorText{.where = "model.same_length",
                          .failed = "the window is not known",
                          .hint = "call set_context_rows before the first forward pass"});
  }
  check_context(settings_, tokens, context_rows_, "model");
  if (learned_positions_.defined() && tokens > learned_positions_.size(0)) {
    throw_usage(ErrorText{.where = "model.position = \"learned\"",
                          .failed = "the segment is longer than the learned positions",
                          .expected = str("at most ", learned_positions_.size(0), " tokens"),
                          .got = str(tokens),
                          .hint = "train with longer segments, or use position = \"relative\""});
  }
}

std::int64_t Model::longest_segment() const {
  if (learned_positions_.defined()) return learned_positions_.size(0);
  const std::int64_t context = settings_.longest_context();
  return context == 0 ? 0 : std::max<std::int64_t>(context - context_rows_, 1);
}

at::Tensor Model::embed(const Batch& batch, std::int64_t offset, double dropout,
                        std::vector<WeightRows>* pieces) {
  const at::ScalarType compute = settings_.compute;
  at::Tensor x = embedding_->forward(batch.input, compute, pieces, batch.places.input);
  if (batch.types.defined()) {
    x = x + embedding_->forward(batch.types, compute, nullptr, batch.places.types);
  }
  if (learned_positions_.defined()) {
    x = x + learned_positions_.narrow(0, offset, batch.input.size(1));
  }
  return noise_.apply(x, dropout);
}

at::Tensor Model::embed_at(const at::Tensor& ids, const at::Tensor& place) {
  const at::Tensor x = embedding_->forward(ids, settings_.compute);
  return learned_positions_.defined() ? x + learned_positions_.index_select(0, place) : x;
}

SegmentScope Model::scope_of(memory::SegmentHooks& hooks) {
  SegmentScope scope{
      .hooks = hooks, .tables = tables_, .rotary = rotary_.get(), .masks = masks_, .noise = noise_};
  scope.is_training = is_training_;
  scope.window = settings_.same_length ? context_rows_ : 0;
  const memory::Riders& riders = hooks.riders();
  if (riders.rows.defined() && riders.count > 0) {
    scope.riders = riders.count - riders.unseen;
    scope.unseen = riders.unseen;
    if (riders.valid.defined())
      scope.rider_valid = riders.valid.narrow(1, riders.unseen, scope.riders);
  }
  return scope;
}

void Model::set_rotary(std::int64_t layer, SegmentScope& scope) const {
  const bool is_local = local_rotary_ != nullptr && settings_.window_of(layer) > 0;
  scope.rotary = is_local ? local_rotary_.get() : rotary_.get();
  scope.even.turn = scope.even.turns.at(is_local ? 1 : 0);
}

at::Tensor Model::pass(at::Tensor h, SegmentScope& scope, std::vector<at::Tensor>* outputs,
                       at::Tensor* of_riders, std::vector<OpenLayer>* open) {
  const std::int64_t tokens = h.size(1);
  scope.keeps_riders = of_riders != nullptr;
  if (scope.passing_riders() > 0)
    h = at::cat({scope.hooks.riders().rows.to(h.scalar_type()), h}, 1);
  const FollowingNorm last{settings_.final_norm ? &final_norm_ : nullptr, h.scalar_type()};
  AddedRows rows{std::move(h), {}};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    set_rotary(layers_[i].index(), scope);
    const FollowingNorm following = i + 1 < layers_.size() ? layers_[i + 1].first_norm() : last;
    rows = open == nullptr ? LayerPass(layers_[i], scope).run(rows, following)
           : scope.even.place.defined()
               ? EvenLayerPass(layers_[i], scope, (*open)[i]).run(rows, following)
               : OpenLayerPass(layers_[i], scope, (*open)[i]).run(rows, following);
    if (outputs != nullptr)
      outputs->push_back(rows.sum.narrow(1, rows.sum.size(1) - tokens, tokens));
  }
  h = rows.sum;
  if (settings_.final_norm) h = rows.normed.defined() ? rows.normed : final_norm_(h);
  const std::int64_t riders = h.size(1) - tokens;
  if (riders == 0) return h;
  *of_riders = h.narrow(1, 0, riders);
  return h.narrow(1, riders, tokens);
}

Output Model::losses_of(const at::Tensor& top, const at::Tensor& target, bool wants_correct) const {
  const at::NoGradGuard no_grad;
  const tensor::WithoutRowKernels plain(settings_.is_without_row_kernels());
  Output out = softmax_->forward(top, target, wants_correct, settings_.compute);
  out.top = top;
  return out;
}

ClusterPlaces Model::places_of_inputs(const std::vector<std::int64_t>& ids) const {
  return plan_.tables() == 1 ? ClusterPlaces() : places_of(plan_, ids, 0, info_.device);
}

ClusterPlaces Model::places_of_targets(const std::vector<std::int64_t>& ids) const {
  return plan_.clusters() == 1 ? ClusterPlaces() : places_of(plan_, ids, 1, info_.device);
}

at::Tensor Model::log_probabilities(const at::Tensor& top) const {
  const at::NoGradGuard no_grad;
  const tensor::WithoutRowKernels plain(settings_.is_without_row_kernels());
  return softmax_->log_probabilities(top, settings_.compute);
}

at::Tensor Model::logits(const at::Tensor& top) const {
  const at::NoGradGuard no_grad;
  return softmax_->logits(top, settings_.compute);
}

Output Model::forward(const Batch& batch, memory::SegmentHooks& hooks,
                      const ForwardOptions& options) {
  const std::int64_t lanes = batch.input.size(0), tokens = batch.input.size(1);
  check_segment(tokens);
  const tensor::WithoutRowKernels plain(settings_.is_without_row_kernels());
  const double dropout = is_training_ ? settings_.dropout : 0.0;
  if (is_training_) noise_.next_segment();
  tables_.begin_segment(dropout);
  std::vector<WeightRows> pieces;
  at::Tensor h = embed(batch, 0, dropout, batch.target.defined() ? &pieces : nullptr);
  if (options.tap != nullptr) options.tap->embedded = h.detach();
  SegmentScope scope = scope_of(hooks);
  scope.token_valid = valid_mask(batch);
  scope.documents = batch.documents;
  scope.tap = options.tap;
  scope.distances = options.distances;
  std::vector<at::Tensor> layers;
  at::Tensor of_riders;
  h = pass(h, scope, hooks.wants_at_finish(MNEME_WANT_FINISH_LAYERS) ? &layers : nullptr,
           hooks.wants_at_finish(MNEME_WANT_FINISH_RIDERS) ? &of_riders : nullptr);
  Output out;
  at::Tensor logp;
  if (batch.target.defined() &&
      !(options.may_leave_losses && !hooks.wants_at_finish(MNEME_WANT_FINISH_LOGP))) {
    out = softmax_->forward(noise_.apply(h, dropout).reshape({lanes * tokens, settings_.width}),
                            batch.target.reshape(-1), options.wants_correct, settings_.compute,
                            pieces, batch.places.target, options.wants_log_sum);
    for (at::Tensor* t : {&out.nll, &out.best, &out.correct, &out.log_sum}) {
      if (t->defined()) *t = t->view({lanes, tokens});
    }
    logp = -out.nll;
  }
  out.top = h;
  hooks.finish(out.top, layers, batch.target, logp, of_riders);
  return out;
}

}  // namespace mneme::backbone
