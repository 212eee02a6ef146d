#include <utility>

#include "host/base/text.hpp"
#include "host/config/sections.hpp"
#include "host/config/words.hpp"

namespace mneme::config {
namespace {

std::vector<bool> default_ties(std::size_t clusters) {
  std::vector<bool> ties(clusters, true);
  ties.front() = false;
  return ties;
}

void read_adaptive(Reader& model_reader, const Value& table, Problems& problems,
                   ModelConfig& model) {
  Reader reader(table, problems);
  AdaptiveConfig adaptive;
  if (reader.require("cutoffs", "a list of increasing token ids, such as [20000, 40000]")) {
    adaptive.cutoffs = reader.integers("cutoffs", kPositive).value_or(adaptive.cutoffs);
    for (std::size_t i = 1; i < adaptive.cutoffs.size(); ++i) {
      if (adaptive.cutoffs[i] > adaptive.cutoffs[i - 1]) continue;
      reader.problem("cutoffs",
                     {.expected = "increasing numbers", .got = list_text(adaptive.cutoffs)});
      break;
    }
    if (table.find("cutoffs")->kind() == Kind::kArray && table.find("cutoffs")->items().empty()) {
      reader.problem("cutoffs", {.expected = "at least one cutoff",
                                 .got = "an empty list",
                                 .hint = "leave [model.adaptive] out for a plain softmax"});
    }
  }
  adaptive.div = reader.integer("div", adaptive.div, kExtent);
  adaptive.embedding = reader.integer("embedding", model.embedding, kExtent);
  if (model_reader.has("embedding") && adaptive.embedding != model.embedding) {
    reader.problem("embedding", {.expected = str(model.embedding, " as in model.embedding"),
                                 .got = str(adaptive.embedding),
                                 .hint = "give one of the two keys"});
  }
  model.embedding = adaptive.embedding;
  const std::size_t clusters = adaptive.cutoffs.size() + 1;
  adaptive.tie_projection = reader.booleans("tie_projection").value_or(default_ties(clusters));
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
  model.layers = reader.integer("layers", model.layers, kLayers);
  model.heads = reader.integer("heads", model.heads, kLayers);
  model.width = reader.integer("width", model.width, kExtent);
  const bool divides = model.width % model.heads == 0;
  if (!reader.has("head_width") && !divides) {
    reader.problem("head_width", {.failed = "missing",
                                  .expected = str("a number, because width ", model.width,
                                                  " is not a multiple of heads ", model.heads)});
  }
  const std::int64_t share = divides ? model.width / model.heads : 1;
  model.head_width = reader.integer("head_width", share, kExtent);
  model.ff = reader.integer("ff", 4 * model.width, kExtent);
  model.embedding = reader.integer("embedding", model.width, kExtent);
}

}  // namespace

ModelConfig read_model(const Value& table, Problems& problems) {
  Reader reader(table, problems);
  ModelConfig model;
  model.backbone = reader.choice("backbone", model.backbone, kBackboneWords);
  read_sizes(reader, model);
  model.dropout = reader.real("dropout", model.dropout, kProbability);
  model.attention_dropout = reader.real("attention_dropout", model.attention_dropout, kProbability);
  model.position = reader.choice("position", model.position, kPositionWords);
  model.norm = reader.choice("norm", model.norm, kNormWords);
  model.tie_embedding = reader.boolean("tie_embedding", model.tie_embedding);
  model.embedding_scale =
      reader.choice("embedding_scale", model.embedding_scale, kEmbeddingScaleWords);
  model.clamp_distance = reader.integer("clamp_distance", model.clamp_distance, kCountOrZero);
  model.same_length = reader.boolean("same_length", model.same_length);
  model.untie_position_bias = reader.boolean("untie_position_bias", model.untie_position_bias);
  model.init = reader.choice("init", model.init, kInitWords);
  if (is_relative(model.position) && model.width % 2 != 0) {
    reader.problem("width", {.expected = "an even number with position = \"relative\" (half sines, "
                                         "half cosines)",
                             .got = str(model.width)});
  }
  const Value* adaptive = reader.table("adaptive");
  if (adaptive != nullptr) read_adaptive(reader, *adaptive, problems, model);
  reader.finish();
  return model;
}

}  // namespace mneme::config
