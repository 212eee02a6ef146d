// The fields of [model].
#include <algorithm>
#include <functional>
#include <utility>

#include "host/base/text.hpp"
#include "host/config/sections/sections.hpp"

namespace mneme::config {
namespace {

std::vector<bool> default_ties(std::size_t clusters) {
  std::vector<bool> ties(clusters, true);
  ties.front() = false;
  return ties;
}

void check_cutoffs(Reader& reader, const std::vector<std::int64_t>& cutoffs) {
  if (std::ranges::adjacent_find(cutoffs, std::greater_equal<>()) != cutoffs.end()) {
    reader.problem("cutoffs", {.expected = "increasing numbers", .got = list_text(cutoffs)});
  }
  const Value* given = reader.self().find("cutoffs");
  if (given->kind() == Kind::kArray && given->items().empty()) {
    reader.problem(
        "cutoffs",
        {.expected = "at least one cutoff",
         .got = "an empty list",
         .hint = "remove [model.adaptive] for a plain softmax (--unset model.adaptive)"});
  }
}

void check_adaptive(Reader& reader, const AdaptiveConfig& adaptive) {
  const std::size_t clusters = adaptive.cutoffs.size() + 1;
  if (adaptive.tie_projection.size() != clusters) {
    reader.problem("tie_projection",
                   {.expected = str("one value for each of the ", clusters, " clusters"),
                    .got = str(adaptive.tie_projection.size())});
  }
  // The last cluster is narrowest: embedding / div^cutoffs.
  std::int64_t narrowest = adaptive.embedding;
  for (std::size_t i = 0; i < adaptive.cutoffs.size(); ++i) narrowest /= adaptive.div;
  if (narrowest < 1) {
    reader.problem(
        "div", {.failed = "the last cluster's width would be 0",
                .expected = str("embedding / div^", adaptive.cutoffs.size(), " of at least 1"),
                .got = str(adaptive.embedding, " / ", adaptive.div, "^", adaptive.cutoffs.size())});
  }
}

// `model_at` lists the table around it.
void list_adaptive(Fields& keys, Fields& model_at, ModelConfig& model) {
  AdaptiveConfig adaptive = model.adaptive.value_or(AdaptiveConfig{});
  if (keys.require("cutoffs", "a list of increasing token ids, such as [20000, 40000]")) {
    keys.field({"cutoffs", "token ids at which the clusters after the first begin, increasing"},
               adaptive.cutoffs, kPositive);
    if (keys.is_reading()) check_cutoffs(keys.reader(), adaptive.cutoffs);
  }
  keys.field({"div", "cluster i is embedding / div^i wide"}, adaptive.div, kExtent);
  if (keys.is_reading()) {
    adaptive.embedding = model.embedding;
    adaptive.tie_projection = default_ties(adaptive.cutoffs.size() + 1);
  }
  keys.field(
      {"embedding", "width of the first cluster; may be given here in place of model.embedding",
       "model.embedding"},
      adaptive.embedding, kExtent);
  if (keys.is_reading() && model_at.reader().has("embedding") &&
      adaptive.embedding != model.embedding) {
    keys.reader().problem("embedding", {.expected = str(model.embedding, " as in model.embedding"),
                                        .got = str(adaptive.embedding),
                                        .hint = str("give one of the two keys: ",
                                                    model_at.reader().removal("embedding"))});
  }
  model.embedding = adaptive.embedding;
  keys.field({"tie_projection", "one a cluster: the softmax uses the embedding's projection",
              "false, then true"},
             adaptive.tie_projection);
  if (keys.is_reading()) check_adaptive(keys.reader(), adaptive);
  keys.finish();
  model.adaptive = std::move(adaptive);
}

// The defaults that a backbone's name stands for.
void apply_preset(ModelConfig& model) {
  if (model.backbone == Backbone::kXl) return;
  const bool is_gpt2 = model.backbone == Backbone::kGpt2;
  model.dropout = is_gpt2 ? 0.1 : 0.0;
  model.attention_dropout = is_gpt2 ? 0.1 : 0.0;
  model.position = is_gpt2 ? PositionScheme::kLearned : PositionScheme::kRotary;
  model.norm = Norm::kPre;
  model.norm_kind = is_gpt2 ? NormKind::kLayer : NormKind::kRms;
  model.final_norm = true;
  model.feed_forward = is_gpt2 ? FeedForward::kGeluTanh : FeedForward::kSwiglu;
  model.qkv_bias = model.output_bias = model.ff_bias = is_gpt2;
  model.softmax_bias = false;
  model.embedding_scale = EmbeddingScale::kNone;
  model.init = Init::kGpt2;
}

// The defaults of the other sizes, which follow from width and heads.
void derive_sizes(Reader& reader, ModelConfig& model) {
  const bool divides = model.width % model.heads == 0;
  if (!reader.has("head_width") && !divides) {
    reader.problem("head_width", {.failed = "missing",
                                  .expected = str("a number, because width ", model.width,
                                                  " is not a multiple of heads ", model.heads)});
  }
  model.head_width = divides ? model.width / model.heads : 1;
  model.embedding = model.width;
}

std::int64_t default_ff(const ModelConfig& model) {
  constexpr std::int64_t kMultiple = 32;
  const bool is_gated =
      model.feed_forward == FeedForward::kSwiglu || model.feed_forward == FeedForward::kGeglu;
  if (!is_gated) return 4 * model.width;
  return (8 * model.width + 3 * kMultiple - 1) / (3 * kMultiple) * kMultiple;
}

void list_window(Fields& keys, ModelConfig& model) {
  OneOrMore window{model.window};
  keys.field(
      {"window",
       "a token attends to itself and to the window-1 places before it, of the segment and of "
       "memories' rows; 0 = to all. A list names the windows of the first layers and is "
       "repeated, as [256, 0]",
       "0"},
      window, kCountOrZero);
  if (!keys.is_reading()) return;
  const auto given = static_cast<std::int64_t>(window.values.size());
  if (given > model.layers) {
    keys.reader().problem("window", {.expected = str("at most one window a layer, ", model.layers),
                                     .got = str(given, " windows")});
  }
  model.window = shortest_windows(window.values, model.layers);
}

// Written where they are in use: they are younger than the others.
void list_score_parts(Fields& keys, ModelConfig& model) {
  if (keys.lists(model.norm_unit_offset)) {
    keys.field({"norm_unit_offset", "norms multiply by 1 + weight, and weights begin at 0"},
               model.norm_unit_offset);
  }
  if (keys.lists(model.score_width > 0)) {
    keys.field({"score_width", "scores are divided by its square root; 0 = head_width"},
               model.score_width, kExtentOrZero);
    if (keys.is_reading() && model.score_width == model.head_width) model.score_width = 0;
  }
  if (keys.lists(model.attention_softcap > 0.0)) {
    keys.field(
        {"attention_softcap",
         "scores s of attention become cap * tanh(s / cap), before masks, slopes and biases; 0 "
         "= none. LibTorch's operations compute them"},
        model.attention_softcap, kFromZero);
  }
  if (keys.lists(model.logit_softcap > 0.0)) {
    keys.field({"logit_softcap", "the same of the output layer's logits; 0 = none"},
               model.logit_softcap, kFromZero);
  }
  if (keys.lists(model.value_residual)) {
    keys.field({"value_residual",
                "values of attention are a * those of the layer + b * those of the first layer, "
                "with learned a and b of each later layer, which begin at 0.5"},
               model.value_residual);
  }
}

// What Transformer-XL's backbone has no choice about. Checkpoints hold hashes of the written text,
// so these keys are not written where they say what programs without them did.
void list_parts(Fields& keys, ModelConfig& model) {
  keys.field(
      {"kv_heads",
       "heads of keys and values, each for heads / kv_heads heads of queries; 0 = as many as "
       "heads"},
      model.kv_heads, kCountOrZero);
  keys.field({"positions", "learned: rows of the table; 0 = the longest segment"}, model.positions,
             kCountOrZero);
  if (keys.lists(!model.window.empty())) list_window(keys, model);
  keys.field({"memory_position",
              "rotary: where rows of memories by place stand: previous = in order before the "
              "segment; fixed = all at the place before its first token"},
             model.memory_position);
  keys.field({"norm_kind", "layer norm, or RMS norm without biases", "layer; decoder: rms"},
             model.norm_kind);
  keys.field({"norm_epsilon", "added to a norm's variance"}, model.norm_epsilon, kAboveZero);
  keys.field({"final_norm", "a norm after the last layer", "false; decoder, gpt2: true"},
             model.final_norm);
  keys.field({"qk_norm", "an RMS norm of the queries and keys of every head"}, model.qk_norm);
  list_score_parts(keys, model);
  keys.field(
      {"scale_by_layer", "scores are divided by the number of the layer too, counted from 1"},
      model.scale_by_layer);
  keys.field({"qkv_bias", "biases of queries, keys and values", "false; gpt2: true"},
             model.qkv_bias);
  keys.field({"output_bias", "a bias of the attention's output projection", "false; gpt2: true"},
             model.output_bias);
  keys.field({"ff_bias", "biases of the feed-forward part", "true; decoder: false"}, model.ff_bias);
  keys.field({"softmax_bias", "a bias of the output layer", "true; decoder, gpt2: false"},
             model.softmax_bias);
  const bool is_rotary = model.position == PositionScheme::kRotary;
  if (keys.lists(is_rotary)) {
    keys.table({"rotary", "frequencies of rotary positions"},
               [&](Fields& table) { list_rotary(table, model.rotary); });
  }
}

bool has_parts_of_xl(const ModelConfig& model) {
  ModelConfig xl = model;
  const ModelConfig none;
  xl.backbone = Backbone::kXl;
  xl.kv_heads = 0;
  xl.positions = 0;
  xl.window.clear();
  xl.memory_position = none.memory_position;
  xl.norm_kind = none.norm_kind;
  xl.norm_epsilon = none.norm_epsilon;
  xl.final_norm = xl.qk_norm = xl.scale_by_layer = xl.qkv_bias = xl.output_bias = false;
  xl.ff_bias = xl.softmax_bias = true;
  xl.norm_unit_offset = false;
  xl.score_width = 0;
  xl.attention_softcap = xl.logit_softcap = 0.0;
  xl.value_residual = false;
  xl.feed_forward = none.feed_forward;
  xl.rotary = none.rotary;
  xl.lora_rank = none.lora_rank;
  xl.lora_alpha = none.lora_alpha;
  return model == xl && model.position != PositionScheme::kRotary;
}

void check_model(Reader& reader, const ModelConfig& model) {
  if (const auto problem = find_position_problem(model)) reader.problem(problem->where, *problem);
  if (model.position == PositionScheme::kRotary && model.head_width % 2 != 0) {
    reader.problem("head_width", {.expected = "an even number with position = \"rotary\" (pairs "
                                              "of numbers turn)",
                                  .got = str(model.head_width)});
  }
  if (model.lora_rank == 0 && reader.has("lora_alpha")) {
    reader.problem("lora_alpha", {.failed = "there are no low-rank updates",
                                  .expected = "lora_rank of at least 1",
                                  .got = "0",
                                  .hint = reader.removal("lora_alpha")});
  }
  if (model.heads % model.key_heads() != 0) {
    reader.problem("kv_heads", {.expected = str("a divisor of heads, ", model.heads),
                                .got = str(model.kv_heads)});
  }
  if (model.position != PositionScheme::kRotary && reader.has("rotary")) {
    reader.problem("rotary", {.failed = "there are no rotary positions",
                              .expected = "position = \"rotary\"",
                              .got = str("position = \"", to_word(model.position), '"'),
                              .hint = reader.removal("rotary")});
  }
  if (model.rotary.local_base > 0.0 && model.window.empty()) {
    reader.problem("rotary", {.failed = "no layer has a window, for which local_base is",
                              .expected = "model.window above 0 in some layer",
                              .got = str("local_base = ", format_exact(model.rotary.local_base)),
                              .hint = "give model.window, or remove local_base"});
  }
  if (model.attention_softcap > 0.0 && is_relative(model.position)) {
    reader.problem("attention_softcap",
                   {.failed = "scores of relative positions are not capped",
                    .expected = "another position scheme",
                    .got = str("position = \"", to_word(model.position), '"')});
  }
  if (model.logit_softcap > 0.0 && reader.has("adaptive")) {
    reader.problem("logit_softcap", {.failed = "logits of an adaptive softmax are not capped",
                                     .expected = "a plain softmax",
                                     .got = "[model.adaptive]",
                                     .hint = reader.removal("logit_softcap")});
  }
  if (model.value_residual && model.layers < 2) {
    reader.problem("value_residual", {.failed = "no layer is above the first, whose values it adds",
                                      .expected = "at least 2 layers",
                                      .got = str(model.layers),
                                      .hint = reader.removal("value_residual")});
  }
  if (model.position != PositionScheme::kLearned && model.positions != 0) {
    reader.problem("positions", {.failed = "there is no table of positions",
                                 .expected = "position = \"learned\"",
                                 .got = str("position = \"", to_word(model.position), '"'),
                                 .hint = reader.removal("positions")});
  }
}

}  // namespace

std::optional<ErrorText> find_position_problem(const ModelConfig& model) {
  const bool has_biases = is_relative(model.position);
  const std::string position = str("model.position = \"", to_word(model.position), '"');
  if (has_biases && model.width % 2 != 0) {
    return ErrorText{.where = "width",
                     .expected =
                         "an even number with position = \"relative\" (half sines, half "
                         "cosines)",
                     .got = str(model.width)};
  }
  if (model.clamp_distance > 0 && !has_biases && model.position != PositionScheme::kAlibi) {
    return ErrorText{.where = "clamp_distance",
                     .failed = "there are no distances to clamp with " + position,
                     .expected = "position = \"relative\", \"disentangled\" or \"alibi\"",
                     .hint = "set clamp_distance = 0"};
  }
  if (model.memory_position == MemoryPosition::kFixed &&
      model.position != PositionScheme::kRotary) {
    return ErrorText{.where = "memory_position",
                     .failed = "rows have no turn to fix with " + position,
                     .expected = "position = \"rotary\"",
                     .hint = "set memory_position = \"previous\""};
  }
  if (model.untie_position_bias && !has_biases) {
    return ErrorText{.where = "untie_position_bias",
                     .failed = "there are no position biases with " + position,
                     .expected = "position = \"relative\"",
                     .hint = "set untie_position_bias = false"};
  }
  return std::nullopt;
}

void list_model(Fields& keys, ModelConfig& model) {
  keys.field({"backbone",
              "which defaults hold: xl = Transformer-XL; decoder = rotary positions, RMS norm, "
              "SwiGLU, no biases; gpt2 = GPT-2"},
             model.backbone);
  if (keys.is_reading()) apply_preset(model);
  keys.field({"layers", "layers"}, model.layers, kLayers);
  keys.field({"heads", "heads of attention"}, model.heads, kLayers);
  keys.field({"width", "width of a layer, D; must be even with relative positions"}, model.width,
             kExtent);
  if (keys.is_reading()) derive_sizes(keys.reader(), model);
  keys.field(
      {"head_width", "width of a head; heads * head_width need not equal width", "width / heads"},
      model.head_width, kExtent);
  const bool writes_parts = keys.is_reading() || !has_parts_of_xl(model);
  if (keys.lists(writes_parts)) {
    keys.field(
        {"feed_forward",
         "activation of the feed-forward part; gelu_tanh = GELU by its tanh approximation; "
         "swiglu = SiLU(gate) * up; geglu = gelu_tanh(gate) * up; relu2 = the square of relu",
         "relu; decoder: swiglu; gpt2: gelu_tanh"},
        model.feed_forward);
  }
  if (keys.is_reading()) model.ff = default_ff(model);
  keys.field({"ff", "inner width of the feed-forward part",
              "4 * width; swiglu, geglu: 8/3 * width, rounded up to a multiple of 32"},
             model.ff, kExtent);
  keys.field({"embedding",
              "width of the embedding table; narrower than width: a projection follows", "width"},
             model.embedding, kExtent);
  keys.field({"dropout", "dropout of embeddings, projections and the feed-forward part",
              "0.1; decoder: 0.0"},
             model.dropout, kProbability);
  keys.field({"attention_dropout", "dropout of attention probabilities", "0.0; gpt2: 0.1"},
             model.attention_dropout, kProbability);
  keys.field(
      {"position",
       "how attention knows distances: relative = Transformer-XL; disentangled = LaMemo, which "
       "tells left from right; rotary = queries and keys turn by their places; alibi = a slope a "
       "head; learned = a table; none",
       "relative; decoder: rotary; gpt2: learned"},
      model.position);
  keys.field(
      {"norm",
       "norms after the residual sum (post), before each part (pre), or before each part and of "
       "its result, before the sum (sandwich)",
       "post; decoder, gpt2: pre"},
      model.norm);
  keys.field({"tie_embedding", "the softmax uses the embedding table"}, model.tie_embedding);
  keys.field({"embedding_scale", "factor of embeddings: sqrt = the root of width",
              "sqrt; decoder, gpt2: none"},
             model.embedding_scale);
  keys.field({"clamp_distance", "distances above it count as it; 0 = off"}, model.clamp_distance,
             kCountOrZero);
  keys.field({"same_length",
              "every token attends to equally many rows: a window as long as the context capacity "
              "that the tiers declare"},
             model.same_length);
  keys.field({"untie_position_bias", "position biases of each layer instead of one pair for all"},
             model.untie_position_bias);
  keys.field({"init",
              "initial weights: official = Transformer-XL's code; article = the digit-sorting "
              "article; gpt2 = GPT-2: 0.02, of projections into the residual sum 0.02 / "
              "sqrt(2 layers)",
              "official; decoder, gpt2: gpt2"},
             model.init);
  if (keys.lists(writes_parts)) list_parts(keys, model);
  if (keys.lists(model.lora_rank > 0)) {
    keys.field(
        {"lora_rank",
         "rank r of the updates B A of the attention's four projections, trained beside them "
         "or, with train.freeze = \"backbone\", in place of them; 0 = none"},
        model.lora_rank, kCountOrZero);
    keys.field({"lora_alpha", "updates are multiplied by lora_alpha / lora_rank"}, model.lora_alpha,
               kAboveZero);
  }
  if (keys.lists(model.attention_kernel != AttentionKernel::kAuto)) {
    keys.field({"attention_kernel",
                "what computes attention, where it can: auto = the fastest of the device; "
                "operations = LibTorch's operations; on CUDA only: fused = the host's kernel, "
                "which trains in bf16 alone; flash, efficient = LibTorch's kernels, which store no "
                "scores and take no attention_dropout in a training. A way of computing: it may "
                "differ from that of the training"},
               model.attention_kernel);
  }
  if (keys.lists(model.row_kernels != RowKernels::kAuto)) {
    keys.field({"row_kernels",
                "what computes activation, dropout, residual sum, norm, rotary turns, the losses "
                "of a softmax and updates in bf16 trainings on CUDA: auto = the host's kernels; "
                "operations = LibTorch's "
                "operations, which shows whether a fault is in these kernels. A way of computing: "
                "it may differ from that of the training"},
               model.row_kernels);
  }
  if (keys.is_reading()) check_model(keys.reader(), model);
  if (keys.lists(model.adaptive.has_value())) {
    keys.table({"adaptive", "adaptive embedding and softmax; absent = plain ones"},
               [&](Fields& table) { list_adaptive(table, keys, model); });
  }
  keys.finish();
  if (!keys.is_reading()) keys.put_before("head_width", "width");
}

}  // namespace mneme::config
