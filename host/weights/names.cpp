#include "host/weights/names.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/name_map.hpp"

namespace mneme::weights {
namespace {

// "<prefix><number><suffix>" -> number as text; "" when it does not fit.
std::string number_between(std::string_view name, std::string_view prefix,
                           std::string_view suffix) {
  if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) ||
      !name.ends_with(suffix)) {
    return "";
  }
  const std::string number(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
  const bool is_number =
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? number : "";
}

struct Pattern {
  std::string_view prefix, suffix;          // of the official name
  std::string_view our_prefix, our_suffix;  // of ours
};

constexpr std::array kPatterns = {
    Pattern{"word_emb.emb_layers.", ".weight", "embedding.", ".weight"},
    Pattern{"word_emb.emb_projs.", "", "embedding.", ".projection"},
    Pattern{"crit.out_layers.", ".weight", "softmax.", ".weight"},
    Pattern{"crit.out_layers.", ".bias", "softmax.", ".bias"},
    Pattern{"crit.out_projs.", "", "softmax.", ".projection"},
    Pattern{"layers.", ".dec_attn.qkv_net.weight", "layers.", ".attention.qkv.weight"},
    Pattern{"layers.", ".dec_attn.r_net.weight", "layers.", ".attention.position.weight"},
    Pattern{"layers.", ".dec_attn.o_net.weight", "layers.", ".attention.output.weight"},
    Pattern{"layers.", ".dec_attn.layer_norm.weight", "layers.", ".attention.norm.weight"},
    Pattern{"layers.", ".dec_attn.layer_norm.bias", "layers.", ".attention.norm.bias"},
    Pattern{"layers.", ".dec_attn.r_w_bias", "layers.", ".attention.content_bias"},
    Pattern{"layers.", ".dec_attn.r_r_bias", "layers.", ".attention.position_bias"},
    Pattern{"layers.", ".pos_ff.CoreNet.0.weight", "layers.", ".ff.in.weight"},
    Pattern{"layers.", ".pos_ff.CoreNet.0.bias", "layers.", ".ff.in.bias"},
    Pattern{"layers.", ".pos_ff.CoreNet.3.weight", "layers.", ".ff.out.weight"},
    Pattern{"layers.", ".pos_ff.CoreNet.3.bias", "layers.", ".ff.out.bias"},
    Pattern{"layers.", ".pos_ff.layer_norm.weight", "layers.", ".ff.norm.weight"},
    Pattern{"layers.", ".pos_ff.layer_norm.bias", "layers.", ".ff.norm.bias"},
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kSingles = {{
    {"r_w_bias", "attention.content_bias"},
    {"r_r_bias", "attention.position_bias"},
    {"crit.cluster_weight", "softmax.cluster.weight"},
    {"crit.cluster_bias", "softmax.cluster.bias"},
}};

// Of models that the official code does not have.
constexpr const char* kPositionTable = "position.embedding";

// The clusters whose output projection is the embedding's projection of table `table`.
std::vector<std::string> tied_clusters(const config::ModelConfig& config,
                                       const std::string& table) {
  if (!config.adaptive) return {};
  std::vector<std::string> clusters;
  for (size_t i = 0; i < config.adaptive->tie_projection.size(); ++i) {
    const std::string cluster = std::to_string(i);
    const bool is_of_table = config.adaptive->div == 1 || cluster == table;
    if (config.adaptive->tie_projection[i] && is_of_table) clusters.push_back(cluster);
  }
  return clusters;
}

}  // namespace

std::vector<std::string> parameter_patterns() {
  std::vector<std::string> patterns = {kPositionTable};
  for (const auto& [theirs, ours] : kSingles) patterns.emplace_back(ours);
  for (const Pattern& pattern : kPatterns) {
    patterns.push_back(str(pattern.our_prefix, kLayerMark, pattern.our_suffix));
  }
  return patterns;
}

std::string name_of_official(const std::string& official) {
  for (const auto& [theirs, ours] : kSingles) {
    if (official == theirs) return std::string(ours);
  }
  for (const Pattern& pattern : kPatterns) {
    const std::string number = number_between(official, pattern.prefix, pattern.suffix);
    if (!number.empty()) return str(pattern.our_prefix, number, pattern.our_suffix);
  }
  return "";
}

std::vector<std::string> official_names(const std::string& name,
                                        const config::ModelConfig& config) {
  for (const auto& [theirs, ours] : kSingles) {
    if (name == ours) return {std::string(theirs)};
  }
  for (const Pattern& pattern : kPatterns) {
    const std::string number = number_between(name, pattern.our_prefix, pattern.our_suffix);
    if (number.empty()) continue;
    std::vector<std::string> names = {str(pattern.prefix, number, pattern.suffix)};
    if (pattern.our_prefix != "embedding.") return names;
    if (pattern.our_suffix == ".weight") {
      if (config.tie_embedding) names.push_back(str("crit.out_layers.", number, ".weight"));
    } else {
      for (const std::string& cluster : tied_clusters(config, number)) {
        names.push_back("crit.out_projs." + cluster);
      }
    }
    return names;
  }
  return {};
}

std::vector<OfficialPart> official_parts(const std::string& name, const std::vector<int64_t>& shape,
                                         const config::ModelConfig& config, const NameMap* map) {
  const int64_t rows = shape.empty() ? 1 : shape.front();
  const std::vector<NamePart> named =
      map == nullptr ? std::vector<NamePart>{} : map->parts_of(name);
  if (named.empty()) {
    std::vector<std::string> names = official_names(name, config);
    if (names.empty()) return {};
    return {{.names = std::move(names), .first = 0, .rows = rows}};
  }
  int64_t shares = 0;
  for (const NamePart& part : named) shares += part.rows;
  if (rows % shares != 0) {
    throw_usage({.where = map->path().string(),
                 .failed = str(name, ": the rows cannot be cut as the name map says"),
                 .expected = str("a multiple of ", shares, " rows"),
                 .got = str(rows)});
  }
  std::vector<OfficialPart> parts;
  int64_t first = 0;
  for (const NamePart& part : named) {
    const int64_t count = rows / shares * part.rows;
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
  expect("position", map == nullptr ? relative : map->positions(), to_word(config.position));
  expect("embedding_scale", {"sqrt"}, to_word(config.embedding_scale));
  return problems;
}

const backbone::Parameter* find_official(const backbone::Model& model,
                                         const config::ModelConfig& config,
                                         const std::string& official) {
  for (const backbone::Parameter& parameter : model.parameters()) {
    const std::vector<std::string> names = official_names(parameter.name, config);
    if (std::find(names.begin(), names.end(), official) != names.end()) return &parameter;
  }
  return nullptr;
}

at::Tensor official_frequencies(int64_t width, at::ScalarType dtype) {
  // The official expression, operation by operation, so that the bits agree.
  const at::Tensor k = at::arange(0.0, width, 2.0, at::TensorOptions().dtype(dtype));
  return 1.0 / at::pow(10000.0, k / static_cast<double>(width));
}

}  // namespace mneme::weights
