#include <algorithm>
#include <tuple>
#include <utility>

#include "host/base/text.hpp"
#include "host/config/keys.hpp"
#include "host/config/options.hpp"
#include "host/config/sections/sections.hpp"

namespace mneme::config {
namespace {

std::vector<bool> default_ties(std::size_t clusters) {
  std::vector<bool> ties(clusters, true);
  ties.front() = false;
  return ties;
}

void read_adaptive(Reader& model_reader, const Value& table, ModelConfig& model) {
  Reader reader = model_reader.inner(table);
  AdaptiveConfig adaptive;
  if (reader.require("cutoffs", "a list of increasing token ids, such as [20000, 40000]")) {
    adaptive.cutoffs =
        reader
            .integers(
                {"cutoffs", "token ids at which the clusters after the first begin, increasing"},
                kPositive)
            .value_or(adaptive.cutoffs);
    for (std::size_t i = 1; i < adaptive.cutoffs.size(); ++i) {
      if (adaptive.cutoffs[i] > adaptive.cutoffs[i - 1]) continue;
      reader.problem("cutoffs",
                     {.expected = "increasing numbers", .got = list_text(adaptive.cutoffs)});
      break;
    }
    if (table.find("cutoffs")->kind() == Kind::kArray && table.find("cutoffs")->items().empty()) {
      reader.problem(
          "cutoffs",
          {.expected = "at least one cutoff",
           .got = "an empty list",
           .hint = "remove [model.adaptive] for a plain softmax (--unset model.adaptive)"});
    }
  }
  adaptive.div =
      reader.integer({"div", "cluster i is embedding / div^i wide"}, adaptive.div, kExtent);
  adaptive.embedding = reader.integer(
      {"embedding", "width of the first cluster; may be given here in place of model.embedding",
       "model.embedding"},
      model.embedding, kExtent);
  if (model_reader.has("embedding") && adaptive.embedding != model.embedding) {
    reader.problem("embedding",
                   {.expected = str(model.embedding, " as in model.embedding"),
                    .got = str(adaptive.embedding),
                    .hint = str("give one of the two keys: ", model_reader.removal("embedding"))});
  }
  model.embedding = adaptive.embedding;
  const std::size_t clusters = adaptive.cutoffs.size() + 1;
  adaptive.tie_projection =
      reader
          .booleans({"tie_projection", "one a cluster: the softmax uses the embedding's projection",
                     "false, then true"})
          .value_or(default_ties(clusters));
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
  reader.finish();
  model.adaptive = std::move(adaptive);
}

void read_sizes(Reader& reader, ModelConfig& model) {
  model.layers = reader.integer({"layers", "layers"}, model.layers, kLayers);
  model.heads = reader.integer({"heads", "heads of attention"}, model.heads, kLayers);
  model.width = reader.integer(
      {"width", "width of a layer, D; must be even with relative positions"}, model.width, kExtent);
  const bool divides = model.width % model.heads == 0;
  if (!reader.has("head_width") && !divides) {
    reader.problem("head_width", {.failed = "missing",
                                  .expected = str("a number, because width ", model.width,
                                                  " is not a multiple of heads ", model.heads)});
  }
  const std::int64_t share = divides ? model.width / model.heads : 1;
  model.head_width = reader.integer(
      {"head_width", "width of a head; heads * head_width need not equal width", "width / heads"},
      share, kExtent);
  model.ff = reader.integer({"ff", "inner width of the feed-forward part", "4 * width"},
                            4 * model.width, kExtent);
  model.embedding = reader.integer(
      {"embedding", "width of the embedding table; narrower than width: a projection follows",
       "width"},
      model.width, kExtent);
}

}  // namespace

ModelConfig read_model(Reader reader) {
  ModelConfig model;
  model.backbone = reader.choice({"backbone", "the architecture: Transformer-XL"}, model.backbone,
                                 kBackboneWords);
  read_sizes(reader, model);
  model.dropout =
      reader.real({"dropout", "dropout of embeddings, projections and the feed-forward part"},
                  model.dropout, kProbability);
  model.attention_dropout = reader.real({"attention_dropout", "dropout of attention probabilities"},
                                        model.attention_dropout, kProbability);
  model.position = reader.choice(
      {"position",
       "how attention knows distances: relative = Transformer-XL; disentangled = LaMemo, which "
       "tells left from right; alibi = a slope a head; learned = a table; none"},
      model.position, kPositionWords);
  model.norm =
      reader.choice({"norm", "layer norm after the residual sum (post) or before each part (pre)"},
                    model.norm, kNormWords);
  model.tie_embedding = reader.boolean({"tie_embedding", "the softmax uses the embedding table"},
                                       model.tie_embedding);
  model.embedding_scale =
      reader.choice({"embedding_scale", "factor of embeddings: sqrt = the root of width"},
                    model.embedding_scale, kEmbeddingScaleWords);
  model.clamp_distance =
      reader.integer({"clamp_distance", "distances above it count as it; 0 = off"},
                     model.clamp_distance, kCountOrZero);
  model.same_length = reader.boolean({"same_length",
                                      "every token attends to equally many rows: a window as long "
                                      "as the context capacity that the tiers declare"},
                                     model.same_length);
  model.untie_position_bias = reader.boolean(
      {"untie_position_bias", "position biases of each layer instead of one pair for all"},
      model.untie_position_bias);
  model.init = reader.choice(
      {"init",
       "initial weights: official = Transformer-XL's code; article = the digit-sorting article"},
      model.init, kInitWords);
  if (is_relative(model.position) && model.width % 2 != 0) {
    reader.problem("width", {.expected = "an even number with position = \"relative\" (half sines, "
                                         "half cosines)",
                             .got = str(model.width)});
  }
  const Value* adaptive =
      reader.table({"adaptive", "adaptive embedding and softmax; absent = plain ones"});
  if (adaptive != nullptr) read_adaptive(reader, *adaptive, model);
  reader.finish();
  return model;
}

namespace {

constexpr std::string_view kEvalPrefix = "eval_";

void read_layers(Reader& reader, TierConfig& tier) {
  auto layers =
      reader.integers({"layers", "indices of the layers that it serves", "all"}, kNotNegative);
  if (!layers) return;
  std::sort(layers->begin(), layers->end());
  if (layers->empty()) {
    reader.problem("layers", {.expected = "at least one layer",
                              .got = "an empty list",
                              .hint = reader.removal("layers") + " to serve every layer"});
  }
  const auto twin = std::adjacent_find(layers->begin(), layers->end());
  if (twin != layers->end()) {
    reader.problem("layers", {.failed = str("layer ", *twin, " is listed twice")});
  }
  tier.layers = std::move(layers);
}

void read_sha256(Reader& reader, TierConfig& tier) {
  tier.sha256 =
      reader.text({"sha256", "checksum that the plugin's file must have", "not pinned"}, "");
  for (char& c : tier.sha256) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool is_hex = tier.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (reader.has("sha256") && (tier.sha256.size() != 64 || !is_hex)) {
    reader.problem(
        "sha256", {.expected = "64 hexadecimal digits",
                   .got = str(toml_string(tier.sha256), " (", tier.sha256.size(), " characters)")});
  }
}

void read_weights(Reader& reader, TierConfig& tier) {
  const Value* table = reader.table({"weight",
                                     "weight.<loss>: factor of an auxiliary loss of the plugin; "
                                     "mneme plugins describe NAME names them",
                                     "1 each"});
  if (table == nullptr) return;
  tier.weight_table = *table;
  Reader weights = reader.inner(*table);
  for (const Member& member : table->members()) {
    tier.weights[member.key] = weights.real(member.key, 1.0, {});
  }
}

// Everything that is not the host's is an option of the plugin.
void split_options(Reader& reader, TierConfig& tier) {
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

TierConfig read_tier(Reader reader) {
  const Value& table = reader.self();
  TierConfig tier;
  tier.position = table.position();
  if (reader.require("plugin", "the name of a plugin, such as plugin = \"name\"")) {
    tier.plugin = reader.text({"plugin", "file name or id of the plugin"}, "");
    const Value* value = table.find("plugin");
    if (value->kind() == Kind::kString && tier.plugin.empty()) {
      reader.problem("plugin", {.expected = "the name of a plugin", .got = "an empty string"});
    }
  }
  read_layers(reader, tier);
  tier.feed =
      reader.choice({"feed",
                     "what it absorbs: released = what the nearest earlier tier lets go, the "
                     "segment's rows if none does; segment = always the segment's rows"},
                    tier.feed, kFeedWords);
  read_sha256(reader, tier);
  tier.lr =
      reader.optional_real({"lr", "learning rate of its parameters", "train.lr"}, {.min = 0.0});
  tier.weight_decay = reader.optional_real(
      {"weight_decay", "of its parameters", "train.weight_decay"}, {.min = 0.0});
  read_weights(reader, tier);
  split_options(reader, tier);
  return tier;
}

}  // namespace

MemoryConfig read_memory(Reader reader) {
  MemoryConfig memory;
  memory.plugins = reader.paths(
      {"plugins", "folders that are searched for plugins, in order", "those of the program"});
  memory.carry = reader.choice(
      {"carry",
       "at a swap, state and parameters that do not fit: refuse, or reset to initial values"},
      memory.carry, kCarryWords);
  for (const Value* tier : reader.tables({"tier", "the memories, nearest first"})) {
    memory.tiers.push_back(read_tier(reader.inner(*tier)));
  }
  const Value* folders = reader.value("plugins");
  const bool is_list = folders != nullptr && folders->kind() == Kind::kArray;
  if (!memory.tiers.empty() && is_list && folders->items().empty()) {
    reader.problem("plugins",
                   {.expected = "at least one folder",
                    .got = "an empty list",
                    .hint = reader.removal("plugins") + " for the plugins of the program itself"});
  }
  reader.finish();
  return memory;
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
