#include "host/run/cost/footprint.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "host/backbone/attention/kernels/choice.hpp"
#include "host/backbone/embedding/device_nll.hpp"
#include "host/backbone/embedding/linear_nll.hpp"
#include "host/backbone/layer.hpp"
#include "host/base/text.hpp"
#include "host/eval/loss_queue.hpp"
#include "host/run/cost/reach.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::run {
namespace {

constexpr const char* kModelKeys = "model.layers, model.width, model.ff or data.vocabulary_size";

// The extents of one segment, as the formulas name them.
struct Extents {
  std::int64_t lanes, tokens, riders, columns, layers, width, inner, heads, ff;
  std::int64_t attending;  // layers whose attention no tier replaces
  // Columns within windows: of the layer with most, and of all layers together.
  std::int64_t seen, seen_of_all;
  std::int64_t value_bytes;    // of parameters, the residual stream and norms
  std::int64_t compute_bytes;  // of matrix products
  std::int64_t score_bytes;    // of attention probabilities and logits
};

Extents extents_of(const config::Experiment& e, std::int64_t lanes, std::int64_t tokens,
                   const ModelSizes& sizes, config::Precision precision) {
  Extents x{};
  x.lanes = lanes;
  x.tokens = tokens;
  x.riders = sizes.rider_rows;
  x.columns = sizes.context_rows + tokens;
  x.layers = e.model.layers;
  x.attending = x.layers - static_cast<std::int64_t>(sizes.replaced.size());
  for (std::int64_t layer = 0; layer < x.layers; ++layer) {
    if (sizes.replaced.contains(layer)) continue;
    const std::int64_t window = e.model.window_of(layer);
    const std::int64_t seen = window == 0 ? x.columns : std::min(x.columns, window - 1 + tokens);
    x.seen = std::max(x.seen, seen);
    x.seen_of_all += seen;
  }
  x.width = e.model.width;
  x.inner = e.model.heads * e.model.head_width;
  x.heads = e.model.heads;
  x.ff = e.model.ff;
  x.value_bytes = precision == config::Precision::kF64 ? 8 : 4;
  x.compute_bytes = precision == config::Precision::kBf16 ? 2 : x.value_bytes;
  x.score_bytes = x.value_bytes;
  return x;
}

Extents training_extents(const config::Experiment& e, const ModelSizes& sizes) {
  return extents_of(e, e.train.lanes, e.train.segment, sizes, e.train.precision);
}

// Bytes of a score in the tensors of the size of all scores that attention makes, and keeps in
// training: the operations' probabilities, or what is added to scores for the memory-efficient
// kernel. 0 = there are none, a kernel computes scores again.
struct ScoreTensors {
  std::int64_t bytes = 0;
  bool are_probabilities = false;
};

// On CUDA for a device with products of bf16.
backbone::AttentionPath attention_path(const config::Experiment& e, const Extents& x,
                                       bool is_training, bool is_cuda) {
  const backbone::AttentionFacts facts{
      .device = {is_cuda ? c10::kCUDA : c10::kCPU, tensor::kBf16Capability},
      .compute = x.compute_bytes == 2 ? at::kBFloat16
                 : x.value_bytes == 8 ? at::kDouble
                                      : at::kFloat,
      .head_width = e.model.head_width,
      .has_gradient = is_training,
      .has_dropout = is_training && e.model.attention_dropout > 0.0,
      .is_relative = config::is_relative(e.model.position),
      .has_slopes = e.model.position == config::PositionScheme::kAlibi,
      .has_bias = e.data.masks_documents(),
      .has_softcap = e.model.attention_softcap > 0.0};
  return backbone::choose_attention(e.model.attention_kernel, facts).path;
}

ScoreTensors score_tensors(const config::Experiment& e, const Extents& x, bool is_training,
                           bool is_cuda) {
  switch (attention_path(e, x, is_training, is_cuda)) {
    case backbone::AttentionPath::kOperations:
      return {x.score_bytes, true};
    case backbone::AttentionPath::kEfficient:
      return {config::is_relative(e.model.position) ? x.compute_bytes : 0, false};
    case backbone::AttentionPath::kHost:
    case backbone::AttentionPath::kFlash:
      return {};
  }
  return {};
}

// What hides columns of other documents from the tokens of one segment: one tensor for all layers,
// and where the memory-efficient kernel adds nothing else a copy of each of so many layers.
std::optional<FootprintPart> mask_part(const config::Experiment& e, const Extents& x,
                                       std::int64_t layers, bool is_training, bool is_cuda) {
  if (!e.data.masks_documents()) return std::nullopt;
  const bool is_copied =
      attention_path(e, x, is_training, is_cuda) == backbone::AttentionPath::kEfficient &&
      !config::is_relative(e.model.position);
  const std::int64_t bytes = x.score_bytes + (is_copied ? layers * x.compute_bytes : 0);
  const std::string section = is_training ? "train" : "eval";
  return FootprintPart{
      "masks of documents", x.lanes * x.tokens * x.columns * bytes,
      str(x.lanes, " lanes x ", x.tokens, " tokens x ", x.columns,
          " columns, of all layers together",
          is_copied ? str(" and in the products' type for ", layers, " layers") : ""),
      str(section, ".lanes, ", section, ".segment or the memory's rows")};
}

// Whether the host's kernels compute rows, which draw dropout masks again in place of keeping them.
bool has_row_kernels(const config::Experiment& e, bool is_cuda) {
  return is_cuda && e.model.row_kernels == config::RowKernels::kAuto &&
         tensor::row_kernels(at::Device(at::kCUDA)) != nullptr;
}

// The feed-forward's inner rows, with dropout their mask and their product too; of the host's
// kernels the rows before the activation and behind it.
std::int64_t inner_rows_of_feed_forward(const config::Experiment& e, bool is_cuda) {
  if (has_row_kernels(e, is_cuda)) return 2;
  return e.model.dropout > 0.0 ? 3 : 1;
}

// Bytes a number of a token's row that a layer keeps: inputs of both norms and both blocks and two
// dropout masks, if any; with the host's kernels the two sums, and their norms as products read
// them.
std::int64_t kept_widths(const config::Experiment& e, const Extents& x, bool is_cuda) {
  const bool recomputes = e.train.recompute, has_masks = e.model.dropout > 0.0;
  if (has_row_kernels(e, is_cuda))
    return 2 * x.value_bytes + (recomputes ? 1 : 2) * x.compute_bytes;
  return ((recomputes ? 3 + has_masks : 4 + 2 * has_masks) + (e.model.norm != config::Norm::kPost) +
          2 * (e.model.norm == config::Norm::kSandwich)) *
         x.value_bytes;
}

// Of all layers. Each has kept_widths; queries, with either bias where probabilities are kept,
// attention's result (then twice, as computed and as the output projection reads it), keys and values
// of context and tokens, values twice where those of the first layer are added; the feed-forward's
// inner rows, their mask and their product, unless train.recompute leaves its input alone; the
// probabilities and their mask. Where a tier replaces the attention, the projections that it wants
// and its result as the output projection reads it.
std::int64_t layer_activations(const config::Experiment& e, const Extents& x,
                               const ModelSizes& sizes, bool is_cuda) {
  const std::int64_t rows = x.lanes * (x.tokens + x.riders);
  const ScoreTensors scores = score_tensors(e, x, /*is_training=*/true, is_cuda);
  const bool keeps = scores.are_probabilities;
  const std::int64_t queries = !keeps ? 2 : config::is_relative(e.model.position) ? 4 : 3;
  const std::int64_t keys_and_values = e.model.value_residual ? 3 : 2;
  const std::int64_t inner = rows * queries + keys_and_values * x.lanes * x.columns;
  const std::int64_t ff = e.train.recompute ? 0 : inner_rows_of_feed_forward(e, is_cuda);
  const std::int64_t count = e.model.attention_dropout > 0.0 ? 2 : 1;
  std::int64_t projected = x.attending * inner * x.inner;
  for (const auto& [layer, replaced] : sizes.replaced)
    projected += rows * backbone::projection_widths(e.model, &replaced).all_with_result();
  return x.layers * rows * (x.width * kept_widths(e, x, is_cuda) + ff * x.ff * x.compute_bytes) +
         projected * x.compute_bytes +
         x.lanes * x.tokens * x.heads * x.seen_of_all * count * scores.bytes;
}

// What the backward pass of one layer holds at once beside the activations.
struct LayerTemporaries {
  std::int64_t bytes;
  const char* of;
};

// The larger of attention's and the feed-forward's, which are not held at the same time.
LayerTemporaries layer_temporaries(const config::Experiment& e, const Extents& x, bool is_cuda) {
  const std::int64_t rows = x.lanes * (x.tokens + x.riders);
  const std::int64_t columns = x.lanes * x.columns;
  const ScoreTensors scores = score_tensors(e, x, /*is_training=*/true, is_cuda);
  const LayerTemporaries attention =
      scores.bytes > 0
          ? LayerTemporaries{3 * x.lanes * x.seen * x.heads * x.tokens * scores.bytes,
                             "3 attention matrices"}
          : LayerTemporaries{2 * (rows + columns) * x.inner * x.compute_bytes,
                             "gradients of queries, keys, values and the attention's result"};
  const std::int64_t again = e.train.recompute ? inner_rows_of_feed_forward(e, is_cuda) : 0;
  const LayerTemporaries feed_forward{(2 + again) * rows * x.ff * x.compute_bytes,
                                      again > 0 ? "the feed-forward's inner rows, computed again, "
                                                  "and their gradients,"
                                                : "gradients of the feed-forward's inner rows, "
                                                  "before and after its activation,"};
  return x.attending == 0 || attention.bytes < feed_forward.bytes ? feed_forward : attention;
}

std::string without_attention(const ModelSizes& sizes) {
  return sizes.replaced.empty() ? ""
                                : str(" (", sizes.replaced.size(), " of them without attention)");
}

std::string count_text(std::int64_t count) { return format_count(static_cast<double>(count)); }

struct Logits {
  std::int64_t kept;     // of all segments, for the backward pass
  std::int64_t at_once;  // of which something is computed at a time
  std::int64_t made;     // numbers that are computed of these, beside them
  std::int64_t bytes;    // of a number
};

// Of so many segments that are differentiated, and tokens at once.
Logits logits_of(const config::Experiment& e, const Extents& x, std::int64_t segments,
                 std::int64_t tokens, std::int64_t vocabulary, bool is_cuda) {
  std::int64_t ids = vocabulary;
  if (e.model.adaptive && !e.model.adaptive->cutoffs.empty()) {
    ids = e.model.adaptive->cutoffs.front();  // most rows take part in the head alone
  }
  const std::int64_t all = tokens * ids;
  if (is_cuda && backbone::has_device_nll()) {
    const backbone::LogitLimits limits;
    const bool is_kept = segments > 0 && all <= limits.kept / x.compute_bytes;
    return {is_kept ? segments * all : 0,
            is_kept ? all : std::min(all, limits.block / x.compute_bytes), 0, x.compute_bytes};
  }
  const std::int64_t at_once =
      std::min(all, is_cuda ? backbone::kKeptLogits : backbone::kBlockLogits);
  return {all <= backbone::kKeptLogits ? segments * all : 0, at_once, at_once, x.score_bytes};
}

FootprintPart softmax_part(const Logits& logits, std::string keys) {
  const bool is_kept = logits.kept > 0;
  return {"logits of the softmax",
          ((is_kept ? logits.kept : logits.at_once) + logits.made) * logits.bytes,
          str("at most ", count_text(logits.at_once), " logits at a time",
              is_kept ? str(", ", count_text(logits.kept), " kept for the backward pass") : ""),
          std::move(keys)};
}

// Projections of the attention with their low-rank updates, beside those without.
std::int64_t updated_bytes(const config::Experiment& e, const Extents& x, const ModelSizes& sizes) {
  if (e.model.lora_rank == 0) return 0;
  std::int64_t numbers =
      x.attending * backbone::projection_widths(e.model, nullptr).all_with_result();
  for (const auto& [layer, replaced] : sizes.replaced)
    numbers += backbone::projection_widths(e.model, &replaced).all_with_result();
  return x.width * numbers * x.value_bytes;
}

void add_copies(Footprint& out, const Extents& x, const ModelSizes& sizes, const char* key) {
  if (x.compute_bytes == x.value_bytes) return;  // without the room of padded ones, 1 or 2 %
  out.uses.push_back({"weights in the products' type", sizes.backbone_parameters * x.compute_bytes,
                      str("copies of the backbone's, ", x.compute_bytes, " bytes a number"), key});
}

void add_model(Footprint& out, const config::Experiment& e, const ModelSizes& sizes) {
  const std::int64_t size = e.train.precision == config::Precision::kF64 ? 8 : 4;
  const std::int64_t count = sizes.backbone_parameters + sizes.memory_parameters;
  const std::string numbers = str(count_text(count), " numbers of ", size, " bytes");
  out.uses.push_back({"parameters", count * size, numbers, kModelKeys});
  const bool is_frozen = e.train.freeze == config::Freeze::kBackbone;
  const std::int64_t trained =
      is_frozen ? sizes.memory_parameters + sizes.update_parameters : count;
  const std::string of_trained =
      is_frozen ? str(count_text(trained), " numbers of the memory",
                      sizes.update_parameters > 0 ? " and of low-rank updates, " : ", ", size,
                      " bytes each")
                : numbers;
  out.uses.push_back({"gradients", trained * size, of_trained, kModelKeys});
  out.uses.push_back({"optimiser moments", (2 * trained - sizes.muon_parameters) * size,
                      sizes.muon_parameters > 0 ? str("two for each parameter, one for ",
                                                      count_text(sizes.muon_parameters), " of Muon")
                                                : "two for each parameter",
                      kModelKeys});
  if (e.train.average > 0.0)
    out.uses.push_back({"averages of the weights", trained * size, of_trained, "train.average"});
}

void add_activations(Footprint& out, const config::Experiment& e, const ModelSizes& sizes,
                     const Extents& x, bool is_cuda) {
  const std::int64_t segments = e.train.bptt_segments;
  out.uses.push_back(
      {"activations of the layers", segments * layer_activations(e, x, sizes, is_cuda),
       str(segments, " segments x ", x.layers, " layers", without_attention(sizes), " x ", x.lanes,
           " lanes x ", x.tokens, " tokens", x.riders > 0 ? str(" and ", x.riders, " riders") : "",
           " that see ", x.seen, " columns"),
       "train.lanes, train.segment, train.bptt_segments or the memory's rows"});
  if (auto masks = mask_part(e, x, x.attending, /*is_training=*/true, is_cuda)) {
    masks->bytes *= segments;
    masks->formula = str(segments, " segments x ", masks->formula);
    out.uses.push_back(*masks);
  }
  if (const std::int64_t bytes = updated_bytes(e, x, sizes); bytes > 0) {
    out.uses.push_back({"projections with low-rank updates", segments * bytes,
                        str(segments, " segments x ", x.layers, " layers"), "train.bptt_segments"});
  }
  out.uses.push_back(
      softmax_part(logits_of(e, x, segments, x.lanes * x.tokens, sizes.vocabulary, is_cuda),
                   "train.lanes, train.segment, or use [model.adaptive]"));
  const LayerTemporaries temporaries = layer_temporaries(e, x, is_cuda);
  out.uses.push_back(
      {"temporaries of the backward pass",
       temporaries.bytes + sizes.largest_parameter * x.value_bytes,
       str(temporaries.of, " of one layer, and a second gradient of the largest ", "parameter"),
       "train.lanes, train.segment or the memory's rows"});
}

// Without the bytes of a fresh state.
ModelSizes sizes_of(const Runtime& runtime, memory::Phase phase) {
  const double tokens = reach_of(runtime, phase);
  ModelSizes sizes{.vocabulary = runtime.model().vocabulary(),
                   .backbone_parameters = runtime.backbone_parameter_count(),
                   .memory_parameters = runtime.memory_parameter_count(),
                   .context_rows = reached_rows(runtime.stack().context_rows(phase), tokens),
                   .rider_rows = reached_rows(runtime.stack().rider_rows(phase), tokens),
                   .replaced = runtime.stack().replaced_layers()};
  for (const optim::TrainableParameter& parameter : runtime.parameters()) sizes.add(parameter);
  return sizes;
}

}  // namespace

std::int64_t Footprint::total() const {
  std::int64_t sum = 0;
  for (const FootprintPart& use : uses) sum += use.bytes;
  return sum;
}

std::vector<FootprintPart> Footprint::largest() const {
  std::vector<FootprintPart> out = uses;
  std::ranges::stable_sort(out, std::greater(), &FootprintPart::bytes);
  return out;
}

std::int64_t fresh_state_bytes(const memory::Stack& stack, memory::Phase phase,
                               std::int64_t lanes) {
  const std::int64_t one = stack.new_state(phase, 1).bytes();
  const std::int64_t two = stack.new_state(phase, 2).bytes();
  return one + (lanes - 1) * (two - one);  // slots without lanes count once
}

Footprint training_footprint(const config::Experiment& experiment, const ModelSizes& sizes,
                             bool is_cuda) {
  Footprint out;
  out.is_cuda = is_cuda;
  add_model(out, experiment, sizes);
  const Extents x = training_extents(experiment, sizes);
  add_copies(out, x, sizes, "train.precision");
  const std::int64_t rows = sizes.context_rows * x.lanes * x.attending * x.width * x.value_bytes;
  out.uses.push_back({"memory state", std::max(rows, sizes.state_bytes) + sizes.state_bytes,
                      str(sizes.context_rows, " rows a lane and layer, and slots"),
                      "train.lanes or the memory's rows"});
  add_activations(out, experiment, sizes, x, is_cuda);
  return out;
}

Footprint training_footprint(const Runtime& runtime) {
  return training_footprint(runtime.experiment(), sizes_of(runtime, memory::Phase::kTraining),
                            runtime.device().is_cuda());
}

Footprint training_footprint(const config::Experiment& experiment, std::int64_t vocabulary,
                             bool is_cuda) {
  ModelSizes sizes;
  sizes.vocabulary = vocabulary;
  for (const optim::TrainableParameter& parameter : optim::group_parameters(
           experiment.train, backbone_outline(experiment, vocabulary), /*tiers=*/{})) {
    sizes.backbone_parameters += parameter.tensor.numel();
    sizes.add(parameter);
  }
  return training_footprint(experiment, sizes, is_cuda);
}

Footprint evaluation_footprint(const config::Experiment& e, const ModelSizes& sizes,
                               config::Precision precision, std::int64_t lanes, std::int64_t tokens,
                               bool is_cuda) {
  const std::int64_t rows = sizes.context_rows;
  const Extents x = extents_of(e, lanes, tokens, sizes, precision);
  const std::int64_t held = rows * x.lanes * x.attending;
  const std::int64_t scores = x.lanes * x.tokens * x.heads * x.seen *
                              score_tensors(e, x, /*is_training=*/false, is_cuda).bytes;
  const std::int64_t passing = x.lanes * (x.tokens + x.riders);
  const std::int64_t count = sizes.backbone_parameters + sizes.memory_parameters;
  // Two products and their sum, of what a layer's tokens see.
  const std::int64_t mixed =
      e.model.value_residual ? 3 * x.lanes * x.columns * x.inner * x.compute_bytes : 0;
  const char* const keys = "eval.lanes, eval.segment or the memory's rows (eval_rows)";
  Footprint out;
  out.is_cuda = is_cuda;
  out.uses = {{"parameters", count * x.value_bytes, count_text(count) + " numbers", kModelKeys},
              {"memory state",
               std::max(held * x.width * x.value_bytes, sizes.state_bytes) +
                   2 * held * x.inner * x.compute_bytes,
               str(rows, " rows a lane and layer, with their keys and values, or slots"), keys},
              {"tensors of one layer",
               2 * scores + mixed +
                   passing * (6 * x.width * x.value_bytes + 6 * x.inner * x.compute_bytes) +
                   (is_cuda ? passing : std::min(passing, backbone::kFeedForwardRows)) * x.ff *
                       x.compute_bytes,
               str(x.lanes, " lanes x ", x.tokens, " tokens that see ", x.seen, " columns"), keys},
              softmax_part(logits_of(e, x, 0, eval::LossQueue::most_rows(x.lanes * x.tokens),
                                     sizes.vocabulary, is_cuda),
                           "eval.lanes or eval.segment")};
  if (const auto masks = mask_part(e, x, 1, /*is_training=*/false, is_cuda))
    out.uses.push_back(*masks);
  add_copies(out, x, sizes, "eval.precision");
  if (const std::int64_t bytes = updated_bytes(e, x, sizes); bytes > 0) {
    out.uses.push_back(
        {"projections with low-rank updates", bytes, str(x.layers, " layers"), "model.lora_rank"});
  }
  return out;
}

Footprint evaluation_footprint(const Runtime& runtime) {
  const config::EvalConfig& eval = runtime.experiment().eval;
  return evaluation_footprint(runtime.experiment(), sizes_of(runtime, memory::Phase::kEvaluation),
                              runtime.precision(), eval.lanes, eval.segment,
                              runtime.device().is_cuda());
}

FootprintPart open_segments_part(const config::Experiment& e, config::Precision precision,
                                 std::int64_t lanes, bool is_cuda, const GeneratedTokens& all,
                                 const ModelSizes& sizes) {
  const Extents x = extents_of(e, lanes, 1, sizes, precision);
  const bool is_alone = e.memory.tiers.empty();
  const bool shares = is_alone && lanes > 1 &&
                      attention_path(e, x, false, is_cuda) != backbone::AttentionPath::kOperations;
  const bool has_room =
      all.steps_evenly && is_alone && e.model.position != config::PositionScheme::kAlibi;
  // Behind `before` rows of the prompt. The first step of a segment is not even.
  const auto rows_of = [&](std::int64_t before, std::int64_t drawn) {
    const bool is_even = has_room && drawn + before > 1 && drawn > 0;
    const std::int64_t own = is_even ? all.segment - before : drawn;
    return (shares ? before : lanes * before) + lanes * own;
  };
  const std::int64_t fed = std::max<std::int64_t>(all.prompt - 1, 0);  // the last is drawn behind
  const std::int64_t prompt = fed % all.segment;
  const std::int64_t first = std::min(all.drawn, all.segment - prompt);
  const std::int64_t rows = std::max({std::min(fed, all.segment), rows_of(prompt, first),
                                      rows_of(0, std::min(all.drawn - first, all.segment))});
  return {"keys and values of the open segment",
          2 * rows * x.attending * e.model.key_heads() * e.model.head_width * x.compute_bytes,
          str(rows, " rows a layer", without_attention(sizes), ", ",
              shares ? "a prompt's once" : "of all samples",
              has_room ? ", with room for a segment" : ""),
          "generate.segment, --samples or --tokens"};
}

}  // namespace mneme::run
