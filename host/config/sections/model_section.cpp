// The fields of [model], [memory] and [[memory.tier]], and what must hold between these tables.
#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "host/base/text.hpp"
#include "host/config/options.hpp"
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
void list_adaptive(Fields& at, Fields& model_at, ModelConfig& model) {
  AdaptiveConfig adaptive = model.adaptive.value_or(AdaptiveConfig{});
  if (at.require("cutoffs", "a list of increasing token ids, such as [20000, 40000]")) {
    at.field({"cutoffs", "token ids at which the clusters after the first begin, increasing"},
             adaptive.cutoffs, kPositive);
    if (at.is_reading()) check_cutoffs(at.reader(), adaptive.cutoffs);
  }
  at.field({"div", "cluster i is embedding / div^i wide"}, adaptive.div, kExtent);
  if (at.is_reading()) {
    adaptive.embedding = model.embedding;
    adaptive.tie_projection = default_ties(adaptive.cutoffs.size() + 1);
  }
  at.field(
      {"embedding", "width of the first cluster; may be given here in place of model.embedding",
       "model.embedding"},
      adaptive.embedding, kExtent);
  if (at.is_reading() && model_at.reader().has("embedding") &&
      adaptive.embedding != model.embedding) {
    at.reader().problem("embedding", {.expected = str(model.embedding, " as in model.embedding"),
                                      .got = str(adaptive.embedding),
                                      .hint = str("give one of the two keys: ",
                                                  model_at.reader().removal("embedding"))});
  }
  model.embedding = adaptive.embedding;
  at.field({"tie_projection", "one a cluster: the softmax uses the embedding's projection",
            "false, then true"},
           adaptive.tie_projection);
  if (at.is_reading()) check_adaptive(at.reader(), adaptive);
  at.finish();
  model.adaptive = std::move(adaptive);
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
  model.ff = 4 * model.width;
  model.embedding = model.width;
}

}  // namespace

void list_model(Fields& at, ModelConfig& model) {
  at.field({"backbone", "the architecture: Transformer-XL"}, model.backbone, kBackboneChoices);
  at.field({"layers", "layers"}, model.layers, kLayers);
  at.field({"heads", "heads of attention"}, model.heads, kLayers);
  at.field({"width", "width of a layer, D; must be even with relative positions"}, model.width,
           kExtent);
  if (at.is_reading()) derive_sizes(at.reader(), model);
  at.field(
      {"head_width", "width of a head; heads * head_width need not equal width", "width / heads"},
      model.head_width, kExtent);
  at.field({"ff", "inner width of the feed-forward part", "4 * width"}, model.ff, kExtent);
  at.field({"embedding", "width of the embedding table; narrower than width: a projection follows",
            "width"},
           model.embedding, kExtent);
  at.field({"dropout", "dropout of embeddings, projections and the feed-forward part"},
           model.dropout, kProbability);
  at.field({"attention_dropout", "dropout of attention probabilities"}, model.attention_dropout,
           kProbability);
  at.field(
      {"position",
       "how attention knows distances: relative = Transformer-XL; disentangled = LaMemo, which "
       "tells left from right; alibi = a slope a head; learned = a table; none"},
      model.position, kPositionChoices);
  at.field({"norm", "layer norm after the residual sum (post) or before each part (pre)"},
           model.norm, kNormChoices);
  at.field({"tie_embedding", "the softmax uses the embedding table"}, model.tie_embedding);
  at.field({"embedding_scale", "factor of embeddings: sqrt = the root of width"},
           model.embedding_scale, kEmbeddingScaleChoices);
  at.field({"clamp_distance", "distances above it count as it; 0 = off"}, model.clamp_distance,
           kCountOrZero);
  at.field({"same_length",
            "every token attends to equally many rows: a window as long as the context capacity "
            "that the tiers declare"},
           model.same_length);
  at.field({"untie_position_bias", "position biases of each layer instead of one pair for all"},
           model.untie_position_bias);
  at.field(
      {"init",
       "initial weights: official = Transformer-XL's code; article = the digit-sorting article"},
      model.init, kInitChoices);
  if (at.is_reading() && is_relative(model.position) && model.width % 2 != 0) {
    at.reader().problem("width", {.expected = "an even number with position = \"relative\" (half "
                                              "sines, half cosines)",
                                  .got = str(model.width)});
  }
  if (at.lists(model.adaptive.has_value())) {
    at.table({"adaptive", "adaptive embedding and softmax; absent = plain ones"},
             [&](Fields& table) { list_adaptive(table, at, model); });
  }
  at.finish();
  if (!at.is_reading()) at.put_before("head_width", "width");
}

namespace {

constexpr std::string_view kEvalPrefix = "eval_";

void check_layers(Reader& reader, std::vector<std::int64_t>& layers) {
  std::ranges::sort(layers);
  if (layers.empty()) {
    reader.problem("layers", {.expected = "at least one layer",
                              .got = "an empty list",
                              .hint = reader.removal("layers") + " to serve every layer"});
  }
  const auto twin = std::ranges::adjacent_find(layers);
  if (twin != layers.end()) {
    reader.problem("layers", {.failed = str("layer ", *twin, " is listed twice")});
  }
}

// Writes it as lower-case digits.
void check_sha256(Reader& reader, std::string& sha256) {
  for (char& c : sha256) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool is_hex = sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (reader.has("sha256") && (sha256.size() != 64 || !is_hex)) {
    reader.problem("sha256",
                   {.expected = "64 hexadecimal digits",
                    .got = str(toml_string(sha256), " (", sha256.size(), " characters)")});
  }
}

void list_weights(Fields& at, TierConfig& tier) {
  if (!at.is_reading()) {
    for (const auto& [name, weight] : tier.weights) {
      at.write("weight." + toml_key(name), format_exact(weight));
    }
    return;
  }
  at.table({"weight",
            "weight.<loss>: factor of an auxiliary loss of the plugin; mneme plugins describe NAME "
            "names them",
            "1 each"},
           [&](Fields& table) {
             Reader& weights = table.reader();
             tier.weight_table = weights.self();
             for (const Member& member : tier.weight_table.members()) {
               tier.weights[member.key] = weights.real(member.key, 1.0, {});
             }
           });
}

// Everything that is not the host's is an option of the plugin.
void read_options(Reader& reader, TierConfig& tier) {
  const Value& self = reader.self();
  tier.options = Value::table(self.position(), self.path());
  tier.eval_options = Value::table(self.position(), self.path());
  for (Member& member : reader.take_rest()) {
    if (member.key.starts_with(kEvalPrefix)) {
      tier.eval_options.set(member.key.substr(kEvalPrefix.size()), member.key_position,
                            std::move(member.value));
    } else {
      tier.options.set(member.key, member.key_position, std::move(member.value));
    }
  }
}

void write_options(Fields& at, const TierConfig& tier) {
  for (const Member& member : tier.options.members()) {
    at.write(toml_key(member.key), member.value.toml());
  }
  for (const Member& member : tier.eval_options.members()) {
    at.write(toml_key(std::string(kEvalPrefix) + member.key), member.value.toml());
  }
}

void list_tier(Fields& at, TierConfig& tier) {
  if (at.require("plugin", "the name of a plugin, such as plugin = \"name\"")) {
    at.field({"plugin", "file name or id of the plugin"}, tier.plugin);
    if (at.is_reading() && at.reader().value("plugin")->kind() == Kind::kString &&
        tier.plugin.empty()) {
      at.reader().problem("plugin", {.expected = "the name of a plugin", .got = "an empty string"});
    }
  }
  std::vector<std::int64_t> layers = tier.layers.value_or(std::vector<std::int64_t>{});
  if (at.field({"layers", "indices of the layers that it serves", "all"}, layers, kNotNegative)) {
    check_layers(at.reader(), layers);
    tier.layers = std::move(layers);
  }
  at.field({"feed",
            "what it absorbs: released = what the nearest earlier tier lets go, the segment's rows "
            "if none does; segment = always the segment's rows"},
           tier.feed, kFeedChoices);
  at.field({"sha256", "checksum that the plugin's file must have", "not pinned"}, tier.sha256);
  if (at.is_reading()) check_sha256(at.reader(), tier.sha256);
  at.field({"lr", "learning rate of its parameters", "train.lr"}, tier.lr, kFromZero);
  at.field({"weight_decay", "of its parameters", "train.weight_decay"}, tier.weight_decay,
           kFromZero);
  list_weights(at, tier);
  if (at.is_reading()) {
    tier.position = at.reader().self().position();
    read_options(at.reader(), tier);
  } else {
    write_options(at, tier);
  }
}

}  // namespace

void list_memory(Fields& at, MemoryConfig& memory) {
  at.field({"plugins", "folders that are searched for plugins, in order", "those of the program"},
           memory.plugins);
  at.field({"carry",
            "at a swap, state and parameters that do not fit: refuse, or reset to initial values"},
           memory.carry, kCarryChoices);
  at.tables({"tier", "the memories, nearest first"}, memory.tiers, list_tier);
  if (!at.is_reading()) return;
  Reader& reader = at.reader();
  const Value* folders = reader.value("plugins");
  const bool is_list = folders != nullptr && folders->kind() == Kind::kArray;
  if (!memory.tiers.empty() && is_list && folders->items().empty()) {
    reader.problem("plugins",
                   {.expected = "at least one folder",
                    .got = "an empty list",
                    .hint = reader.removal("plugins") + " for the plugins of the program itself"});
  }
  reader.finish();
}

void check_together(const ModelConfig& model, const MemoryConfig& memory,
                    const Position& model_position, Problems& problems) {
  if (model.same_length && memory.tiers.empty()) {
    problems.add(model_position, "model.same_length",
                 {.failed = "the window would be empty: there is no memory tier",
                  .expected = "a [[memory.tier]] that declares a context capacity",
                  .got = "none",
                  .hint = "add a tier, or set same_length = false"});
  }
  for (std::size_t i = 0; i < memory.tiers.size(); ++i) {
    const TierConfig& tier = memory.tiers[i];
    if (!tier.layers || tier.layers->empty() || tier.layers->back() < model.layers) continue;
    problems.add(
        tier.position, str("memory.tier.", i, ".layers"),
        {.expected = str("layers from 0 to ", model.layers - 1), .got = str(tier.layers->back())});
  }
}

bool operator==(const TierConfig& a, const TierConfig& b) {
  const auto fields = [](const TierConfig& tier) {
    return std::tie(tier.plugin, tier.layers, tier.feed, tier.sha256, tier.lr, tier.weight_decay,
                    tier.weights, tier.options, tier.eval_options);
  };
  return fields(a) == fields(b);
}

const std::vector<std::string>& host_tier_keys() {
  static const std::vector<std::string> keys = {"plugin", "layers",       "feed",  "sha256",
                                                "lr",     "weight_decay", "weight"};
  return keys;
}

}  // namespace mneme::config
