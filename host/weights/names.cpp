#include "host/weights/names.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/name_map.hpp"

namespace mneme::weights {
namespace {

// Official names and ours, with kLayerMark for the number of a layer, a table or a cluster.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"r_w_bias", "attention.content_bias"},
    {"r_r_bias", "attention.position_bias"},
    {"crit.cluster_weight", "softmax.cluster.weight"},
    {"crit.cluster_bias", "softmax.cluster.bias"},
    {"word_emb.emb_layers.{layer}.weight", "embedding.{layer}.weight"},
    {"word_emb.emb_projs.{layer}", "embedding.{layer}.projection"},
    {"crit.out_layers.{layer}.weight", "softmax.{layer}.weight"},
    {"crit.out_layers.{layer}.bias", "softmax.{layer}.bias"},
    {"crit.out_projs.{layer}", "softmax.{layer}.projection"},
    {"layers.{layer}.dec_attn.qkv_net.weight", "layers.{layer}.attention.qkv.weight"},
    {"layers.{layer}.dec_attn.r_net.weight", "layers.{layer}.attention.position.weight"},
    {"layers.{layer}.dec_attn.o_net.weight", "layers.{layer}.attention.output.weight"},
    {"layers.{layer}.dec_attn.layer_norm.weight", "layers.{layer}.attention.norm.weight"},
    {"layers.{layer}.dec_attn.layer_norm.bias", "layers.{layer}.attention.norm.bias"},
    {"layers.{layer}.dec_attn.r_w_bias", "layers.{layer}.attention.content_bias"},
    {"layers.{layer}.dec_attn.r_r_bias", "layers.{layer}.attention.position_bias"},
    {"layers.{layer}.pos_ff.CoreNet.0.weight", "layers.{layer}.ff.in.weight"},
    {"layers.{layer}.pos_ff.CoreNet.0.bias", "layers.{layer}.ff.in.bias"},
    {"layers.{layer}.pos_ff.CoreNet.3.weight", "layers.{layer}.ff.out.weight"},
    {"layers.{layer}.pos_ff.CoreNet.3.bias", "layers.{layer}.ff.out.bias"},
    {"layers.{layer}.pos_ff.layer_norm.weight", "layers.{layer}.ff.norm.weight"},
    {"layers.{layer}.pos_ff.layer_norm.bias", "layers.{layer}.ff.norm.bias"},
};

// Of models that the official code does not have.
constexpr const char* kPositionTable = "position.embedding";

// The clusters whose output projection is the embedding's projection of table `table`.
std::vector<std::string> tied_clusters(const config::ModelConfig& config,
                                       const std::string& table) {
  if (!config.adaptive) return {};
  std::vector<std::string> clusters;
  for (std::size_t i = 0; i < config.adaptive->tie_projection.size(); ++i) {
    const std::string cluster = std::to_string(i);
    const bool is_of_table = config.adaptive->div == 1 || cluster == table;
    if (config.adaptive->tie_projection[i] && is_of_table) clusters.push_back(cluster);
  }
  return clusters;
}

}  // namespace

std::vector<std::string> parameter_patterns() {
  std::vector<std::string> patterns = {kPositionTable};
  for (const auto& [theirs, ours] : kNames) patterns.emplace_back(ours);
  return patterns;
}

std::string name_of_official(const std::string& official) {
  for (const auto& [theirs, ours] : kNames) {
    if (const auto number = layer_in(official, theirs)) return filled(ours, *number);
  }
  return "";
}

std::vector<std::string> official_names(const std::string& name,
                                        const config::ModelConfig& config) {
  for (const auto& [theirs, ours] : kNames) {
    const std::optional<std::string> number = layer_in(name, ours);
    if (!number) continue;
    std::vector<std::string> names = {filled(theirs, *number)};
    if (ours == "embedding.{layer}.weight" && config.tie_embedding) {
      names.push_back(str("crit.out_layers.", *number, ".weight"));
    } else if (ours == "embedding.{layer}.projection") {
      for (const std::string& cluster : tied_clusters(config, *number)) {
        names.push_back("crit.out_projs." + cluster);
      }
    }
    return names;
  }
  return {};
}

std::vector<OfficialPart> official_parts(const std::string& name,
                                         const std::vector<std::int64_t>& shape,
                                         const config::ModelConfig& config, const NameMap* map) {
  const std::int64_t rows = shape.empty() ? 1 : shape.front();
  const std::vector<NamePart> named =
      map == nullptr ? std::vector<NamePart>{} : map->parts_of(name);
  if (named.empty()) {
    std::vector<std::string> names = official_names(name, config);
    if (names.empty()) return {};
    return {{.names = std::move(names), .first = 0, .rows = rows}};
  }
  std::int64_t shares = 0;
  for (const NamePart& part : named) shares += part.rows;
  if (rows % shares != 0) {
    throw_usage({.where = map->path.string(),
                 .failed = str(name, ": the rows cannot be cut as the name map says"),
                 .expected = str("a multiple of ", shares, " rows"),
                 .got = str(rows)});
  }
  std::vector<OfficialPart> parts;
  std::int64_t first = 0;
  for (const NamePart& part : named) {
    const std::int64_t count = rows / shares * part.rows;
    parts.push_back({.names = {part.official}, .first = first, .rows = count});
    first += count;
  }
  return parts;
}

std::vector<std::string> unofficial_settings(const config::ModelConfig& config,
                                             const NameMap* map) {
  std::vector<std::string> problems;
  const auto expect = [&](const char* key, const std::vector<std::string>& expected,
                          std::string_view got) {
    if (std::find(expected.begin(), expected.end(), got) != expected.end()) return;
    problems.push_back(
        str("model.", key, ": expected \"", join(expected, "\" or \""), "\", got \"", got, '"'));
  };
  expect("backbone", {"xl"}, to_word(config.backbone));
  // Tokens compute the same under both.
  const std::vector<std::string> relative = {"relative", "disentangled"};
  expect("position", map == nullptr ? relative : map->positions, to_word(config.position));
  expect("embedding_scale", {"sqrt"}, to_word(config.embedding_scale));
  expect("norm", {"post", "pre"}, to_word(config.norm));
  if (!config.window.empty()) {
    problems.push_back(str("model.window: expected 0, got ", list_text(config.window)));
  }
  if (config.norm_unit_offset) {
    problems.push_back("model.norm_unit_offset: expected false, got true");
  }
  if (config.score_width > 0) {
    problems.push_back(str("model.score_width: expected 0, got ", config.score_width));
  }
  if (config.logit_softcap > 0.0) {
    problems.push_back(
        str("model.logit_softcap: expected 0, got ", format_exact(config.logit_softcap)));
  }
  if (config.value_residual) {
    problems.push_back("model.value_residual: expected false, got true");
  }
  return problems;
}

at::Tensor official_frequencies(std::int64_t width, at::ScalarType dtype) {
  // The official expression, operation by operation, so that the bits agree.
  const at::Tensor k = at::arange(0.0, width, 2.0, at::TensorOptions().dtype(dtype));
  return 1.0 / at::pow(10000.0, k / static_cast<double>(width));
}

}  // namespace mneme::weights
